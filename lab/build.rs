//! Notes the commit that the program is built from.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

fn main() {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    let unknown = "unknown: built outside a git repository".to_owned();
    println!("cargo:rustc-env=LAB_COMMIT={}", commit.unwrap_or(unknown));
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    for sources in ["src", "Cargo.toml", "../crates"] {
        println!("cargo:rerun-if-changed={sources}");
    }
}
