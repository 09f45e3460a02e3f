//! The page, in a real browser if there is one.

use crate::support::{Lab, batch};
use std::process::Command;
use synqlite_hub::Scope;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let lab = Lab::with(|_| ());
    let page = lab.nobody().get("/").expect(200);
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
    for elsewhere in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.text().contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn a_browser_shows_the_overview() {
    let Some(browser) = browser() else {
        println!("skipped: there is none of {BROWSERS:?}");
        return;
    };
    let lab = Lab::with(|_| ());
    let secret = lab.token("*", Scope::Admin);
    let mut admin = crate::client::Client::new(&lab.hub().url(), Some(&secret));
    admin.put(&batch("orchard", 1), &[1; 5000]).expect(201);
    let profile = lab.scratch("profile");
    let shown = |hash: &str| {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--virtual-time-budget=3000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("{}/#{hash}", lab.hub().url()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page = shown(&secret);
    assert!(page.contains("<td>orchard</td>") && page.contains("5.0 kB"), "{page}");
    assert!(!page.contains(&secret), "the token is not shown");
    let page = shown("synq_wrong");
    assert!(page.contains("the token is not known here") && !page.contains("orchard"), "{page}");
}
