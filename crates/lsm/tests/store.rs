//! The store as its users see it.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use synqlite_lsm::{Batch, Db, Error, MAX_KEY, MAX_VALUE, Options};

/// Tiny tables, so that a few hundred keys reach every level.
fn small() -> Options {
    Options {
        memtable_size: 2 << 10,
        table_size: 2 << 10,
        block_size: 128,
        level_size: 8 << 10,
        background: false,
        ..Options::default()
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn assert_same(db: &Db, model: &Model) {
    let pairs: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let forward: Result<Vec<_>, _> = db.scan(..).unwrap().collect();
    assert_eq!(forward.unwrap(), pairs);
    let mut back: Vec<_> = db.scan_back(..).unwrap().map(Result::unwrap).collect();
    back.reverse();
    assert_eq!(back, pairs);
    for (key, value) in model {
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
    }
}

#[test]
fn what_was_put_is_there_after_reopening() {
    for options in [small(), Options::default()] {
        let dir = tempfile::tempdir().unwrap();
        let mut model = Model::new();
        for round in 0..4u32 {
            let db = Db::open(dir.path(), options.clone()).unwrap();
            assert_same(&db, &model);
            for i in 0..300u32 {
                let key = format!("key{:04}", i * 7 % 500);
                if (i + round) % 3 == 0 {
                    db.delete(&key).unwrap();
                    model.remove(key.as_bytes());
                } else {
                    let value = format!("{round}-{i}");
                    db.put(&key, &value).unwrap();
                    model.insert(key.into_bytes(), value.into_bytes());
                }
            }
            assert_same(&db, &model);
            if round % 2 == 0 {
                db.close().unwrap();
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u16, u8),
    Delete(u16),
    Batch(Vec<(u16, Option<u8>)>),
    Flush,
    Compact,
    Reopen,
    Snapshot,
    Scan(u16, u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u16..400, any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        4 => (0u16..400).prop_map(Step::Delete),
        2 => prop::collection::vec((0u16..400, any::<Option<u8>>()), 1..30).prop_map(Step::Batch),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Snapshot),
        2 => (0u16..400, 0u16..400).prop_map(|(a, b)| Step::Scan(a, b)),
    ]
}

fn key(k: u16) -> Vec<u8> {
    // Keys of several lengths, some longer than the inlined prefix.
    format!("{}{k:03}", "shared-prefix-of-keys/".split_at(usize::from(k % 23)).0).into_bytes()
}

fn value(v: u8) -> Vec<u8> {
    vec![v; usize::from(v) / 3]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn behaves_like_an_ordered_map(steps in prop::collection::vec(step(), 1..250)) {
        let dir = tempfile::tempdir().unwrap();
        let mut db = Db::open(dir.path(), small()).unwrap();
        let mut model = Model::new();
        let mut snapshots = Vec::new();
        for step in steps {
            match step {
                Step::Put(k, v) => {
                    db.put(key(k), value(v)).unwrap();
                    model.insert(key(k), value(v));
                }
                Step::Delete(k) => {
                    db.delete(key(k)).unwrap();
                    model.remove(&key(k));
                }
                Step::Batch(ops) => {
                    let mut batch = Batch::new();
                    for (k, v) in ops {
                        match v {
                            Some(v) => { batch.put(key(k), value(v)).unwrap(); model.insert(key(k), value(v)); }
                            None => { batch.delete(key(k)).unwrap(); model.remove(&key(k)); }
                        }
                    }
                    db.write(&batch).unwrap();
                }
                Step::Flush => db.flush().unwrap(),
                Step::Compact => db.compact_range(..).unwrap(),
                Step::Reopen => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = Db::open(dir.path(), small()).unwrap();
                }
                Step::Snapshot => snapshots.push((db.snapshot().unwrap(), model.clone())),
                Step::Scan(a, b) => {
                    let (low, high) = (key(a.min(b)).min(key(a.max(b))), key(a.min(b)).max(key(a.max(b))));
                    let want: Vec<_> = model.range(low.clone()..high.clone()).map(|(k, v)| (k.clone(), v.clone())).collect();
                    let got: Vec<_> = db.scan(low.clone()..high.clone()).unwrap().map(Result::unwrap).collect();
                    prop_assert_eq!(&got, &want);
                    let bounds = (Bound::Excluded(low), Bound::Included(high));
                    let want: Vec<_> = model.range(bounds.clone()).rev().map(|(k, v)| (k.clone(), v.clone())).collect();
                    let got: Vec<_> = db.scan_back(bounds).unwrap().map(Result::unwrap).collect();
                    prop_assert_eq!(&got, &want);
                }
            }
        }
        assert_same(&db, &model);
        for (snapshot, model) in snapshots {
            let pairs: Model = snapshot.scan(..).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(&pairs, &model);
            for k in 0..400 {
                prop_assert_eq!(snapshot.get(key(k)).unwrap(), model.get(&key(k)).cloned());
            }
        }
    }
}

#[test]
fn changes_follow_every_write_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let mut newest: BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)> = BTreeMap::new();
    let mut seen = 0;
    let mut follower = Model::new();
    for i in 0..9_000u64 {
        let key = format!("{:05}", i * 7919 % 6000).into_bytes();
        let value = (i % 5 != 0).then(|| i.to_le_bytes().to_vec());
        match &value {
            Some(v) => db.put(&key, v).unwrap(),
            None => db.delete(&key).unwrap(),
        }
        newest.insert(key, (db.sequence(), value));
        if i % 2_500 == 0 {
            match db.changes_since(seen) {
                Ok(changes) => {
                    for change in changes {
                        let change = change.unwrap();
                        assert!(change.sequence > seen, "in order, and only new ones");
                        seen = change.sequence;
                        assert_eq!(
                            newest.get(&change.key),
                            Some(&(change.sequence, change.value.clone()))
                        );
                        match change.value {
                            Some(v) => follower.insert(change.key, v),
                            None => follower.remove(&change.key),
                        };
                    }
                }
                Err(Error::Forgotten { forgotten, .. }) => {
                    assert!(forgotten > seen);
                    follower = db.scan(..).unwrap().map(Result::unwrap).collect();
                    seen = db.sequence();
                }
                Err(e) => panic!("{e}"),
            }
            assert_eq!(follower, db.scan(..).unwrap().map(Result::unwrap).collect::<Model>());
            assert_eq!(seen, db.sequence());
        }
    }
    // More than one pass.
    let all: Vec<_> = db.changes_since(0).unwrap().map(Result::unwrap).collect();
    assert!(all.len() > 4_096 && all.windows(2).all(|w| w[0].sequence < w[1].sequence));
    let live = all.iter().filter(|c| c.value.is_some()).count();
    assert_eq!(live, newest.values().filter(|(_, v)| v.is_some()).count());
}

#[test]
fn prefixes_select_exactly_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    let keys: Vec<Vec<u8>> = vec![
        vec![],
        vec![1],
        vec![1, 255],
        vec![1, 255, 0],
        vec![1, 255, 255],
        vec![2],
        vec![255],
        vec![255, 255],
    ];
    for key in &keys {
        db.put(key, b"").unwrap();
    }
    for prefix in &keys {
        let got: Vec<_> = db.scan_prefix(prefix).unwrap().map(|p| p.unwrap().0).collect();
        let want: Vec<_> = keys.iter().filter(|k| k.starts_with(prefix)).cloned().collect();
        assert_eq!(got, want);
    }
}

#[test]
fn bad_input_is_refused_and_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let (key, value) = (vec![1; MAX_KEY], vec![2; MAX_VALUE]);
    db.put(&key, &value).unwrap();
    assert_eq!(db.get(&key).unwrap(), Some(value.clone()));
    assert!(matches!(db.put(vec![1; MAX_KEY + 1], b""), Err(Error::TooLarge { what: "key", .. })));
    assert!(matches!(
        db.put(b"k", vec![1; MAX_VALUE + 1]),
        Err(Error::TooLarge { what: "value", .. })
    ));
    let mut batch = Batch::new();
    batch.put(b"a", &value).unwrap();
    assert!(matches!(batch.put(b"b", &value), Err(Error::TooLarge { what: "batch", .. })));
    assert!(matches!(db.scan(b"b".to_vec()..b"a".to_vec()), Err(Error::ReversedRange)));
    assert!(matches!(db.scan_back(b"b".to_vec()..b"a".to_vec()), Err(Error::ReversedRange)));
    assert_eq!(db.scan(b"a".to_vec()..b"a".to_vec()).unwrap().count(), 0);
    assert!(matches!(Db::open(dir.path(), Options::default()), Err(Error::Locked { .. })));
    let bad = Options { block_size: 1, ..Options::default() };
    assert!(matches!(Db::open(dir.path(), bad), Err(Error::BadOption { name: "block_size", .. })));
    db.close().unwrap();
    assert!(matches!(db.get(b"a"), Err(Error::Closed)));
    assert!(matches!(db.put(b"a", b""), Err(Error::Closed)));
    assert!(matches!(db.scan(..), Err(Error::Closed)));
    assert!(matches!(db.flush(), Err(Error::Closed)));
    db.close().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    assert_eq!(db.get(&key).unwrap(), Some(value));
}

#[test]
fn folders_that_are_no_store_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let open = |path: &std::path::Path, create| {
        Db::open(path, Options { create, ..Options::default() }).map(|_| ())
    };
    assert!(matches!(open(&missing, false), Err(Error::NotAStore { .. })));
    assert!(!missing.exists());
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter.txt"), "dear").unwrap();
    assert!(matches!(open(&foreign, true), Err(Error::NotAStore { .. })));
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1, "nothing is left behind");
    assert!(matches!(open(&foreign.join("letter.txt"), true), Err(Error::NotAStore { .. })));
}

#[test]
fn a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), small()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    let current = std::fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    let manifest = dir.path().join(current.split(' ').next().unwrap());
    let mut bytes = std::fs::read(&manifest).unwrap();
    bytes[8] += 1;
    std::fs::write(&manifest, &bytes).unwrap();
    let refused = Db::open(dir.path(), small()).map(|_| ());
    assert!(
        matches!(refused, Err(Error::NewerFormat { found: 2, supported: 1, .. })),
        "{refused:?}"
    );
    bytes[8] -= 1;
    std::fs::write(&manifest, &bytes).unwrap();
    assert_eq!(Db::open(dir.path(), small()).unwrap().get("key").unwrap(), Some(b"value".to_vec()));
}

#[test]
fn a_half_deleted_store_is_reported_file_by_file() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = Db::open(dir.path(), small()).unwrap();
        for i in 0..400 {
            db.put(format!("{i:04}"), vec![7; 20]).unwrap();
        }
        // As a killed process leaves it: memory lost, files as they are.
        #[expect(clippy::disallowed_methods, reason = "a killed process closes nothing")]
        std::mem::forget(db);
    }
    let copy = |without: &str| {
        let to = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let name = entry.unwrap().file_name();
            if name != without {
                std::fs::copy(dir.path().join(&name), to.path().join(&name)).unwrap();
            }
        }
        to
    };
    let names: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() > 6, "{names:?}");
    for name in names.iter().filter(|n| *n != "LOCK") {
        let half = copy(name);
        match Db::open(half.path(), small()).map(|_| ()) {
            Err(Error::Missing { path, .. }) => assert!(path.ends_with(name), "{name}: {path:?}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let whole = copy("LOCK");
    assert_eq!(Db::open(whole.path(), small()).unwrap().scan(..).unwrap().count(), 400);
}

#[test]
fn writers_and_readers_share_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options { background: true, ..small() }).unwrap();
    std::thread::scope(|s| {
        for w in 0..3u32 {
            let db = db.clone();
            s.spawn(move || {
                for i in 0..2_000u32 {
                    let mut batch = Batch::new();
                    for part in 0..3 {
                        batch.put(format!("{w}/{part}/{:03}", i % 200), i.to_le_bytes()).unwrap();
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
        for _ in 0..2 {
            let db = db.clone();
            s.spawn(move || {
                for _ in 0..60 {
                    let all: Model = db.scan(..).unwrap().map(Result::unwrap).collect();
                    for (key, value) in &all {
                        let text = String::from_utf8(key.clone()).unwrap();
                        for part in 0..3 {
                            let other = format!("{}/{part}/{}", &text[..1], &text[4..]);
                            assert_eq!(
                                all.get(other.as_bytes()),
                                Some(value),
                                "a batch was seen in part"
                            );
                        }
                    }
                }
            });
        }
    });
    assert_eq!(db.sequence(), 3 * 3 * 2_000);
    assert_eq!(db.scan(..).unwrap().count(), 3 * 3 * 200);
}

#[test]
fn overwriting_and_deleting_leave_little_beside_what_lives() {
    const N: u32 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        memtable_size: 32 << 10,
        table_size: 64 << 10,
        background: false,
        ..Options::default()
    };
    let db = Db::open(dir.path(), options).unwrap();
    let live = f64::from(N) * 110.0;
    let space = || {
        let files = std::fs::read_dir(dir.path()).unwrap();
        files.map(|f| f.unwrap().metadata().unwrap().len() as f64).sum::<f64>() / live
    };
    // Each factor has none in common with N, so every round visits all keys, in another order.
    let mut most: f64 = 0.0;
    for (round, step) in [7919, 104_729, 1_299_709, 15_485_863u64].into_iter().enumerate() {
        for i in 0..u64::from(N) {
            db.put(format!("{:010}", i * step % u64::from(N)), [round as u8; 100]).unwrap();
            if i % 500 == 0 {
                most = most.max(space());
            }
        }
    }
    assert!(most < 1.4, "{most} of the live data at most");
    let written = db.stats().flushed_bytes + db.stats().compacted_bytes;
    assert!((written as f64) < 4.0 * 4.0 * live, "{} times", written as f64 / 4.0 / live);
    for i in 0..u64::from(N) {
        db.delete(format!("{:010}", i * 7919 % u64::from(N))).unwrap();
    }
    assert!(space() < 0.1, "{} is left of everything deleted", space());
}

#[test]
fn a_tiny_memtable_is_not_replaced_before_it_holds_anything() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memtable_size: 1 << 10, ..small() };
    let db = Db::open(dir.path(), options).unwrap();
    db.put("one", [1; 500]).unwrap();
    db.flush().unwrap();
    for i in 0..12u32 {
        db.put(i.to_be_bytes(), "").unwrap();
    }
    assert_eq!(db.stats().flushes.count, 1);
}
