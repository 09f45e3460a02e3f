//! Who may do what.

use crate::client::{Answer, Client};
use crate::support::{DATABASE, Lab, OTHER, SITE, batch, snapshot, until};
use std::sync::atomic::Ordering;
use synqlite_hub::{Allowance, Scope, Token};
use synqlite_objects::ObjectName;
use synqlite_wire::batch::encode;
use synqlite_wire::{Delta, Id};

#[test]
pub fn without_a_token_nothing_is_told() {
    let lab = Lab::with(|_| ());
    lab.somebody("todo", Scope::Write).put(&batch("todo", 1), b"x").expect(201);
    let mut nobody = lab.nobody();
    for path in [
        "/todo/objects",
        "/none/objects",
        &batch("todo", 1),
        "/todo/databases",
        "/todo/events?wait=0",
        &format!("/todo/uploads/{}", "a".repeat(64)),
        "/overview",
        "/metrics",
    ] {
        let refused = nobody.get(path).expect(401);
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{path}");
    }
    nobody.put(&batch("todo", 2), b"x").expect(401);
    nobody.put(&batch("todo", 2), &[0; 900_000]).expect(401);
    nobody.delete(&batch("todo", 1)).expect(401);
    nobody.delete("/todo").expect(401);
    for path in ["/healthz", "/openapi.json", "/"] {
        nobody.get(path).expect(200);
    }
    let url = lab.hub().url();
    for wrong in ["", "synq_", &format!("synq_{}", "0".repeat(64)), "a b", "é"] {
        Client::new(&url, Some(wrong)).get("/todo/objects").expect(401);
    }
}

#[test]
fn no_answer_is_for_a_cache_to_keep() {
    let lab = Lab::with(|_| ());
    let mut admin = lab.somebody("*", Scope::Admin);
    let (mut nobody, mut reader) = (lab.nobody(), lab.somebody("other", Scope::Read));
    let kept_by_none = |answer: Answer, status: u16| {
        let answer = answer.expect(status);
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer:?}");
    };
    kept_by_none(admin.put(&batch("todo", 1), b"x"), 201);
    kept_by_none(admin.put(&batch("todo", 1), b"x"), 200);
    kept_by_none(admin.put(&batch("todo", 2), b""), 400);
    let upload = format!("/todo/uploads/{}", "a".repeat(64));
    for path in ["/todo/objects", &batch("todo", 1), "/todo/databases", &upload] {
        kept_by_none(admin.get(path), 200);
        kept_by_none(nobody.get(path), 401);
        kept_by_none(reader.get(path), 403);
    }
    for path in ["/overview", "/metrics", "/healthz", "/openapi.json", "/"] {
        kept_by_none(admin.get(path), 200);
    }
    let head = admin.head("GET", "/backup", &[("Connection", "close")]);
    kept_by_none(admin.raw(&head, b"").unwrap(), 200);
    let part = [("Range", "bytes=0-0")];
    kept_by_none(admin.request("GET", &batch("todo", 1), &part, b""), 206);
    kept_by_none(admin.get("/todo/events?wait=0"), 200);
    kept_by_none(admin.get(&batch("todo", 9)), 404);
    kept_by_none(admin.get("/nothing/here/at/all"), 404);
    kept_by_none(admin.request("POST", "/todo/objects", &[], b""), 405);
    kept_by_none(admin.get("/%ff/objects"), 400);
    kept_by_none(admin.delete(&batch("todo", 1)), 204);
}

#[test]
pub fn scopes_and_places_bound_a_token() {
    let lab = Lab::with(|_| ());
    let mut read = lab.somebody("todo", Scope::Read);
    let mut write = lab.somebody("todo", Scope::Write);
    let mut admin = lab.somebody("todo", Scope::Admin);
    let mut all = lab.somebody("*", Scope::Admin);
    read.put(&batch("todo", 1), b"x").expect(403);
    write.put(&batch("todo", 1), b"x").expect(201);
    read.get(&batch("todo", 1)).expect(200);
    write.put(&batch("other", 1), b"x").expect(403);
    read.get("/other/objects").expect(403);
    write.delete(&batch("todo", 1)).expect(403);
    admin.get("/overview").expect(403);
    all.put(&batch("other", 1), b"x").expect(201);
    all.get("/overview").expect(200);
    all.delete(&batch("todo", 1)).expect(204);
}

#[test]
pub fn an_open_hub_lets_everybody_read_and_write_but_not_remove() {
    let lab = Lab::open();
    let mut nobody = lab.nobody();
    nobody.put(&batch("todo", 1), b"x").expect(201);
    nobody.get(&batch("todo", 1)).expect(200);
    nobody.delete(&batch("todo", 1)).expect(401);
    nobody.get("/overview").expect(401);
    Client::new(&lab.hub().url(), Some("synq_wrong")).get("/todo/objects").expect(401);
}

#[test]
pub fn revoked_and_expired_tokens_are_noticed() {
    let lab = Lab::with(|_| ());
    let mut client = lab.somebody("todo", Scope::Read);
    client.get("/todo/objects").expect(200);
    let vault = lab.settings.store.vault();
    let id = vault.read().unwrap()[0].id;
    assert!(vault.revoke(id).unwrap() && !vault.revoke(id).unwrap());
    until(|| client.get("/todo/objects").status == 401);
    let end = lab.time.load(Ordering::Relaxed) + 1000;
    let made = Token::make("todo".parse().unwrap(), Scope::Read, 0, Some(end), None);
    let (token, secret) = made.unwrap();
    vault.add(token).unwrap();
    let mut client = Client::new(&lab.hub().url(), Some(&secret));
    until(|| client.get("/todo/objects").status == 200);
    lab.time.fetch_add(1000, Ordering::Relaxed);
    client.get("/todo/objects").expect(401);
}

#[test]
pub fn a_token_that_asks_too_often_has_to_wait() {
    let lab = Lab::with(|settings| settings.limits.rate = Some(5));
    let mut client = lab.somebody("todo", Scope::Read);
    let mut other = lab.somebody("todo", Scope::Read);
    let statuses: Vec<_> = (0..20).map(|_| client.get("/todo/objects").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let mut refused = client.get("/todo/objects");
    while refused.status != 429 {
        refused = client.get("/todo/objects");
    }
    assert_eq!(refused.number("retry-after"), 1);
    other.get("/todo/objects").expect(200);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    client.get("/todo/objects").expect(200);
}

#[test]
pub fn a_token_stores_as_much_as_it_may() {
    let mut lab = Lab::with(|settings| settings.limits.storage = Some(1000));
    let secret = lab.token("todo", Scope::Admin);
    let mut client = Client::new(&lab.hub().url(), Some(&secret));
    client.put(&batch("todo", 1), &[1; 600]).expect(201);
    client.put(&batch("todo", 2), &[1; 600]).expect(507);
    client.put(&batch("todo", 1), &[1; 600]).expect(200);
    lab.somebody("todo", Scope::Write).put(&batch("todo", 3), &[1; 600]).expect(201);
    lab.stop();
    lab.start();
    let mut client = Client::new(&lab.hub().url(), Some(&secret));
    client.put(&batch("todo", 2), &[1; 600]).expect(507);
    client.delete(&batch("todo", 1)).expect(204);
    client.put(&batch("todo", 2), &[1; 600]).expect(201);
}

#[test]
pub fn limits_of_a_token_go_before_those_of_the_hub() {
    let lab = Lab::with(|settings| settings.limits.storage = Some(1000));
    let own = Allowance { object: Some(500), storage: Some(2000), rate: None };
    let mut large = Client::new(&lab.hub().url(), Some(&lab.allowed("*", Scope::Write, own)));
    let mut other = lab.somebody("*", Scope::Write);
    for n in 1..=4 {
        large.put(&batch("todo", n), &[1; 500]).expect(201);
    }
    let told = large.put(&batch("todo", 5), &[1; 501]).expect(413);
    for words in ["this token puts objects of up to 500 B", "--object-bytes", "501 bytes or more"] {
        assert!(told.text().contains(words), "{}", told.text());
    }
    // What is stored counts over all places.
    large.put(&batch("elsewhere", 5), &[1; 1]).expect(507);
    other.put(&batch("todo", 5), &[1; 900]).expect(201);
    other.put(&batch("elsewhere", 6), &[1; 101]).expect(507);
    let own = Allowance { rate: Some(1), ..Allowance::default() };
    let slow = lab.allowed("*", Scope::Read, own);
    let mut slow = Client::new(&lab.hub().url(), Some(&slow));
    let statuses: Vec<_> = (0..10).map(|_| slow.get("/todo/objects").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[test]
pub fn a_token_of_a_site_puts_what_that_site_wrote() {
    let lab = Lab::with(|_| ());
    let mut own = Client::new(&lab.hub().url(), Some(&lab.bound("todo", SITE)));
    let written = |database, site| encode(database, site, &Delta::default()).unwrap();
    let another = Id([0x52; 16]);
    let path = |site, n| format!("/todo/objects/{}", ObjectName::batch(DATABASE, site, n - 1, n));
    let told = own.put(&path(another, 1), &written(DATABASE, another)).expect(403);
    assert!(told.text().contains(&SITE.to_string()), "{}", told.text());
    own.put(&batch("todo", 1), &written(DATABASE, SITE)).expect(201);
    // Under its own name, but of another site or database, sealed, damaged, a snapshot of nothing.
    for (path, bytes) in [
        (batch("todo", 2), written(DATABASE, another)),
        (batch("todo", 2), written(OTHER, SITE)),
        (batch("todo", 2), b"SynQSeal and more".to_vec()),
        (batch("todo", 2), vec![7; 900_000]),
        (snapshot("todo", 2), b"SynQSnap".to_vec()),
    ] {
        let told = own.put(&path, &bytes).expect(403);
        assert!(told.text().contains("sealed"), "{}", told.text());
        own.get(&path).expect(404);
    }
    assert_eq!(lab.staged(), Vec::<std::path::PathBuf>::new());
    // Nor does it say of another site what that has read.
    own.get(&format!("/todo/objects?site={another}")).expect(200);
    own.get(&format!("/todo/objects?site={SITE}")).expect(200);
    let mut admin = lab.somebody("*", Scope::Admin);
    until(|| admin.get("/overview").text().contains(&format!("\"site\":\"{SITE}\"")));
    assert!(!admin.get("/overview").text().contains(&another.to_string()));
    lab.somebody("todo", Scope::Write).put(&path(another, 1), b"x").expect(201);
}
