//! Listens to a hub, in a thread.

use super::notice::Bell;
use crate::Remote;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synqlite_objects::Cursor;

/// A hub is asked to answer after so long, also when nothing has happened.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to reach it; it doubles from the first to the last.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];

/// A remote that is listened to. The thread ends with it, if not at once: a hub that says nothing keeps it
/// for [`PATIENCE`].
pub(super) struct Listener(Arc<Shared>);

struct Shared {
    remote: Mutex<Remote>,
    latest: Mutex<Option<Cursor>>,
    ended: AtomicBool,
}

impl Listener {
    /// `bell` rings each time that something else is known.
    pub fn start(remote: Remote, bell: Bell) -> Listener {
        let latest = Mutex::new(None);
        let ended = AtomicBool::new(false);
        let shared = Arc::new(Shared { remote: Mutex::new(remote), latest, ended });
        let listened = shared.clone();
        std::thread::spawn(move || listened.run(&bell));
        Listener(shared)
    }

    /// Where the hub stands, as far as is known; nothing while it cannot be reached, or if it is no hub.
    pub fn latest(&self) -> Option<Cursor> {
        *locked(&self.0.latest)
    }

    /// Goes on with this remote; whether it is the same one, perhaps by another token.
    pub fn goes_on(&self, remote: &Remote) -> bool {
        let mut known = locked(&self.0.remote);
        let same = known.url() == remote.url();
        if same {
            *known = remote.clone();
        }
        same
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn run(&self, bell: &Bell) {
        let [mut pause, longest] = PAUSES;
        let mut after = None;
        while !self.ended.load(Ordering::Relaxed) {
            let remote = locked(&self.remote).clone();
            let latest = match remote.wait(after, PATIENCE) {
                Ok(None) => return,
                Ok(latest) => {
                    pause = PAUSES[0];
                    latest
                }
                // The next round says what is wrong.
                Err(_) => None,
            };
            let news = std::mem::replace(&mut *locked(&self.latest), latest) != latest;
            if news && !bell.ring() {
                return;
            }
            after = latest;
            if latest.is_none() {
                std::thread::sleep(pause);
                pause = longest.min(pause * 2);
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
