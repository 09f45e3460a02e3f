//! Power failures on real file systems: an image is mounted, a workload stops at one of its
//! operations, and what the device holds at that moment is mounted again in a copy. What the file
//! system still kept in memory is lost. (Writes are not reordered; `crash` does that.)
//!
//! Needs root, loop devices, and room for images of 300 MB in memory:
//! `cargo test --release -p synqlite-dash --test it real -- --ignored --nocapture`

use crate::Random;
use crate::lab::{Fault, Lab};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use synqlite_dash::{Found, Mode};

/// Runs a program: whether it succeeds.
pub fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|done| done.status.success())
}

/// A mounted image, unmounted in the end.
pub struct Mounted(pub PathBuf);

impl Mounted {
    /// Mounts an image in an empty folder, if that can be.
    pub fn new(image: &Path, at: &Path) -> Option<Mounted> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        run("mount", &["-o", "loop", &text(image), &text(at)]).then(|| Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[&self.0.to_string_lossy()]);
    }
}

/// Opens the database in a folder.
pub fn connect(folder: &Path, mode: Mode) -> rusqlite::Result<Connection> {
    let path = folder.join("app.db");
    let uri = format!("file:{}?vfs=real&dash={mode}&dash_unsafe=1", path.display());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri, flags)?;
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(db)
}

/// Which transaction a whole database holds.
pub fn counts(db: &Connection) -> Result<i64, String> {
    let said: String =
        db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(|e| e.to_string())?;
    if said != "ok" {
        return Err(format!("integrity_check: {said}"));
    }
    let sql = "SELECT n, (SELECT count(*) FROM t WHERE b >= n) FROM m";
    let (n, same): (i64, i64) =
        db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(|e| e.to_string())?;
    if same == ROWS { Ok(n) } else { Err(format!("{n} mixed with another transaction")) }
}

const ROWS: i64 = 40;
/// A database that every transaction changes on many pages.
pub const SCHEMA: &str = "PRAGMA page_size = 4096; CREATE TABLE m(n INT); INSERT INTO m VALUES(0);
    CREATE TABLE t(a INTEGER PRIMARY KEY, b INT, pad TEXT);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
    INSERT INTO t SELECT i, 0, printf('%.*c', 1500, 'x') FROM n; UPDATE m SET n = 0; UPDATE m SET n = 0";

/// What became of one state: what was found from outside, and what was recovered.
fn state(lab: &Lab, fs: &str, mode: Mode, stop: usize) -> Option<Result<bool, String>> {
    let folder = crate::folder();
    let at = |name: &str| folder.path().join(name);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (image, copy, mount) = (at("image"), at("copy"), at("mount"));
    std::fs::create_dir(&mount).expect("a folder");
    std::fs::File::create(&image).and_then(|f| f.set_len(320 << 20)).expect("an image");
    if !run(&format!("mkfs.{fs}"), &["-q", &text(&image)]) {
        return None;
    }
    let (mut begun, mut acked) = (0, 0);
    {
        let mounted = Mounted::new(&image, &mount)?;
        lab.reset_booted(1);
        let db = connect(&mounted.0, mode).expect("opens");
        db.execute_batch(SCHEMA).expect("a schema");
        run("sync", &[]);
        lab.fail(Some((lab.count() + stop, Fault::Dead)));
        for n in 1..40 {
            begun = n;
            let sql =
                format!("BEGIN; UPDATE m SET n = {n}; UPDATE t SET b = {n} WHERE b < {n}; COMMIT");
            if db.execute_batch(&sql).is_err() {
                break;
            }
            acked = n;
        }
        assert!(acked < 39, "the workload is longer than {stop} operations");
        assert!(run("cp", &["--sparse=always", &text(&image), &text(&copy)]), "copies");
    }
    let mounted = Mounted::new(&copy, &mount)?;
    let allowed = acked..=begun;
    let outside = match Connection::open(mounted.0.join("app.db")) {
        Ok(stock) => counts(&stock),
        Err(error) => Err(error.to_string()),
    };
    lab.reset_booted(2);
    let recovered = connect(&mounted.0, mode).map_err(|e| e.to_string()).and_then(|db| counts(&db));
    let expected = |found: &Result<i64, String>| found.as_ref().is_ok_and(|n| allowed.contains(n));
    let older = outside.as_ref().is_ok_and(|n| *n + 1 >= acked && *n <= begun);
    let kept = match mode.found_by_others() {
        Found::Latest => expected(&outside),
        Found::OneBehind => older,
        Found::Anything => true,
    };
    Some(match expected(&recovered) && kept {
        true => Ok(expected(&outside)),
        false => Err(format!(
            "{fs} {mode} stopped at {stop}: acknowledged {acked}, begun {begun}, from outside \
             {outside:?}, recovered {recovered:?}"
        )),
    })
}

#[test]
#[ignore = "needs root and loop devices"]
fn real_file_systems_keep_what_the_modes_promise() {
    let lab = Lab::default();
    synqlite_dash::register_as("real", Arc::new(lab.clone())).expect("registers");
    let states = std::env::var("SYNQLITE_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for fs in ["ext4", "xfs", "btrfs"] {
        for mode in Mode::ALL {
            let mut random = Random::new(mode as u64);
            let (mut good, mut wrong, mut behind) = (0, 0, 0);
            for _ in 0..states {
                match state(&lab, fs, mode, random.below(250)) {
                    None => break,
                    Some(Ok(latest)) => {
                        good += 1;
                        behind += usize::from(!latest);
                    }
                    Some(Err(why)) => {
                        assert!(!mode.is_safe(), "{why}");
                        wrong += 1;
                    }
                }
            }
            println!(
                "{fs} {mode}: {good} right, of which {behind} not the latest from outside; {wrong} wrong"
            );
            let lost = (fs, mode) != ("ext4", Mode::Paper) || states < 40 || wrong > 0;
            assert!(lost, "the paper's fault was not found");
        }
    }
}
