//! The log of an embedded store's changes in a bucket, before they are made.
//!
//! Entry N is one object, put only if there is none of that number. So of two hubs that write one
//! can go on; and a hub that starts writes an entry without changes first, with the number that
//! any other would take next, and that stays for ever. Whoever meets an entry of another hub has
//! lost the prefix and writes nothing more. The local store is a copy of what the log says, up to
//! an entry whose number is in it; it may be lost at any time.

use super::entry::{EMPTY, Entry, log_key};
use super::lease::{self, Hold, Lease, WRITING};
use super::listing::Listing;
use super::tidy::{News, Tidy};
use super::{AT_ONCE, each};
use crate::backend::{Epoch, random_id};
use crate::error::{Error, Result};
use crate::layout;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use synqlite_lsm::{Batch, Db, Options};
use synqlite_objects::{Put, Storage};

/// Key, in the local store alone, of the number of the entry up to which it is a copy.
const COPIED: &[u8] = b"mcopied";
/// Bytes of files that are fetched at once; a single one may exceed them.
const LARGEST_FETCH: u64 = 64 << 20;
/// What is noted beside puts and removals goes with the next entry, or when it is so long.
const LARGEST_NOTES: usize = 256 << 10;
/// A reader begins anew so often when files go that it was about to read.
const TRIES: u32 = 4;
/// For so long an entry is put again while it is not known whether it is there.
const LONG: Duration = Duration::from_secs(10);
/// Pause between.
const PAUSE: Duration = Duration::from_millis(200);

/// How a log is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keeping {
    /// A hub that does not renew its lease for so long has gone.
    pub patience: Duration,
    /// Least bytes of log before a checkpoint makes them needless.
    pub checkpoint: u64,
    /// Begins a log if there is none.
    pub create: bool,
}

/// A log that this hub writes.
pub struct Journal {
    hold: Arc<Hold>,
    epoch: Epoch,
    /// Notes that no entry holds yet.
    notes: Entry,
    /// An entry of which it is not known whether it is in the bucket.
    pending: Option<Vec<u8>>,
    /// Bytes of log since the last checkpoint.
    grown: u64,
    keeping: Keeping,
    tidy: Tidy,
    _lease: Lease,
}

/// Makes the local store in `dir` a copy of the log in a bucket, and takes the log over.
pub fn open(
    storage: Storage,
    dir: &Path,
    options: &Options,
    keeping: Keeping,
) -> Result<(Db, Epoch, Journal)> {
    if !keeping.create && storage.list("log")?.is_empty() {
        let what = format!("{} holds no store of a hub", storage.address());
        return Err(Error::Setting { what, hint: "Name another, or run a hub on it first" });
    }
    let mut copy = Copy { dir, options, db: Some(Db::open(dir, options.clone())?) };
    let folder = lease::folder_id(dir.parent().unwrap_or(dir))?;
    let run = random_id()?;
    lease::take(&storage, folder, run, keeping.patience)?;
    let mut tries = 1;
    let (mut listing, epoch) = loop {
        let listing = Listing::read(&storage)?;
        match copy.update(&storage, &listing) {
            Err(Error::Damaged { .. }) if tries < TRIES => tries += 1,
            done => break (listing, done?),
        }
    };
    let epoch = epoch.map_or_else(random_id, Ok)?;
    let db = copy.into_db()?;
    let next = listing.last() + 1;
    let hold = Arc::new(Hold::new(storage, run));
    hold.next.store(next, Ordering::Release);
    hold.base.store(listing.checkpoint.as_ref().map_or(0, |c| c.size), Ordering::Relaxed);
    let mut journal = Journal {
        epoch,
        notes: Entry::new(epoch, run, 0, 0),
        pending: Some(Entry::new(epoch, run, next, next).encode()),
        grown: listing.grown(),
        keeping,
        tidy: Tidy::default(),
        _lease: Lease::hold(hold.clone(), folder, keeping.patience),
        hold: hold.clone(),
    };
    journal.settle(&db)?;
    // From here on it is ours to tidy.
    listing.log.insert((next, next), EMPTY);
    journal.tidy = Tidy::start(hold, epoch, listing);
    Ok((db, epoch, journal))
}

/// The local store while it becomes a copy.
struct Copy<'a> {
    dir: &'a Path,
    options: &'a Options,
    db: Option<Db>,
}

impl Copy<'_> {
    fn db(&mut self) -> Result<&Db> {
        if self.db.is_none() {
            self.db = Some(Db::open(self.dir, self.options.clone())?);
        }
        self.db.as_ref().ok_or_else(|| Error::away("the local store is closed"))
    }

    fn into_db(mut self) -> Result<Db> {
        self.db()?;
        self.db.take().ok_or_else(|| Error::away("the local store is closed"))
    }

    /// Up to which entry it is a copy, and of which epoch.
    fn copied(&mut self) -> Result<Option<(u64, Epoch)>> {
        let db = self.db()?;
        let (number, epoch) = (db.get(COPIED)?, db.get(layout::EPOCH_KEY)?);
        match (number, epoch) {
            (Some(number), Some(epoch)) => {
                Ok(Some((layout::numbers::<1>(&number)?[0], layout::id(&epoch)?)))
            }
            _ => Ok(None),
        }
    }

    /// Forgets everything.
    fn clear(&mut self) -> Result<()> {
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        fs::remove_dir_all(self.dir).map_err(Error::io("remove", self.dir))?;
        self.db().map(drop)
    }

    /// Brings it up to the end of the log; the epoch, `None` if there is no log yet.
    fn update(&mut self, storage: &Storage, listing: &Listing) -> Result<Option<Epoch>> {
        let last = listing.last();
        let Some(&(from, upto)) = listing.log.keys().max_by_key(|numbers| numbers.1) else {
            if self.db()?.scan(..)?.advance()? {
                self.clear()?;
            }
            return Ok(None);
        };
        let epoch = fetch(storage, &log_key(from, upto))?.epoch;
        let known = self.copied()?.filter(|(number, of)| *of == epoch && *number <= last);
        let mut number = known.map_or(0, |(number, _)| number);
        if known.is_none() || number < listing.base() {
            self.clear()?;
            number = 0;
            if let Some(checkpoint) = &listing.checkpoint {
                let each = checkpoint.size / checkpoint.parts.len().max(1) as u64;
                let parts: Vec<_> = checkpoint.parts.iter().map(|k| (k.clone(), each)).collect();
                checkpoint.check(storage)?;
                self.apply(storage, &parts, None)?;
                number = checkpoint.upto;
            }
        }
        self.apply(storage, &listing.after(number)?, Some(last))?;
        Ok(Some(epoch))
    }

    /// Applies files in their order. If it is a copy then, notes of which entry.
    fn apply(
        &mut self,
        storage: &Storage,
        files: &[(String, u64)],
        upto: Option<u64>,
    ) -> Result<()> {
        let db = self.db()?;
        let mut rest = files;
        while !rest.is_empty() {
            let mut sum = 0;
            let fits = rest.iter().take(AT_ONCE).take_while(|(_, size)| {
                sum += size;
                sum <= LARGEST_FETCH
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            rest = later;
            for entry in each(now, |(key, _)| fetch(storage, key))? {
                let (upto, epoch) = (upto.map(|_| entry.upto), entry.epoch);
                entry.apply(db, |batch| note_copied(batch, epoch, upto))?;
            }
        }
        Ok(())
    }
}

fn note_copied(batch: &mut Batch, epoch: Epoch, upto: Option<u64>) -> Result<()> {
    if let Some(upto) = upto {
        batch.put(COPIED, upto.to_be_bytes())?;
        batch.put(layout::EPOCH_KEY, epoch.0)?;
        batch.put(layout::FORMAT_KEY, layout::FORMAT.to_be_bytes())?;
    }
    Ok(())
}

/// A key that only this copy has.
pub fn is_local(key: &[u8]) -> bool {
    [COPIED, layout::EPOCH_KEY, layout::FORMAT_KEY].contains(&key)
}

/// Reads a file of the log. One that is gone is damage, until a new look tells otherwise.
pub fn fetch(storage: &Storage, key: &str) -> Result<Entry> {
    let bytes = storage.get(key)?.ok_or_else(|| Error::Damaged {
        what: format!("{key} in the bucket"),
        why: "it is missing",
    })?;
    Entry::decode(key, &bytes)
}

impl Journal {
    /// Puts the changes into the log, then makes them in the local store. After a failure they may
    /// come to be later, or never: [`settle`](Journal::settle) finds out.
    pub fn commit(&mut self, db: &Db, batch: &Batch) -> Result<()> {
        let number = self.hold.next.load(Ordering::Acquire);
        let mut entry = Entry::new(self.epoch, self.hold.run, number, number);
        let empty = Entry::new(self.epoch, self.hold.run, 0, 0);
        entry.append(&std::mem::replace(&mut self.notes, empty));
        entry.upto = number;
        entry.add_all(batch);
        self.pending = Some(entry.encode());
        self.settle(db).map(drop)
    }

    /// What was changed in the local store and need not outlive it goes with the next entry.
    pub fn note(&mut self, db: &Db, batch: &Batch) -> Result<()> {
        self.notes.add_all(batch);
        if self.notes.size() > LARGEST_NOTES { self.flush(db) } else { Ok(()) }
    }

    fn flush(&mut self, db: &Db) -> Result<()> {
        let wait = self.pending.is_some() || self.notes.size() == 0;
        if wait { Ok(()) } else { self.commit(db, &Batch::new()) }
    }

    /// Brings an entry into the log of which it is not known whether it is there, and makes its
    /// changes. Whether there was one.
    pub fn settle(&mut self, db: &Db) -> Result<bool> {
        self.hold.check()?;
        let done = self.write(db);
        self.hold.away.store(done.is_err(), Ordering::Relaxed);
        done
    }

    fn write(&mut self, db: &Db) -> Result<bool> {
        let Some(bytes) = &self.pending else { return Ok(false) };
        let number = self.hold.next.load(Ordering::Acquire);
        let key = log_key(number, number);
        let size = bytes.len() as u64;
        let since = Instant::now();
        while let Err(e) = self.put(&key, bytes) {
            if since.elapsed() > LONG || matches!(e, Error::Lost { .. }) {
                return Err(e);
            }
            std::thread::sleep(PAUSE);
        }
        let entry = Entry::decode(&key, bytes)?;
        entry.apply(db, |batch| note_copied(batch, self.epoch, Some(number)))?;
        self.pending = None;
        self.hold.next.store(number + 1, Ordering::Release);
        self.grown += size;
        self.tidy.tell(News::Entry(number, size));
        let base = self.hold.base.load(Ordering::Relaxed);
        if self.grown > self.keeping.checkpoint.max(base) {
            self.hold.base.store(WRITING, Ordering::Relaxed);
            self.grown = 0;
            self.tidy.tell(News::Checkpoint(db.snapshot()?, number, base));
        }
        Ok(true)
    }

    /// Puts an entry. It may be repeated: who finds these bytes there has put them.
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        if self.hold.storage.create(key, bytes.to_vec())? == Put::Created {
            return Ok(());
        }
        match self.hold.storage.get(key)? {
            Some(there) if there == bytes => Ok(()),
            Some(_) => Err(self.hold.lose()),
            None => Err(Error::away("the bucket contradicts itself")),
        }
    }

    /// What others may look at.
    pub fn hold(&self) -> Arc<Hold> {
        self.hold.clone()
    }

    /// Writes what is noted. The prefix is free for another hub once this is dropped.
    pub fn close(mut self, db: &Db) {
        self.hold.ends.store(true, Ordering::Relaxed);
        if let Err(e) = self.settle(db).and_then(|_| self.flush(db)) {
            tracing::warn!("what sites have read was not noted: {e}");
        }
    }
}
