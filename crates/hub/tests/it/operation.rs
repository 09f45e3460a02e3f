//! What whoever runs a hub does with it: watch it, back it up, restore it, encrypt the way to it.

use crate::client::Client;
use crate::support::{Lab, SITE, batch, bytes, until};
use serde_json::Value;
use synqlite_hub::{Error, Location, Scope, Settings, backup, check, restore};
use synqlite_servers::Authority;

#[test]
pub fn the_overview_shows_places_sites_and_tokens_but_no_secret() {
    let lab = Lab::with(|_| ());
    let secret = lab.token("*", Scope::Admin);
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    admin.put(&batch("todo", 1), &[1; 10]).expect(201);
    admin.put(&batch("other", 1), b"x").expect(201);
    // Only the second object of the place is new to a site that has the first.
    admin.put(&batch("todo", 2), &[1; 10_000]).expect(201);
    // Its name may hold anything.
    let (path, called) = (format!("/todo/objects?after=1&site={SITE}"), "B%C3%BCro%0A%3Cb%3E");
    admin.request("GET", &path, &[("synqlite-site-name", called)], b"").expect(200);
    let told = admin.get("/overview").expect(200);
    assert!(!told.text().contains(&secret[5..]));
    let told: Value = serde_json::from_slice(&told.body).unwrap();
    assert_eq!(told["totals"], serde_json::json!({"places": 2, "objects": 3, "bytes": 10_011}));
    let place = &told["places"][1];
    assert_eq!((&place["place"], &place["objects"]), (&"todo".into(), &2.into()));
    // Where a site stands is noted a moment later.
    let mut site = Value::Null;
    until(|| {
        let told: Value = serde_json::from_slice(&admin.get("/overview").body).unwrap();
        site = told["places"][1]["sites"][0].clone();
        !site.is_null()
    });
    assert_eq!(site["name"], "Büro<b>");
    assert_eq!((&site["site"], &site["lag"]), (&SITE.to_string().into(), &1.into()));
    // Who does not say it again keeps it; a new one is news at once.
    admin.get(&format!("/todo/objects?after=3&site={SITE}")).expect(200);
    admin.request("GET", &path, &[("synqlite-site-name", "%zz")], b"").expect(200);
    let now = |admin: &mut Client| {
        let told: Value = serde_json::from_slice(&admin.get("/overview").body).unwrap();
        told["places"][1]["sites"][0].clone()
    };
    until(|| now(&mut admin)["upto"] == 3);
    assert_eq!(now(&mut admin)["name"], "Büro<b>");
    admin.request("GET", &path, &[("synqlite-site-name", "Ann")], b"").expect(200);
    until(|| now(&mut admin)["name"] == "Ann");
    assert_eq!(now(&mut admin)["upto"], 3);
    assert_eq!(told["recent"][1]["place"], "other");
    assert_eq!(told["tokens"][0]["scope"], "admin");
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let lab = Lab::with(|_| ());
    let mut admin = lab.somebody("*", Scope::Admin);
    admin.put(&batch("todo", 1), &[1; 10]).expect(201);
    admin.get(&batch("todo", 9)).expect(404);
    let told = admin.get("/metrics").expect(200);
    let value = |name: &str| -> f64 {
        let lines = told.lines();
        let line = lines.iter().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {}", told.text())).parse().unwrap()
    };
    assert_eq!(value("synqlite_objects"), 1.0);
    assert_eq!(value("synqlite_received_bytes_total"), 10.0);
    assert!(value("synqlite_requests_total{status=\"4xx\"}") >= 1.0);
    assert_eq!(value("synqlite_store_commits_total"), 1.0);
    for line in told.lines() {
        let plain = line.starts_with("# TYPE synqlite_");
        let number = line.split(' ').nth(1).is_some_and(|n| n.parse::<f64>().is_ok());
        assert!(plain || (line.starts_with("synqlite_") && number), "{line}");
    }
}

fn settings(lab: &Lab, name: &str) -> Settings {
    let store = lab.scratch(name);
    let mut settings = lab.settings.clone();
    settings.store = Location::parse(store.to_str().unwrap()).unwrap();
    settings
}

#[test]
fn a_backup_taken_while_sites_push_restores_what_was_there() {
    let mut lab = Lab::with(|_| ());
    let secret = lab.token("*", Scope::Admin);
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    let content = |n: u64| bytes([10, 9_000, 300_000][n as usize % 3], n as u8);
    for n in 1..=30 {
        let place = ["a", "b"][n as usize % 2];
        admin.put(&batch(place, n), &content(n)).expect(201);
    }
    lab.somebody("a", Scope::Write).get("/backup").expect(403);
    // Without Content-Length: it is read until the connection ends.
    let head = admin.head("GET", "/backup", &[("Connection", "close")]);
    let taken = std::thread::scope(|scope| {
        let pushing = scope.spawn(|| {
            let mut client = Client::new(&lab.hub().url(), Some(&secret));
            (31..=200).for_each(|n| drop(client.put(&batch("c", n), &content(n)).expect(201)));
        });
        let taken = chunked(&lab, &head);
        pushing.join().unwrap();
        taken
    });
    let file = lab.scratch("hub.backup");
    std::fs::write(&file, &taken).unwrap();
    let restored = settings(&lab, "restored");
    let count = restore(&restored, &file).unwrap();
    assert!((30..=200).contains(&count), "{count}");
    assert!(matches!(restore(&restored, &file), Err(Error::Setting { .. })), "it is not empty");
    let epoch = |client: &mut Client| {
        client.get("/a/objects").expect(200).header("synqlite-epoch").unwrap().to_owned()
    };
    let before = epoch(&mut admin);
    lab.stop();
    lab.settings = restored.clone();
    lab.start();
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    assert_ne!(epoch(&mut admin), before);
    for n in 1..=30 {
        let place = ["a", "b"][n as usize % 2];
        assert!(admin.get(&batch(place, n)).expect(200).body == content(n), "{n}");
    }
    lab.stop();
    let again = lab.scratch("again.backup");
    assert_eq!(backup(&restored, &again).unwrap(), count);
    assert_eq!(check(&restored).unwrap().unwrap().objects, count);
    // Damage anywhere is noticed, and nothing is restored.
    for at in [0, 9, 40, taken.len() / 2, taken.len() - 1] {
        let mut damaged = taken.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        assert!(restore(&settings(&lab, "damaged"), &file).is_err(), "byte {at}");
        std::fs::write(&file, &taken[..at]).unwrap();
        assert!(restore(&settings(&lab, "damaged"), &file).is_err(), "cut at {at}");
    }
    assert!(!lab.scratch("damaged").exists());
}

/// The body of an answer in chunks.
fn chunked(lab: &Lab, head: &str) -> Vec<u8> {
    use std::io::{BufRead, BufReader, Read, Write};
    let address = lab.hub().url().replace("http://", "");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut from = BufReader::new(stream);
    let mut line = String::new();
    let mut next = |from: &mut BufReader<_>| {
        line.clear();
        from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    while !next(&mut from).is_empty() {}
    let mut all = Vec::new();
    loop {
        let length = u64::from_str_radix(&next(&mut from), 16).unwrap();
        from.by_ref().take(length).read_to_end(&mut all).unwrap();
        next(&mut from);
        if length == 0 {
            return all;
        }
    }
}

/// Every file and folder below one, with the rights on it.
fn rights(dir: &std::path::Path) -> Vec<(std::path::PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        found.push((entry.path(), entry.metadata().unwrap().permissions().mode() & 0o777));
        if entry.path().is_dir() {
            found.extend(rights(&entry.path()));
        }
    }
    found
}

#[test]
fn nobody_else_reads_what_a_hub_keeps() {
    use std::os::unix::fs::PermissionsExt;
    let mut lab = Lab::open();
    let mut client = lab.nobody();
    client.put(&batch("todo", 1), &[1; 600_000]).expect(201);
    client.put(&batch("todo", 2), &[1; 60_000]).expect(201);
    let range = [("Content-Range", "bytes 0-8/900"), ("Synqlite-Upload", &"a".repeat(64))];
    client.request("PUT", &batch("todo", 3), &range, &[1; 9]).expect(202);
    lab.token("todo", Scope::Read);
    let wrong = |lab: &Lab| {
        let mut found = rights(&lab.store());
        assert!(found.len() > 6, "{found:?}");
        found.retain(|(path, mode)| *mode != if path.is_dir() { 0o700 } else { 0o600 });
        found
    };
    assert_eq!(wrong(&lab), []);
    let top = std::fs::metadata(lab.store()).unwrap().permissions().mode();
    assert_eq!(top & 0o777, 0o700);
    lab.stop();
    // As an earlier release left it.
    for folder in ["store", "objects", "staging"] {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(lab.store().join(folder), open).unwrap();
    }
    lab.start();
    assert_eq!(wrong(&lab), []);
    lab.stop();
    let file = lab.scratch("backup");
    synqlite_hub::backup(&lab.settings, &file).unwrap();
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_store_that_a_hub_has_open_is_checked_as_far_as_that_goes() {
    let mut lab = Lab::open();
    lab.nobody().put(&batch("todo", 1), b"x").expect(201);
    assert!(check(&lab.settings).unwrap().is_none());
    let told = synqlite_hub::start(lab.settings.clone()).err().unwrap().to_string();
    assert!(told.contains("another hub has"), "{told}");
    lab.stop();
    assert_eq!(check(&lab.settings).unwrap().unwrap().objects, 1);
    let told = check(&settings(&lab, "absent")).unwrap_err().to_string();
    assert!(told.contains("there is no store of a hub at"), "{told}");
}

#[test]
fn a_store_that_is_none_of_a_hub_is_refused() {
    let lab = Lab::open();
    assert!(check(&settings(&lab, "absent")).is_err());
    let other = lab.scratch("other").join("store");
    let db = synqlite_lsm::Db::open(&other, synqlite_lsm::Options::default()).unwrap();
    db.put("a", "b").unwrap();
    db.close().unwrap();
    let told = synqlite_hub::start(settings(&lab, "other")).err().unwrap().to_string();
    assert!(told.contains("not of a hub"), "{told}");
    let newer = lab.scratch("newer").join("store");
    let db = synqlite_lsm::Db::open(&newer, synqlite_lsm::Options::default()).unwrap();
    db.put("mformat", 99_u64.to_be_bytes()).unwrap();
    db.close().unwrap();
    let told = synqlite_hub::start(settings(&lab, "newer")).err().unwrap().to_string();
    assert!(told.contains("format 99"), "{told}");
}

#[test]
fn the_way_to_the_hub_can_be_encrypted() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use std::io::{Read, Write};
    let authority = Authority::new("the test's");
    let made = authority.certify(&["localhost"]);
    let dir = tempfile::tempdir().unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    std::fs::write(&cert, made.cert).unwrap();
    std::fs::write(&key, made.key).unwrap();
    let lab = Lab::with(|settings| settings.tls = Some((cert.clone(), key.clone())));
    assert!(lab.hub().url().starts_with("https://"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let session = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
    let address = lab.hub().url().replace("https://", "");
    let socket = std::net::TcpStream::connect(&address).unwrap();
    let mut stream = rustls::StreamOwned::new(session, socket);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("{\"status\":\"ok\"}"),
        "{answer}"
    );
    // Whoever does not encrypt is not answered.
    let mut plain = Client::new(&format!("http://{address}"), None);
    let head = plain.head("GET", "/healthz", &[]);
    assert!(plain.raw(&head, &[]).is_err());
    let mut settings = lab.settings.clone();
    settings.tls = Some((key, cert));
    assert!(matches!(check(&settings), Err(Error::Setting { .. })));
}
