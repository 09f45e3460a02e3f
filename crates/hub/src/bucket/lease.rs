//! Which hub has a bucket's prefix.
//!
//! The lease is courtesy: it lets a second hub be refused before it does harm. It is not what makes
//! writing safe; that is the log, in which each number is given once. So a lease may be overwritten
//! by whoever believes to have it, and no clock is compared with another: a hub that starts looks
//! whether the lease changes while it watches.

use super::entry::{Entry, log_key};
use crate::error::{Error, Result};
use crate::private;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use synqlite_objects::Storage;
use synqlite_wire::Id;

/// Key of the lease.
const LEASE: &str = "lease";
/// While a hub is gone for less than its patience, it beats so often, at least.
const BEATS: u32 = 3;

/// A checkpoint is being written: none is longer.
pub const WRITING: u64 = u64::MAX;

/// What the threads of a hub share about its hold on a prefix.
pub struct Hold {
    /// Object storage.
    pub storage: Storage,
    /// This hub, from its start to its end.
    pub run: Id,
    /// Number of the entry that it writes next.
    pub next: AtomicU64,
    /// Bytes of the last checkpoint, or [`WRITING`].
    pub base: AtomicU64,
    lost: AtomicBool,
    /// The last entry did not get there, as far as is known.
    pub away: AtomicBool,
    /// This hub ends.
    pub ends: AtomicBool,
}

impl Hold {
    /// Of a hub that has the prefix.
    pub fn new(storage: Storage, run: Id) -> Hold {
        let no = || AtomicBool::new(false);
        let (next, base) = (AtomicU64::new(0), AtomicU64::new(0));
        Hold { storage, run, next, base, lost: no(), away: no(), ends: no() }
    }

    /// Another hub has written with our number: from now on nothing is written.
    pub fn lose(&self) -> Error {
        self.lost.store(true, Ordering::Release);
        Error::Lost { place: self.storage.address().to_owned() }
    }

    /// [`Error::Lost`] once another hub has taken over.
    pub fn check(&self) -> Result<()> {
        if self.lost.load(Ordering::Acquire) { Err(self.lose()) } else { Ok(()) }
    }

    /// Whether entries reach the bucket.
    pub fn health(&self) -> Result<()> {
        self.check()?;
        let away = self.away.load(Ordering::Relaxed);
        if away { Err(Error::away("the bucket does not answer")) } else { Ok(()) }
    }

    /// Looks whether another hub wrote what is ours to write.
    fn look(&self) -> Result<()> {
        let next = self.next.load(Ordering::Acquire);
        let key = log_key(next, next);
        match self.storage.get(&key)? {
            Some(found) if Entry::decode(&key, &found)?.run != self.run => Err(self.lose()),
            _ => Ok(()),
        }
    }
}

/// A lease that is held, by beats of a thread, until it is let go.
pub struct Lease {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn text(folder: Id, run: Id, beat: u64) -> Vec<u8> {
    let value: Value = json!({"folder": folder.to_string(), "run": run.to_string(), "beat": beat});
    value.to_string().into_bytes()
}

/// Whether the same folder held it: then that hub has ended, as only one at a time opens a folder.
fn is_of(found: &[u8], folder: Id) -> bool {
    let value: Value = serde_json::from_slice(found).unwrap_or_default();
    value["folder"] == folder.to_string().as_str()
}

/// Waits until no other hub holds the lease, and notes that this one has it. [`Error::Taken`] if
/// another is alive.
pub fn take(storage: &Storage, folder: Id, run: Id, patience: Duration) -> Result<()> {
    let first = storage.get(LEASE)?.filter(|found| !is_of(found, folder));
    if first.is_some() {
        let pause = patience / 8;
        for _ in 0..9 {
            std::thread::sleep(pause);
            let now = storage.get(LEASE)?;
            if now.is_none() {
                break;
            }
            if now != first {
                return Err(Error::Taken { place: storage.address().to_owned() });
            }
        }
    }
    Ok(storage.put(LEASE, text(folder, run, 0))?)
}

impl Lease {
    /// Beats from now on, and looks whether the prefix was taken over.
    pub fn hold(hold: Arc<Hold>, folder: Id, patience: Duration) -> Lease {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("hub-lease".into());
        let thread = thread.spawn(move || beat(&hold, folder, patience / BEATS, &stopped)).ok();
        Lease { stop: Some(stop), thread }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.stop.take());
        join(self.thread.take());
    }
}

/// Waits for a thread. A panic in it is a fault of this program and has been printed.
pub fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

fn beat(hold: &Hold, folder: Id, pause: Duration, stopped: &Receiver<()>) {
    let mut beat = 0;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        beat += 1;
        let done =
            hold.look().and_then(|()| Ok(hold.storage.put(LEASE, text(folder, hold.run, beat))?));
        match done {
            // The next put finds out what became of an entry that seemed to fail.
            Ok(()) => hold.away.store(false, Ordering::Relaxed),
            Err(Error::Lost { .. }) => return,
            Err(e) => tracing::warn!("the lease was not renewed: {e}"),
        }
    }
    if hold.check().is_ok() {
        // If this fails, the next hub waits a while.
        let _ = hold.storage.delete(LEASE);
    }
}

/// The id of a folder, made when it is first asked for.
pub fn folder_id(dir: &std::path::Path) -> Result<Id> {
    let path = dir.join("id");
    let known = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
    if let Some(id) = known {
        return Ok(id);
    }
    let id = crate::backend::random_id()?;
    let file = private::writing().create(true).truncate(true).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{id}"));
    written.map_err(Error::io("write", &path))?;
    Ok(id)
}
