//! On `moto_server`, a stand-in for S3 whose conditional requests have one winner. Without it the
//! tests say so and check nothing.

use super::*;
use crate::conformance::conformance;
use crate::http::agent;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A server that ends with the test.
struct Moto {
    child: Child,
    port: u16,
}

impl Moto {
    /// `None`, and a line that says so, if there is none.
    fn start(test: &str) -> Option<Moto> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("moto_server")
            .args(["-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("skipped: {test}: there is no moto_server (pip install 'moto[server]')");
            return None;
        };
        let mut moto = Moto { child, port };
        for _ in 0..600 {
            let made = agent().put(&format!("http://127.0.0.1:{port}/test")).send_empty().is_ok();
            if moto.child.try_wait().unwrap().is_some() {
                // Somebody else was given that port meanwhile.
                return Moto::start(test);
            }
            if made {
                return Some(moto);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("moto_server does not answer");
    }

    fn bucket(&self, port: u16, prefix: &str) -> Bucket {
        let _ = self;
        let settings = [
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        Bucket::new(&format!("s3://test/{prefix}"), &settings).unwrap()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_bucket_keeps_the_promise_of_a_store() {
    let Some(moto) = Moto::start("conformance of a bucket") else { return };
    let count = AtomicU32::new(0);
    conformance(|| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        Box::new(moto.bucket(moto.port, &format!("team/{n}")))
    });
}

#[test]
fn a_large_file_is_put_once_and_reads_back() {
    let Some(moto) = Moto::start("large files in a bucket") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, back) = (dir.path().join("file"), dir.path().join("back"));
    let bytes: Vec<u8> = (0..2 * PART + 12_345).map(|n| (n / 1_000) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let name = ObjectName::snapshot(Id([1; 16]), Id([2; 16]), 7);
    let bucket = moto.bucket(moto.port, "");
    let put = || bucket.put_file_if_absent(&name, &file, None, &mut |_, _| {}).unwrap();
    assert_eq!(put(), Put::Created);
    assert_eq!(put(), Put::AlreadyThere);
    // Also for a writer who was underway when it came: moto looks, then copies.
    let storage = &bucket.storage;
    storage.put("other", b"other".to_vec()).unwrap();
    assert_eq!(storage.copy_to_new("other", &name.to_string()).unwrap(), Put::AlreadyThere);
    storage.delete("other").unwrap();
    bucket.fetch_to(&name, &back).unwrap();
    assert!(std::fs::read(&back).unwrap() == bytes);
    assert_eq!(bucket.list(name.database, Kind::Snapshot).unwrap().len(), 1);
    let all = storage.list("").unwrap();
    assert_eq!(all.len(), 1, "no temporary object is left: {all:?}");
}

/// Answers every other request with one of these statuses, and passes the rest on.
fn faulty(port: u16) -> u16 {
    const STATUSES: [u32; 2] = [500, 503];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicU32::new(0));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let count = count.clone();
            std::thread::spawn(move || {
                let n = count.fetch_add(1, Ordering::Relaxed);
                let Some((head, body)) = request(&client) else { return };
                let mut client = client;
                if n.is_multiple_of(2) {
                    let status = STATUSES[n as usize / 2 % 2];
                    let _ = write!(
                        client,
                        "HTTP/1.1 {status} Fault\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    );
                    return;
                }
                let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let head = head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
                let _ = server.write_all(head.as_bytes()).and_then(|()| server.write_all(&body));
                let mut answer = Vec::new();
                let _ = server.read_to_end(&mut answer);
                let _ = client.write_all(&answer);
            });
        }
    });
    proxy
}

/// Head and body of a request.
fn request(client: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut client = BufReader::new(client.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body).ok()?;
    Some((head, body))
}

#[test]
fn refusals_that_pass_are_overcome() {
    let Some(moto) = Moto::start("500 and 503 from a bucket") else { return };
    let bucket = moto.bucket(faulty(moto.port), "faulty");
    let direct = moto.bucket(moto.port, "faulty");
    for n in 0..6 {
        let name = ObjectName::batch(Id([1; 16]), Id([2; 16]), n, n + 1);
        assert_eq!(bucket.put_if_absent(&name, &[n as u8]).unwrap(), Put::Created);
        // 412 is what the storage says to whoever is later.
        assert_eq!(bucket.put_if_absent(&name, b"other").unwrap(), Put::AlreadyThere);
        assert_eq!(bucket.read(&name).unwrap(), [n as u8]);
        assert_eq!(direct.read(&name).unwrap(), [n as u8]);
    }
    assert_eq!(bucket.list(Id([1; 16]), Kind::Batch).unwrap().len(), 6);
}

#[test]
fn urls_name_a_bucket_and_a_prefix() {
    let key = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let key = key.map(|name| (name.to_owned(), "test".to_owned()));
    for (url, prefix) in [("s3://b", ""), ("S3://b/", ""), ("s3://b/team/todo/", "team/todo/")] {
        assert_eq!(Storage::new(url, &key).unwrap().prefix(), prefix);
    }
    for url in ["s3:b", "s3:///a", "s3://b/a b", "s3://b/a//b", "s3://b/.a", "http://b/a"] {
        assert!(matches!(Bucket::new(url, &key), Err(Error::NotAPlaceUrl { .. })), "{url}");
    }
    let told = Bucket::new("s3://b", &[]).err().unwrap().to_string();
    assert!(told.contains("AWS_ACCESS_KEY_ID"), "{told}");
}
