//! Group commit: of all writers that wait for the device, one forces for everybody.
//!
//! Invariant: whoever returns was forced by a call that began after its write. The rest is pace:
//! writers that were released together are gathered for the next force, and one of them forces as
//! long as that goes well. The device reports to one processor; from another one the same force
//! took a third longer, and one that takes longer passes the turn on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::locked::lock;

#[derive(Default)]
struct State {
    /// Changes up to this sequence are on the device.
    synced: u64,
    /// Writers that wait for the force going on, or for the next one to begin.
    waiting: usize,
    /// The first of them, who stays awake.
    awake: Option<ThreadId>,
    /// How long the last force took, and how many writers it released beside the one that forced.
    took: Duration,
    released: usize,
    /// About the shortest time that a force took lately.
    shortest: Duration,
    /// Who is to force next.
    leader: Option<ThreadId>,
}

impl State {
    /// Notes that a force by `me` ended, and who is to do the next one.
    fn end(&mut self, me: ThreadId, took: Duration) {
        let shortest = if self.shortest.is_zero() { took } else { self.shortest };
        // It may not be found again: the device changes its pace.
        self.shortest = took.min(shortest + shortest / 32);
        let other = self.awake.take().filter(|_| took > shortest + shortest / 8);
        self.leader = other.or(Some(me));
        self.took = took;
        self.released = std::mem::take(&mut self.waiting);
    }
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
        // the one that is to force for the others, without whom they would wait for this force and
        // then for one of their own, and the others for that one.
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
                    state.awake = Some(me);
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
                let expected = if patient { state.released } else { 0 };
                drop(state);
                yield_until(patience, || lock(&self.state).waiting >= expected);
                let start = Instant::now();
                let result = force();
                state = lock(&self.state);
                state.end(me, start.elapsed());
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

    /// Who forced, of two writers that write 50 times each.
    fn leaders() -> Vec<ThreadId> {
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
        leaders.into_inner().unwrap()
    }

    #[test]
    fn two_writers_share_most_forces_and_one_of_them_forces() {
        // Each by itself would be 100, taking turns without waiting about 100 as well. If whoever comes
        // first forced, it would be another one each time. A busy machine makes writers late.
        let shared = |leaders: Vec<ThreadId>| {
            let changes = leaders.windows(2).filter(|pair| pair[0] != pair[1]).count();
            (50..80).contains(&leaders.len()) && changes < leaders.len() * 9 / 10
        };
        assert!((0..5).any(|_| shared(leaders())), "they did not in five tries");
    }

    #[test]
    fn the_turn_passes_to_the_one_awake_when_a_force_takes_longer() {
        let me = thread::current().id();
        let other = thread::spawn(|| thread::current().id()).join().unwrap();
        let mut state = State::default();
        let mut end = |awake, micros| {
            state.awake = awake;
            state.end(me, Duration::from_micros(micros));
            state.leader == Some(me)
        };
        assert!(end(Some(other), 70) && end(Some(other), 75), "none was shorter");
        assert!(!end(Some(other), 100));
        assert!(end(None, 100), "there is no other");
        // A device that has become slower is not compared with what it was for ever.
        let again = (0..50).find(|_| end(Some(other), 100));
        assert!(again.is_some_and(|n| (1..20).contains(&n)), "{again:?}");
    }
}
