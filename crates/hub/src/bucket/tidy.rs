//! Makes few and large files of many small ones, so that a start reads little.
//!
//! Two hubs may do it at once, one of which has lost the prefix and does not know yet: what a bundle
//! or a checkpoint holds follows from the log alone, whoever writes it, and a file is removed only
//! when another holds what is in it. If this stops anywhere, the next start goes on.

use super::each;
use super::entry::{Entry, log_key};
use super::journal::{fetch, is_local};
use super::lease::{Hold, join};
use super::listing::{Checkpoint, END, Listing, bundle_of, folder};
use crate::backend::Epoch;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use synqlite_lsm::Snapshot;

/// Bytes of changes in a part of a checkpoint.
const PART: usize = 32 << 20;

/// What there is to do.
pub enum News {
    /// An entry of that number and length was written.
    Entry(u64, u64),
    /// The store as it is after an entry is to be written down; the bytes of the last checkpoint.
    Checkpoint(Snapshot, u64, u64),
}

/// The thread that does it; none at first.
#[derive(Default)]
pub struct Tidy {
    news: Option<Sender<News>>,
    thread: Option<JoinHandle<()>>,
}

impl Tidy {
    /// Begins with what an earlier hub left.
    pub fn start(hold: Arc<Hold>, epoch: Epoch, listing: Listing) -> Tidy {
        let (news, queue) = channel();
        let work = Work { hold, epoch, listing };
        let thread = std::thread::Builder::new().name("hub-tidy".into());
        Tidy { news: Some(news), thread: thread.spawn(move || work.run(&queue)).ok() }
    }

    /// Something happened.
    pub fn tell(&self, news: News) {
        // Without the thread the log only becomes longer.
        let _ = self.news.as_ref().map(|queue| queue.send(news));
    }
}

impl Drop for Tidy {
    fn drop(&mut self) {
        drop(self.news.take());
        join(self.thread.take());
    }
}

struct Work {
    hold: Arc<Hold>,
    epoch: Epoch,
    listing: Listing,
}

impl Work {
    fn run(mut self, queue: &Receiver<News>) {
        let mut due = true;
        loop {
            if due && let Err(e) = self.tidy() {
                tracing::info!("the log in the bucket is not tidied yet: {e}");
            }
            due = match queue.recv() {
                Ok(News::Entry(number, size)) => {
                    self.listing.log.insert((number, number), size);
                    number == bundle_of(number).1
                }
                Ok(News::Checkpoint(snapshot, number, before)) => {
                    let done = self.checkpoint(&snapshot, number);
                    let size = done.as_ref().copied().unwrap_or(before);
                    self.hold.base.store(size, Ordering::Relaxed);
                    done.inspect_err(|e| tracing::info!("no checkpoint was written: {e}")).is_ok()
                }
                Err(_) => return,
            };
        }
    }

    /// Whether there is time for more.
    fn go_on(&self) -> Result<()> {
        self.hold.check()?;
        let ends = self.hold.ends.load(Ordering::Relaxed);
        if ends { Err(Error::away("the hub ends")) } else { Ok(()) }
    }

    /// Makes bundles, and removes what other files hold.
    fn tidy(&mut self) -> Result<()> {
        while let Some(numbers) = self.listing.bundle() {
            let storage = &self.hold.storage;
            let entries = each(&numbers, |n| fetch(storage, &log_key(*n, *n)))?;
            let mut entries = entries.into_iter();
            let Some(mut bundle) = entries.next() else { break };
            entries.for_each(|entry| bundle.append(&entry));
            let bytes = bundle.encode();
            let size = bytes.len() as u64;
            self.go_on()?;
            self.hold.storage.create(&log_key(bundle.from, bundle.upto), bytes)?;
            self.listing.log.insert((bundle.from, bundle.upto), size);
        }
        let needless = self.listing.needless();
        each(&needless, |(from, upto)| {
            self.go_on()?;
            Ok(self.hold.storage.delete(&log_key(*from, *upto))?)
        })?;
        self.listing.log.retain(|numbers, _| needless.binary_search(numbers).is_err());
        while let Some(key) = self.listing.stale.last() {
            self.go_on()?;
            self.hold.storage.delete(key)?;
            self.listing.stale.pop();
        }
        Ok(())
    }

    /// Writes all keys down as they are after an entry; how many bytes that took.
    fn checkpoint(&mut self, snapshot: &Snapshot, number: u64) -> Result<u64> {
        let hold = self.hold.clone();
        let folder = folder(number, hold.run);
        let mut checkpoint = Checkpoint { upto: number, folder, parts: Vec::new(), size: 0 };
        let empty = Entry::new(self.epoch, hold.run, 1, number);
        let put = |part: &Entry, checkpoint: &mut Checkpoint| -> Result<()> {
            self.go_on()?;
            let key = format!("{}/{:08x}", checkpoint.folder, checkpoint.parts.len());
            let bytes = part.encode();
            checkpoint.size += bytes.len() as u64;
            hold.storage.put(&key, bytes)?;
            checkpoint.parts.push(key);
            Ok(())
        };
        let (mut part, mut scan) = (empty.clone(), snapshot.scan(..)?);
        while scan.advance()? {
            if !is_local(scan.key()) {
                part.add(scan.key(), Some(scan.value()));
            }
            if part.size() >= PART {
                put(&part, &mut checkpoint)?;
                part = empty.clone();
            }
        }
        put(&part, &mut checkpoint)?;
        let count = checkpoint.parts.len().to_string();
        self.go_on()?;
        hold.storage.put(&format!("{}/{END}", checkpoint.folder), count.into_bytes())?;
        let size = checkpoint.size;
        let before = self.listing.checkpoint.replace(checkpoint);
        self.listing.stale.extend(before.into_iter().flat_map(Checkpoint::keys));
        Ok(size)
    }
}
