//! What is refused, and what the refusal says; what other programs leave behind; and uses of SQLite
//! that are not statements.

use crate::lab::Lab;
use rusqlite::{Connection, OpenFlags};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use synqlite_dash::Mode;
use synqlite_dash::disk::Kind;

fn connect(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    crate::register();
    let uri = format!("file:{}?vfs=dash&{parameters}", path.display());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}

fn database() -> (tempfile::TempDir, PathBuf) {
    let folder = crate::folder();
    let path = folder.path().join("app.db");
    (folder, path)
}

fn text(db: &Connection, sql: &str) -> Result<String, String> {
    db.query_row(sql, [], |row| row.get(0)).map_err(|e| e.to_string())
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The reason that `PRAGMA dash` gives; nothing else may work then.
fn refusal(path: &Path, parameters: &str) -> String {
    let db = connect(path, parameters).expect("opens, to be able to say why");
    let error = text(&db, "SELECT count(*) FROM sqlite_schema").expect_err("is refused");
    assert!(error.contains("unable to open"), "{error}");
    text(&db, "PRAGMA dash").expect_err("a reason")
}

#[test]
fn the_mode_is_shown_and_wrong_ones_are_refused() {
    let (_folder, path) = database();
    for mode in Mode::ALL {
        let db = connect(&path, &format!("dash={mode}&dash_unsafe=1")).expect("opens");
        assert_eq!(text(&db, "PRAGMA dash").as_deref(), Ok(mode.name()));
        db.execute_batch(&format!("CREATE TABLE \"{mode}\"(a)")).expect("a table");
        let error = db.execute_batch("PRAGMA dash = fast").expect_err("is refused");
        assert!(error.to_string().contains("chosen on opening"), "{error}");
    }
    let db = connect(&path, "").expect("opens");
    assert_eq!(text(&db, "PRAGMA dash").as_deref(), Ok("strict"));
    assert_eq!(number(&db, "SELECT count(*) FROM sqlite_schema"), 6);
    drop(db);
    // In the mode in use, or in none, it opens; in another it says which that is.
    for theirs in [Mode::Strict, Mode::Shadow, Mode::ShadowX] {
        let db = connect(&path, &format!("dash={theirs}")).expect("opens");
        assert_eq!(number(&db, "SELECT count(*) FROM sqlite_schema"), 6);
        let others = [Mode::Strict, Mode::Fast, Mode::Shadow, Mode::ShadowX];
        for asked in others.into_iter().filter(|asked| *asked != theirs) {
            let told = refusal(&path, &format!("dash={asked}"));
            assert!(told.contains(&format!("is open with dash={theirs} elsewhere")), "{told}");
        }
        for same in ["".to_owned(), format!("dash={theirs}")] {
            let other = connect(&path, &same).expect("opens");
            other.busy_timeout(Duration::ZERO).expect("a timeout");
            let looked = text(&other, "SELECT 'a' FROM sqlite_schema");
            let expected = match theirs {
                Mode::ShadowX => Err("database is locked".to_owned()),
                _ => Ok("a".to_owned()),
            };
            assert_eq!(looked, expected, "{theirs} {same}");
        }
    }
    assert!(refusal(&path, "dash=wal").contains("strict, fast, shadow, shadow-x"));
    for memory in ["abc", "-1", "8M", ""] {
        let told = refusal(&path, &format!("dash_memory={memory}"));
        assert!(told.contains(&format!("dash_memory={memory} is no number")), "{told}");
    }
    assert!(refusal(&path, "dash=paper").contains("dash_unsafe=1"));
    assert!(refusal(&path, "dash=paper-x").contains("dash=shadow-x"));
}

#[test]
fn two_modes_at_once_are_refused() {
    let (_folder, path) = database();
    let one = connect(&path, "dash=fast").expect("opens");
    one.execute_batch("CREATE TABLE t(a)").expect("a table");
    let other = connect(&path, "dash=strict").expect("opens");
    text(&other, "SELECT count(*) FROM t").expect_err("is refused");
    let why = text(&other, "PRAGMA dash").expect_err("a reason");
    assert!(why.contains("dash=fast"), "{why}");
    // Who leaves it open joins the others.
    let third = connect(&path, "").expect("opens");
    third.execute_batch("INSERT INTO t VALUES(1)").expect("writes");
    assert_eq!(text(&third, "PRAGMA dash").as_deref(), Ok("fast"));
    drop((one, third));
    assert_eq!(number(&other, "SELECT count(*) FROM t"), 1);
}

#[test]
fn a_write_ahead_log_is_refused() {
    let (_folder, path) = database();
    let db = connect(&path, "").expect("opens");
    db.execute_batch("CREATE TABLE t(a)").expect("a table");
    let error = db.execute_batch("PRAGMA journal_mode = WAL").expect_err("is refused");
    assert!(error.to_string().contains("without vfs=dash"), "{error}");
    db.execute_batch("INSERT INTO t VALUES(1)").expect("goes on");
    for mode in ["truncate", "persist", "memory", "off", "delete"] {
        let now = text(&db, &format!("PRAGMA journal_mode = {mode}"));
        assert_eq!(now.as_deref(), Ok(mode));
        db.execute_batch("INSERT INTO t VALUES(1)").expect("goes on");
    }
    drop(db);
    let stock = Connection::open(&path).expect("opens");
    assert_eq!(number(&stock, "SELECT count(*) FROM t"), 6);
    assert_eq!(text(&stock, "PRAGMA journal_mode = WAL").as_deref(), Ok("wal"));
    stock.execute_batch("INSERT INTO t VALUES(1)").expect("writes");
    drop(stock);
    assert!(refusal(&path, "").contains("PRAGMA journal_mode=DELETE"));
    let stock = Connection::open(&path).expect("opens");
    assert_eq!(text(&stock, "PRAGMA journal_mode = DELETE").as_deref(), Ok("delete"));
    drop(stock);
    let db = connect(&path, "").expect("opens");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 7);
    db.execute_batch("INSERT INTO t VALUES(1)").expect("writes");
}

#[test]
fn an_unknown_file_system_is_refused() {
    let (_folder, path) = database();
    let lab = Lab::default();
    synqlite_dash::register_as("network", Arc::new(lab.clone())).expect("registers");
    lab.reset(HashMap::new(), Kind::Unknown(0x6969));
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=network", path.display());
    let db = Connection::open_with_flags(uri, flags).expect("opens, to be able to say why");
    db.execute_batch("CREATE TABLE t(a)").expect_err("is refused");
    let why = text(&db, "PRAGMA dash").expect_err("a reason");
    assert!(why.contains("0x6969") && why.contains("without vfs=dash"), "{why}");
}

#[test]
fn a_file_system_that_cannot_exchange_names_is_refused() {
    let (_folder, path) = database();
    let lab = Lab::default();
    synqlite_dash::register_as("unequal", Arc::new(lab.clone())).expect("registers");
    lab.reset_real();
    Connection::open(&path).expect("opens").execute_batch("CREATE TABLE t(a)").expect("a table");
    lab.fail(Some((0, crate::lab::Fault::NoExchange)));
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=unequal", path.display());
    let db = Connection::open_with_flags(uri, flags).expect("opens");
    db.execute_batch("INSERT INTO t VALUES(1)").expect_err("is refused");
    let why = text(&db, "PRAGMA dash").expect_err("a reason");
    assert!(why.contains("cannot exchange") && why.contains("without vfs=dash"), "{why}");
    assert_eq!(number(&db, "SELECT count(*) FROM t"), 0);
    drop(db);
    let stock = Connection::open(&path).expect("opens");
    stock.execute_batch("INSERT INTO t VALUES(1)").expect("goes on without it");
    assert_eq!(text(&stock, "PRAGMA integrity_check").as_deref(), Ok("ok"));
}

#[test]
fn what_is_allowed_with_a_database_stays_so_when_another_file_takes_its_place() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_safe()) {
        let (_folder, path) = database();
        let db = connect(&path, &format!("dash={mode}")).expect("opens");
        db.execute_batch("CREATE TABLE t(a)").expect("a table");
        let given = chown(&path, Some(12345), Some(54321)).is_ok();
        for wanted in [0o600, 0o640, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).expect("allows");
            for _ in 0..3 {
                db.execute_batch("INSERT INTO t VALUES(1)").expect("writes");
                let found = fs::metadata(&path).expect("there");
                assert_eq!(found.mode() & 0o7777, wanted, "{mode}");
                assert!(!given || (found.uid(), found.gid()) == (12345, 54321), "{mode}");
            }
        }
    }
}

#[test]
fn a_file_in_the_way_of_the_shadow_is_never_written_to() {
    let (folder, path) = database();
    let shadow = folder.path().join("app.db-shadow");
    // Another database.
    let other = Connection::open(&shadow).expect("opens");
    other.execute_batch("CREATE TABLE mine(a); INSERT INTO mine VALUES(1)").expect("writes");
    let db = connect(&path, "").expect("opens");
    db.execute_batch("CREATE TABLE t(a)").expect_err("is refused");
    let why = text(&db, "PRAGMA dash").expect_err("a reason");
    assert!(why.contains("a database of its own"), "{why}");
    assert_eq!(number(&other, "SELECT a FROM mine"), 1);
    drop((other, db));
    assert!(refusal(&shadow, "").contains("a name for shadow files"));
    // Something else.
    fs::write(&shadow, b"notes").expect("writes");
    let db = connect(&path, "").expect("opens");
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(5)").expect("writes");
    assert_eq!(fs::read(folder.path().join("app.db-shadow.aside1")).expect("there"), b"notes");
    drop(db);
    // A shadow of another pair.
    let foreign = crate::folder();
    let stranger = foreign.path().join("app.db");
    let db = connect(&stranger, "").expect("opens");
    db.execute_batch("CREATE TABLE s(a); INSERT INTO s VALUES(1); DELETE FROM s").expect("writes");
    drop(db);
    fs::remove_file(&shadow).expect("removes");
    fs::copy(foreign.path().join("app.db-shadow"), &shadow).expect("copies");
    let db = connect(&path, "").expect("opens");
    assert_eq!(number(&db, "SELECT a FROM t"), 5);
    db.execute_batch("UPDATE t SET a = 6; UPDATE t SET a = 7").expect("writes");
    drop(db);
    assert!(folder.path().join("app.db-shadow.aside2").exists());
    assert_eq!(number(&connect(&path, "").expect("opens"), "SELECT a FROM t"), 7);
}

#[test]
fn damaged_or_missing_companions_are_made_anew() {
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_safe()) {
        let (folder, path) = database();
        let parameters = format!("dash={mode}");
        let open = || connect(&path, &parameters).expect("opens");
        open().execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(0)").expect("writes");
        for n in 1..9_i64 {
            let file = folder.path().join(["app.db-shadow", "app.db-dash"][n as usize % 2]);
            match n / 2 % 3 {
                0 => fs::remove_file(&file).expect("removes"),
                1 => {
                    let mut bytes = fs::read(&file).expect("reads");
                    let at = bytes.len() - 100;
                    bytes[at..].fill(7);
                    bytes[..20].fill(9);
                    fs::write(&file, bytes).expect("writes");
                }
                _ => fs::write(&file, b"").expect("writes"),
            }
            let db = open();
            assert_eq!(number(&db, "SELECT max(a) FROM t"), n - 1, "{mode}");
            db.execute("INSERT INTO t VALUES(?1)", [n]).expect("writes");
            db.execute("UPDATE t SET a = a", []).expect("writes");
            assert_eq!(text(&db, "PRAGMA integrity_check").as_deref(), Ok("ok"));
        }
        assert_eq!(number(&open(), "SELECT count(*) FROM t"), 9);
    }
}

#[test]
fn a_hot_journal_of_another_program_is_played_back() {
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_safe()) {
        for (ours_before, exclusive) in [(false, false), (true, false), (true, true)] {
            let (folder, path) = database();
            let parameters = format!("dash={mode}");
            let schema = "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
                          INSERT INTO t(b) SELECT hex(randomblob(900)) FROM json_each('[1,2,3,4,5,6,7,8]')";
            if ours_before {
                let db = connect(&path, &parameters).expect("opens");
                db.execute_batch(schema).expect("a schema");
            } else {
                Connection::open(&path).expect("opens").execute_batch(schema).expect("a schema");
            }
            // A stock program dies in the middle of a transaction that it has begun to write.
            let journal = folder.path().join("app.db-journal");
            let stock = Connection::open(&path).expect("opens");
            stock
                .execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE t SET b = 'gone'")
                .expect("writes");
            stock
                .execute_batch("INSERT INTO t(b) SELECT hex(randomblob(900)) FROM t")
                .expect("writes");
            let left = (fs::read(&path).expect("there"), fs::read(&journal).expect("there"));
            drop(stock);
            fs::write(&path, &left.0).expect("writes");
            fs::write(&journal, &left.1).expect("writes");
            let db = connect(&path, &parameters).expect("opens");
            if exclusive {
                db.execute_batch("PRAGMA locking_mode = EXCLUSIVE").expect("a pragma");
            }
            assert_eq!(number(&db, "SELECT count(*) FROM t WHERE b = 'gone'"), 0, "{mode}");
            assert_eq!(number(&db, "SELECT count(*) FROM t"), 8, "{mode}");
            let done = fs::read(&journal).map_or(true, |left| left.first().is_none_or(|b| *b == 0));
            assert!(done, "{mode}: the journal is played back");
            let inode =
                || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).expect("there"));
            for _ in 0..3 {
                let before = inode();
                db.execute_batch("INSERT INTO t(b) VALUES('new')").expect("writes");
                assert_ne!(inode(), before, "{mode}: the next transaction goes to the shadow");
            }
            assert_eq!(text(&db, "PRAGMA integrity_check").as_deref(), Ok("ok"));
            drop(db);
            assert_eq!(
                number(&Connection::open(&path).expect("opens"), "SELECT count(*) FROM t"),
                11
            );
        }
    }
}

/// A connection knows that its own database has no journal. Of another one of that name it knows
/// nothing.
#[test]
fn a_hot_journal_of_a_database_put_in_the_place_of_an_open_one_is_played_back() {
    let (folder, path) = database();
    let old = connect(&path, "").expect("opens");
    old.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").expect("writes");
    assert_eq!(number(&old, "SELECT a FROM t"), 1);
    let other = folder.path().join("other.db");
    let stock = Connection::open(&other).expect("opens");
    stock
        .execute_batch(
            "CREATE TABLE t(a, b); INSERT INTO t SELECT 7, hex(zeroblob(2000)) FROM
             json_each('[1,2,3,4,5,6,7,8]'); PRAGMA cache_size = 1; BEGIN; UPDATE t SET a = 8, b = 1",
        )
        .expect("writes");
    let journal = folder.path().join("other.db-journal");
    let left = (fs::read(&other).expect("there"), fs::read(&journal).expect("there"));
    drop(stock);
    for name in ["app.db", "app.db-shadow", "app.db-dash"] {
        fs::remove_file(folder.path().join(name)).expect("removes");
    }
    fs::write(&path, &left.0).expect("writes");
    fs::write(folder.path().join("app.db-journal"), &left.1).expect("writes");
    let new = connect(&path, "").expect("opens");
    assert_eq!(number(&new, "SELECT sum(a) FROM t"), 56);
    assert_eq!(text(&new, "PRAGMA integrity_check").as_deref(), Ok("ok"));
    assert_eq!(number(&old, "SELECT a FROM t"), 1, "its own database, which has no name any more");
}

/// A log that lies beside a database when it is opened is asked about, and refused.
#[test]
fn a_log_of_another_program_is_noticed() {
    let (folder, path) = database();
    let db = connect(&path, "").expect("opens");
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").expect("writes");
    drop(db);
    let log = folder.path().join("app.db-wal");
    fs::write(&log, b"log").expect("writes");
    let db = connect(&path, "").expect("opens");
    text(&db, "SELECT a FROM t").expect_err("is refused");
    fs::remove_file(&log).expect("removes");
    assert_eq!(number(&db, "SELECT a FROM t"), 1);
    db.execute_batch("UPDATE t SET a = 2; UPDATE t SET a = 3").expect("writes");
    assert_eq!(number(&db, "SELECT a FROM t"), 3);
}

#[test]
fn reading_only_follows_the_exchanges_and_writes_nothing() {
    for mode in ["strict", "fast", "shadow"] {
        let (_folder, path) = database();
        let writer = connect(&path, &format!("dash={mode}")).expect("opens");
        writer.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(0)").expect("writes");
        let reader = connect(&path, &format!("dash={mode}&mode=ro")).expect("opens");
        for n in 1..6 {
            writer.execute("UPDATE t SET a = ?1", [n]).expect("writes");
            assert_eq!(number(&reader, "SELECT a FROM t"), n);
        }
        let error = reader.execute_batch("UPDATE t SET a = 0").expect_err("is refused");
        assert!(error.to_string().contains("readonly"), "{error}");
        drop(writer);
        assert_eq!(number(&reader, "SELECT a FROM t"), 5);
    }
}

#[test]
fn copies_go_both_ways() {
    let (folder, path) = database();
    let db = connect(&path, "").expect("opens");
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t SELECT value FROM json_each('[1,2,3]')")
        .expect("writes");
    let copy = folder.path().join("copy.db");
    db.backup("main", &copy, None).expect("backs up");
    assert_eq!(number(&Connection::open(&copy).expect("opens"), "SELECT sum(a) FROM t"), 6);
    db.execute_batch("DELETE FROM t").expect("writes");
    // Into a file of ours, with another size of pages.
    let stock = Connection::open_in_memory().expect("opens");
    stock
        .execute_batch(
            "PRAGMA page_size = 8192; CREATE TABLE u(b);
             INSERT INTO u SELECT hex(randomblob(3000)) FROM json_each('[1,2,3,4,5,6,7,8,9]')",
        )
        .expect("writes");
    let mut db = db;
    let step = rusqlite::backup::Backup::new(&stock, &mut db).expect("begins");
    step.run_to_completion(2, std::time::Duration::ZERO, None).expect("restores");
    drop(step);
    assert_eq!(number(&db, "SELECT count(*) FROM u"), 9);
    db.execute_batch("INSERT INTO u VALUES(1)").expect("writes");
    let into = folder.path().join("into.db");
    db.execute("VACUUM INTO ?1", [format!("file:{}?vfs=dash", into.display())]).expect("copies");
    drop(db);
    assert_eq!(number(&connect(&into, "").expect("opens"), "SELECT count(*) FROM u"), 10);
    assert_eq!(
        text(&connect(&path, "").expect("opens"), "PRAGMA integrity_check").as_deref(),
        Ok("ok")
    );
}

#[test]
fn every_page_size_and_huge_transactions() {
    for mode in Mode::ALL {
        for size in (9..=16).map(|bits| 1 << bits) {
            let (_folder, path) = database();
            let db = connect(&path, &format!("dash={mode}&dash_unsafe=1")).expect("opens");
            db.execute_batch(&format!(
                "PRAGMA page_size = {size}; CREATE TABLE t(a INTEGER PRIMARY KEY, b); PRAGMA cache_size = 3"
            ))
            .expect("a table");
            for _ in 0..3 {
                db.execute_batch(
                    "INSERT INTO t(b) SELECT hex(randomblob(200)) FROM json_each('[1,2,3,4]'), \
                    json_each('[1,2,3,4]'), json_each('[1,2,3]')",
                )
                .expect("writes");
            }
            let next = if size == 65536 { 512 } else { size * 2 };
            db.execute_batch(&format!(
                "PRAGMA page_size = {next}; VACUUM; DELETE FROM t WHERE a % 2 = 0"
            ))
            .expect("another size");
            assert_eq!(number(&db, "PRAGMA page_size"), next);
            drop(db);
            let stock = Connection::open(&path).expect("opens");
            assert_eq!(
                text(&stock, "PRAGMA integrity_check").as_deref(),
                Ok("ok"),
                "{mode} {size}"
            );
            assert_eq!(number(&stock, "SELECT count(*) FROM t"), 72);
        }
        // More than is kept in memory, of the database and of its journal.
        let (_folder, path) = database();
        let db = connect(&path, &format!("dash={mode}&dash_unsafe=1")).expect("opens");
        let rows =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 7000) ";
        db.execute_batch(&format!(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b); {rows} INSERT INTO t(b) SELECT zeroblob(3000) FROM n"
        ))
        .expect("writes");
        db.execute_batch("BEGIN; UPDATE t SET b = randomblob(3000); ROLLBACK").expect("rolls back");
        assert_eq!(number(&db, "SELECT count(*) FROM t WHERE b = zeroblob(3000)"), 7000, "{mode}");
        // More scattered pages than a trailer can list.
        db.execute_batch("UPDATE t SET b = randomblob(3000) WHERE a % 10 = 0").expect("writes");
        db.execute_batch("UPDATE t SET b = 'short' WHERE a % 14 = 0").expect("writes");
        db.execute_batch(
            "UPDATE t SET b = zeroblob(3000) WHERE a % 6 = 0; DELETE FROM t WHERE a > 6990",
        )
        .expect("writes");
        let sums = "SELECT total(length(b)) + count(*) FROM t";
        let sum = number(&db, &format!("SELECT CAST(({sums}) AS INTEGER)"));
        drop(db);
        let stock = Connection::open(&path).expect("opens");
        assert_eq!(text(&stock, "PRAGMA integrity_check").as_deref(), Ok("ok"), "{mode}");
        assert_eq!(number(&stock, &format!("SELECT CAST(({sums}) AS INTEGER)")), sum);
    }
}

#[test]
fn the_database_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = database();
    Connection::open(&path).expect("opens").execute_batch("CREATE TABLE t(a)").expect("a table");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("sets");
    let db = connect(&path, "").expect("opens");
    for _ in 0..3 {
        db.execute_batch("INSERT INTO t VALUES(1)").expect("writes");
        for name in ["app.db", "app.db-shadow", "app.db-dash"] {
            let mode = fs::metadata(folder.path().join(name)).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
}

#[test]
fn a_symbolic_link_leads_to_the_same_files() {
    let (folder, path) = database();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).expect("links");
    let one = connect(&path, "").expect("opens");
    one.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").expect("writes");
    let other = connect(&link, "").expect("opens");
    other.execute_batch("UPDATE t SET a = 2").expect("writes");
    assert_eq!(number(&one, "SELECT a FROM t"), 2);
    assert!(link.is_symlink() && !folder.path().join("link.db-shadow").exists());
}

#[test]
fn a_copy_of_another_history_put_back_is_not_mixed_with_the_shadow() {
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_safe()) {
        let (_folder, path) = database();
        let open = || connect(&path, &format!("dash={mode}")).expect("opens");
        let write = |from: i64, to: i64| {
            let db = open();
            for n in from..=to {
                db.execute("UPDATE t SET b = ?1 WHERE a = ?2", (n, n % 10)).expect("writes");
            }
        };
        open()
            .execute_batch(
                "CREATE TABLE t(a INTEGER PRIMARY KEY, b, pad);
                 INSERT INTO t SELECT value, 0, hex(zeroblob(1900)) FROM json_each('[0,1,2,3,4,5,6,7,8,9]')",
            )
            .expect("a schema");
        write(1, 3);
        let early = fs::read(&path).expect("reads");
        write(4, 5);
        let late = fs::read(&path).expect("reads");
        // Another history of the same versions, then back to the first.
        fs::write(&path, &early).expect("puts back");
        write(106, 107);
        fs::write(&path, &late).expect("puts back");
        write(8, 8);
        let db = open();
        let found = text(&db, "SELECT group_concat(b) FROM t").expect("rows");
        assert_eq!(found, "0,1,2,3,4,5,0,0,8,0", "{mode}");
        assert_eq!(text(&db, "PRAGMA integrity_check").as_deref(), Ok("ok"));
    }
}

#[test]
fn a_new_database_of_the_same_name_is_not_mixed_with_an_old_shadow() {
    let lab = Lab::default();
    synqlite_dash::register_as("renewed", Arc::new(lab.clone())).expect("registers");
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_safe()) {
        let folder = tempfile::tempdir().expect("a folder on a disk");
        let path = folder.path().join("app.db");
        let uri = format!("file:{}?vfs=renewed&dash={mode}", path.display());
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        lab.reset_booted(1);
        let db = Connection::open_with_flags(&uri, flags).expect("opens");
        db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1); INSERT INTO t VALUES(1)")
            .expect("writes");
        // The machine stops, and starts again; somebody makes another database of that name.
        lab.fail(Some((lab.count(), crate::lab::Fault::Dead)));
        drop(db);
        fs::remove_file(&path).expect("removes");
        let stock = Connection::open(&path).expect("opens");
        stock.execute_batch("CREATE TABLE other(b); INSERT INTO other VALUES(7)").expect("writes");
        drop(stock);
        lab.reset_booted(2);
        let db = Connection::open_with_flags(&uri, flags).expect("opens");
        assert_eq!(number(&db, "SELECT b FROM other"), 7, "{mode}");
        db.execute_batch("INSERT INTO other VALUES(8); UPDATE other SET b = b").expect("writes");
        assert_eq!(text(&db, "PRAGMA integrity_check").as_deref(), Ok("ok"), "{mode}");
    }
}
