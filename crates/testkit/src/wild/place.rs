//! Where sites meet besides: a folder, or in half of the histories a store that numbers its objects, as a
//! hub does.

use super::play::{Played, Player, engine, harness};
use super::{Action, oracle};
use crate::world::Simulated;
use std::sync::Arc;
use synqlite_core::{Environment as _, Replica};
use synqlite_remote::{Outcome, Remote, Session};

/// The name of a store that numbers.
const URL: &str = "http://simulated/place";

impl Player<'_> {
    /// Whether its objects are numbered: then a site remembers what it has seen of them, and does not look
    /// at that again.
    fn numbers(&self) -> bool {
        self.history.seed >> 6 & 1 == 1
    }

    fn meeting_place(&self) -> Played<Remote> {
        if self.numbers() {
            let store = Arc::new(self.store.line(self.history.seed, 0));
            return Ok(Remote::Store { store, url: URL.to_owned() });
        }
        let folder = self.dir.path().join("folder");
        std::fs::create_dir_all(&folder).map_err(harness)?;
        Remote::parse(&format!("file://{}/", folder.display())).map_err(harness)
    }

    /// A replica that is made of what is there, by somebody who has not been heard of, and what it
    /// exchanges with the place then.
    pub fn newcomer(&mut self) -> Played<(Replica, Outcome)> {
        let remote = self.meeting_place()?;
        let env = Arc::new(Simulated::new(self.history.seed, self.sites.len()));
        env.set(self.sites[0].env.now_ms());
        let session = Session { env: env.clone(), force: true, whole: false };
        let path = self.dir.path().join("new.db");
        remote.clone_to(&path, &session).map_err(engine("clone"))?;
        let mut replica = Replica::open(&path, env).map_err(|e| engine("open")(e.into()))?;
        let outcome = remote.sync(&mut replica, &session).map_err(engine("sync"))?;
        Ok((replica, outcome))
    }

    /// Whether sites meet nowhere else until all has been written: in half of those histories.
    pub(super) fn meets_only_there(&self) -> bool {
        self.numbers() && self.history.seed >> 7 & 1 == 1 && oracle::uses_place(self)
    }

    /// Goes there at a time, at a hub now and then only to bring something, or to get something.
    pub(super) fn drop_in(&mut self, n: usize, ms: i64) -> Played {
        let how = match ms / 1_000 % 3 {
            0 if self.numbers() => Action::Push(n),
            1 if self.numbers() => Action::Pull(n),
            _ => Action::Sync(n),
        };
        self.place(n, &how).map(drop)
    }

    /// Goes there, to do what it else does with another site. There may be nothing to get yet.
    pub fn place(&mut self, n: usize, how: &Action) -> Played<Outcome> {
        let nothing = self.numbers() && self.store.is_empty();
        let how = if nothing { &Action::Sync(n) } else { how };
        let remote = self.meeting_place()?;
        if self.numbers() {
            // Only of a remote with a name is anything remembered.
            let named =
                self.with(n, |mine| match mine.remotes()?.iter().any(|known| known.url == URL) {
                    true => Ok(()),
                    false => mine.add_remote("place", URL, None),
                })?;
            named.map_err(|e| engine("remote add")(e.into()))?;
        }
        let outcome = self.command(n, &remote, how)?;
        oracle::look(self, n)?;
        Ok(outcome)
    }
}
