//! Opening an address in the browser of whoever runs the command.

use std::process::{Command, Stdio};

/// The program that opens an address here, and what it is told before that.
const OPENER: (&str, &[&str]) = if cfg!(windows) {
    ("rundll32", &["url.dll,FileProtocolHandler"])
} else if cfg!(target_os = "macos") {
    ("open", &[])
} else {
    ("xdg-open", &[])
};

/// Tries to open `url`. Where there is no browser nothing happens: the address has been printed too.
pub fn open(url: &str) {
    let (program, args) = OPENER;
    let mut command = Command::new(program);
    command.args(args).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // Somebody has to hear that it has ended.
        let _ = std::thread::Builder::new().spawn(move || child.wait());
    }
}
