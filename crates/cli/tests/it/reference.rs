//! The reference of commands is what the binary says of itself.

use crate::support::{stdout, synqlite};
use std::path::Path;
use std::process::Command;

/// It has the commands of Unix too.
#[cfg(unix)]
#[test]
fn the_command_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli-reference.md");
    let made = stdout(&synqlite(&["reference"]));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/cli-reference.md has drifted: run `UPDATE=1 cargo test -p synqlite`"
    );
}

/// Each command of the reference has its page; `man` has nothing to say against any.
#[cfg(unix)]
#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    stdout(&synqlite(&["reference", "--man", folder.path().to_str().unwrap()]));
    let reference = stdout(&synqlite(&["reference"]));
    let commands = reference.lines().filter_map(|line| line.strip_prefix("## "));
    let named = commands.filter(|name| name.starts_with("synqlite"));
    let mut named: Vec<_> = named.map(|name| format!("{}.1", name.replace(' ', "-"))).collect();
    let files = std::fs::read_dir(folder.path()).unwrap();
    let mut files: Vec<_> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    named.sort();
    files.sort();
    assert_eq!(files, named);

    let page = std::fs::read_to_string(folder.path().join("synqlite.1")).unwrap();
    let example = "  synqlite init notes.db                        notes.db becomes a replica";
    assert!(page.replace("\\-", "-").lines().any(|line| line == example), "{page}");

    if Command::new("man").arg("--version").output().is_err() {
        println!("skipped: how manual pages are set: there is no man");
        return;
    }
    for file in files {
        let mut man = Command::new("man");
        man.args(["--warnings", "-l"]).arg(folder.path().join(&file));
        let set = man
            .env("MANWIDTH", "80")
            .env("MANPAGER", "cat")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&set.stderr);
        assert!(set.status.success() && errors.is_empty(), "{file}: {errors}");
        let text = String::from_utf8_lossy(&set.stdout);
        let head = format!("{}(1)", file.trim_end_matches(".1"));
        assert!(text.contains(&head) && text.contains("SYNOPSIS"), "{file}: {text}");
    }
}
