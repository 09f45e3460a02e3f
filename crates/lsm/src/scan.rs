//! Scans: the visible keys of a range, in either direction, as of one sequence.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::merge::Merge;
use crate::version::State;

/// A walk over a range of keys, as the store was when it began.
///
/// As an [`Iterator`] it copies each pair; [`Scan::advance`] with [`Scan::key`] and
/// [`Scan::value`] lends them instead. After an error it ends.
pub struct Scan {
    /// Keeps the tables' files while the walk lasts.
    _state: Arc<State>,
    merge: Merge,
    seq: u64,
    back: bool,
    /// The bound the walk runs towards.
    end: Bound<Vec<u8>>,
    /// Descending: the pair found, as its entries are passed already.
    key: Vec<u8>,
    value: Vec<u8>,
    started: bool,
    done: bool,
}

/// Keys that start with `prefix`, as bounds.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let kept = prefix.iter().rposition(|b| *b != 0xff).map_or(0, |i| i + 1);
    let end = match prefix[..kept].split_last() {
        Some((last, head)) => Bound::Excluded([head, &[last + 1]].concat()),
        None => Bound::Unbounded,
    };
    (Bound::Included(prefix.to_vec()), end)
}

impl Scan {
    pub(crate) fn new(
        state: Arc<State>,
        seq: u64,
        range: &impl RangeBounds<Vec<u8>>,
        back: bool,
    ) -> Result<Scan> {
        let (low, high) = (range.start_bound(), range.end_bound());
        if let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) =
            (low, high)
            && a > b
        {
            return Err(Error::ReversedRange);
        }
        // All versions of a key come after (key, MAX) and before (key, 0).
        let from = match if back { high } else { low } {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((key.as_slice(), if back { 0 } else { u64::MAX })),
            Bound::Excluded(key) => Some((key.as_slice(), if back { u64::MAX } else { 0 })),
        };
        let merge = state.merge(from, back, 0)?;
        let end = if back { low } else { high }.cloned();
        let (key, value) = (Vec::new(), Vec::new());
        Ok(Scan { _state: state, merge, seq, back, end, key, value, started: false, done: false })
    }

    fn past_end(&self, key: &[u8]) -> bool {
        match (&self.end, self.back) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(end), false) => key > end.as_slice(),
            (Bound::Excluded(end), false) => key >= end.as_slice(),
            (Bound::Included(end), true) => key < end.as_slice(),
            (Bound::Excluded(end), true) => key <= end.as_slice(),
        }
    }

    /// Moves to the next pair; `false` at the end.
    pub fn advance(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let found = if self.back { self.step_back() } else { self.step() };
        self.done = !matches!(found, Ok(true));
        found
    }

    /// Ascending: the newest visible version of each key comes first.
    fn step(&mut self) -> Result<bool> {
        if std::mem::replace(&mut self.started, true) {
            self.merge.next_key()?;
        }
        while let Some(entry) = self.merge.entry().filter(|e| !self.past_end(e.key)) {
            if entry.seq > self.seq {
                self.merge.advance()?;
            } else if entry.value.is_some() {
                return Ok(true);
            } else {
                self.merge.next_key()?;
            }
        }
        Ok(false)
    }

    /// Descending: the newest visible version of each key comes last.
    fn step_back(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(false) };
            if self.past_end(entry.key) {
                return Ok(false);
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            let mut found = false;
            while let Some(entry) = self.merge.entry().filter(|e| e.key == self.key) {
                if entry.seq <= self.seq {
                    found = entry.value.is_some();
                    self.value.clear();
                    self.value.extend_from_slice(entry.value.unwrap_or_default());
                }
                self.merge.advance()?;
            }
            if found {
                return Ok(true);
            }
        }
    }

    /// The key the walk stands at, after [`Scan::advance`] said `true`.
    pub fn key(&self) -> &[u8] {
        if self.back {
            return &self.key;
        }
        self.merge.entry().map(|e| e.key).unwrap_or_default()
    }

    /// The value the walk stands at, after [`Scan::advance`] said `true`.
    pub fn value(&self) -> &[u8] {
        if self.back {
            return &self.value;
        }
        self.merge.entry().and_then(|e| e.value).unwrap_or_default()
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => Some(Ok((self.key().to_vec(), self.value().to_vec()))),
            Ok(false) => None,
            Err(e) => Some(Err(e)),
        }
    }
}
