//! Keeps a replica and a remote the same, for as long as somebody likes.
//!
//! A [`Waiter`] waits until the two have something to exchange: something was committed here, or a hub
//! has something new. A [`Watch`] exchanges it, round after round. The next round has a time at which it comes,
//! whatever the last one did, so it never stalls; and what failed last is in its [`State`] until one succeeds.
//! Where another file takes the place of the replica's, it goes on with that, or is over.

mod hub;
mod notice;
mod replaced;
#[cfg(test)]
mod tests;

use crate::{Outcome, Remote, Restored, Session, SyncError};
use hub::Listener;
use notice::{Bell, Notice};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use synqlite_core::Replica;
use synqlite_objects::Cursor;

/// Time from one round to the next if nothing is said of it.
const EVERY: Duration = Duration::from_secs(5);
/// The same, while a hub would say so if there were something to do.
const LIVE_EVERY: Duration = Duration::from_secs(60);
/// Between two rounds that failed; it doubles from the first to the last.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];
/// Between two rounds in any case: whoever writes all the time does not fill the network with single rows.
const BREATH: Duration = Duration::from_millis(10);

/// Why a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woke {
    /// Something was committed to the replica.
    Commit,
    /// The remote has something new, or had when it was last heard of, or is there again, or not any more.
    Remote,
    /// Another file has taken the place of the replica's, or none is there. It is told once.
    Moved,
    /// It took as long as it was allowed to.
    Time,
    /// Whoever waits was asked to stop.
    Stop,
}

/// Waits until there is something new, here or at a remote.
pub struct Waiter {
    bell: Bell,
    rings: Receiver<()>,
    notice: Notice,
    listener: Option<Listener>,
    /// Whether the listener heard the hub when it was last asked; nothing if it never has.
    heard: Option<bool>,
    upto: Option<Cursor>,
    /// Where the remote stood when the last round failed.
    tried: Option<Cursor>,
    moved: bool,
}

impl Waiter {
    /// Of this replica, which is to be the one that it is called with.
    pub fn new(replica: &Replica) -> Waiter {
        let (bell, rings) = Bell::new();
        let notice = Notice::new(replica, bell.clone());
        let (listener, heard, upto, tried) = (None, None, None, None);
        Waiter { bell, rings, notice, listener, heard, upto, tried, moved: false }
    }

    /// Listens to this remote from now on, if it is one that tells.
    pub fn listen(&mut self, remote: &Remote) {
        if !self.listener.as_ref().is_some_and(|listener| listener.goes_on(remote)) {
            self.listener = Some(Listener::start(remote.clone(), self.bell.clone()));
            (self.heard, self.upto, self.tried) = (None, None, None);
        }
    }

    /// Up to where the remote has been looked at, if it says where it stands.
    pub fn looked(&mut self, upto: Option<Cursor>) {
        self.upto = upto.or(self.upto);
    }

    /// A round failed. What the remote has by now begins no other, which would fail as soon as it began.
    pub fn failed(&mut self) {
        self.tried = self.listener.as_ref().and_then(Listener::latest);
    }

    /// Whether there is a hub that would say so if it had something new.
    pub fn hears(&self) -> bool {
        self.listener.as_ref().is_some_and(|listener| listener.latest().is_some())
    }

    /// Waits until `due` says that a commit is worth waking for, the remote has something new, the time
    /// is `until`, or `stop` says so, which is asked at least four times a second.
    pub fn wait(
        &mut self,
        replica: &Replica,
        until: Instant,
        due: impl Fn(&Replica) -> bool,
        stop: impl Fn() -> bool,
    ) -> Woke {
        loop {
            if stop() {
                return Woke::Stop;
            }
            if self.notice.moved(replica) {
                if !std::mem::replace(&mut self.moved, true) {
                    return Woke::Moved;
                }
            } else if self.notice.changed(replica) && due(replica) {
                return Woke::Commit;
            }
            if self.has_news() {
                return Woke::Remote;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woke::Time;
            }
            // Whether somebody rang or not, all is asked again.
            let _ = self.rings.recv_timeout(self.notice.pause().min(left));
        }
    }

    /// Whether the remote has something new, or was lost, or is there again.
    fn has_news(&mut self) -> bool {
        let latest = self.listener.as_ref().and_then(Listener::latest);
        let other = self.heard.is_some_and(|heard| heard != latest.is_some());
        if latest.is_some() || other {
            self.heard = Some(latest.is_some());
        }
        let beyond = |latest: Cursor| {
            self.upto.is_none_or(|u| u.epoch != latest.epoch || u.sequence < latest.sequence)
        };
        other || latest.is_some_and(|latest| self.tried != Some(latest) && beyond(latest))
    }
}

/// When rounds begin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Time from one round to the next.
    pub every: Option<Duration>,
    /// A round begins early when so many changes were written here. One, if nothing is said and a hub is listened
    /// to.
    pub changes: Option<i64>,
}

/// Where a watch stands.
#[derive(Debug)]
pub struct State<E> {
    /// Whether the remote could be reached when that was last tried.
    pub online: bool,
    /// When a round last succeeded, in milliseconds since 1970.
    pub last_sync: Option<i64>,
    /// Changes that are here and, as far as is known, not there.
    pub pending: i64,
    /// How many rounds have failed since one succeeded.
    pub failures: u32,
    /// What the last round failed with.
    pub error: Option<E>,
}

/// Says where the remote is.
type Reach<'a, E> = Box<dyn FnMut(&Replica) -> Result<Remote, E> + 'a>;

/// Synchronizes again and again. `E` is what those fail with who say where the remote is.
pub struct Watch<'a, E> {
    replica: &'a mut Replica,
    reach: Reach<'a, E>,
    session: Session,
    pace: Pace,
    waiter: Waiter,
    began: Option<Instant>,
    took: Duration,
    state: State<E>,
    /// Since when there is no replica to go on with.
    without: Option<Instant>,
    /// What no outcome has told yet.
    restored: Option<Restored>,
}

impl<'a, E: From<SyncError>> Watch<'a, E> {
    /// `reach` is asked for the remote before each round, so that it can have a fresh token.
    pub fn new(
        replica: &'a mut Replica,
        session: Session,
        pace: Pace,
        reach: impl FnMut(&Replica) -> Result<Remote, E> + 'a,
    ) -> Watch<'a, E> {
        let state = State { online: false, last_sync: None, pending: 0, failures: 0, error: None };
        let (waiter, reach) = (Waiter::new(replica), Box::new(reach));
        let (began, took, without, restored) = (None, Duration::ZERO, None, None);
        Watch { replica, reach, session, pace, waiter, began, took, state, without, restored }
    }

    /// Whether another file has taken the place of the replica's, or none is there, or it is a replica no more, and for
    /// some seconds there has been no replica of its database. No round will succeed, then: the state says why.
    pub fn is_over(&self) -> bool {
        self.without.is_some_and(|since| since.elapsed() > replaced::PATIENCE)
    }

    /// Where it stands.
    pub fn state(&self) -> &State<E> {
        &self.state
    }

    /// Where it stood when nobody watches any more.
    pub fn into_state(self) -> State<E> {
        self.state
    }

    /// Time that the last round took that succeeded.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The replica.
    pub fn replica(&self) -> &Replica {
        self.replica
    }

    /// Waits until the next round is due, and does it. `None` if it was asked to stop. If the round failed, the state
    /// says why, and the outcome is missing unless something was merged before.
    pub fn round(&mut self, stop: impl Fn() -> bool) -> Option<Option<Outcome>> {
        if self.rest(&stop) == Woke::Stop {
            return None;
        }
        self.began = Some(Instant::now());
        let replaced = || self.waiter.notice.moved(self.replica) || !self.replica.is_one();
        if self.without.is_some() || replaced() {
            match replaced::take(self.replica, &self.session) {
                Ok(restored) => self.restored = restored.or(self.restored.take()),
                Err(e) => {
                    self.without = self.without.or(self.began);
                    return Some(self.failed(e.into(), None));
                }
            }
            (self.waiter, self.without) = (Waiter::new(self.replica), None);
        }
        if let Err(e) = self.replica.follow_dash() {
            return Some(self.failed(SyncError::from(e).into(), None));
        }
        let remote = match (self.reach)(self.replica) {
            Ok(remote) => remote,
            Err(e) => return Some(self.failed(e, None)),
        };
        self.waiter.listen(&remote);
        let outcome = match remote.sync(self.replica, &self.session) {
            Ok(outcome) => self.told(outcome),
            Err(e) => {
                self.state.online = !e.is_away();
                let (done, why) = match e {
                    SyncError::Unsent { done, why } => (Some(self.told(*done)), *why),
                    e => (None, e),
                };
                self.failed(why.into(), Some(&remote));
                return Some(done);
            }
        };
        self.took = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        self.waiter.looked(outcome.upto);
        let last_sync = Some(self.session.env.now_ms());
        self.state = State { online: true, last_sync, pending: 0, failures: 0, error: None };
        Some(Some(outcome))
    }

    fn told(&mut self, mut outcome: Outcome) -> Outcome {
        outcome.restored.extend(self.restored.take());
        outcome
    }

    fn failed(&mut self, e: E, remote: Option<&Remote>) -> Option<Outcome> {
        self.state.failures += 1;
        // What a round meets in the midst of `deinit` says less.
        let e = match self.without.is_none() && !self.replica.is_one() {
            true => {
                let path = self.replica.path().display().to_string();
                SyncError::from(synqlite_core::Error::NotAReplica(path)).into()
            }
            false => e,
        };
        self.state.error = Some(e);
        self.waiter.failed();
        if self.without.is_some() {
            return None;
        }
        // What cannot be read just now is as it was.
        self.state.pending = self.pending(remote).unwrap_or(self.state.pending);
        None
    }

    /// Changes that are here, and not at the remote if that has a name.
    fn pending(&self, remote: Option<&Remote>) -> synqlite_core::Result<i64> {
        let url = remote.map(Remote::url);
        let named =
            self.replica.remotes()?.into_iter().find(|named| Some(&named.url) == url.as_ref());
        let sent = named.map(|named| named.sent.map_or(0, |sent| sent.local_seq));
        let unpushed = sent.map_or(Ok(0), |sent| self.replica.changed_since(sent))?;
        Ok(self.replica.unfolded(i64::MAX)? + unpushed)
    }

    fn rest(&mut self, stop: &impl Fn() -> bool) -> Woke {
        let Some(began) = self.began else {
            return if stop() { Woke::Stop } else { Woke::Time };
        };
        std::thread::sleep(BREATH.saturating_sub(began.elapsed()));
        let failed = self.state.failures > 0;
        let changes = self.pace.changes.or(self.waiter.upto.map(|_| 1));
        // A round that failed is not begun again for what it failed at.
        let due = |replica: &Replica| {
            let waits = |n| replica.unfolded(n).is_ok_and(|waiting| waiting >= n);
            !failed && changes.is_some_and(waits)
        };
        self.waiter.wait(self.replica, began + self.pause(), due, stop)
    }

    /// Time from the last round to the next.
    fn pause(&self) -> Duration {
        if self.state.failures == 0 {
            let usual = if self.waiter.hears() { LIVE_EVERY } else { EVERY };
            return self.pace.every.unwrap_or(usual);
        }
        let [first, longest] = PAUSES;
        let pause = longest.min(first * 2_u32.pow(self.state.failures.min(10) - 1));
        // By chance, so that sites that lost a hub together do not come back together.
        let part = f64::from(self.session.env.random()[0]) / 255.0;
        let pause = pause.mul_f64(0.5 + part / 2.0);
        self.pace.every.map_or(pause, |every| every.min(pause))
    }
}
