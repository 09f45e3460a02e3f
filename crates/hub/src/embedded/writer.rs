//! The one thread that changes the embedded store.
//!
//! It gathers all puts that wait, writes them as one synced batch and then answers them: a force of
//! the device is shared by all who wait for it (group commit). As nobody else writes, sequences are
//! given in the order in which objects become durable, and "is it there?" needs no lock. Where there
//! is a journal, durable means that it is there; the batch is then a copy that need not be synced.

use super::{HERE, Shared};
use crate::backend::{Content, Done, Incoming, SiteInfo, TokenId};
use crate::bucket::Journal;
use crate::error::{Error, Result};
use crate::layout::{self, Rank, Record, Sums};
use crate::place::Place;
use crate::wait::lock;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use synqlite_lsm::Batch;
use synqlite_objects::Kind;
use synqlite_wire::Id;
use tokio::sync::oneshot;

/// Most bytes of content in one batch; a single object may exceed it.
const LARGEST_BATCH: u64 = 32 << 20;
/// How often it looks whether the device is nearly full, at least.
const LOOK: Duration = Duration::from_secs(1);

/// Places whose sites are counted in memory.
const COUNTED: usize = 10_000;

/// Where an answer goes. Whoever asked may be gone.
pub type Reply<T> = oneshot::Sender<Result<T>>;

/// An object that is put, and who waits.
type Asked = (Incoming, Reply<Done>);

/// What the thread is asked to do.
pub enum Job {
    /// Puts an object.
    Put(Incoming, Reply<Done>),
    /// Removes the objects with these sequences; answers how many were there.
    Remove(Place, Vec<u64>, Reply<u64>),
    /// Notes how far a site has read.
    Seen(Place, SiteInfo),
    /// Notes up to where all that the newest snapshot covers is removed.
    Retired(Vec<u8>, u64),
    /// Removes records that nothing else depends on.
    Forget(Vec<Vec<u8>>),
    /// Sees that writing goes on after the disk was full.
    Recover(Reply<()>),
    /// Ends the thread.
    Stop,
}

/// The thread's own state.
pub struct Writer {
    shared: Arc<Shared>,
    journal: Option<Journal>,
    jobs: Receiver<Job>,
    sequence: u64,
    batch: Batch,
    /// How many sites of some places are known, at most: some may have been forgotten since.
    sites: HashMap<Place, usize>,
    looked: Option<Instant>,
    /// Bytes put since.
    unlooked: u64,
    /// What it saw.
    full: bool,
    /// When it was last tried to open it again.
    tried: Option<Instant>,
}

impl Writer {
    /// To be run on a thread of its own.
    pub fn new(
        shared: Arc<Shared>,
        journal: Option<Journal>,
        jobs: Receiver<Job>,
        sequence: u64,
    ) -> Writer {
        Writer {
            shared,
            journal,
            jobs,
            sequence,
            batch: Batch::new(),
            sites: HashMap::new(),
            looked: None,
            unlooked: 0,
            full: false,
            tried: None,
        }
    }

    /// Works until it is told to stop or nobody is left to tell it.
    pub fn run(mut self) {
        let mut next = self.jobs.recv().ok();
        while let Some(job) = next.take() {
            match self.done_aside(job) {
                None => {}
                Some(Job::Put(object, reply)) => next = self.puts(object, reply),
                Some(Job::Remove(place, sequences, reply)) => {
                    let _ = reply.send(self.remove(&place, &sequences));
                }
                Some(_) => break,
            }
            next = next.or_else(|| self.jobs.recv().ok());
        }
        if let Some(journal) = self.journal.take() {
            journal.close(&self.shared.db());
        }
    }

    /// Writes what is no more than a note, at once: puts that wait are not held up by it, and it is
    /// there before anything is removed that is asked for later. Returns any other job.
    fn done_aside(&mut self, job: Job) -> Option<Job> {
        match job {
            Job::Seen(place, site) => {
                // What cannot be counted is noted all the same.
                let forget = self.make_room(&place, &site).unwrap_or_default();
                self.note(|batch| {
                    batch.put(layout::site(&place, site.site), layout::site_value(&site))?;
                    forget.iter().try_for_each(|key| batch.delete(key).map(drop))
                });
            }
            Job::Retired(key, upto) => self.retired(&key, upto),
            Job::Forget(keys) => {
                self.note(|batch| keys.iter().try_for_each(|key| batch.delete(key).map(drop)));
            }
            Job::Recover(reply) => drop(reply.send(self.recover())),
            other => return Some(other),
        }
        None
    }

    /// Opens the store again that stopped because the disk was full, now and then until it has room.
    fn recover(&mut self) -> Result<()> {
        let usable = self.shared.usable();
        let why = match &usable {
            Ok(()) if self.shared.shown() => return Ok(()),
            Ok(()) | Err(Error::Full) => Error::Full,
            Err(Error::Lsm(synqlite_lsm::Error::Closed)) => Error::away("the store is closed"),
            Err(_) => return usable,
        };
        if self.tried.is_some_and(|at| at.elapsed() < LOOK) {
            return Err(why);
        }
        self.tried = Some(Instant::now());
        self.shared.shown.store(false, Ordering::Release);
        if usable.is_err() {
            self.shared.reopen()?;
        }
        self.shared.secure()?;
        self.shared.shown.store(true, Ordering::Release);
        self.shared.waiters.wake_all();
        tracing::info!("the disk has room again: the store was opened again, and puts go on");
        Ok(())
    }

    /// Sees that the store can be written, and finds out what became of an entry of the journal that
    /// seemed to fail.
    fn settle(&mut self) -> Result<()> {
        self.recover()?;
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if journal.settle(&self.shared.db())? {
            self.shared.look()?;
            self.shared.waiters.wake_all();
        }
        Ok(())
    }

    /// Writes what may be lost with the power. If it fails, so will the next put, and says so.
    fn note(&mut self, fill: impl FnOnce(&mut Batch) -> synqlite_lsm::Result<()>) {
        self.batch.clear();
        let db = self.shared.db();
        let written = fill(&mut self.batch).and_then(|()| db.write(&self.batch));
        let journal = self.journal.as_mut();
        let noted = journal.map_or(Ok(()), |journal| journal.note(&db, &self.batch));
        if let Err(e) = written.map_err(Error::from).and(noted) {
            tracing::warn!("a note was not written: {e}");
        }
    }

    /// Keys of the sites that are forgotten for one more: a tenth of all at once, as looking for
    /// those that were seen longest ago is a look at all.
    fn make_room(&mut self, place: &Place, site: &SiteInfo) -> Result<Vec<Vec<u8>>> {
        let (shared, most) = (&self.shared, self.shared.setup.sites.max(1));
        if shared.db().get(layout::site(place, site.site))?.is_some() {
            return Ok(Vec::new());
        }
        let known = match self.sites.get(place) {
            Some(known) => *known,
            None => shared.sites(place)?.len(),
        };
        let mut all = if known < most { Vec::new() } else { shared.sites(place)? };
        all.sort_by_key(|site| site.seen);
        let full = all.len() >= most;
        let forget = if full { (all.len() + 1 + most / 10 - most).min(all.len()) } else { 0 };
        let left = if known < most { known } else { all.len() - forget };
        if self.sites.len() >= COUNTED {
            self.sites.clear();
        }
        self.sites.insert(place.clone(), left + 1);
        Ok(all[..forget].iter().map(|site| layout::site(place, site.site)).collect())
    }

    fn retired(&mut self, key: &[u8], upto: u64) {
        let now = self.shared.db().get(key).ok().flatten();
        if let Some(Ok([covers, _, snapshot])) = now.as_deref().map(layout::numbers::<3>) {
            let value = [covers, upto, snapshot].map(u64::to_be_bytes).concat();
            self.note(|batch| batch.put(key, value).map(drop));
        }
    }

    /// An object, all that wait behind it, and the first job that is no put.
    fn gather(&mut self, object: Incoming, reply: Reply<Done>) -> (Vec<Asked>, Option<Job>) {
        let mut size = object.content.size();
        let mut asked = vec![(object, reply)];
        let until = Instant::now() + self.shared.setup.gather;
        while size < LARGEST_BATCH {
            let left = until.saturating_duration_since(Instant::now());
            let next = self.jobs.try_recv().ok();
            let next = next
                .or_else(|| if left.is_zero() { None } else { self.jobs.recv_timeout(left).ok() });
            let Some(next) = next else { break };
            match self.done_aside(next) {
                None => {}
                Some(Job::Put(object, reply)) => {
                    size += object.content.size();
                    asked.push((object, reply));
                }
                other => return (asked, other),
            }
        }
        (asked, None)
    }

    /// Puts an object and all that wait behind it. Returns the first job that is no put.
    fn puts(&mut self, object: Incoming, reply: Reply<Done>) -> Option<Job> {
        let (asked, other) = self.gather(object, reply);
        if let Err(e) = self.settle() {
            for (object, reply) in asked {
                object.content.kept().into_iter().for_each(|id| self.shared.files.remove(id));
                let _ = reply.send(Err(e.again()));
            }
            return other;
        }
        let mut answers = Vec::with_capacity(asked.len());
        let mut round = Round::new(self);
        for (object, reply) in asked {
            let kept = object.content.kept();
            let answer = round.put(object);
            if !answer.as_ref().is_ok_and(|answer| answer.done.created) {
                kept.into_iter().for_each(|id| round.writer.shared.files.remove(id));
            }
            answers.push((answer, reply));
        }
        let places = round.commit();
        let failed = places.as_ref().err();
        for (answer, reply) in answers {
            let answer = match (failed, answer) {
                (Some(e), Ok(Answer { waits: true, .. })) => Err(e.again()),
                (_, answer) => answer.map(|answer| answer.done),
            };
            // Whoever asked may have gone; the object stays.
            let _ = reply.send(answer);
        }
        for place in places.into_iter().flatten() {
            self.shared.waiters.wake(&place);
        }
        other
    }

    /// Refuses while the device has hardly any space: a full one stops the store.
    fn check_space(&mut self, size: u64) -> Result<()> {
        self.unlooked += size;
        let due = self.unlooked > self.shared.setup.reserve / 8;
        if due || self.looked.is_none_or(|at| at.elapsed() > LOOK) {
            self.full = self.shared.free_space() < self.shared.setup.reserve;
            self.looked = Some(Instant::now());
            self.unlooked = 0;
        }
        if self.full { Err(Error::Full) } else { Ok(()) }
    }

    fn remove(&mut self, place: &Place, sequences: &[u64]) -> Result<u64> {
        self.settle()?;
        let mut files = Vec::new();
        let mut round = Round::new(self);
        let mut count = 0;
        for &sequence in sequences {
            count += u64::from(round.remove(place, sequence, &mut files)?);
        }
        round.commit()?;
        files.into_iter().for_each(|id| self.shared.files.remove(id));
        Ok(count)
    }
}

/// What a put will be told.
struct Answer {
    done: Done,
    /// Whether that is true only once the batch is on the device.
    waits: bool,
}

/// What one batch does, and what later changes of it must know of earlier ones.
struct Round<'a> {
    writer: &'a mut Writer,
    names: HashMap<Vec<u8>, u64>,
    places: HashMap<Place, (Sums, Sums)>,
    usage: HashMap<TokenId, u64>,
    files: bool,
    puts: u64,
    bytes: u64,
}

impl<'a> Round<'a> {
    fn new(writer: &'a mut Writer) -> Round<'a> {
        writer.batch.clear();
        Round {
            writer,
            names: HashMap::new(),
            places: HashMap::new(),
            usage: HashMap::new(),
            files: false,
            puts: 0,
            bytes: 0,
        }
    }

    fn sums(&mut self, place: &Place) -> Result<&mut Sums> {
        if !self.places.contains_key(place) {
            let found = self.writer.shared.db().get(layout::place(place))?;
            let sums = found.as_deref().map(Sums::decode).transpose()?.unwrap_or_default();
            self.places.insert(place.clone(), (sums, sums));
        }
        Ok(&mut self.places.entry(place.clone()).or_default().1)
    }

    fn usage(&mut self, token: TokenId) -> Result<&mut u64> {
        if !self.usage.contains_key(&token) {
            let used = self.writer.shared.usage(token)?;
            self.usage.insert(token, used);
        }
        Ok(self.usage.entry(token).or_default())
    }

    fn put(&mut self, object: Incoming) -> Result<Answer> {
        let Incoming { place, name, content, covers, token, quota, at } = object;
        let key = layout::name(&place, &name);
        if let Some(&sequence) = self.names.get(&key) {
            return Ok(Answer { done: Done { sequence, created: false }, waits: true });
        }
        if let Some(found) = self.writer.shared.db().get(&key)? {
            let [sequence] = layout::numbers(&found)?;
            return Ok(Answer { done: Done { sequence, created: false }, waits: false });
        }
        let size = content.size();
        self.writer.check_space(size)?;
        let used = *self.usage(token)?;
        if let Some(limit) = quota.filter(|limit| used.saturating_add(size) > *limit) {
            return Err(Error::Quota { limit });
        }
        self.sums(&place)?;
        let sequence = self.writer.sequence + 1;
        let record = |rank| Record { name, size, at, token, rank }.encode();
        let value = match content {
            Content::Bytes(bytes) if bytes.len() <= HERE => record(Rank::Here(&bytes)),
            Content::Bytes(bytes) => {
                self.writer.batch.put(layout::value(sequence), &bytes)?;
                record(Rank::Value)
            }
            Content::Kept(id, _) => {
                self.files = true;
                self.writer.batch.put(layout::file(id), layout::object(&place, sequence))?;
                record(Rank::File(id))
            }
            Content::File(_) => return Err(Error::away("a large object was not placed")),
        };
        let batch = &mut self.writer.batch;
        batch.put(layout::object(&place, sequence), value)?;
        batch.put(&key, sequence.to_be_bytes())?;
        if name.kind == Kind::Snapshot && covers > 0 {
            let key = layout::cover(&place, name.database);
            let covers = covers.min(sequence - 1);
            let found = self.writer.shared.db().get(&key)?;
            let [before, done, _] =
                found.as_deref().map(layout::numbers).transpose()?.unwrap_or_default();
            if covers >= before {
                let value = [covers, done, sequence].map(u64::to_be_bytes).concat();
                self.writer.batch.put(key, value)?;
            }
        }
        self.writer.sequence = sequence;
        self.names.insert(key, sequence);
        *self.usage(token)? += size;
        let sums = self.sums(&place)?;
        sums.objects += 1;
        sums.bytes += size;
        (sums.latest, sums.changed) = (sequence, at);
        self.puts += 1;
        self.bytes += size;
        Ok(Answer { done: Done { sequence, created: true }, waits: true })
    }

    fn remove(&mut self, place: &Place, sequence: u64, files: &mut Vec<Id>) -> Result<bool> {
        let shared = self.writer.shared.clone();
        let key = layout::object(place, sequence);
        let Some(value) = shared.db().get(&key)? else { return Ok(false) };
        let record = Record::decode(&value)?;
        let batch = &mut self.writer.batch;
        batch.delete(&key)?.delete(layout::name(place, &record.name))?;
        match record.rank {
            Rank::Here(_) => {}
            Rank::Value => drop(batch.delete(layout::value(sequence))?),
            Rank::File(id) => {
                batch.delete(layout::file(id))?;
                files.push(id);
            }
        }
        let cover = layout::cover(place, record.name.database);
        if record.name.kind == Kind::Snapshot
            && let Some(found) = shared.db().get(&cover)?
            && layout::numbers::<3>(&found)?[2] == sequence
        {
            // Without the snapshot nothing is covered.
            batch.delete(&cover)?;
        }
        let sums = self.sums(place)?;
        sums.objects = sums.objects.saturating_sub(1);
        sums.bytes = sums.bytes.saturating_sub(record.size);
        let usage = self.usage(record.token)?;
        *usage = usage.saturating_sub(record.size);
        Ok(true)
    }

    /// Writes the batch, forces it to the device, and shows it. The places that changed.
    fn commit(self) -> Result<Vec<Place>> {
        let Round { writer, places, usage, files, puts, bytes, .. } = self;
        if writer.batch.is_empty() {
            return Ok(Vec::new());
        }
        let started = Instant::now();
        let shared = &writer.shared;
        for (place, (_, sums)) in &places {
            if sums.objects == 0 {
                writer.batch.delete(layout::place(place))?;
            } else {
                writer.batch.put(layout::place(place), sums.encode())?;
            }
        }
        for (token, used) in usage {
            writer.batch.put(layout::usage(token), used.to_be_bytes())?;
        }
        writer.batch.put(layout::SEQUENCE_KEY, writer.sequence.to_be_bytes())?;
        if files {
            shared.files.sync()?;
        }
        match &mut writer.journal {
            None => drop(shared.db().write_with(&writer.batch, true)?),
            Some(journal) => journal.commit(&shared.db(), &writer.batch)?,
        }
        shared.durable.store(writer.sequence, Ordering::Release);
        {
            let mut totals = lock(&shared.totals);
            for (before, after) in places.values() {
                let there = |sums: &Sums| u64::from(sums.objects > 0);
                totals.places = totals.places + there(after) - there(before);
                totals.objects = totals.objects + after.objects - before.objects;
                totals.bytes = totals.bytes + after.bytes - before.bytes;
            }
        }
        let counters = &shared.counters;
        counters.commits.fetch_add(1, Ordering::Relaxed);
        counters.commit_nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        counters.puts.fetch_add(puts, Ordering::Relaxed);
        counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(places.into_keys().collect())
    }
}

/// Waits for the thread. A panic in it is a fault of this program and has been printed.
pub fn join(thread: &std::sync::Mutex<Option<std::thread::JoinHandle<()>>>) {
    let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}
