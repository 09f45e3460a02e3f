//! Seeded random numbers: the same on every machine and in every version.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of random numbers.
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream of a seed; `part` names what it is for, so that two parts of a workload draw
    /// from streams of their own.
    pub fn new(seed: u64, part: u64) -> Random {
        let mut stream = ChaCha8Rng::seed_from_u64(seed);
        stream.set_stream(part);
        Random(stream)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// From 0 to 1, 1 excluded.
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: i64) -> bool {
        self.between(1, n) == 1
    }

    /// Letters and digits, `low` to `high` of them.
    pub fn text(&mut self, low: i64, high: i64) -> String {
        const SIGNS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let length = self.between(low, high);
        (0..length).map(|_| SIGNS[self.0.random_range(0..SIGNS.len())] as char).collect()
    }

    /// Digits, exactly so many.
    pub fn digits(&mut self, length: usize) -> String {
        (0..length).map(|_| self.0.random_range(b'0'..=b'9') as char).collect()
    }

    /// Puts items into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        use rand::seq::SliceRandom;
        items.shuffle(&mut self.0);
    }
}
