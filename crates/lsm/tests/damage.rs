//! Flipped bits and cut files: reported with file and offset, never a wrong value and never a
//! silently shorter result; `verify` finds them, `repair` brings back the rest.

use std::collections::BTreeMap;
use std::path::Path;

use synqlite_lsm::{Db, Error, Options, repair, verify};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options {
        memtable_size: 8 << 10,
        table_size: 4 << 10,
        block_size: 512,
        background: false,
        ..Options::default()
    }
}

/// A store with tables on two levels and changes in the log, as a killed process leaves it.
fn killed(dir: &Path) -> Model {
    let mut model = Model::new();
    let db = Db::open(dir, options()).unwrap();
    for i in 0..420u32 {
        let (key, value) = (
            format!("k{:03}", i * 37 % 300).into_bytes(),
            vec![(i % 251) as u8; (i % 90) as usize],
        );
        if i % 11 == 10 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    #[expect(clippy::disallowed_methods, reason = "a killed process closes nothing")]
    std::mem::forget(db);
    model
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn contents(dir: &Path) -> Result<Model, Error> {
    let db = Db::open(dir, Options { create: false, ..options() })?;
    let mut model = Model::new();
    let mut scan = db.scan(..)?;
    while scan.advance()? {
        model.insert(scan.key().to_vec(), scan.value().to_vec());
    }
    for (key, value) in &model {
        assert_eq!(db.get(key)?.as_ref(), Some(value));
    }
    Ok(model)
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n != "LOCK")
        .collect();
    names.sort();
    names
}

/// Damages every file of a store in many places; what `judge` gets is the damaged folder.
fn everywhere(mut judge: impl FnMut(&Path, &Model, &str)) {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("good"), dir.path().join("bad"));
    let model = killed(&dir.path().join("live"));
    copy(&dir.path().join("live"), &good);
    assert_eq!(verify(&good).unwrap().problems.len(), 0);
    let names = files(&good);
    assert!(names.iter().filter(|n| n.ends_with("table")).count() > 2, "{names:?}");
    let mut random = 301u64;
    for name in names {
        let bytes = std::fs::read(good.join(&name)).unwrap();
        let used = bytes.iter().rposition(|b| *b != 0).unwrap() + 1;
        for case in 0..45usize {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % used;
            let mut damaged = bytes.clone();
            let what = if case % 9 == 8 {
                damaged.truncate(at);
                format!("{name} cut at {at}")
            } else {
                damaged[at] ^= 1 << (case % 8);
                format!("{name} flipped at {at}")
            };
            copy(&good, &bad);
            std::fs::write(bad.join(&name), damaged).unwrap();
            judge(&bad, &model, &what);
        }
    }
}

#[test]
fn damage_is_reported_never_wrong_never_silent() {
    let (mut reported, mut unused) = (0, 0);
    everywhere(|dir, model, what| match contents(dir) {
        Ok(found) => {
            assert!(&found == model, "{what}: silently wrong");
            unused += 1;
        }
        Err(Error::Corruption { path, .. }) => {
            assert!(path.starts_with(dir), "{what}");
            reported += 1;
        }
        Err(Error::Missing { .. } | Error::NewerFormat { .. }) => reported += 1,
        // A cut log may end before the length that its records need.
        Err(e) => panic!("{what}: {e}"),
    });
    println!("{reported} reported, {unused} without effect");
    assert!(reported > 5 * unused);
}

#[test]
fn verify_finds_what_reading_would_report() {
    everywhere(|dir, model, what| {
        let report = verify(dir).unwrap();
        if report.problems.is_empty() {
            assert!(&contents(dir).unwrap() == model, "{what}: verify saw nothing");
        }
    });
}

#[test]
fn repair_keeps_what_is_readable() {
    let (mut kept, mut all) = (0, 0);
    everywhere(|dir, model, what| {
        let report = repair(dir).unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = contents(dir).unwrap_or_else(|e| panic!("{what}: after repair: {e}"));
        assert!(verify(dir).unwrap().problems.is_empty(), "{what}");
        if report.problems.is_empty() {
            assert!(&found == model, "{what}: sound, and changed by repair");
        }
        kept += model.iter().filter(|(k, v)| found.get(*k) == Some(v)).count();
        all += model.len();
        // A repaired store is a store.
        let db = Db::open(dir, options()).unwrap();
        db.put(b"new", b"value").unwrap();
        db.close().unwrap();
    });
    println!("{kept} of {all} pairs survived");
    assert!(kept * 10 > all * 9, "{kept} of {all}");
}
