//! Objects: what was put can be listed and read, whatever its size, also after the hub was stopped.

use crate::support::{DATABASE, Lab, OTHER, SITE, batch, bytes, snapshot};
use std::sync::Barrier;
use synqlite_objects::ObjectName;

/// One of each rank, and the borders between.
const SIZES: [usize; 8] = [1, 4096, 4097, 100_000, 262_144, 262_145, 1_000_000, 5_000_000];

#[test]
pub fn what_is_put_can_be_listed_and_read() {
    let mut lab = Lab::open();
    let mut client = lab.nobody();
    let objects: Vec<_> =
        SIZES.iter().enumerate().map(|(i, n)| (i as u64 + 1, bytes(*n, i as u8))).collect();
    for (n, content) in &objects {
        let put = client.put(&batch("todo", *n), content).expect(201);
        assert_eq!(put.number("synqlite-sequence"), *n);
    }
    for round in 0..2 {
        for (n, content) in &objects {
            let got = client.get(&batch("todo", *n)).expect(200);
            assert!(got.body == *content, "object {n} in round {round}");
            let again = client.put(&batch("todo", *n), b"another").expect(200);
            assert_eq!(again.number("synqlite-sequence"), *n);
        }
        let list = client.get("/todo/objects?prefix=100").expect(200);
        let epoch = list.header("synqlite-epoch").unwrap().to_owned();
        assert_eq!(epoch.len(), 32);
        assert_eq!(list.number("synqlite-upto"), 8);
        assert_eq!(list.header("synqlite-more"), None);
        let mut expected = Vec::new();
        for (n, content) in &objects {
            let name = ObjectName::batch(DATABASE, SITE, n - 1, *n);
            let prefix = &content[..content.len().min(100)];
            let line = format!("{n} {} {name} {}\n", content.len(), prefix.len());
            expected.extend([line.as_bytes(), prefix, b"\n"].concat());
        }
        assert!(list.body == expected, "{}", String::from_utf8_lossy(&list.body));
        assert_eq!(client.get("/todo/databases").expect(200).text(), format!("{DATABASE}\n"));
        if round == 0 {
            lab.stop();
            lab.start();
            client = lab.nobody();
            let after = client.get("/todo/objects").expect(200);
            assert_eq!(after.header("synqlite-epoch"), Some(epoch.as_str()));
        }
    }
    assert!(lab.large_files().is_none_or(|n| n == 3));
    assert_eq!(lab.staged(), Vec::<std::path::PathBuf>::new());
}

#[test]
pub fn lists_go_on_where_they_ended() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    assert_eq!(client.get("/todo/objects").expect(200).text(), "");
    for n in 1..=25 {
        client.put(&batch("todo", n), &[n as u8]).expect(201);
        client.put(&batch("other", n), &[n as u8]).expect(201);
    }
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let list = client.get(&format!("/todo/objects?after={after}&limit=10")).expect(200);
        seen.extend(list.lines().iter().map(|line| line.split(' ').nth(2).unwrap().to_owned()));
        after = list.number("synqlite-upto");
        if list.header("synqlite-more") != Some("true") {
            break;
        }
        assert_eq!(list.lines().len(), 10);
    }
    let want: Vec<_> =
        (1..=25).map(|n| ObjectName::batch(DATABASE, SITE, n - 1, n).to_string()).collect();
    assert_eq!(seen, want);
    let rest = client.get(&format!("/todo/objects?after={after}")).expect(200);
    assert_eq!((rest.text(), rest.number("synqlite-upto")), ("", after));
    let other = "0".repeat(32);
    let all = client.get(&format!("/todo/objects?after={after}&epoch={other}")).expect(200);
    assert_eq!(all.lines().len(), 25, "another epoch begins anew");
}

#[test]
pub fn a_list_is_packed_for_those_who_can_unpack_it() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    for n in 1..=20 {
        client.put(&batch("todo", n), &bytes(100, n as u8)).expect(201);
    }
    let path = "/todo/objects?prefix=100";
    let plain = client.get(path).expect(200);
    assert_eq!(plain.header("content-encoding"), None);
    let accept = [("accept-encoding", "gzip, zstd")];
    let packed = client.request("GET", path, &accept, b"").expect(200);
    assert_eq!(packed.header("content-encoding"), Some("zstd"));
    assert!(packed.body.len() < plain.body.len() * 2 / 3, "{}", packed.body.len());
    assert!(zstd::stream::decode_all(&packed.body[..]).unwrap() == plain.body);
    let little = client.request("GET", "/todo/objects?after=20", &accept, b"").expect(200);
    assert_eq!(little.header("content-encoding"), None);
}

#[test]
pub fn large_lists_come_in_parts() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    for n in 1..=100 {
        client.put(&batch("todo", n), &bytes(60_000, n as u8)).expect(201);
    }
    let (mut after, mut count, mut parts) = (0, 0, 0);
    loop {
        let list = client.get(&format!("/todo/objects?after={after}&prefix=70000")).expect(200);
        assert!(list.body.len() < 5 << 20);
        count += list.listed();
        parts += 1;
        after = list.number("synqlite-upto");
        if list.header("synqlite-more").is_none() {
            break;
        }
    }
    assert_eq!(count, 100);
    assert!(parts > 1);
}

#[test]
pub fn databases_of_a_place_are_told() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    assert_eq!(client.get("/todo/databases").expect(200).text(), "");
    for database in [OTHER, DATABASE] {
        for n in 1..4 {
            let name = ObjectName::batch(database, SITE, n - 1, n);
            client.put(&format!("/todo/objects/{name}"), b"x").expect(201);
        }
    }
    assert_eq!(client.get("/todo/databases").expect(200).text(), format!("{DATABASE}\n{OTHER}\n"));
    assert_eq!(client.get("/other/databases").expect(200).text(), "");
}

#[test]
pub fn ranges_are_honoured() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    for (n, size) in [(1, 1000), (2, 50_000), (3, 600_000)] {
        let content = bytes(size, 3);
        let path = batch("todo", n);
        client.put(&path, &content).expect(201);
        let mut range = |text: &str| client.request("GET", &path, &[("Range", text)], &[]);
        let part = range("bytes=10-19").expect(206);
        assert_eq!(part.body, content[10..20]);
        assert_eq!(part.header("content-range"), Some(&*format!("bytes 10-19/{size}")));
        assert_eq!(range("bytes=900-").expect(206).body, content[900..]);
        assert_eq!(range("bytes=-5").expect(206).body, content[size - 5..]);
        assert_eq!(range("bytes=0-9999999").expect(206).body, content);
        assert_eq!(range("bytes=0-1,4-5").expect(200).body, content);
        let none = range(&format!("bytes={size}-")).expect(416);
        assert_eq!(none.header("content-range"), Some(&*format!("bytes */{size}")));
    }
    let head = client.request("HEAD", &batch("todo", 3), &[], &[]).expect(200);
    assert_eq!(head.number("content-length"), 600_000);
}

#[test]
pub fn racing_puts_have_one_winner() {
    let lab = Lab::open();
    for size in [10, 10_000, 300_000] {
        let path = batch("todo", size as u64);
        let barrier = Barrier::new(8);
        let winners: Vec<u8> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8_u8)
                .map(|i| {
                    let (mut client, path, barrier) = (lab.nobody(), &path, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let put = client.put(path, &vec![i; size]);
                        (put.status == 201).then_some(i)
                    })
                })
                .collect();
            racers.into_iter().filter_map(|racer| racer.join().unwrap()).collect()
        });
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(lab.nobody().get(&path).expect(200).body, vec![winners[0]; size]);
    }
    assert_eq!(lab.nobody().get("/todo/objects").expect(200).lines().len(), 3);
    assert!(lab.large_files().is_none_or(|n| n == 1), "losers leave no file");
}

#[test]
pub fn places_are_kept_apart() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    client.put(&batch("a", 1), b"one").expect(201);
    client.put(&batch("a-b", 1), b"two").expect(201);
    assert_eq!(client.get(&batch("a", 1)).expect(200).body, b"one");
    assert_eq!(client.get(&batch("a-b", 1)).expect(200).body, b"two");
    assert_eq!(client.get("/a/objects").expect(200).lines().len(), 1);
    client.get(&batch("b", 1)).expect(404);
}

#[test]
pub fn what_is_malformed_is_refused() {
    let lab = Lab::open();
    let mut client = lab.nobody();
    let good = batch("todo", 1);
    for (path, status) in [
        ("/todo/objects/../../tokens.json", 400),
        ("/todo/objects/%2e%2e%2f%2e%2e%2ftokens.json", 400),
        ("/..%2fx/objects", 400),
        ("/%2e%2e/objects", 400),
        ("/.hidden/objects", 400),
        ("/%ff/objects", 400),
        ("/todo/objects/%ff", 400),
        ("/metrics/objects", 400),
        ("/todo/objects/x", 400),
        ("/todo/objects/a%00b", 400),
        ("/todo/objects?after=-1", 400),
        ("/todo/objects?after=18446744073709551616", 400),
        ("/todo/objects?limit=x", 400),
        ("/todo/objects?epoch=1", 400),
        ("/todo/events?wait=soon", 400),
        ("/todo/uploads/short", 400),
        ("/todo/elsewhere", 404),
        ("/todo/objects/", 404),
    ] {
        let refused = client.get(path).expect(status);
        assert!(refused.text().starts_with("{\"error\":\""), "{path}: {}", refused.text());
    }
    client.put(&good.replace(".batch", ".exe"), b"x").expect(400);
    for _ in 0..20 {
        // The connection goes on, although nobody wanted the body.
        client.put(&good.to_uppercase(), &[7; 5000]).expect(404);
        client.request("POST", &good, &[("Content-Length", "5000")], &[7; 5000]).expect(405);
    }
    client.put(&good, b"").expect(400);
    client.request("PUT", &good, &[("Synqlite-Covers", "1")], b"x").expect(400);
    client.request("PUT", &snapshot("todo", 1), &[("Synqlite-Covers", "many")], b"x").expect(400);
    client.request("POST", &good, &[("Content-Length", "0")], b"").expect(405);
    let chunked = client.head("PUT", &good, &[("Transfer-Encoding", "chunked")]);
    client.raw(&chunked, b"1\r\nx\r\n0\r\n\r\n").unwrap().expect(411);
    assert_eq!(client.get("/todo/objects").expect(200).text(), "");
}

#[test]
pub fn too_much_is_refused() {
    let lab = Lab::with(|settings| {
        settings.open = true;
        settings.limits.object = 1000;
        settings.limits.patience = std::time::Duration::from_secs(1);
    });
    let mut client = lab.nobody();
    client.put(&batch("todo", 1), &[1; 1000]).expect(201);
    client.put(&batch("todo", 2), &[1; 1001]).expect(413);
    client.put(&batch("todo", 2), &[1; 900_000]).expect(413);
    // More than the hub is willing to throw away: it answers, or hangs up.
    let head = client.head("PUT", &batch("todo", 2), &[("Content-Length", "80000000000")]);
    if let Ok(answer) = lab.nobody().raw(&head, &[0; 2_000_000]) {
        answer.expect(413);
    }
    let parts = [("Content-Range", "bytes 0-9/1001"), ("Synqlite-Upload", &*"a".repeat(64))];
    client.request("PUT", &batch("todo", 2), &parts, &[1; 10]).expect(413);
    let long = format!("GET /{} HTTP/1.1\r\nHost: hub\r\n\r\n", "x".repeat(70_000));
    if let Ok(answer) = lab.nobody().raw(&long, &[]) {
        assert!([414, 431, 400].contains(&answer.status), "{answer:?}");
    }
    lab.nobody().get("/healthz").expect(200);
}

#[test]
pub fn a_body_that_drips_is_refused_and_one_that_flows_is_not() {
    use std::io::{Read, Write};
    use std::time::Duration;
    let lab = Lab::with(|settings| {
        settings.open = true;
        settings.limits.patience = Duration::from_secs(1);
        settings.limits.pace = 2000;
    });
    // 4,000 bytes may take three seconds. One goes on without a pause, at 1,000 bytes a second.
    let send = |n: u64, each: usize| {
        let mut stream = std::net::TcpStream::connect(lab.hub().url().replace("http://", ""))?;
        let head = lab.nobody().head("PUT", &batch("todo", n), &[("Content-Length", "4000")]);
        stream.write_all(head.as_bytes())?;
        for _ in 0..4000 / each {
            // Whoever is refused may find the connection closed.
            if stream.write_all(&vec![7; each]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    assert_eq!(&send(1, 1000).unwrap(), b"HTTP/1.1 201");
    if let Ok(answer) = send(2, 100) {
        assert_eq!(&answer, b"HTTP/1.1 408");
    }
    lab.nobody().get(&batch("todo", 1)).expect(200);
    lab.nobody().get(&batch("todo", 2)).expect(404);
}

#[test]
pub fn a_body_that_breaks_off_leaves_nothing() {
    let lab = Lab::open();
    for size in [1000, 1_000_000] {
        use std::io::Write;
        let address = lab.hub().url().replace("http://", "");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let length = size.to_string();
        let head = lab.nobody().head("PUT", &batch("todo", 1), &[("Content-Length", &length)]);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![7; size / 2]).unwrap();
        drop(stream);
    }
    let mut client = lab.nobody();
    client.put(&batch("todo", 2), b"x").expect(201);
    crate::support::until(|| lab.staged().is_empty());
    assert_eq!(client.get("/todo/objects").expect(200).lines().len(), 1);
}

#[test]
pub fn removed_objects_are_gone() {
    use synqlite_hub::Scope;
    let lab = Lab::with(|_| ());
    let mut writer = lab.somebody("todo", Scope::Write);
    let mut admin = lab.somebody("todo", Scope::Admin);
    for (n, size) in [(1, 10), (2, 10_000), (3, 300_000), (4, 20)] {
        writer.put(&batch("todo", n), &bytes(size, 0)).expect(201);
    }
    writer.delete(&batch("todo", 2)).expect(403);
    for n in [1, 2, 3] {
        admin.delete(&batch("todo", n)).expect(204);
        admin.delete(&batch("todo", n)).expect(404);
        admin.get(&batch("todo", n)).expect(404);
    }
    assert_eq!(admin.get("/todo/objects").expect(200).lines().len(), 1);
    assert!(lab.large_files().is_none_or(|n| n == 0));
    let again = writer.put(&batch("todo", 1), b"again").expect(201);
    assert_eq!(again.number("synqlite-sequence"), 5, "sequences are never given twice");
    admin.delete("/todo").expect(204);
    assert_eq!(admin.get("/todo/objects").expect(200).text(), "");
    assert_eq!(admin.get("/todo/databases").expect(200).text(), "");
}
