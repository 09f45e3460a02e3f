//! Group commit: of all writers that wait for the device, one forces for everybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::lock;
use crate::error::Result;

#[derive(Default)]
struct State {
    /// Changes up to this sequence are on the device.
    synced: u64,
    forcing: bool,
    /// Writers that wait, the forcing one not counted.
    waiting: usize,
    /// Writers that the last force released, and how long it took.
    released: usize,
    took: Duration,
}

/// Who forces, who waits.
pub(crate) struct Group {
    state: Mutex<State>,
    done: Condvar,
    /// Forces that ended; changes under the lock.
    rounds: AtomicU64,
}

/// How long a waiting writer stays awake.
const AWAKE: Duration = Duration::from_micros(250);

impl Group {
    pub(crate) fn new(synced: u64) -> Group {
        Group {
            state: Mutex::new(State { synced, ..State::default() }),
            done: Condvar::new(),
            rounds: AtomicU64::new(0),
        }
    }

    /// Returns when `seq` is forced. `force` forces everything there is and returns up to where.
    pub(crate) fn wait_for(&self, seq: u64, force: impl Fn() -> Result<u64>) -> Result<()> {
        let mut state = lock(&self.state);
        loop {
            if state.synced >= seq {
                return Ok(());
            }
            if state.forcing {
                let round = self.rounds.load(Ordering::Acquire);
                state.waiting += 1;
                // Waking a thread takes about as long as a fast force: the first one stays awake.
                if state.waiting == 1 {
                    drop(state);
                    let limit = Instant::now() + AWAKE;
                    while self.rounds.load(Ordering::Acquire) == round && Instant::now() < limit {
                        std::thread::yield_now();
                    }
                    state = lock(&self.state);
                }
                while self.rounds.load(Ordering::Acquire) == round {
                    state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                state.waiting -= 1;
                continue;
            }
            state.forcing = true;
            // Those released last come back soon with their next write: worth a short wait.
            let patience = Instant::now() + (state.took / 4).min(Duration::from_micros(100));
            let expected = state.released;
            while state.waiting < expected && Instant::now() < patience {
                drop(state);
                std::thread::yield_now();
                state = lock(&self.state);
            }
            drop(state);
            let start = Instant::now();
            let result = force();
            state = lock(&self.state);
            state.forcing = false;
            state.released = state.waiting;
            state.took = start.elapsed();
            self.rounds.fetch_add(1, Ordering::AcqRel);
            self.done.notify_all();
            state.synced = state.synced.max(result?);
        }
    }
}
