//! Group commit: of all writers that wait for the device, one forces for everybody.
//!
//! Invariant: whoever returns was forced by a call that began after its write. The rest is pace:
//! writers that were released together are gathered for the next force, and the one that forced
//! goes on forcing. The kernel has that thread on the processor that hears from the device; on
//! another one the same force took half as long again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::engine::lock;
use crate::error::Result;

#[derive(Default)]
struct State {
    /// Changes up to this sequence are on the device.
    synced: u64,
    /// Writers that wait for the force going on, or for the next one to begin.
    waiting: usize,
    /// Who forced last, how long it took, and how many others it released.
    leader: Option<ThreadId>,
    took: Duration,
    released: usize,
}

/// Who forces, who waits.
#[derive(Default)]
pub(crate) struct Group {
    state: Mutex<State>,
    done: Condvar,
    /// Whether someone forces, and forces that ended; both change under the lock.
    forcing: AtomicBool,
    rounds: AtomicU64,
}

/// How long a waiting writer stays awake.
const AWAKE: Duration = Duration::from_micros(250);
/// How long at most a force waits for those who were released last.
const PATIENCE: Duration = Duration::from_millis(1);

impl Group {
    /// Returns when `seq` is forced. `force` forces everything there is and returns up to where.
    pub(crate) fn wait_for(&self, seq: u64, force: impl Fn() -> Result<u64>) -> Result<()> {
        let me = thread::current().id();
        // Those released last come back soon with their next write. Each call waits for them once:
        // the one that forced for the others, without whom they would wait for this force and then
        // for one of their own, and the others for that one.
        let mut patient = true;
        let mut state = lock(&self.state);
        while state.synced < seq {
            let patience = state.took.min(PATIENCE);
            if self.forcing.load(Ordering::Acquire) {
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
            } else if patient && state.released > 0 && state.leader != Some(me) {
                patient = false;
                drop(state);
                yield_until(patience, || self.forcing.load(Ordering::Acquire));
                state = lock(&self.state);
            } else {
                self.forcing.store(true, Ordering::Release);
                state.leader = Some(me);
                let expected = if patient { state.released } else { 0 };
                drop(state);
                yield_until(patience, || lock(&self.state).waiting >= expected);
                let start = Instant::now();
                let result = force();
                state = lock(&self.state);
                state.took = start.elapsed();
                state.released = std::mem::take(&mut state.waiting);
                self.forcing.store(false, Ordering::Release);
                self.rounds.fetch_add(1, Ordering::AcqRel);
                self.done.notify_all();
                state.synced = state.synced.max(result?);
            }
        }
        Ok(())
    }
}

fn yield_until(limit: Duration, over: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !over() && Instant::now() < end {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_share_most_forces_and_one_of_them_forces() {
        let (group, seq) = (Group::default(), AtomicU64::new(0));
        let leaders = Mutex::new(Vec::new());
        let write = || {
            let (own, me) = (seq.fetch_add(1, Ordering::AcqRel) + 1, thread::current().id());
            let done = group.wait_for(own, || {
                let end = seq.load(Ordering::Acquire);
                thread::sleep(Duration::from_millis(2));
                lock(&leaders).push(me);
                Ok(end)
            });
            if lock(&leaders).last() == Some(&me) {
                // The other one comes back first.
                thread::sleep(Duration::from_micros(200));
            }
            done
        };
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| (0..50).try_for_each(|_| write()).unwrap());
            }
        });
        // Each by itself would be 100, taking turns without waiting about 100 as well.
        let leaders = leaders.into_inner().unwrap();
        assert!((50..80).contains(&leaders.len()), "{} forces", leaders.len());
        // If whoever comes first forced, it would be another one each time.
        let changes = leaders.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes < 15, "{changes} times another one forced");
    }
}
