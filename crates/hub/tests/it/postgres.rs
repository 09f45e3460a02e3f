//! The same promises, kept by PostgreSQL. The test starts Debian's on a free port, as a user that is
//! not root; where there is none it says so and is skipped.

use crate::client::Client;
use crate::support::{Lab, batch, until, use_stores};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use synqlite_hub::{Location, Scope, Settings, check, start};
use synqlite_servers::{Authority, Postgres};

#[test]
fn postgres_keeps_the_promises_of_a_store() {
    let server = match Postgres::start() {
        Ok(server) => Rc::new(RefCell::new(server)),
        Err(why) => return println!("skipped: {why}"),
    };
    what_is_missing_is_named(&server);
    let (databases, mut count) = (server.clone(), 0);
    use_stores(move || {
        count += 1;
        Location::parse(&databases.borrow().database(&format!("lab{count}"))).unwrap()
    });
    // First: PostgreSQL recovers faster while it holds little.
    nothing_is_lost_when_the_server_crashes(&server);
    crate::promises();
    two_hubs_share_a_store();
}

/// Waiting would not help.
fn what_is_missing_is_named(server: &RefCell<Postgres>) {
    let empty = server.borrow().database("empty");
    let absent = empty.replace("empty", "absent");
    let told = |url: &str| {
        let lab = Lab::open();
        let store = Location::parse(url).unwrap();
        check(&Settings { store, ..lab.settings.clone() }).unwrap_err().to_string()
    };
    assert!(
        told(&empty).starts_with("there is no store of a hub in this database"),
        "{}",
        told(&empty)
    );
    assert!(told(&absent).contains("does not exist. Check the address"), "{}", told(&absent));
}

fn two_hubs_share_a_store() {
    let lab = Lab::open();
    let other = start(lab.settings.clone()).unwrap();
    let mut far = Client::new(&other.url(), None);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| far.get("/todo/events?wait=60").expect(200));
        std::thread::sleep(std::time::Duration::from_millis(300));
        lab.nobody().put(&batch("todo", 1), b"x").expect(201);
        assert_eq!(waiter.join().unwrap().number("synqlite-upto"), 1);
    });
    assert_eq!(far.get(&batch("todo", 1)).expect(200).body, b"x");
    far.put(&batch("todo", 1), b"y").expect(200);
    other.stop().unwrap();
}

fn nothing_is_lost_when_the_server_crashes(server: &RefCell<Postgres>) {
    let lab = Lab::with(|_| ());
    let secret = lab.token("todo", Scope::Write);
    let acknowledged = AtomicU64::new(0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::new(&lab.hub().url(), Some(&secret));
            let mut n = 1;
            while !stop.load(Ordering::Relaxed) {
                match client.put(&batch("todo", n), &n.to_be_bytes()).status {
                    200 | 201 => {
                        acknowledged.store(n, Ordering::Relaxed);
                        n += 1;
                    }
                    503 => std::thread::sleep(std::time::Duration::from_millis(20)),
                    other => panic!("{other}"),
                }
            }
        });
        for _ in 0..2 {
            let before = acknowledged.load(Ordering::Relaxed);
            until(|| acknowledged.load(Ordering::Relaxed) > before + 20);
            server.borrow_mut().crash();
        }
        let before = acknowledged.load(Ordering::Relaxed);
        until(|| acknowledged.load(Ordering::Relaxed) > before + 20);
        stop.store(true, Ordering::Relaxed);
    });
    let mut client = Client::new(&lab.hub().url(), Some(&secret));
    for n in 1..=acknowledged.load(Ordering::Relaxed) {
        assert_eq!(client.get(&batch("todo", n)).expect(200).body, n.to_be_bytes(), "{n}");
    }
}

#[test]
fn the_way_to_postgres_can_be_encrypted() {
    use std::os::unix::fs::PermissionsExt;
    let authority = Authority::new("the test's");
    let made = authority.certify(&["localhost"]);
    let prepare = |data: &Path, own: &dyn Fn(&Path)| {
        for (name, text) in [("server.crt", &made.cert), ("server.key", &made.key)] {
            let path = data.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            own(&path);
        }
        // Whoever does not encrypt is not let in.
        let hba = data.join("pg_hba.conf");
        std::fs::write(&hba, "hostssl all all 127.0.0.1/32 trust\n").unwrap();
        ["-c", "ssl=on"].map(str::to_owned).to_vec()
    };
    let server = match Postgres::start_with(prepare) {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let roots = dir.path().join("authority.pem");
    std::fs::write(&roots, &authority.pem).unwrap();
    let other = dir.path().join("other.pem");
    std::fs::write(&other, Authority::new("another").pem).unwrap();
    let address = server.database("hub");
    let named = address.replace("127.0.0.1", "localhost");
    let url = |address: &str, query: &str| Location::parse(&format!("{address}{query}")).unwrap();
    let trusted = format!("?sslmode=verify-full&sslrootcert={}", roots.display());
    let (one, query) = (named.clone(), trusted.clone());
    use_stores(move || url(&one, &query));
    let lab = Lab::open();
    std::thread::scope(|scope| {
        let mut client = lab.nobody();
        let waiter = scope.spawn(move || client.get("/todo/events?wait=60").expect(200));
        std::thread::sleep(std::time::Duration::from_millis(300));
        lab.nobody().put(&batch("todo", 1), b"x").expect(201);
        waiter.join().unwrap();
    });
    let refused = |location: Location, says: &str| {
        let mut settings = lab.settings.clone();
        settings.store = location;
        let told = check(&settings).expect_err("it is refused").to_string();
        assert!(told.contains(says), "{told}");
    };
    refused(url(&named, ""), "no encryption");
    refused(
        url(&named, &format!("?sslmode=require&sslrootcert={}", other.display())),
        "certificate",
    );
    refused(url(&named, "?sslmode=require"), "certificate");
    refused(url(&address, &trusted), "certificate");
    refused(url(&named, "?sslmode=prefer"), "sslmode=prefer is unknown");
}
