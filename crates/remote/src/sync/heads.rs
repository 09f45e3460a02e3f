//! What a remote store holds, known from names and headers alone.
//!
//! A site's position only grows, and so does what it has seen. So the newest batch or snapshot of a
//! site covers all older ones, and a reader that goes through a site's objects by name, from the
//! newest to the oldest, may stop at the first that brings nothing new.

use super::contained::{Contained, Rise};
use super::memory::{Memory, Since};
use super::object_log::ObjectLog;
use super::plan::Plan;
use super::{Result, SyncError, Waiting};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_core::Aside;
use synqlite_objects::{Changes, Cursor, Entry, Fingerprint, Found, Kind, Mark, ObjectName, Store};
use synqlite_objects::{SnapshotHead, SnapshotHeader, decode_snapshot_head, peek_snapshot};
use synqlite_wire::batch::{self, HEADER_PREFIX};
use synqlite_wire::{BatchError, BatchHeader, Hlc, Line, PrefixHash, SiteId, VersionVector};

/// Which batches need not be looked at.
pub enum Known<'a> {
    /// Those that bring nothing to whoever has seen this.
    Seen(&'a VersionVector),
    /// Those that the snapshots of the store contain.
    Snapshots,
}

/// What a store holds of one database.
#[derive(Default)]
pub struct Heads {
    /// What the store is remembered to contain, apart from what is listed here.
    pub base: VersionVector,
    /// Whether only what came after that was looked at.
    pub resumed: bool,
    /// What is remembered, if that was so.
    pub memory: Option<Memory>,
    /// Where an object ends that the site put after that and that may be gone; 0 if none is.
    pub lost: u64,
    /// Whether what came after does not go on from what is remembered: all of it must be looked at.
    pub torn: bool,
    /// Up to where this is complete, if the store numbers its objects.
    pub cursor: Option<Cursor>,
    /// Of the object there, if the store tells one.
    pub print: Option<Fingerprint>,
    /// The row of its objects, if the store numbers them.
    pub row: Option<ObjectLog>,
    /// How many objects were listed.
    pub listed: usize,
    /// What came after the newest snapshot.
    pub since: Since,
    /// When the whole store was last looked at.
    pub looked: i64,
    /// Snapshots that can be read, in the order of the list; of each site the newest, where that has
    /// no meaning.
    pub snapshots: Vec<Snapshot>,
    /// Batches not known, in the order of the list.
    pub batches: Vec<Batch>,
    /// Batches not known whose header, or length, is not as it should be.
    pub flawed: Vec<Flawed>,
    /// What the newest of the known batches of each site contain.
    known: VersionVector,
    /// The latest position of each site in any name.
    ends: BTreeMap<SiteId, u64>,
}

/// A batch in a store.
#[derive(Clone)]
pub struct Batch {
    /// Its name.
    pub name: ObjectName,
    /// What it says of itself.
    pub header: BatchHeader,
    /// What it builds on, under the site ids of this replica.
    pub base: VersionVector,
    /// What it leads to, likewise.
    pub upto: VersionVector,
    /// Its index in the row.
    pub index: Option<usize>,
    /// Its beginning, as far as it came along with its name.
    pub prefix: Vec<u8>,
}

/// A snapshot in a store.
pub struct Snapshot {
    /// Its name, and length in the store.
    pub entry: Entry,
    /// What it says briefly.
    pub head: SnapshotHead,
    /// All that it says of itself, if that was needed. Site ids of vectors are those of this replica.
    pub header: Option<SnapshotHeader>,
    /// Its index in the row.
    pub index: Option<usize>,
}

impl Snapshot {
    /// What it contains, beside what its prefix hash stands for if no more of it was read.
    fn contains(&self) -> &VersionVector {
        self.header.as_ref().map_or(&self.head.beyond, |header| &header.vector)
    }

    /// The latest write that it is known to contain.
    pub fn latest(&self) -> Hlc {
        self.contains().latest()
    }
}

/// A batch that cannot be used, as far as its header tells.
pub struct Flawed {
    /// Its name.
    pub name: ObjectName,
    /// Its index in the row.
    pub index: Option<usize>,
    /// What it would lead to, if its header tells.
    upto: Option<VersionVector>,
    /// What is wrong with it.
    why: Flaw,
}

/// What is wrong with an object.
pub enum Flaw {
    /// It is not there in full.
    HalfWritten,
    /// It cannot be merged. To whom it may concern: the table, why, and what to do.
    Bad(String, String, String),
}

/// What to do about an object of no use.
const REMOVE: &str =
    "Remove it from the remote if it stays so: a site that has its changes sends them again";

impl Flaw {
    /// Of bytes that cannot be read.
    pub fn of(why: BatchError) -> Flaw {
        match why {
            BatchError::Truncated { .. } => Flaw::HalfWritten,
            BatchError::Newer { .. } => {
                Flaw::Bad(String::new(), why.to_string(), "Update synqlite".into())
            }
            why => Flaw::Bad(String::new(), why.to_string(), REMOVE.into()),
        }
    }

    /// Of changes that the engine refused.
    pub fn refused(why: &synqlite_core::Error) -> Flaw {
        let table = match why {
            synqlite_core::Error::InvalidDelta(why) => why.table().unwrap_or_default(),
            synqlite_core::Error::Constraint { table, .. } => table,
            _ => "",
        };
        let hint = why.hint().unwrap_or_else(|| REMOVE.into());
        Flaw::Bad(table.to_owned(), why.to_string(), hint)
    }

    /// Of a sealed object that does not open.
    pub fn sealed() -> Flaw {
        let why = "it does not open: it was altered, or is another object under this name";
        Flaw::Bad(String::new(), why.to_owned(), REMOVE.into())
    }

    /// Of a snapshot.
    pub fn snapshot(why: &SyncError) -> Flaw {
        if matches!(why, SyncError::Store(synqlite_objects::Error::Unsealable { .. })) {
            return Flaw::sealed();
        }
        Flaw::Bad(String::new(), why.to_string(), REMOVE.into())
    }
}

/// Says what a vector of another site means under the site ids of this replica.
pub type Resolve<'a> = &'a dyn Fn(&VersionVector) -> Result<VersionVector>;

impl Heads {
    /// Goes on from what was remembered of the store.
    fn resume(&mut self, memory: &Memory, names: &[ObjectName]) {
        self.resumed = true;
        self.base = memory.contains.clone();
        self.since = memory.since;
        self.looked = memory.looked;
        let gone = memory.sent > self.end_of(memory.site);
        self.lost = if gone { memory.sent } else { 0 };
        let end = self.ends.entry(memory.site).or_default();
        let sent = if memory.sent == Memory::MORE { 0 } else { memory.sent };
        *end = memory.end.max(sent).max(*end);
        self.row = Some(ObjectLog::resumed(memory.trail.clone(), names));
    }

    /// Whether a store that has `mark` at the cursor is still the one that is remembered. One that was put
    /// back to an older copy under the same epoch is not.
    fn goes_on(&self, memory: &Memory, mark: Mark, print: Option<Fingerprint>) -> bool {
        let same = memory.print.is_none() || print.is_none() || memory.print == print;
        match mark {
            Mark::Untold => true,
            Mark::Object(name) => same && memory.trail.ends_with(&name),
            // What a snapshot covers goes, and that comes after it.
            Mark::Nothing => {
                self.snapshots.iter().any(|snapshot| self.index(snapshot.head.after).is_some())
            }
        }
    }

    /// Looks at what a store told of itself, at the time `now`. If it told only of what came after
    /// `memory`, that counts; otherwise `known` does.
    pub fn read(
        store: &dyn Store,
        changes: Changes,
        memory: Option<Memory>,
        known: Known<'_>,
        now: i64,
        resolve: Resolve<'_>,
    ) -> Result<Heads> {
        let Changes { found, cursor, resumed, mark, prints: [before, print] } = changes;
        let (looked, listed) = (now, found.len());
        let mut heads = Heads { cursor, print, looked, listed, ..Heads::default() };
        let names: Vec<ObjectName> = found.iter().map(|found| found.entry.name).collect();
        names.iter().for_each(|name| heads.end(name));
        let memory = memory.filter(|_| resumed);
        if let Some(memory) = &memory {
            heads.resume(memory, &names);
        }
        let unread = heads.read_snapshots(store, &found, resolve)?;
        heads.torn |= memory.as_ref().is_some_and(|memory| !heads.goes_on(memory, mark, before));
        if heads.row.is_none() && cursor.is_some() {
            let headers = heads.snapshots.iter().filter_map(|snapshot| snapshot.header.as_ref());
            heads.row = Some(ObjectLog::listed(&names, headers));
        }
        let index = |row: &Option<ObjectLog>, name: &ObjectName| {
            let listed = names.iter().rposition(|listed| listed == name)?;
            row.as_ref()?.of_listed(listed)
        };
        for snapshot in &mut heads.snapshots {
            snapshot.index = index(&heads.row, &snapshot.entry.name);
        }
        if cursor.is_some() {
            // Prefix hashes stand for what they hold too.
            let flawed = |name| {
                let index = index(&heads.row, &name);
                Flawed { name, index, upto: None, why: Flaw::HalfWritten }
            };
            heads.flawed = unread.into_iter().map(flawed).collect();
        }
        let newest = match cursor {
            Some(_) => heads.snapshots.last(),
            None => heads.snapshots.iter().max_by_key(|snapshot| snapshot.latest()),
        };
        // Up to where in the row the newest snapshot stands for everything.
        let mut stands = None;
        if let Some(Snapshot { entry, head, index, .. }) = newest {
            heads.since = Since { snapshot: entry.size, ..Since::default() };
            stands = heads.index(head.after).or(*index);
        }
        let floor = match known {
            _ if memory.is_some() => heads.base.clone(),
            Known::Seen(seen) if cursor.is_none() => seen.clone(),
            _ => heads.snapshotted(),
        };
        // Prefix hashes stand for every object of the row, so all are needed that are not remembered.
        let passes = memory.is_some() || cursor.is_none();
        let mut covered = BTreeSet::new();
        for (listed, Found { entry, prefix }) in found.into_iter().enumerate().rev() {
            let name = entry.name;
            if name.kind != Kind::Batch || covered.contains(&name.site) {
                continue;
            }
            let index = heads.row.as_ref().and_then(|row| row.of_listed(listed));
            let header = header(store, &name, entry.size, &prefix)?;
            let upto = header.as_ref().map(|header| resolve(&header.upto));
            let upto = upto.ok().transpose()?.unwrap_or_default();
            match header {
                Ok(_) if passes && floor.dominates(&upto) => {
                    // By name a site's batches come in the order of its positions; as they arrived
                    // they need not.
                    if cursor.is_none() {
                        covered.insert(name.site);
                    }
                    heads.known.join(&upto);
                }
                Ok(header) => {
                    let news = !floor.dominates(&upto) && (stands.is_none() || index > stands);
                    heads.since.batches += u64::from(news);
                    heads.since.bytes += if news { entry.size } else { 0 };
                    let base = resolve(&header.base)?;
                    heads.batches.push(Batch { name, header, base, upto, index, prefix });
                }
                Err(why) => heads.flawed.push(Flawed { name, index, upto: None, why }),
            }
        }
        heads.batches.reverse();
        heads.memory = memory;
        Ok(heads)
    }

    /// What snapshots say of themselves. Where the store has no order, the newest of each site that
    /// can be read is enough; where it has one, prefix hashes stand for all of them, and most can be judged
    /// by what they say briefly. Tells those that cannot be read.
    fn read_snapshots(
        &mut self,
        store: &dyn Store,
        found: &[Found],
        resolve: Resolve<'_>,
    ) -> Result<Vec<ObjectName>> {
        let ordered = self.cursor.is_some();
        let mut newest: BTreeMap<SiteId, u64> = BTreeMap::new();
        let mut unread = Vec::new();
        let snapshots = found.iter().filter(|found| found.entry.name.kind == Kind::Snapshot);
        for Found { entry, .. } in snapshots.clone() {
            let newest = newest.entry(entry.name.site).or_default();
            *newest = entry.name.upto.max(*newest);
        }
        let mut sites = BTreeSet::new();
        for Found { entry, prefix } in snapshots.rev() {
            let name = &entry.name;
            if !ordered && sites.contains(&name.site) {
                continue;
            }
            let brief = decode_snapshot_head(name, prefix).ok();
            let follows = |head: &SnapshotHead| self.index(head.after).is_some();
            let old = newest.get(&name.site).is_some_and(|newest| *newest > name.upto);
            let enough = |head: &SnapshotHead| if self.resumed { follows(head) } else { old };
            let (mut head, header) = match brief.filter(|head| ordered && enough(head)) {
                Some(head) => (head, None),
                None => match peek_snapshot(store, name) {
                    Ok(header) => (header.head.clone(), Some(resolved(header, resolve)?)),
                    Err(_) => {
                        unread.push(*name);
                        continue;
                    }
                },
            };
            head.beyond = resolve(&head.beyond)?;
            self.torn |= self.resumed && head.after.is_some() && !follows(&head);
            sites.insert(name.site);
            self.snapshots.push(Snapshot { entry: *entry, head, header, index: None });
        }
        self.snapshots.reverse();
        Ok(unread)
    }

    /// Reads all that the snapshots say of themselves. Whether that was news.
    pub fn complete(&mut self, store: &dyn Store, resolve: Resolve<'_>) -> Result<bool> {
        let mut news = false;
        for snapshot in self.snapshots.iter_mut().filter(|snapshot| snapshot.header.is_none()) {
            let header = peek_snapshot(store, &snapshot.entry.name).ok();
            snapshot.header = header.map(|header| resolved(header, resolve)).transpose()?;
            news |= snapshot.header.is_some();
        }
        Ok(news)
    }

    /// By which points sites came to where the batches are that are not known.
    pub fn lines(&self) -> impl Iterator<Item = (&SiteId, &Line)> + Clone {
        self.batches.iter().flat_map(|batch| &batch.header.lines)
    }

    /// Up to where in the row a prefix hash stands for objects.
    pub fn index(&self, prefix: Option<PrefixHash>) -> Option<usize> {
        self.row.as_ref()?.index(prefix?)
    }

    /// Takes note of an object that the caller put.
    pub fn put(&mut self, name: &ObjectName, bytes: u64) {
        self.end(name);
        self.since = match name.kind {
            Kind::Batch => Since {
                batches: self.since.batches + 1,
                bytes: self.since.bytes + bytes,
                ..self.since
            },
            Kind::Snapshot => Since { snapshot: bytes, ..Since::default() },
        };
    }

    /// Whether the store has nothing of the database.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.base.0.is_empty()
    }

    fn end(&mut self, name: &ObjectName) {
        let end = self.ends.entry(name.site).or_default();
        *end = name.upto.max(*end);
    }

    /// Where the chain of a site ends.
    pub fn end_of(&self, site: SiteId) -> u64 {
        self.ends.get(&site).copied().unwrap_or(0)
    }

    /// What all snapshots together are known to contain.
    pub fn snapshotted(&self) -> VersionVector {
        let mut all = VersionVector::default();
        self.snapshots.iter().for_each(|snapshot| all.join(snapshot.contains()));
        all
    }

    /// What all objects together contain, whether it can be reached or not.
    pub fn claimed(&self) -> VersionVector {
        let mut all = self.snapshotted();
        all.join(&self.base);
        all.join(&self.known);
        self.batches.iter().for_each(|batch| all.join(&batch.upto));
        all
    }

    /// What the store contained at each index of its row, for a replica that has `reached`.
    pub fn contained(&self, reached: &VersionVector) -> Contained<'_> {
        let rises = self.memory.as_ref().map_or(&[][..], |memory| &memory.rises);
        Contained::new((self.beginning(), rises), self.objects(), reached.clone())
    }

    /// What the store contained where the list begins.
    fn beginning(&self) -> VersionVector {
        let mut beginning = self.base.clone();
        self.row.iter().for_each(|row| beginning.join(&row.needs));
        beginning
    }

    /// What each object of the row that was listed brings beside what its prefix hash stands for, in order.
    fn objects(&self) -> Vec<(usize, &VersionVector)> {
        let batches = self.batches.iter().map(|batch| (batch.index, &batch.upto));
        let snapshots = self.snapshots.iter().map(|s| (s.index, s.contains()));
        let all = batches.chain(snapshots).filter_map(|(index, upto)| Some((index?, upto)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(index, _)| *index);
        all
    }

    /// By which objects of its row the store came to what it contains: what is remembered, and what was listed.
    pub fn rises(&self) -> Vec<Rise> {
        let mut rises = self.memory.as_ref().map_or(vec![], |memory| memory.rises.clone());
        let mut contains = self.beginning();
        for (index, upto) in self.objects() {
            let risen = upto.0.iter().filter(|(site, clock)| **clock > contains.get(**site));
            rises.extend(risen.map(|(&site, _)| Rise { index, site, before: contains.get(site) }));
            contains.join(upto);
        }
        rises
    }

    /// How to reach all that can be reached from `start`.
    pub fn plan(&self, start: &VersionVector) -> Plan {
        Plan::make(self, start)
    }

    /// Sets a batch aside that turned out bad.
    pub fn set_aside(&mut self, name: &ObjectName, why: Flaw) {
        let found = self.batches.iter().position(|batch| batch.name == *name);
        let batch = found.map(|at| self.batches.remove(at));
        let (index, upto) = batch.map_or((None, None), |batch| (batch.index, Some(batch.upto)));
        self.flawed.push(Flawed { name: *name, index, upto, why });
    }

    /// Sets a snapshot aside that turned out bad.
    pub fn set_snapshot_aside(&mut self, i: usize, why: Flaw) {
        if i < self.snapshots.len() {
            let Snapshot { entry, index, header, .. } = self.snapshots.remove(i);
            let upto = header.map(|header| header.vector);
            self.flawed.push(Flawed { name: entry.name, index, upto, why });
        }
    }

    /// Sets all snapshots aside, whose lines tell something else each time.
    pub fn pass_over_snapshots(&mut self) {
        while !self.snapshots.is_empty() {
            let why = "it says that lines of sites fork, each time anew".to_owned();
            self.set_snapshot_aside(0, Flaw::Bad(String::new(), why, REMOVE.into()));
        }
    }

    /// Whether whoever has `reached` this lacks nothing of something flawed: because a later snapshot of its
    /// site makes up for it, because it would lead no further, or by a later batch of its site, which
    /// builds on all that the site had before.
    pub fn made_up(&self, Flawed { name, upto, .. }: &Flawed, reached: &VersionVector) -> bool {
        let later = |batch: &Batch| {
            batch.name.site == name.site
                && batch.name.upto >= name.upto
                && reached.dominates(&batch.upto)
        };
        self.snapshots.iter().any(|snapshot| snapshot.makes_up(name))
            || upto.as_ref().is_some_and(|upto| reached.dominates(upto))
            || self.batches.iter().any(later)
    }

    /// Whether nothing is there that is of no use and lacking to whoever has `reached` this.
    pub fn is_sound(&self, reached: &VersionVector) -> bool {
        self.flawed.iter().all(|flawed| self.made_up(flawed, reached))
    }

    /// What cannot be merged yet, and what not at all, unless nothing of it is lacking. Of `own` nothing is
    /// needed.
    pub fn waiting(
        &self,
        plan: &Plan,
        own: SiteId,
        store: &dyn Store,
    ) -> (Vec<Waiting>, Vec<Aside>) {
        let (mut waiting, mut aside) = (Vec::new(), Vec::new());
        // What is at fault must be found by whoever looks into the store.
        let there = |name: &ObjectName| match store.kept_as(name) {
            kept if kept == *name => String::new(),
            kept => format!(" (it lies there as `{kept}`)"),
        };
        let lacking = |f: &&Flawed| f.name.site != own && !self.made_up(f, &plan.reached);
        for Flawed { name, why, .. } in self.flawed.iter().filter(lacking) {
            match why {
                Flaw::HalfWritten => {
                    let why = format!("it is not there in full yet{}", there(name));
                    waiting.push(Waiting { name: name.to_string(), why });
                }
                Flaw::Bad(table, why, hint) => {
                    let why = format!("{why}{}", there(name));
                    let (name, site, table) =
                        (name.to_string(), name.site.to_string(), table.clone());
                    let hint = hint.clone();
                    aside.push(Aside { name, site, table, why, hint }.plain());
                }
            }
        }
        let why = || "it builds on a batch that is missing".to_owned();
        waiting.extend(plan.waiting.iter().map(|n| Waiting { name: n.to_string(), why: why() }));
        (waiting, aside)
    }
}

impl Snapshot {
    /// Whether it contains what a batch of its site holds.
    pub fn makes_up(&self, batch: &ObjectName) -> bool {
        self.head.site == batch.site && self.head.upto >= batch.upto
    }
}

/// What a snapshot says, under the site ids of this replica.
fn resolved(header: SnapshotHeader, resolve: Resolve<'_>) -> Result<SnapshotHeader> {
    Ok(SnapshotHeader { vector: resolve(&header.vector)?, ..header })
}

/// How long a batch has to be that begins so.
fn least(beginning: &[u8]) -> Option<u64> {
    match batch::decode_header(beginning) {
        Ok(header) => Some(header.size),
        Err(BatchError::Truncated { need, .. }) => Some(need),
        Err(_) => None,
    }
}

/// The header of a batch of `size` bytes, whose first bytes may be known.
fn header(
    store: &dyn Store,
    name: &ObjectName,
    size: u64,
    known: &[u8],
) -> Result<std::result::Result<BatchHeader, Flaw>> {
    let mut prefix = known.to_vec();
    let mut want = if known.is_empty() { HEADER_PREFIX } else { known.len() } as u64;
    loop {
        if prefix.is_empty() {
            prefix = match store.read_prefix(name, want) {
                Ok(prefix) => prefix,
                Err(synqlite_objects::Error::NotFound { .. }) => return Ok(Err(Flaw::HalfWritten)),
                Err(synqlite_objects::Error::Unsealable { .. }) => {
                    let cut = store.is_cut(name, &least)?;
                    return Ok(Err(if cut { Flaw::HalfWritten } else { Flaw::sealed() }));
                }
                Err(e) => return Err(e.into()),
            };
        }
        return Ok(match batch::decode_header(&prefix) {
            Ok(header) if header.database != name.database || header.site != name.site => {
                let why = "it was made under another name".to_owned();
                Err(Flaw::Bad(String::new(), why, REMOVE.into()))
            }
            Ok(header) if header.size > size => Err(Flaw::HalfWritten),
            Ok(header) => Ok(header),
            Err(BatchError::Truncated { need, .. }) if want < need && need <= size => {
                want = need;
                prefix.clear();
                continue;
            }
            Err(e) => Err(Flaw::of(e)),
        });
    }
}

#[cfg(test)]
mod tests;
