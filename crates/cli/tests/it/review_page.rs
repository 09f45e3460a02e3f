//! The page of `synqlite review` in a real browser, if there is one: used by keys alone, as its users may.

use crate::conflicts::lab;
use crate::review::Review;
use crate::support::Lab;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page, driven through two pipes.
struct Browser {
    child: Child,
    orders: File,
    answers: BufReader<File>,
    session: Option<String>,
    count: u64,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It is the first of a group, its helpers with it.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts one and opens `url`; says so where there is none.
    fn open(lab: &Lab, url: &str) -> Option<Browser> {
        let there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let Some(name) = BROWSERS.into_iter().find(there) else {
            println!("skipped: there is none of {BROWSERS:?}");
            return None;
        };
        let pipes = ["orders", "answers"].map(|name| lab.path(name));
        for pipe in &pipes {
            assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo runs").success());
        }
        let script = r#"exec "$0" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
            --remote-debugging-pipe --user-data-dir="$3" about:blank 3<"$1" 4>"$2""#;
        let child = Command::new("sh")
            .args(["-c", script, name])
            .args(&pipes)
            .arg(lab.path("profile"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("the browser runs");
        let orders = File::options().write(true).open(&pipes[0]).expect("a pipe");
        let answers = BufReader::new(File::open(&pipes[1]).expect("a pipe"));
        let mut browser = Browser { child, orders, answers, session: None, count: 0 };
        let target = browser.order("Target.createTarget", json!({"url": url}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.order("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        Some(browser)
    }

    fn order(&mut self, method: &str, params: Value) -> Value {
        self.try_order(method, params).unwrap_or_else(|e| panic!("{method}: {e}"))
    }

    fn try_order(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.count += 1;
        let mut order = json!({"id": self.count, "method": method, "params": params});
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).expect("it listens");
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).expect("it answers");
            assert_eq!(answer.pop(), Some(0), "the browser has ended");
            let mut answer: Value = serde_json::from_slice(&answer).expect("JSON");
            // Events come in between.
            if answer["id"] == self.count {
                return match answer["error"].take() {
                    Value::Null => Ok(answer["result"].take()),
                    error => Err(error),
                };
            }
        }
    }

    /// What an expression is in the page; nothing while the page is on its way.
    fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        match self.try_order("Runtime.evaluate", params) {
            Ok(mut answer) => answer["result"]["value"].take(),
            Err(_) => Value::Null,
        }
    }

    /// Waits until an element's text contains `words`.
    fn sees(&mut self, id: &str, words: &str) {
        let at = format!("document.getElementById('{id}')");
        let expression = format!("{at}?.checkVisibility() ? {at}.innerText : ''");
        let since = Instant::now();
        loop {
            let text = self.value(&expression);
            if text.as_str().is_some_and(|text| text.contains(words)) {
                return;
            }
            let all = self.value("document.body?.innerText");
            assert!(since.elapsed() < PATIENCE, "{id} lacks {words}: {text}\n{all}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses a key, which is a letter, a digit or one that has a name.
    fn press(&mut self, key: &str, shift: bool) {
        let code = match key {
            "!" => "Digit1".to_owned(),
            _ if key.len() == 1 && key.as_bytes()[0].is_ascii_digit() => format!("Digit{key}"),
            _ if key.len() == 1 => format!("Key{}", key.to_uppercase()),
            _ => key.to_owned(),
        };
        let number = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Backspace" => 8,
            "Tab" => 9,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            _ if key.len() == 1 => key,
            _ => "",
        };
        let modifiers = if shift { 8 } else { 0 };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": code, "modifiers": modifiers,
                "windowsVirtualKeyCode": number});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.order("Input.dispatchKeyEvent", event);
        }
    }

    fn keys(&mut self, keys: &str) {
        keys.split(' ').for_each(|key| self.press(key, false));
    }
}

#[test]
fn keys_alone_settle_all() {
    let lab = lab();
    let mut review = Review::start(&lab, "B");
    let Some(mut browser) = Browser::open(&lab, &review.url()) else { return };
    browser.sees("sums", "0 decided, 3 left");
    assert!(!browser.value("location.href").as_str().unwrap().contains('#'), "no token stays");
    assert_eq!(browser.value("document.activeElement.id"), "list");
    // Each kind in words; the first is note 1.
    browser.sees("headline", "The row that it belongs to was deleted");
    browser.keys("ArrowDown");
    browser.sees("headline", "Two rows claim the same email");
    browser.sees("cells", "bob@x");
    browser.sees("cells", "in conflict");
    browser.keys("ArrowUp 1");
    browser.sees("sums", "1 decided, 2 left");
    browser.keys("z");
    browser.sees("sums", "0 decided, 3 left");
    browser.keys("r");
    browser.sees("where", "row 'bob'");
    browser.keys("1");
    browser.sees("say", "opens another conflict");
    browser.keys("Backspace a 2");
    browser.sees("sums", "3 decided, 0 left");
    let count = |lab: &Lab| lab.json(&["status", &lab.db("B")])["conflicts"].clone();
    assert_eq!(count(&lab), 3, "nothing is written yet");
    browser.keys("w");
    browser.sees("reasons", "Deleted on all sites: row 'dan' (");
    browser.keys("Enter");
    browser.sees("say", "Nothing was written.");
    assert_eq!(count(&lab), 3, "Enter loses nothing");
    browser.keys("w");
    browser.sees("reasons", "`synqlite undo` brings them back");
    browser.keys("y");
    browser.sees("say", "3 conflicts settled and written");
    assert_eq!(count(&lab), 0);
    assert_eq!(lab.rows("B", "SELECT person FROM note"), ["cy"]);
    let people = lab.rows("B", "SELECT id, email FROM person ORDER BY id");
    assert_eq!(people, ["ann|info@x", "bob|bob@x", "cy|cy@x", "dee|d@x"]);
    browser.keys("q");
    assert_eq!(review.report(), json!({"settled": 3, "open": 0}));
    browser.sees("stopped", "The review has ended");
}

#[test]
fn the_page_asks_before_it_opens_others_and_tells_of_what_is_gone() {
    let lab = lab();
    let review = Review::start(&lab, "B");
    let Some(mut browser) = Browser::open(&lab, &review.url()) else { return };
    browser.sees("sums", "0 decided, 3 left");
    browser.keys("1 p");
    browser.sees("sums", "2 decided, 1 left");
    // Another program settles one of them.
    let all = lab.json(&["conflicts", &lab.db("B")])["conflicts"].clone();
    let cascade = all.as_array().unwrap().iter().find(|c| c["kind"] == "fk_cascade").unwrap();
    lab.json(&["conflicts", &lab.db("B"), "discard", cascade["id"].as_str().unwrap()]);
    browser.sees("say", "note, row 1 was settled meanwhile, by discard");
    browser.sees("sums", "1 decided, 1 left");
    browser.keys("w");
    browser.sees("question", "1 conflict will be settled, and 2 will be open");
    browser.sees("reasons", "person, row 'ann' (“Ann”) shows “ann@x” in place of “info@x”");
    browser.keys("Escape");
    browser.sees("say", "Nothing was written");
    assert_eq!(lab.rows("B", "SELECT email FROM person WHERE id = 'bob'"), ["bob@x"]);
    browser.keys("w");
    browser.sees("question", "1 conflict will be settled");
    browser.keys("Enter");
    browser.sees("say", "1 conflict settled and written");
    browser.sees("list", "new: opened by your choice");
    assert_eq!(lab.rows("B", "SELECT email FROM person WHERE id = 'bob'"), ["info@x"]);
    // The same choice for all of the list; a filter that hides all of it.
    browser.keys("/ z z z");
    browser.sees("none", "Nothing here");
    browser.keys("Escape");
    browser.sees("list", "row 'dan'");
    browser.keys("/ a n n Enter");
    assert_eq!(browser.value("document.getElementById('find').value"), "ann");
    browser.sees("list", "row 'ann'");
    assert_eq!(browser.value("document.querySelectorAll('#list li').length"), 1);
    browser.press("A", true);
    browser.sees("sums", "1 decided, 1 left");
    // It does not end by the way while something is not written.
    let mut review = review;
    browser.keys("q");
    browser.sees("question", "1 choice not written");
    browser.keys("Enter q");
    browser.sees("question", "1 choice not written");
    browser.keys("y");
    browser.sees("stopped", "2 conflicts open");
    assert_eq!(review.report(), json!({"settled": 1, "open": 2}));
}

#[test]
fn a_page_whose_program_has_ended_says_so() {
    let lab = lab();
    let review = Review::start(&lab, "B");
    let Some(mut browser) = Browser::open(&lab, &review.url()) else { return };
    browser.sees("sums", "0 decided, 3 left");
    browser.keys("1");
    browser.sees("sums", "1 decided, 2 left");
    drop(review);
    browser.sees("stopped", "has ended. Not written: 1 choice. Run synqlite review again");
}

#[test]
fn an_address_that_was_used_is_explained() {
    let lab = lab();
    let review = Review::start(&lab, "B");
    let Some(mut browser) = Browser::open(&lab, &review.url()) else { return };
    browser.sees("sums", "0 decided, 3 left");
    // The browser that has the session may come again; another may not.
    let url = review.url();
    browser.session = None;
    let context = browser.order("Target.createBrowserContext", json!({}));
    for (context, id, words) in [
        (Value::Null, "sums", "0 decided, 3 left"),
        (context["browserContextId"].clone(), "stopped", "This address has been used"),
    ] {
        let mut params = json!({"url": url});
        if !context.is_null() {
            params["browserContextId"] = context;
        }
        browser.session = None;
        let target = browser.order("Target.createTarget", params);
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.order("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser.sees(id, words);
    }
}

#[test]
fn names_that_look_like_markup_are_text() {
    let lab = Lab::new();
    let table = "<img src=x onerror=document.title=1>";
    lab.sql("A", &format!("CREATE TABLE \"{table}\"(k TEXT PRIMARY KEY, v TEXT UNIQUE)"));
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    for site in ["A", "B"] {
        let sql =
            format!("INSERT INTO \"{table}\" VALUES('<s>{site}', '<script>alert(1)</script>')");
        lab.sql(site, &sql);
    }
    lab.json(&["sync", &lab.db("B")]);
    let review = Review::start(&lab, "B");
    let Some(mut browser) = Browser::open(&lab, &review.url()) else { return };
    browser.sees("where", table);
    browser.sees("cells", "<script>alert(1)</script>");
    browser.sees("headline", "“<script>alert(1)</script>”");
    let made = browser.value("document.querySelectorAll('main img, main s, main script').length");
    assert_eq!(made, 0);
    assert_eq!(browser.value("document.title"), "1 left - Conflicts");
}

#[test]
fn a_reader_of_the_screen_is_told_all() {
    let lab = lab();
    let review = Review::start(&lab, "B");
    let Some(mut browser) = Browser::open(&lab, &review.url()) else { return };
    browser.sees("sums", "0 decided, 3 left");
    browser.order("Accessibility.enable", json!({}));
    let nodes = browser.order("Accessibility.getFullAXTree", json!({}));
    let nodes: Vec<(String, String)> = nodes["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| {
            let of = |key: &str| n[key]["value"].as_str().unwrap_or_default().to_owned();
            (of("role"), of("name"))
        })
        .collect();
    let names = |role: &str| -> Vec<&str> {
        nodes.iter().filter(|(r, _)| r == role).map(|(_, name)| &**name).collect()
    };
    assert_eq!(names("listbox"), ["Open conflicts"], "{nodes:?}");
    let rows = names("option").into_iter().filter(|name| name.contains(", row "));
    assert_eq!(rows.count(), 3, "{nodes:?}");
    assert_eq!(names("table").len(), 1);
    assert!(names("columnheader").len() >= 2 && names("rowheader").len() == 3, "{nodes:?}");
    assert_eq!(names("status").len(), 1, "what happened is said");
    for role in ["button", "combobox", "searchbox", "option"] {
        let named = names(role);
        assert!(
            !named.is_empty() && named.iter().all(|name| !name.is_empty()),
            "{role}: {named:?}"
        );
    }
    let active = "document.getElementById('list').getAttribute('aria-activedescendant')";
    let before = browser.value(active);
    browser.keys("ArrowDown");
    assert_ne!(browser.value(active), before);
}
