//! What changed since a sequence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::error::Result;
use crate::version::State;

/// Changes collected in one pass over the store.
const CHUNK: usize = 4096;

/// A key's newest change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// When: every change has a sequence of its own.
    pub sequence: u64,
    /// The key.
    pub key: Vec<u8>,
    /// Its value; `None` if it was deleted.
    pub value: Option<Vec<u8>>,
}

/// Changes in order of sequence, as the store was when asked.
///
/// Memory is bounded: each pass collects the oldest few thousand that remain and skips every block
/// that holds nothing newer than what was delivered.
pub struct Changes {
    state: Arc<State>,
    after: u64,
    until: u64,
    /// Oldest last.
    ready: Vec<Change>,
    done: bool,
}

impl Changes {
    pub(crate) fn new(state: Arc<State>, after: u64, until: u64) -> Changes {
        Changes { state, after, until, ready: Vec::new(), done: after >= until }
    }

    fn fill(&mut self) -> Result<()> {
        let mut merge = self.state.merge(None, false, self.after)?;
        let mut oldest: BinaryHeap<Change> = BinaryHeap::new();
        while let Some(entry) = merge.entry() {
            if entry.seq > self.until {
                merge.advance()?;
                continue;
            }
            let full = oldest.len() >= CHUNK;
            let late = full && oldest.peek().is_some_and(|c| c.sequence < entry.seq);
            if entry.seq > self.after && !late {
                if full {
                    oldest.pop();
                }
                let (key, value) = (entry.key.to_vec(), entry.value.map(<[u8]>::to_vec));
                oldest.push(Change { sequence: entry.seq, key, value });
            }
            merge.next_key()?;
        }
        self.done = oldest.len() < CHUNK;
        self.ready = oldest.into_vec();
        self.ready.sort_unstable_by_key(|c| Reverse(c.sequence));
        if let Some(newest) = self.ready.first() {
            self.after = newest.sequence;
        }
        Ok(())
    }
}

impl Iterator for Changes {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Result<Change>> {
        if self.ready.is_empty()
            && !self.done
            && let Err(e) = self.fill()
        {
            self.done = true;
            return Some(Err(e));
        }
        self.ready.pop().map(Ok)
    }
}
