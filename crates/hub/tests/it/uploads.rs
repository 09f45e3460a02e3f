//! Objects that arrive in parts.

use crate::client::{Answer, Client};
use crate::support::{DATABASE, Lab, SITE, batch, bytes, until};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use synqlite_hub::Scope;
use synqlite_objects::{ObjectName, Store};

fn part(client: &mut Client, n: u64, all: &[u8], from: usize, to: usize, hash: &str) -> Answer {
    let range = format!("bytes {from}-{}/{}", to - 1, all.len());
    let headers = [("Content-Range", range.as_str()), ("Synqlite-Upload", hash)];
    client.request("PUT", &batch("todo", n), &headers, &all[from..to])
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[test]
pub fn parts_arrive_in_order_and_go_on_after_a_restart() {
    let mut lab = Lab::open();
    for (n, size) in [(1, 1_000_000), (2, 1000)] {
        let all = bytes(size, n as u8);
        let (hash, third) = (hash(&all), size / 3);
        let state = format!("/todo/uploads/{hash}");
        let mut client = lab.nobody();
        assert_eq!(client.get(&state).expect(200).number("synqlite-received"), 0);
        let first = part(&mut client, n, &all, 0, third, &hash).expect(202);
        assert_eq!(first.number("synqlite-received"), third as u64);
        lab.stop();
        lab.start();
        let mut client = lab.nobody();
        assert_eq!(client.get(&state).expect(200).number("synqlite-received"), third as u64);
        let wrong = part(&mut client, n, &all, 2 * third, size, &hash).expect(409);
        assert_eq!(wrong.number("synqlite-received"), third as u64);
        part(&mut client, n, &all, third, 2 * third, &hash).expect(202);
        client.get(&batch("todo", n)).expect(404);
        let last = part(&mut client, n, &all, 2 * third, size, &hash).expect(201);
        assert_eq!(last.number("synqlite-sequence"), n);
        assert!(client.get(&batch("todo", n)).expect(200).body == all);
        assert_eq!(client.get(&state).expect(200).number("synqlite-received"), 0);
        part(&mut client, n, &all, 0, third, &hash).expect(200);
        assert_eq!(lab.staged(), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
pub fn what_does_not_match_its_hash_is_gone() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    let all = bytes(600_000, 1);
    let wrong = hash(b"another");
    part(&mut client, 1, &all, 0, 300_000, &wrong).expect(202);
    part(&mut client, 1, &all, 300_000, 600_000, &wrong).expect(422);
    client.get(&batch("todo", 1)).expect(404);
    assert_eq!(lab.staged(), Vec::<std::path::PathBuf>::new());
    part(&mut client, 1, &all, 0, 600_000, &hash(&all)).expect(201);
}

#[test]
pub fn a_part_that_breaks_off_goes_on_where_it_ended() {
    let lab = Lab::open();
    let all = bytes(600_000, 1);
    let hash = hash(&all);
    let address = lab.hub().url().replace("http://", "");
    let mut stream = TcpStream::connect(address).unwrap();
    let headers = [
        ("Content-Range", "bytes 0-599999/600000"),
        ("Synqlite-Upload", &hash),
        ("Content-Length", "600000"),
    ];
    let head = lab.nobody().head("PUT", &batch("todo", 1), &headers);
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&all[..400_000]).unwrap();
    drop(stream);
    let mut client = lab.nobody();
    let state = format!("/todo/uploads/{hash}");
    let mut received = 0;
    crate::support::until(|| {
        received = client.get(&state).expect(200).number("synqlite-received") as usize;
        // The first part must be over, or it would be in the way of the next.
        received > 0 && part(&mut client, 1, &all, received, 600_000, &hash).status == 201
    });
    assert!(client.get(&batch("todo", 1)).expect(200).body == all);
}

/// Stands before a hub, and breaks every connection once so many bytes of requests have passed. Counts
/// what the clients have sent.
fn breaking(lab: &Lab, after: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/todo", listener.local_addr().unwrap());
    let hub = lab.hub().url().replace("http://", "");
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (server, counted) = (TcpStream::connect(&hub).unwrap(), counted.clone());
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let (mut left, mut buffer) = (after, vec![0; 16 << 10]);
                while let Ok(n @ 1..) = from.read(&mut buffer) {
                    counted.fetch_add(n, Ordering::Relaxed);
                    if to.write_all(&buffer[..n.min(left)]).is_err() || n >= left {
                        break;
                    }
                    left -= n;
                }
                let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
            });
            let (mut from, mut to) = (server, client);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    (url, sent)
}

#[test]
pub fn a_network_that_breaks_off_costs_what_was_on_its_way() {
    let lab = Lab::open();
    let (url, sent) = breaking(&lab, 700_000);
    let store = synqlite_objects::Hub::new(&url, None).unwrap();
    let file = lab.scratch("file");
    // A batch that is in memory, and a file of several parts.
    for (n, size) in [(1, 3_000_000), (2, 10_000_000)] {
        let all = bytes(size, n as u8);
        let name = ObjectName::batch(DATABASE, SITE, n - 1, n);
        if n == 1 {
            store.put_if_absent(&name, &all).unwrap();
        } else {
            std::fs::write(&file, &all).unwrap();
            store.put_file_if_absent(&name, &file, None, &mut |_, _| {}).unwrap();
        }
        assert!(lab.nobody().get(&batch("todo", n)).expect(200).body == all);
        // Of each connection that broke, at most what lay in the sockets was sent for nothing.
        let sent = sent.swap(0, Ordering::Relaxed);
        assert!(sent < size + size / 2, "{sent} bytes for {size}");
    }
}

#[test]
pub fn what_arrived_in_full_is_put_by_any_part() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    let all = bytes(1_600_000, 1);
    for n in [1, 2] {
        part(&mut client, n, &all, 0, 500_000, &hash(&all)).expect(202);
        // As if the hub had broken off before it put the object.
        std::fs::write(lab.staged().remove(0), &all).unwrap();
        if n == 1 {
            part(&mut client, n, &all, 1_599_999, 1_600_000, &hash(&all)).expect(201);
        } else {
            let url = format!("{}/todo", lab.hub().url());
            let store = synqlite_objects::Hub::new(&url, None).unwrap();
            store.put_if_absent(&ObjectName::batch(DATABASE, SITE, 1, 2), &all).unwrap();
        }
        assert!(client.get(&batch("todo", n)).expect(200).body == all);
    }
    assert_eq!(lab.staged(), Vec::<std::path::PathBuf>::new());
}

#[test]
pub fn one_part_at_a_time_is_taken() {
    let lab = Lab::open();
    let all = bytes(600_000, 1);
    let hash = hash(&all);
    let address = lab.hub().url().replace("http://", "");
    let mut slow = TcpStream::connect(address).unwrap();
    let range = [("Content-Range", "bytes 0-599999/600000"), ("Synqlite-Upload", &hash)];
    let head = lab.nobody().head(
        "PUT",
        &batch("todo", 1),
        &[&range[..], &[("Content-Length", "600000")]].concat(),
    );
    slow.write_all(head.as_bytes()).unwrap();
    slow.write_all(&all[..400_000]).unwrap();
    crate::support::until(|| !lab.staged().is_empty());
    let mut client = lab.nobody();
    for _ in 0..3 {
        part(&mut client, 1, &all, 0, 600_000, &hash).expect(409);
    }
    slow.write_all(&all[400_000..]).unwrap();
    crate::support::until(|| client.get(&batch("todo", 1)).status == 200);
    assert!(client.get(&batch("todo", 1)).body == all);
}

#[test]
pub fn what_is_not_finished_counts_until_it_is_removed() {
    let mut lab = Lab::with(|settings| {
        settings.limits.storage = Some(1_000_000);
        settings.sweep = Duration::from_millis(100);
    });
    let (token, other) = (lab.token("todo", Scope::Write), lab.token("todo", Scope::Write));
    let all = bytes(900_000, 1);
    let mut client = Client::new(&lab.hub().url(), Some(&token));
    part(&mut client, 1, &all, 0, 500_000, &hash(&all)).expect(202);
    let more = bytes(600_000, 2);
    let told = part(&mut client, 2, &more, 0, 550_000, &hash(&more)).expect(507);
    assert!(told.text().contains("not finished"), "{}", told.text());
    // All at once, large and small; what fits is taken.
    client.put(&batch("todo", 3), &[1; 550_000]).expect(507);
    client.put(&batch("todo", 3), &[1; 400_000]).expect(201);
    client.put(&batch("todo", 4), &[1; 200_000]).expect(507);
    // Another token has a limit, and uploads, of its own.
    let mut stranger = Client::new(&lab.hub().url(), Some(&other));
    let state = format!("/todo/uploads/{}", hash(&all));
    assert_eq!(stranger.get(&state).expect(200).number("synqlite-received"), 0);
    part(&mut stranger, 2, &more, 0, 550_000, &hash(&more)).expect(202);
    lab.stop();
    lab.start();
    let mut client = Client::new(&lab.hub().url(), Some(&token));
    assert_eq!(client.get(&state).expect(200).number("synqlite-received"), 500_000);
    client.put(&batch("todo", 4), &[1; 200_000]).expect(507);
    part(&mut client, 1, &all, 500_000, 700_000, &hash(&all)).expect(507);
    for file in lab.staged() {
        let day = Duration::from_secs(25 * 60 * 60);
        let file = File::options().append(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - day).unwrap();
    }
    until(|| lab.staged().is_empty());
    client.put(&batch("todo", 4), &[1; 200_000]).expect(201);
    assert_eq!(client.get(&state).expect(200).number("synqlite-received"), 0);
}

#[test]
pub fn malformed_parts_are_refused() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    let good = "a".repeat(64);
    for (range, upload) in [
        ("bytes 0-9/20", "x"),
        ("bytes 0-9/20", ""),
        ("bytes 0-5/20", &good),
        ("bytes 0-9/5", &good),
        ("bytes 9-0/20", &good),
        ("bytes */20", &good),
        ("bytes 18446744073709551606-18446744073709551615/18446744073709551615", &good),
    ] {
        let headers = [("Content-Range", range), ("Synqlite-Upload", upload)];
        let status = client.request("PUT", &batch("todo", 1), &headers, &[0; 10]).status;
        assert_eq!(status, 400, "{range} {upload}");
    }
    client
        .request("PUT", &batch("todo", 1), &[("Content-Range", "bytes 0-9/20")], &[0; 10])
        .expect(400);
}
