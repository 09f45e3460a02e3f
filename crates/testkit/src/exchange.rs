//! Histories of sites that reach each other only through a store behind a network that fails.
//!
//! In the end the network is whole. Then all sites must come to hold the same: every row that any of
//! them held before, none of them twice, and of each register the latest write.

use crate::families::{Context, FAMILIES};
use crate::history::START_MS;
use crate::network::RemoteStore;
use crate::random::Random;
use crate::world::{Result, State, World};
use std::collections::BTreeSet;
use std::sync::Arc;
use synqlite_objects::Error;
use synqlite_remote::{Remote, SyncError};
use synqlite_wire::RowChange;

/// The name of the store to all sites.
const URL: &str = "http://simulated/store";
/// A day, after which sites look at a whole store again.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What a history came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    /// Exchanges that were begun while the network failed.
    pub exchanges: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Requests and answers that did not go as they should.
    pub faults: u64,
}

impl Played {
    /// Adds another history.
    pub fn add(&mut self, other: Played) {
        self.exchanges += other.exchanges;
        self.failed += other.failed;
        self.faults += other.faults;
    }
}

/// Plays the history of a seed. With `losing` the store is restored from backups now and then, and
/// loses objects.
pub fn play(seed: u64, losing: bool) -> Result<Played> {
    let mut r = Random::new(seed);
    let family = FAMILIES[r.index(FAMILIES.len())];
    let count = 2 + r.index(4);
    let mut world = World::new(family, count, r.one_in(2), seed)?;
    let store = RemoteStore::default();
    let faults = 2 + r.below(8);
    let remote = |line| Remote::Store { store: Arc::new(line), url: URL.to_owned() };
    let bad: Vec<_> = (0..count).map(|_| remote(store.line(r.any(), faults))).collect();
    let good = remote(store.line(r.any(), 0));
    for site in &mut world.sites {
        site.replica.add_remote("origin", URL, None)?;
    }
    let mut played = Played::default();
    let mut ms = START_MS;
    for n in 0..120 {
        ms += 1_000;
        let site = r.index(count);
        if r.one_in(2) {
            let context = Context { site, n, apart: false, onward: false };
            let sql = family.statement(&mut r, &context);
            world.sites[site].run(&sql, ms)?;
            continue;
        }
        if losing && r.one_in(20) {
            match r.one_in(2) {
                true => store.restore(r.below(101)),
                false => store.lose(&mut r),
            }
        }
        played.exchanges += 1;
        let how = r.below(4);
        let done = world.sites[site].exchange(ms, |replica, session| match how {
            0 => bad[site].push(replica, session),
            1 => bad[site].pull(replica, session),
            _ => bad[site].sync(replica, session),
        });
        // What came before the network failed is merged all the same.
        let done = done.map_err(|e| match e {
            SyncError::Unsent { why, .. } => *why,
            e => e,
        });
        match done {
            Ok(_) => {}
            // The network is to blame, and whatever it cut.
            Err(SyncError::Store(Error::DatabaseMismatch { .. })) => {
                return Err("a mixed-up store".into());
            }
            Err(SyncError::Store(_)) => played.failed += 1,
            Err(e) => return Err(e.into()),
        }
        world.sites[site].check()?;
    }
    played.faults = store.counts().0;
    store.arrive();
    let before: Vec<State> =
        world.sites.iter_mut().map(|site| site.state()).collect::<Result<_>>()?;
    if losing {
        ms += 2 * DAY_MS;
    }
    for round in 0..6 {
        ms += 1_000;
        let mut quiet = true;
        for (i, site) in world.sites.iter_mut().enumerate() {
            let done = site.exchange(ms, |replica, session| good.sync(replica, session))?;
            quiet &= done.sent.bytes + done.received.bytes == 0;
            if round == 5 && !done.waiting.is_empty() {
                return Err(format!("at site {i} something waits: {:?}", done.waiting).into());
            }
            site.check()?;
        }
        if quiet {
            break;
        }
        if round == 5 {
            return Err("the sites go on sending".into());
        }
    }
    same(&mut world, &before)?;
    Ok(played)
}

/// Compares what all sites hold, among them and with what each held before. Vectors may differ by
/// writes that were superseded before they were sent: nobody sends these.
fn same(world: &mut World, before: &[State]) -> Result<()> {
    let want = world.sites[0].state()?;
    for (i, site) in world.sites.iter_mut().enumerate() {
        let state = site.state()?;
        if (&state.rows, &state.changes) != (&want.rows, &want.changes) {
            let differs = |(a, b): &(&RowChange, &RowChange)| a != b;
            let first = state.changes.iter().zip(&want.changes).find(differs);
            return Err(format!("site {i} holds something else than site 0: {first:?}").into());
        }
        let problems = site.replica.verify()?;
        if !problems.is_empty() {
            return Err(format!("site {i}: {problems:?}").into());
        }
    }
    let rid = |change: &RowChange| (change.table, change.rid.clone());
    let known: BTreeSet<_> = before.iter().flat_map(|state| &state.changes).map(rid).collect();
    let found: BTreeSet<_> = want.changes.iter().map(rid).collect();
    if found.len() != want.changes.len() || known != found {
        return Err("rows were lost or doubled".into());
    }
    for (i, state) in before.iter().enumerate() {
        for change in &state.changes {
            let now = want.changes.iter().find(|now| rid(now) == rid(change));
            if !now.is_some_and(|now| holds(now, change)) {
                return Err(format!("a write is lost that site {i} held: {change:?}").into());
            }
        }
    }
    Ok(())
}

/// Whether a row contains all that an earlier state of it had.
fn holds(now: &RowChange, before: &RowChange) -> bool {
    let register = |before: &synqlite_wire::Register| {
        let now = now.registers.iter().find(|now| now.group == before.group);
        now.is_some_and(|now| {
            let counts = before.counts.iter().all(|count| {
                now.counts
                    .iter()
                    .any(|c| c.stamp.site == count.stamp.site && c.stamp >= count.stamp)
            });
            counts && (now.stamp > before.stamp || now == before || now.stamp == before.stamp)
        })
    };
    now.header.join(&before.header) == now.header && before.registers.iter().all(register)
}
