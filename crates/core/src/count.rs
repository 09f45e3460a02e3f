//! Rows are counted one by one and told of in batches.

use crate::Result;
use crate::env::Environment;
use crate::parts;
use crate::progress::{Phase, Step};

/// Rows are counted up to so many before they are told.
const BATCH: u64 = parts::of(512) as u64;

/// Counts what is done of a phase, and tells it now and then.
pub struct Count<'a> {
    env: &'a dyn Environment,
    step: Step,
    told: u64,
}

impl<'a> Count<'a> {
    /// Of a phase that begins now. Little work is not worth telling of.
    pub fn new(env: &'a dyn Environment, phase: Phase, total: Option<u64>) -> Count<'a> {
        Count { env, step: Step { phase, done: 0, total }, told: 0 }
    }

    /// So much more is done.
    pub fn add(&mut self, n: u64) {
        self.step.done += n;
        if self.step.done - self.told >= BATCH {
            self.told = self.step.done;
            self.env.step(self.step);
        }
    }

    /// All is done but what is too little to be told of by whoever does it.
    pub fn leave(&mut self) {
        let left = self.step.total.unwrap_or_default().saturating_sub(self.step.done);
        if left < BATCH {
            self.add(left);
        }
    }

    /// All is done, however much it was thought to be.
    pub fn end(mut self) {
        if self.told > 0 {
            self.step.total = self.step.total.map(|_| self.step.done);
            self.told = self.step.done;
            self.env.step(self.step);
        }
    }

    /// The same of work of which `all` says how much it is, once it is known not to be little.
    pub fn add_of(&mut self, n: u64, all: impl FnOnce() -> Result<u64>) -> Result<()> {
        if self.step.total.is_none() && self.step.done + n >= BATCH {
            self.step.total = Some(all()?);
        }
        self.add(n);
        Ok(())
    }
}

impl Drop for Count<'_> {
    /// What was told of ends with all of it.
    fn drop(&mut self) {
        if self.told > 0 && self.step.done > self.told {
            self.env.step(self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::System;
    use std::path::Path;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Watcher(Mutex<Vec<u64>>);

    impl Environment for Watcher {
        fn now_ms(&self) -> i64 {
            System.now_ms()
        }

        fn random(&self) -> [u8; 16] {
            System.random()
        }

        fn instance(&self, path: &Path) -> String {
            System.instance(path)
        }

        fn step(&self, step: Step) {
            self.0.lock().unwrap().push(step.done);
        }
    }

    #[test]
    fn rows_are_told_in_batches() {
        let watcher = Watcher::default();
        let mut count = Count::new(&watcher, Phase::Merge, None);
        (0..3 * BATCH - 1).for_each(|_| count.add(1));
        assert_eq!(*watcher.0.lock().unwrap(), [BATCH, 2 * BATCH]);
        drop(count);
        assert_eq!(*watcher.0.lock().unwrap(), [BATCH, 2 * BATCH, 3 * BATCH - 1]);
        Count::new(&watcher, Phase::Fold, None).add(BATCH - 1);
        assert_eq!(watcher.0.lock().unwrap().len(), 3);
    }
}
