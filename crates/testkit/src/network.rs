//! A remote store behind a network that fails.
//!
//! [`RemoteStore`] does what a hub does, in memory: it numbers what it takes, tells what came after a
//! number, and retires what a snapshot covers and every known site has. [`Line`] is one site's way to
//! it: requests and answers are lost, late, doubled, cut or reset, as its seed says. A late request
//! arrives while others are served; a late answer tells of an earlier state.

use crate::random::Random;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use synqlite_objects::{
    Ask, Changes, Cursor, Entry, Error, Found, Kind, ObjectName, Put, Result, Step, Store,
};
use synqlite_wire::{DatabaseId, Id, SiteId};

/// Name of the store in messages.
const NAME: &str = "the simulated store";

/// A store that several sites reach, each by a line of its own.
#[derive(Clone, Default)]
pub struct RemoteStore(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// What was taken, in order.
    objects: Vec<Object>,
    sequence: u64,
    epoch: u8,
    /// Everything up to here is in a snapshot.
    covered: u64,
    /// Up to where each site has read.
    known: BTreeMap<SiteId, u64>,
    /// Requests on their way, and how many others are served before them.
    late: Vec<(u64, Object, Option<Cursor>)>,
    /// How often something went wrong.
    faults: u64,
}

#[derive(Clone)]
struct Object {
    sequence: u64,
    name: ObjectName,
    bytes: Arc<Vec<u8>>,
}

impl Kept {
    fn epoch(&self) -> Id {
        Id([self.epoch; 16])
    }

    fn put(&mut self, object: Object, covers: Option<Cursor>) -> Put {
        if self.objects.iter().any(|known| known.name == object.name) {
            return Put::AlreadyThere;
        }
        self.sequence += 1;
        self.objects.push(Object { sequence: self.sequence, ..object });
        let covers = covers.filter(|covers| covers.epoch == self.epoch());
        self.covered = self.covered.max(covers.map_or(0, |covers| covers.sequence));
        Put::Created
    }

    /// Removes what is covered and known everywhere, but the newest snapshot.
    fn retire(&mut self) {
        let known = self.known.values().copied().min().unwrap_or(0);
        let upto = self.covered.min(known);
        let is_snapshot = |object: &&Object| object.name.kind == Kind::Snapshot;
        let newest = self.objects.iter().rfind(is_snapshot).map(|object| object.sequence);
        let stays = |o: &Object| o.sequence > upto || Some(o.sequence) == newest;
        self.objects.retain(stays);
    }

    /// One more request is served; late ones come nearer.
    fn tick(&mut self) {
        self.late.iter_mut().for_each(|late| late.0 = late.0.saturating_sub(1));
        while let Some(at) = self.late.iter().position(|late| late.0 == 0) {
            let (_, object, covers) = self.late.swap_remove(at);
            self.put(object, covers);
        }
    }
}

impl RemoteStore {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing was put yet.
    pub fn is_empty(&self) -> bool {
        self.kept().objects.is_empty()
    }

    /// A way to the store. With `faults` one in so many requests fails, or its answer; 0 is none.
    pub fn line(&self, seed: u64, faults: u64) -> Line {
        Line { store: self.clone(), random: Mutex::new(Random::new(seed)), faults }
    }

    /// All that is still on its way arrives.
    pub fn arrive(&self) {
        let mut kept = self.kept();
        while !kept.late.is_empty() {
            kept.tick();
        }
    }

    /// The store is restored from a backup of an earlier state, that of `share` percent of its
    /// objects. Nobody has read it then.
    pub fn restore(&self, share: u64) {
        let mut kept = self.kept();
        let keep = kept.objects.len() as u64 * share / 100;
        kept.objects.truncate(keep as usize);
        kept.epoch = kept.epoch.wrapping_add(1);
        kept.covered = 0;
        kept.known.clear();
    }

    /// An operator removes an object.
    pub fn lose(&self, random: &mut Random) {
        let mut kept = self.kept();
        if !kept.objects.is_empty() {
            let at = random.index(kept.objects.len());
            kept.objects.remove(at);
        }
    }

    /// How often something went wrong so far, and how many objects there are.
    pub fn counts(&self) -> (u64, usize) {
        let kept = self.kept();
        (kept.faults, kept.objects.len())
    }
}

/// A site's way to a store.
pub struct Line {
    store: RemoteStore,
    random: Mutex<Random>,
    faults: u64,
}

/// What becomes of a request.
enum Fate {
    /// It is served, and the answer arrives.
    Served,
    /// It never arrives.
    Dropped,
    /// It is served, and the answer never arrives.
    Unanswered,
    /// It arrives after so many others, and its sender does not wait that long.
    Late(u64),
    /// It is served twice, and the second answer arrives.
    Doubled,
    /// The answer stops somewhere.
    Cut(u64),
}

impl Line {
    fn draw(&self) -> Fate {
        let mut kept = self.store.kept();
        kept.tick();
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        if self.faults == 0 || !random.one_in(self.faults) {
            return Fate::Served;
        }
        kept.faults += 1;
        match random.below(5) {
            0 => Fate::Dropped,
            1 => Fate::Unanswered,
            2 => Fate::Late(1 + random.below(12)),
            3 => Fate::Doubled,
            _ => Fate::Cut(random.any()),
        }
    }

    fn broken(&self, why: &str) -> Error {
        Error::Unreachable { address: NAME.into(), why: why.into() }
    }

    /// A request that only reads. `Some(cut)` if its answer stops somewhere.
    fn ask(&self) -> Result<Option<u64>> {
        match self.draw() {
            Fate::Served | Fate::Doubled => Ok(None),
            Fate::Cut(at) => Ok(Some(at)),
            Fate::Dropped => Err(self.broken("the request was lost")),
            Fate::Unanswered => Err(self.broken("the connection was reset")),
            Fate::Late(_) => Err(self.broken("the answer took too long")),
        }
    }

    fn send(&self, name: &ObjectName, bytes: Vec<u8>, covers: Option<Cursor>) -> Result<Put> {
        let object = Object { sequence: 0, name: *name, bytes: Arc::new(bytes) };
        let fate = self.draw();
        let mut kept = self.store.kept();
        match fate {
            Fate::Served => Ok(kept.put(object, covers)),
            Fate::Doubled => {
                kept.put(object.clone(), covers);
                Ok(kept.put(object, covers))
            }
            Fate::Unanswered => {
                kept.put(object, covers);
                Err(self.broken("the connection was reset"))
            }
            Fate::Late(after) => {
                kept.late.push((after, object, covers));
                Err(self.broken("the answer took too long"))
            }
            // What is cut short is refused.
            Fate::Dropped | Fate::Cut(_) => Err(self.broken("the request was lost")),
        }
    }
}

impl Store for Line {
    fn address(&self) -> String {
        NAME.into()
    }

    fn databases(&self) -> Result<Vec<DatabaseId>> {
        if self.ask()?.is_some() {
            return Err(self.broken("the answer was cut short"));
        }
        let mut all: Vec<_> =
            self.store.kept().objects.iter().map(|object| object.name.database).collect();
        all.sort();
        all.dedup();
        Ok(all)
    }

    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>> {
        let ask = Ask { database, after: None, prefix: 0, site: None, name: "" };
        let found = self.changes(ask)?.found.into_iter().map(|found| found.entry);
        let mut entries: Vec<_> = found.filter(|entry| entry.name.kind == kind).collect();
        entries.sort();
        Ok(entries)
    }

    fn changes(&self, ask: Ask<'_>) -> Result<Changes> {
        let cut = self.ask()?;
        let mut kept = self.store.kept();
        let after = ask.after.filter(|after| after.epoch == kept.epoch());
        let from = after.map_or(0, |after| after.sequence);
        if let Some(site) = ask.site {
            kept.known.insert(site, from);
            kept.retire();
        }
        let news = kept.objects.iter().filter(|object| object.sequence > from);
        let mut news: Vec<Object> = news.cloned().collect();
        if let Some(cut) = cut {
            // An answer that was long on its way tells what there was when it left.
            news.truncate(cut as usize % (news.len() + 1));
        }
        let sequence = news.last().map_or(from, |object| object.sequence);
        let found = news.into_iter().filter(|object| object.name.database == ask.database);
        let found = found.map(|Object { name, bytes, .. }| {
            let whole = bytes.len() as u64 <= ask.prefix;
            let head = if whole { bytes.len() } else { ask.prefix.min(1024) as usize };
            let entry = Entry { name, size: bytes.len() as u64 };
            Found { entry, prefix: bytes[..head].to_vec() }
        });
        let cursor = Some(Cursor { epoch: kept.epoch(), sequence });
        let resumed = after.is_some();
        Ok(Changes { found: found.collect(), cursor, resumed, ..Changes::default() })
    }

    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>> {
        let cut = self.ask()?;
        let kept = self.store.kept();
        let object = kept.objects.iter().find(|object| object.name == *name);
        let bytes = object.ok_or(Error::NotFound { name: *name })?.bytes.clone();
        let end = cut.map_or(bytes.len(), |cut| cut as usize % bytes.len());
        // Some connections say that they broke, others end too early.
        let breaks = cut.is_some_and(|cut| cut & 1 << 40 == 0);
        Ok(Box::new(Answer { bytes, at: 0, end, breaks }))
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<Put> {
        self.send(name, bytes.to_vec(), None)
    }

    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        covers: Option<Cursor>,
        _: Step<'_>,
    ) -> Result<Put> {
        let bytes = std::fs::read(file).map_err(Error::io("read", file))?;
        self.send(name, bytes, covers)
    }
}

/// An object as it arrives.
struct Answer {
    bytes: Arc<Vec<u8>>,
    at: usize,
    end: usize,
    breaks: bool,
}

impl Read for Answer {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = out.len().min(self.end - self.at);
        if n == 0 && !out.is_empty() && self.breaks {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        out[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
