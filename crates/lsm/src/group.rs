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
    /// Writers that wait for the force going on, or for the next one to begin.
    waiting: usize,
    /// Writers that the last force released, the one that forced not counted, and how long it took.
    released: usize,
    took: Duration,
}

/// Who forces, who waits.
#[derive(Default)]
pub(crate) struct Group {
    state: Mutex<State>,
    done: Condvar,
    /// Forces that ended; changes under the lock.
    rounds: AtomicU64,
}

/// How long a waiting writer stays awake.
const AWAKE: Duration = Duration::from_micros(250);
/// How long at most a force waits for those who were released last.
const PATIENCE: Duration = Duration::from_millis(1);

impl Group {
    /// Returns when `seq` is forced. `force` forces everything there is and returns up to where.
    pub(crate) fn wait_for(&self, seq: u64, force: impl Fn() -> Result<u64>) -> Result<()> {
        let mut state = lock(&self.state);
        while state.synced < seq {
            if state.forcing {
                let round = self.rounds.load(Ordering::Acquire);
                let over = || self.rounds.load(Ordering::Acquire) != round;
                state.waiting += 1;
                // Waking a thread takes about as long as a fast force: the first one stays awake.
                if state.waiting == 1 {
                    drop(state);
                    yield_until(AWAKE, over);
                    state = lock(&self.state);
                }
                while !over() {
                    state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                continue;
            }
            state.forcing = true;
            // Those released last come back soon with their next write. Without them they would
            // wait for this force and then for one of their own.
            let (expected, patience) = (state.released, state.took.min(PATIENCE));
            drop(state);
            yield_until(patience, || lock(&self.state).waiting >= expected);
            let start = Instant::now();
            let result = force();
            state = lock(&self.state);
            state.forcing = false;
            state.took = start.elapsed();
            state.released = std::mem::take(&mut state.waiting);
            self.rounds.fetch_add(1, Ordering::AcqRel);
            self.done.notify_all();
            state.synced = state.synced.max(result?);
        }
        Ok(())
    }
}

fn yield_until(limit: Duration, over: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !over() && Instant::now() < end {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_share_most_forces() {
        let (group, seq, forces) = (Group::default(), AtomicU64::new(0), AtomicU64::new(0));
        let write = || {
            let own = seq.fetch_add(1, Ordering::AcqRel) + 1;
            group.wait_for(own, || {
                let end = seq.load(Ordering::Acquire);
                std::thread::sleep(Duration::from_millis(2));
                forces.fetch_add(1, Ordering::AcqRel);
                Ok(end)
            })
        };
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| (0..50).try_for_each(|_| write()).unwrap());
            }
        });
        // Each by itself would be 100, taking turns without waiting about 100 as well.
        assert!((50..80).contains(&forces.into_inner()));
    }
}
