//! What a push or a clone writes beside a replica is its owner's alone, and goes when the command is killed.

use crate::network::Hub;
use crate::support::{Lab, files, started};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Passes everything on to a hub but puts, which it neither passes on nor answers.
fn swallowing_puts(hub: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(hub).expect("the hub");
            let (mut asks, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(n @ 1..) = asks.read(&mut bytes) {
                    if bytes.starts_with(b"PUT") || asked.write_all(&bytes[..n]).is_err() {
                        std::thread::sleep(Duration::from_secs(60));
                    }
                }
            });
            std::thread::spawn(move || std::io::copy(&mut &server, &mut &client));
        }
    });
    address
}

fn temporary(lab: &Lab) -> Vec<PathBuf> {
    let mut found = files(lab.dir.path());
    let temporary =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".tmp-");
    found.retain(|path| temporary(path) && path.parent() == Some(lab.dir.path()));
    found
}

/// A push that has got to where it puts the whole database, and cannot go on.
/// `heeds`: whether SIGINT is to end it, whatever the shell that started the tests has them do.
fn stuck(lab: &Lab, url: &str, heeds: bool) -> Child {
    let before = temporary(lab);
    let signal = if heeds { "--default-signal=INT" } else { "--ignore-signal=INT" };
    let push = || {
        Command::new("sh")
            .args(["-c", &format!("umask 022; exec env {signal} \"$0\" push \"$1\" \"$2\"")])
            .args([env!("CARGO_BIN_EXE_synqlite"), &lab.db("A"), url])
            .stderr(Stdio::null())
            .spawn()
    };
    let child = started(push);
    let since = Instant::now();
    // The copy, what is packed of it, and what tells that the writer lives.
    let counts = |file: &&PathBuf| {
        !before.contains(file) && !file.display().to_string().ends_with("-journal")
    };
    while temporary(lab).iter().filter(counts).count() < 3 {
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", files(lab.dir.path()));
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn ended_by(mut child: Child, signal: &str) -> Option<i32> {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    child.wait().expect("it ends").signal()
}

#[test]
fn nobody_else_reads_what_a_push_writes_beside_a_replica() {
    let lab = Lab::with_a();
    let hub = Hub::open(&lab);
    let push = stuck(&lab, &format!("http://{}/todo", swallowing_puts(hub.address)), true);
    for file in temporary(&lab) {
        let found = std::fs::metadata(&file).unwrap();
        let mode = found.permissions().mode() & 0o777;
        assert!(found.len() == 0 || mode == 0o600, "{mode:o} {}", file.display());
    }
    ended_by(push, "KILL");
}

#[test]
fn a_push_that_is_ended_leaves_nothing_beside_a_replica() {
    let lab = Lab::with_a();
    let hub = Hub::open(&lab);
    let url = format!("http://{}/todo", swallowing_puts(hub.address));
    for (signal, number) in [("TERM", 15), ("INT", 2)] {
        assert_eq!(ended_by(stuck(&lab, &url, true), signal), Some(number));
        assert_eq!(temporary(&lab), Vec::<PathBuf>::new());
    }
}

/// As a script's command in the background, which Ctrl-C does not concern.
#[test]
fn a_push_goes_on_at_a_signal_that_it_is_to_ignore() {
    let lab = Lab::with_a();
    let hub = Hub::open(&lab);
    let url = format!("http://{}/todo", swallowing_puts(hub.address));
    let mut push = stuck(&lab, &url, false);
    let sent = Command::new("kill").args(["-s", "INT", &push.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(push.try_wait().expect("it can be asked"), None);
    assert_eq!(ended_by(push, "TERM"), Some(15));
    assert_eq!(temporary(&lab), Vec::<PathBuf>::new());
}

#[test]
fn what_a_killed_push_leaves_goes_with_the_next_and_what_a_living_one_has_stays() {
    let lab = Lab::with_a();
    let hub = Hub::open(&lab);
    let url = format!("http://{}/todo", swallowing_puts(hub.address));
    ended_by(stuck(&lab, &url, true), "KILL");
    let left = temporary(&lab);
    assert!(left.len() >= 3);
    let push = stuck(&lab, &url, true);
    assert!(left.iter().all(|file| !file.exists()), "{left:?}");
    let has = temporary(&lab);
    lab.json(&["push", &lab.db("A"), &hub.url("todo")]);
    assert_eq!(temporary(&lab), has);
    ended_by(push, "KILL");
    lab.json(&["pull", &lab.db("A"), &hub.url("todo")]);
    assert_eq!(temporary(&lab), Vec::<PathBuf>::new());
}

/// A clone has the rights of any new file, as ever.
#[test]
fn a_clone_has_the_rights_of_a_new_file() {
    let lab = Lab::with_a();
    for (umask, mode) in [("022", 0o644), ("027", 0o640), ("077", 0o600)] {
        let script = format!("umask {umask}; exec \"$0\" clone \"$1\" \"$2\"");
        let target = lab.db(umask);
        let clone = || {
            Command::new("sh")
                .args(["-c", &script, env!("CARGO_BIN_EXE_synqlite"), &lab.db("A"), &target])
                .output()
        };
        assert!(started(clone).status.success());
        let found = std::fs::metadata(&target).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode);
    }
}
