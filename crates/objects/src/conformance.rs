//! What every kind of [`Store`] must do, as tests that each kind runs on itself.
//!
//! A store's own tests cover what only it has: foreign files, its URL, its ways to fail.

// They are tests, wherever they are compiled.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::error::{Error, Result};
use crate::name::{Kind, ObjectName};
use crate::store::{Ask, Cursor, Entry, Found, Put, Store, find_database, only_database};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use synqlite_wire::Id;

const DATABASE: Id = Id([0xd0; 16]);
const SITE: Id = Id([0x51; 16]);

/// Runs every test. `make` opens a new, empty store at each call.
///
/// # Panics
/// If the store breaks the promise of [`Store`].
pub fn conformance(make: impl Fn() -> Box<dyn Store>) {
    an_empty_store_holds_nothing(&*make());
    what_is_put_can_be_listed_and_read(&*make());
    the_first_put_wins(&*make());
    files_travel_as_bytes_do(&*make());
    prefixes_are_read(&*make());
    objects_are_never_empty(&*make());
    sites_and_ranges_may_overlap(&*make());
    databases_are_kept_apart(&*make());
    changes_are_told(&*make());
    racing_puts_have_one_winner(&*make());
}

fn an_empty_store_holds_nothing(store: &dyn Store) {
    let name = ObjectName::batch(DATABASE, SITE, 0, 1);
    assert!(!store.address().is_empty());
    assert_eq!(store.databases().unwrap(), []);
    for kind in Kind::ALL {
        assert_eq!(store.list(DATABASE, kind).unwrap(), []);
    }
    assert_missing(store, &name);
    assert_missing(store, &ObjectName::snapshot(DATABASE, SITE, 1));
    assert!(!find_database(store, DATABASE).unwrap());
    assert!(matches!(only_database(store), Err(Error::NoDatabase { .. })));
}

fn what_is_put_can_be_listed_and_read(store: &dyn Store) {
    let large: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let objects = BTreeMap::from([
        (ObjectName::batch(DATABASE, SITE, 0, 9), vec![0]),
        (ObjectName::batch(DATABASE, SITE, 9, 0x10), b"\r\n\0\xff\x1a".to_vec()),
        (ObjectName::batch(DATABASE, SITE, 0x10, u64::MAX), large.clone()),
        (ObjectName::snapshot(DATABASE, SITE, 9), b"snapshot".to_vec()),
        (ObjectName::snapshot(DATABASE, SITE, u64::MAX), large),
    ]);
    for (name, bytes) in objects.iter().rev() {
        assert_missing(store, name);
        assert_eq!(store.put_if_absent(name, bytes).unwrap(), Put::Created, "{name}");
    }
    for (name, bytes) in &objects {
        assert_eq!(&store.read(name).unwrap(), bytes, "{name}");
    }
    for kind in Kind::ALL {
        let of_kind = objects.iter().filter(|(name, _)| name.kind == kind);
        let expected: Vec<_> =
            of_kind.map(|(&name, bytes)| Entry { name, size: bytes.len() as u64 }).collect();
        assert_eq!(store.list(DATABASE, kind).unwrap(), expected);
    }
    assert_missing(store, &ObjectName::batch(DATABASE, SITE, 0, 8));
    assert_missing(store, &ObjectName::snapshot(DATABASE, SITE, 8));
}

fn the_first_put_wins(store: &dyn Store) {
    let name = ObjectName::batch(DATABASE, SITE, 0, 1);
    assert_eq!(store.put_if_absent(&name, b"first").unwrap(), Put::Created);
    for later in [&b"first"[..], b"2nd", b"a longer one"] {
        assert_eq!(store.put_if_absent(&name, later).unwrap(), Put::AlreadyThere);
        assert_eq!(store.read(&name).unwrap(), b"first");
    }
    assert_eq!(store.list(DATABASE, Kind::Batch).unwrap(), [Entry { name, size: 5 }]);
}

fn files_travel_as_bytes_do(store: &dyn Store) {
    let scratch = Scratch::new();
    let (from, to) = (scratch.file("from"), scratch.file("to"));
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n / 7) as u8).collect();
    fs::write(&from, &bytes).unwrap();
    for name in [ObjectName::snapshot(DATABASE, SITE, 1), ObjectName::batch(DATABASE, SITE, 0, 1)] {
        fs::write(&to, b"before").unwrap();
        assert!(matches!(store.fetch_to(&name, &to), Err(Error::NotFound { .. })));
        assert_eq!(fs::read(&to).unwrap(), b"before");
        assert_eq!(put_file(store, &name, &from).unwrap(), Put::Created);
        assert_eq!(put_file(store, &name, &from).unwrap(), Put::AlreadyThere);
        assert_eq!(store.put_if_absent(&name, b"other").unwrap(), Put::AlreadyThere);
        assert_eq!(store.read(&name).unwrap(), bytes);
        store.fetch_to(&name, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), bytes);
    }
    let name = ObjectName::snapshot(DATABASE, SITE, 2);
    assert!(put_file(store, &name, &scratch.file("absent")).is_err());
    assert_missing(store, &name);
    assert_eq!(fs::read(&from).unwrap(), bytes);
    let files = fs::read_dir(&scratch.0).unwrap().count();
    assert_eq!(files, 2, "no temporary file is left");
}

fn prefixes_are_read(store: &dyn Store) {
    let name = ObjectName::batch(DATABASE, SITE, 0, 1);
    store.put_if_absent(&name, b"0123456789").unwrap();
    for max in [0, 1, 4, 9, 10, 11, u64::MAX] {
        let expected = &b"0123456789"[..max.min(10) as usize];
        assert_eq!(store.read_prefix(&name, max).unwrap(), expected);
    }
}

fn objects_are_never_empty(store: &dyn Store) {
    let scratch = Scratch::new();
    fs::write(scratch.file("empty"), b"").unwrap();
    let name = ObjectName::batch(DATABASE, SITE, 0, 1);
    assert!(matches!(store.put_if_absent(&name, b""), Err(Error::EmptyObject { .. })));
    let put = put_file(store, &name, &scratch.file("empty"));
    assert!(matches!(put, Err(Error::EmptyObject { .. })));
    assert_missing(store, &name);
    assert_eq!(store.databases().unwrap(), []);
    assert_eq!(store.put_if_absent(&name, b"x").unwrap(), Put::Created);
}

fn sites_and_ranges_may_overlap(store: &dyn Store) {
    let mut names = Vec::new();
    for site in [Id([1; 16]), Id([2; 16]), Id([0xff; 16])] {
        for (from, upto) in [(0, 5), (0, 7), (3, 9), (5, 7)] {
            names.push(ObjectName::batch(DATABASE, site, from, upto));
        }
    }
    for name in &names {
        let text = name.to_string();
        assert_eq!(store.put_if_absent(name, text.as_bytes()).unwrap(), Put::Created);
    }
    let listed: Vec<_> = store.list(DATABASE, Kind::Batch).unwrap();
    assert_eq!(listed.iter().map(|entry| entry.name).collect::<Vec<_>>(), names);
    for name in &names {
        assert_eq!(store.read(name).unwrap(), name.to_string().as_bytes());
    }
}

fn databases_are_kept_apart(store: &dyn Store) {
    let (one, two, three) = (Id([1; 16]), Id([2; 16]), Id([3; 16]));
    store.put_if_absent(&ObjectName::batch(two, SITE, 0, 1), b"two").unwrap();
    assert_eq!(only_database(store).unwrap(), two);
    assert_missing(store, &ObjectName::batch(one, SITE, 0, 1));
    store.put_if_absent(&ObjectName::snapshot(one, SITE, 1), b"one").unwrap();
    assert_eq!(store.databases().unwrap(), [one, two]);
    assert_eq!(store.list(one, Kind::Batch).unwrap(), []);
    assert_eq!(store.list(two, Kind::Batch).unwrap().len(), 1);
    assert_eq!(store.list(two, Kind::Snapshot).unwrap(), []);
    assert!(find_database(store, one).unwrap() && find_database(store, two).unwrap());
    assert!(matches!(
        only_database(store),
        Err(Error::SeveralDatabases { found, .. }) if found == [one, two]
    ));
    assert!(matches!(
        find_database(store, three),
        Err(Error::DatabaseMismatch { expected, found, .. }) if expected == three && found == [one, two]
    ));
}

fn racing_puts_have_one_winner(store: &dyn Store) {
    const WRITERS: u64 = 8;
    const NAMES: u64 = 24;
    let name = |n| ObjectName::batch(DATABASE, SITE, n, n + 1);
    // Lengths differ, so that a mixture of two writers' bytes cannot pass for one of them.
    let content = |writer: u64| vec![writer as u8; 5_000 + 100 * writer as usize];
    let whole = |bytes: &[u8]| bytes.first().is_some_and(|&w| bytes == content(w.into()));
    let done = AtomicBool::new(false);
    let put = |writer: u64, n: u64| store.put_if_absent(&name(n), &content(writer)).unwrap();
    let write = |writer| (0..NAMES).filter(|&n| put(writer, n) == Put::Created).collect();
    let won: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let start = |writer| scope.spawn(move || write(writer));
        let writers: Vec<_> = (0..WRITERS).map(start).collect();
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for entry in store.list(DATABASE, Kind::Batch).unwrap() {
                    let bytes = store.read(&entry.name).unwrap();
                    assert!(whole(&bytes), "a listed object is whole: {}", entry.name);
                    assert_eq!(bytes.len() as u64, entry.size);
                }
            }
        });
        let won = writers.into_iter().map(|writer| writer.join()).collect::<Vec<_>>();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        won.into_iter().map(|won| won.unwrap()).collect()
    });
    for n in 0..NAMES {
        let winners: Vec<u64> =
            (0..WRITERS).filter(|&writer| won[writer as usize].contains(&n)).collect();
        assert_eq!(winners.len(), 1, "{} was created by {winners:?}", name(n));
        assert_eq!(store.read(&name(n)).unwrap(), content(winners[0]));
    }
    assert_eq!(store.list(DATABASE, Kind::Batch).unwrap().len() as u64, NAMES);
}

/// What others have put since, and nothing else, or again everything; whole objects read from any
/// byte on.
fn changes_are_told(store: &dyn Store) {
    let ask = |after| Ask { database: DATABASE, after, prefix: 8, site: Some(SITE), name: "" };
    assert_eq!(store.changes(ask(None)).unwrap().found, []);
    let (mut names, mut cursor) = (Vec::new(), None);
    for n in 0..5 {
        let batch = ObjectName::batch(DATABASE, SITE, n, n + 1);
        for name in [batch, ObjectName::snapshot(DATABASE, SITE, n + 1)] {
            store.put_if_absent(&name, name.to_string().as_bytes()).unwrap();
            names.push(name);
        }
        let told = store.changes(ask(cursor)).unwrap();
        assert_eq!(told.resumed, cursor.is_some(), "a store with an order resumes");
        let mut expected = names[if told.resumed { names.len() - 2 } else { 0 }..].to_vec();
        expected.sort();
        assert_eq!(told.found.iter().map(|f| f.entry.name).collect::<Vec<_>>(), expected);
        for Found { entry, prefix } in &told.found {
            let text = entry.name.to_string();
            assert_eq!(entry.size, text.len() as u64);
            assert!(prefix.is_empty() || *prefix == text.as_bytes()[..8], "{prefix:?}");
        }
        if let Some(now) = told.cursor {
            assert_eq!(store.changes(ask(Some(now))).unwrap().found, []);
            let elsewhere = Cursor { epoch: Id([0xee; 16]), ..now };
            let again = store.changes(ask(Some(elsewhere))).unwrap();
            assert!(!again.resumed && again.found.len() == names.len());
        }
        cursor = told.cursor;
    }
    let (name, text) = (names[0], names[0].to_string());
    for from in [0, 1, text.len() as u64] {
        let mut rest = String::new();
        store.open_from(&name, from).unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, text[from as usize..]);
    }
    let other = Ask { database: Id([9; 16]), ..ask(None) };
    assert!(matches!(store.changes(other), Err(Error::DatabaseMismatch { .. })));
}

fn put_file(store: &dyn Store, name: &ObjectName, file: &Path) -> Result<Put> {
    let mut last = (0, 0);
    let put =
        store.put_file_if_absent(name, file, None, &mut |done, total| last = (done, total))?;
    assert_eq!(last.0, last.1, "progress ends where the file does");
    Ok(put)
}

fn assert_missing(store: &dyn Store, name: &ObjectName) {
    let scratch = Scratch::new();
    let to = scratch.file("to");
    assert!(matches!(store.open(name).err(), Some(Error::NotFound { name: n }) if n == *name));
    assert!(matches!(store.read(name), Err(Error::NotFound { .. })));
    assert!(matches!(store.read_prefix(name, 1), Err(Error::NotFound { .. })));
    assert!(matches!(store.fetch_to(name, &to), Err(Error::NotFound { .. })));
    assert!(!to.exists());
}

/// A folder for the files of one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("synqlite-store-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::join(&self.0, name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
