//! The reference of commands is what the binary says of itself.

use crate::support::{stdout, synqlite};
use std::path::Path;

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
