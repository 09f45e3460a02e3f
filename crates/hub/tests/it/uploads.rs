//! Objects that arrive in parts.

use crate::client::{Answer, Client};
use crate::support::{Lab, batch, bytes, files};

fn part(client: &mut Client, n: u64, all: &[u8], from: usize, to: usize, hash: &str) -> Answer {
    let range = format!("bytes {from}-{}/{}", to - 1, all.len());
    let headers = [("Content-Range", range.as_str()), ("Synqlite-Upload", hash)];
    client.request("PUT", &batch("todo", n), &headers, &all[from..to])
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[test]
fn parts_arrive_in_order_and_go_on_after_a_restart() {
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
        assert_eq!(files(&lab.store().join("staging")).len(), 0);
    }
}

#[test]
fn what_does_not_match_its_hash_is_gone() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    let all = bytes(600_000, 1);
    let wrong = hash(b"another");
    part(&mut client, 1, &all, 0, 300_000, &wrong).expect(202);
    part(&mut client, 1, &all, 300_000, 600_000, &wrong).expect(422);
    client.get(&batch("todo", 1)).expect(404);
    assert_eq!(files(&lab.store().join("staging")).len(), 0);
    part(&mut client, 1, &all, 0, 600_000, &hash(&all)).expect(201);
}

#[test]
fn a_part_that_breaks_off_goes_on_where_it_ended() {
    use std::io::Write;
    let lab = Lab::open();
    let all = bytes(600_000, 1);
    let hash = hash(&all);
    let address = lab.hub().url().replace("http://", "");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
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

#[test]
fn malformed_parts_are_refused() {
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
