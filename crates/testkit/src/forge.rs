//! Sites among which one forges: it puts batches into the place that are well formed, with right checksums,
//! and say what no site writes.
//!
//! The forger is a member, so it knows all that is published; what a site has not published it cannot know.
//! After each round every honest site synchronizes. No synchronization may fail, take long, or need much
//! memory. Histories are counted in which the honest sites do not hold the same in the end, have lost something
//! that one of them wrote, or in which `verify` finds something.

mod mutate;
mod odd;

use crate::families::{Context, FAMILIES, Family};
use crate::history::START_MS;
use crate::network::RemoteStore;
use crate::random::Random;
use crate::shapes;
use crate::world::{Result, World, blank};
use cpu_time::ThreadTime;
use mutate::Mutation;
use odd::Odd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use synqlite_core::Aside;
use synqlite_objects::{Folder, ObjectName, Store};
use synqlite_remote::Remote;
use synqlite_wire::{
    BatchError, Cell, Delta, GroupShape, Id, Register, Rid, RowChange, SiteId, Stamp,
    VersionVector, batch,
};

const URL: &str = "http://simulated/store";
/// Honest sites; the forger comes after them.
const HONEST: usize = 3;
const ROUNDS: usize = 4;
const FORGED: usize = 6;
/// A body of an honest batch may have many more, of a table of many columns; each takes 300 bytes.
const REGISTERS: usize = 30_000;
/// No synchronization takes longer, of the processor: other programs may be at work.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nor does a history need more memory than this beyond what the process had.
const MEMORY: u64 = 64 << 20;

/// What a history came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    /// Batches that were forged.
    pub forged: u64,
    /// Of those, how many were set aside at the end, by the first site.
    pub aside: u64,
    /// Histories in which the honest sites do not hold the same in the end, or `verify` finds something.
    pub parted: u64,
    /// Those of them in which the forger spoke for itself only, as where tokens are bound to sites.
    pub alone: u64,
    /// The longest synchronization, in milliseconds of the processor.
    pub slowest_ms: u128,
    /// The most memory a history took, in bytes.
    pub memory: u64,
}

impl Played {
    /// Adds another history.
    pub fn add(&mut self, other: Played) {
        self.forged += other.forged;
        self.aside += other.aside;
        self.parted += other.parted;
        self.alone += other.alone;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        self.memory = self.memory.max(other.memory);
    }
}

/// Plays the history of a seed. `tell` hears of each forgery. `only`: names of what is changed, with commas
/// between; all by default. The forger of odd seeds speaks for itself only. With `careful` every
/// synchronization is told of, and how long it took.
#[expect(clippy::too_many_lines, reason = "a history from its beginning to its end")]
pub fn play(
    seed: u64,
    only: Option<&str>,
    careful: bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Played> {
    let is_among = |name: &str| only.is_none_or(|only| only.split(',').any(|one| one == name));
    let kinds: Vec<_> = mutate::ALL.into_iter().filter(|(name, _)| is_among(name)).collect();
    if kinds.is_empty() {
        let all: Vec<_> = mutate::ALL.iter().map(|(name, _)| *name).collect();
        return Err(format!("nothing is forged so; these are: {}", all.join(",")).into());
    }
    let alone = seed % 2 == 1;
    let mut r = Random::new(seed);
    let family = match r.one_in(2) {
        true => FAMILIES[r.index(FAMILIES.len())],
        false => {
            let all = shapes::named(None);
            Family::shaped(all[r.index(all.len())], r.any())
        }
    };
    let before = memory(true);
    let mut world = World::new(family, HONEST + 1, r.one_in(2), seed)?;
    let (place, dir) = (
        RemoteStore::default(),
        tempfile::tempdir_in(world.path("x").parent().unwrap_or("/".as_ref()))?,
    );
    let ordered = r.one_in(2);
    let store: Arc<dyn Store> = match ordered {
        true => Arc::new(place.line(r.any(), 0)),
        false => Arc::new(Folder::new(dir.path())),
    };
    let remote = Remote::Store { store: store.clone(), url: URL.to_owned() };
    for site in &mut world.sites {
        site.replica.add_remote("origin", URL, None)?;
    }
    let mut played = Played::default();
    let (mut ms, mut n) = (START_MS, 0);
    let mut held: Vec<Vec<Row>> = Vec::new();
    for round in 0..ROUNDS {
        for site in 0..=HONEST {
            for _ in 0..3 {
                (ms, n) = (ms + 1_000, n + 1);
                let sql =
                    family.statement(&mut r, &Context { site, n, apart: false, onward: false });
                // One that has the last number of all keeps SQLite from giving another.
                let _ = world.sites[site].run(&sql, ms);
            }
        }
        // The forger knows all that the others have published. What it writes it publishes forged.
        let pulled =
            world.sites[HONEST].exchange(ms, |replica, session| remote.pull(replica, session));
        if let Err(e) = pulled {
            tell(&format!("the forger itself: {e}"));
        }
        for _ in 0..FORGED {
            ms += 1_000;
            let forgery = forge(&mut world, (&kinds, alone), &mut r, ms, n)?;
            tell(&format!("round {round}: {:?} as {}", forgery.how, forgery.name));
            let _ = store.put_if_absent(&forgery.name, &forgery.bytes);
            played.forged += 1;
        }
        for site in 0..HONEST {
            ms += 1_000;
            held.push(rows(&world.sites[site].replica.export(&VersionVector::default(), 0)?.0));
            let since = ThreadTime::now();
            let done = world.sites[site].exchange(ms, |replica, session| {
                session.force = false;
                remote.sync(replica, session)
            });
            let took = since.elapsed();
            played.slowest_ms = played.slowest_ms.max(took.as_millis());
            let done =
                done.map_err(|e| format!("round {round}: site {site} cannot synchronize: {e}"))?;
            if took > PATIENCE {
                return Err(
                    format!("round {round}: site {site} took {} ms", took.as_millis()).into()
                );
            }
            if careful {
                let most = memory(false).saturating_sub(before) >> 20;
                let of = |a: &Aside| format!("{}: {}", a.name.get(90..).unwrap_or_default(), a.why);
                let aside: Vec<String> = done.aside.iter().map(of).collect();
                let aside = aside.join("\n    ");
                tell(&format!("site {site}: {} ms, {most} MiB\n    {aside}", took.as_millis()));
            }
            if site == 0 && round + 1 == ROUNDS {
                played.aside = done.aside.len() as u64;
            }
            world.sites[site].check_integrity()?;
        }
    }
    let settled = settle(&mut world, &remote, ms)?;
    if let Err(why) = if settled { compare(&mut world, &held) } else { Err("it goes on".into()) } {
        played.parted = 1;
        played.alone = u64::from(alone);
        tell(&format!("PARTED: {why}"));
    }
    played.memory = memory(false).saturating_sub(before);
    if played.memory > MEMORY {
        return Err(format!("it took {} MiB", played.memory >> 20).into());
    }
    Ok(played)
}

/// Synchronizes the honest sites until nothing is left to say. Whether that comes.
fn settle(world: &mut World, remote: &Remote, mut ms: i64) -> Result<bool> {
    for round in 0..8 {
        let mut quiet = true;
        for i in 0..HONEST {
            ms += 1_000;
            let done = world.sites[i].exchange(ms, |replica, session| {
                session.force = false;
                remote.sync(replica, session)
            });
            let done = done.map_err(|e| format!("in the end site {i} cannot synchronize: {e}"))?;
            quiet &= done.sent.rows + done.received.rows == 0;
            world.sites[i].check_integrity()?;
        }
        if quiet && round > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn compare(world: &mut World, held: &[Vec<Row>]) -> Result<()> {
    let (mut want, mut shown) = (Vec::new(), Vec::new());
    for i in 0..HONEST {
        let site = &mut world.sites[i];
        let (found, now) =
            (rows(&site.replica.export(&VersionVector::default(), 0)?.0), site.rows()?);
        if i == 0 {
            (want, shown) = (found, now);
        } else if now != shown {
            let first = now.iter().zip(&shown).find(|(a, b)| a != b);
            return Err(format!("site {i} shows something else than site 0: {first:?}").into());
        } else if found != want {
            let first = found.iter().zip(&want).find(|(a, b)| a != b);
            return Err(format!("site {i} holds something else than site 0: {first:?}").into());
        }
        let problems = site.replica.verify()?;
        if !problems.is_empty() {
            return Err(format!("site {i}: {problems:?}").into());
        }
    }
    let now: BTreeMap<(&str, &Rid), &Row> =
        want.iter().map(|row| ((&*row.table, &row.change.rid), row)).collect();
    for row in held.iter().flatten() {
        let kept = now.get(&(&*row.table, &row.change.rid));
        if !kept.is_some_and(|kept| contains(kept, row)) {
            return Err(format!("a write is lost: {row:?}, now {kept:?}").into());
        }
    }
    Ok(())
}

/// Whether a row has come from what it was: each column has the same write as before, or a later one. Columns
/// may have been renamed since; then another that is new has it.
fn contains(now: &Row, before: &Row) -> bool {
    let header = now.change.header.join(&before.change.header) == now.change.header;
    let written = |row: &Row| {
        let mut columns: BTreeMap<String, Stamp> = BTreeMap::new();
        for (group, register) in row.groups.iter().zip(&row.change.registers) {
            for column in &group.columns {
                let latest = columns.entry(column.to_ascii_lowercase()).or_insert(Stamp::ZERO);
                *latest = register.stamp.max(*latest);
            }
        }
        columns
    };
    let (now, before) = (written(now), written(before));
    let kept = before.iter().all(|(c, at)| now.get(c).is_none_or(|now| now >= at));
    let only = |of: &BTreeMap<String, Stamp>, not: &BTreeMap<String, Stamp>| {
        let stamps = of.iter().filter(|(c, _)| !not.contains_key(*c)).map(|(_, at)| *at);
        let mut stamps: Vec<Stamp> = stamps.collect();
        stamps.sort_by(|a, b| b.cmp(a));
        stamps
    };
    let (gone, new) = (only(&before, &now), only(&now, &before));
    let moved = gone.len() <= new.len() && gone.iter().zip(&new).all(|(was, is)| is >= was);
    header && kept && moved
}

/// A row under names, so that it is the same on every site.
#[derive(Debug, PartialEq)]
struct Row {
    table: String,
    groups: Vec<GroupShape>,
    change: RowChange,
}

fn rows(delta: &Delta) -> Vec<Row> {
    let row = |change: &RowChange| {
        let table = &delta.tables[change.table as usize];
        let mut change = RowChange { table: 0, ..change.clone() };
        let mut named: Vec<(GroupShape, Register)> = Vec::new();
        for mut register in change.registers.drain(..) {
            let shape = &table.groups[register.group as usize];
            blank(shape, &mut register.cell);
            register.previous.iter_mut().for_each(|cell: &mut Cell| blank(shape, cell));
            named.push((shape.clone(), register));
        }
        named.sort_by(|(a, _), (b, _)| (&a.columns, &a.refs).cmp(&(&b.columns, &b.refs)));
        let (groups, registers) = named.into_iter().unzip();
        change.registers = registers;
        // Numbers of groups mean something in one delta only.
        change.registers.iter_mut().for_each(|register| register.group = 0);
        Row { table: table.name.to_ascii_lowercase(), groups, change }
    };
    let mut rows: Vec<Row> = delta.rows.iter().map(row).collect();
    rows.sort_by(|a, b| (&a.table, &a.change.rid).cmp(&(&b.table, &b.change.rid)));
    rows
}

/// A forged batch.
struct Forgery {
    how: Vec<&'static str>,
    name: ObjectName,
    bytes: Vec<u8>,
}

fn forge(
    world: &mut World,
    (kinds, alone): (&[(&'static str, Mutation)], bool),
    r: &mut Random,
    ms: i64,
    n: u64,
) -> Result<Forgery> {
    let sites: Vec<SiteId> = world.sites.iter().map(|site| site.replica.site()).collect();
    let database = world.sites[HONEST].replica.database();
    let context = Context { site: HONEST, n: n + 1, apart: false, onward: false };
    let sql = world.statement(r, &context);
    let _ = world.sites[HONEST].run(&sql, ms);
    let (mut delta, position) = world.sites[HONEST].replica.export(&VersionVector::default(), 0)?;
    let line = delta.lines.get(&sites[HONEST]).and_then(|line| line.points.last());
    let mut odd = Odd {
        own: sites[HONEST],
        honest: if alone { vec![] } else { sites[..HONEST].to_vec() },
        latest: delta.upto.get(sites[HONEST]),
        now_ms: ms,
        births: line.map_or(1, |last| last.births),
        r,
    };
    let (mut how, honest) = (Vec::new(), delta.clone());
    for _ in 0..=odd.r.below(3) {
        let (name, mutation) = kinds[odd.r.index(kinds.len())];
        let mut tried = delta.clone();
        mutation(&mut tried, &mut odd);
        mutate::mend(&mut tried);
        let registers = tried.rows.iter().map(|row| row.registers.len()).sum::<usize>();
        if tried.check().is_ok() && tried.rows.len() <= 4_000 && registers <= REGISTERS {
            delta = tried;
            how.push(name);
        }
    }
    mutate::restamp(&honest, &mut delta, &mut odd);
    let prefix = odd.r.one_in(12).then(|| mutate::stranger(&mut odd));
    let writer = if odd.r.one_in(8) { odd.site() } else { sites[HONEST] };
    // Who says that it gives all of its writes up to a time, and withholds some, parts those who believe it
    // from those who have them, and nothing tells. So what is honest comes too.
    let mut parts = batch::Writer::default();
    let mut packed = match parts.add(&delta) {
        Ok(packed) => packed,
        Err(BatchError::Invalid(_)) => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    let (rows, settings, tables) = (honest.rows, honest.settings, honest.tables);
    let told = Vec::new();
    match parts.add(&Delta { rows, settings, tables, told, ..delta.clone() }) {
        Ok(honest) => packed.extend(honest),
        Err(BatchError::Invalid(_)) => {}
        Err(e) => return Err(e.into()),
    }
    let vectors = (&delta.base, &delta.upto, &delta.lines);
    let mut bytes = batch::close(parts.head(database, writer, prefix, vectors), &packed);
    if odd.r.one_in(10) {
        bytes = mutate::garble(&bytes, &mut odd);
        how.push("garbled");
    }
    if odd.r.one_in(20) {
        let at = odd.r.index(bytes.len());
        bytes[at] ^= 1 << odd.r.below(8);
        how.push("flipped");
    }
    let named = if odd.r.one_in(10) { odd.site() } else { writer };
    let near = position.cast_unsigned() * 1_000 + odd.r.below(900);
    let upto = if odd.r.one_in(12) { [0, u64::MAX, i64::MAX as u64][odd.r.index(3)] } else { near };
    let from = upto.saturating_sub(odd.r.below(9) + 1);
    let database = if odd.r.one_in(40) { Id(odd.r.bytes()) } else { database };
    Ok(Forgery { how, name: ObjectName::batch(database, named, from, upto), bytes })
}

/// Bytes of memory that the process has, or had at most since this was last asked with `begin`. 0 where
/// nobody says.
fn memory(begin: bool) -> u64 {
    if begin {
        // Linux begins to look for the most anew.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
