//! Sites that reach each other only through a place behind a network that fails.

use crate::seeds::each;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use synqlite_core::{InitOptions, Replica};
use synqlite_remote::{Outcome, Remote, Session, SyncError};
use synqlite_testkit::exchange::play;
use synqlite_testkit::network::RemoteStore;
use synqlite_testkit::random::Random;
use synqlite_testkit::world::Result;

#[test]
fn sites_converge_over_a_network_that_fails() {
    each(0..30, |seed| {
        let played = play(seed, false)?;
        assert!(played.faults > 0 && played.failed > 0, "nothing failed: {played:?}");
        Ok(())
    });
}

#[test]
fn sites_converge_though_the_place_is_restored_and_loses_objects() {
    each(0..30, |seed| play(seed, true).map(drop));
}

/// Sites of a table with one row, and a store that numbers its objects, where they meet.
struct Meeting {
    folder: tempfile::TempDir,
    remote: Remote,
    session: Session,
}

impl Meeting {
    fn of(names: &[&str]) -> Result<Meeting> {
        let url = "http://simulated/store".to_owned();
        let remote = Remote::Store { store: Arc::new(RemoteStore::default().line(1, 0)), url };
        let (folder, session) =
            (tempfile::tempdir()?, Session::new(Arc::new(synqlite_core::System)));
        let meeting = Meeting { folder, remote, session };
        let first = meeting.path(names[0]);
        Connection::open(&first)?.execute_batch(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES(1, 'base')",
        )?;
        Replica::init(&first, &InitOptions::default(), meeting.session.env.clone())?;
        meeting.open(names[0])?.add_remote("origin", "http://simulated/store", None)?;
        meeting.go(names[0], Remote::sync)?;
        for name in &names[1..] {
            meeting.remote.clone_to(&meeting.path(name), &meeting.session)?;
            meeting.go(name, Remote::sync)?;
        }
        Ok(meeting)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self, name: &str) -> Result<Replica> {
        Ok(Replica::open(&self.path(name), self.session.env.clone())?)
    }

    fn write(&self, name: &str, v: &str) -> Result<()> {
        // Later than what was written before.
        std::thread::sleep(Duration::from_millis(2));
        Connection::open(self.path(name))?.execute("UPDATE t SET v = ?", [v])?;
        Ok(())
    }

    fn go(&self, name: &str, how: How) -> Result<()> {
        how(&self.remote, &mut self.open(name)?, &self.session)?;
        Ok(())
    }

    fn shows(&self, name: &str) -> Result<String> {
        Ok(Connection::open(self.path(name))?.query_row("SELECT v FROM t", [], |row| row.get(0))?)
    }

    /// The values that have given way, each with the one that stayed, as a site tells.
    fn told(&self, name: &str) -> Result<BTreeSet<(String, String)>> {
        let closed = self.open(name)?.closed_conflicts()?;
        let words = |text: &str| -> Option<(String, String)> {
            let mut words = text.split('\'').skip(1).step_by(2).map(str::to_owned);
            Some((words.next()?, words.next()?))
        };
        Ok(closed.iter().filter_map(|closed| words(&closed.what)).collect())
    }
}

/// Pushes, pulls, or does both.
type How = fn(&Remote, &mut Replica, &Session) -> std::result::Result<Outcome, SyncError>;

/// What `b` sends builds on what it had read, which is less than what the others remember of the store.
#[test]
fn what_gives_way_to_one_who_only_pushes_is_told_to_all() -> Result<()> {
    for pushes in [1, 3] {
        let meeting = Meeting::of(&["a", "b", "c"])?;
        meeting.write("a", "AAA")?;
        meeting.go("a", Remote::sync)?;
        meeting.go("a", Remote::sync)?;
        for n in 0..pushes {
            meeting.write("b", &format!("BBB{n}"))?;
            meeting.go("b", Remote::push)?;
        }
        for name in ["a", "c", "b", "a"] {
            meeting.go(name, Remote::sync)?;
        }
        for name in ["a", "b", "c"] {
            let told = meeting.told(name)?;
            assert_eq!(told.iter().filter(|told| told.0 == "AAA").count(), 1, "{name}: {told:?}");
        }
    }
    Ok(())
}

/// What is remembered goes farther back than the last look, and what `b` had seen of it is not told.
#[test]
fn what_somebody_had_seen_does_not_give_way_unseen() -> Result<()> {
    let meeting = Meeting::of(&["a", "b"])?;
    meeting.write("a", "first")?;
    meeting.go("a", Remote::sync)?;
    meeting.go("b", Remote::sync)?;
    for n in 0..3 {
        meeting.write("a", &format!("AAA{n}"))?;
        meeting.go("a", Remote::sync)?;
        meeting.go("a", Remote::sync)?;
    }
    meeting.write("b", "BBB")?;
    meeting.go("b", Remote::push)?;
    meeting.go("a", Remote::sync)?;
    let told = meeting.told("a")?;
    assert_eq!(told, BTreeSet::from([("AAA2".to_owned(), "BBB".to_owned())]));
    Ok(())
}

/// Values of a single cell, each written once. One that no local write took away is shown in the end or told by
/// all, and none is told to have given way to one whose writer had seen it.
#[test]
fn what_gives_way_unseen_is_told_and_nothing_else() {
    each(0..15, |seed| {
        let mut r = Random::new(seed);
        let names = &["a", "b", "c"][..2 + r.index(2)];
        let meeting = Meeting::of(names)?;
        let (mut owed, mut had_seen) = (BTreeSet::new(), BTreeMap::new());
        let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for n in 0..40 {
            let name = names[r.index(names.len())];
            seen.entry(name).or_default().insert(meeting.shows(name)?);
            match r.below(6) {
                0 | 1 => {
                    owed.remove(&meeting.shows(name)?);
                    owed.insert(format!("<{n}>"));
                    had_seen.insert(format!("<{n}>"), seen[name].clone());
                    meeting.write(name, &format!("<{n}>"))?;
                }
                2 | 3 => meeting.go(name, Remote::push)?,
                4 => meeting.go(name, Remote::pull)?,
                _ => meeting.go(name, Remote::sync)?,
            }
            seen.entry(name).or_default().insert(meeting.shows(name)?);
        }
        for name in names.iter().chain(names).chain(names) {
            meeting.go(name, Remote::sync)?;
        }
        let shown = meeting.shows(names[0])?;
        owed.remove(&shown);
        for name in names {
            assert_eq!(meeting.shows(name)?, shown);
            let told = meeting.told(name)?;
            let gone: BTreeSet<String> = told.iter().map(|(gone, _)| gone.clone()).collect();
            assert!(gone.is_superset(&owed), "{name} tells {told:?}, and not all of {owed:?}");
            for (gone, stays) in &told {
                assert!(!had_seen[stays].contains(gone), "{stays} was written over {gone}");
            }
        }
        Ok(())
    });
}
