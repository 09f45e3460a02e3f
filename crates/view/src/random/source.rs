//! Where choices come from: a seed, or bytes that somebody else chose.

/// A source of choices. The same seed, or the same bytes, give the same.
#[derive(Clone, Debug)]
pub struct Source {
    seed: u64,
    /// Bytes to choose by, last first; once they are used up every choice is the first.
    bytes: Option<Vec<u8>>,
}

impl Source {
    /// Choices of a seed (SplitMix64).
    pub fn new(seed: u64) -> Source {
        Source { seed, bytes: None }
    }

    /// Choices of a fuzzer: a byte each.
    pub fn of_bytes(bytes: &[u8]) -> Source {
        Source { seed: 0, bytes: Some(bytes.iter().rev().copied().collect()) }
    }

    /// Whether there is anything left to choose by.
    pub fn is_used_up(&self) -> bool {
        self.bytes.as_ref().is_some_and(Vec::is_empty)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        if let Some(bytes) = &mut self.bytes {
            return bytes.pop().map_or(0, u64::from);
        }
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.any() % (n.max(1) as u64)).unwrap_or(0)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.below(from.len());
        from.get(at).copied()
    }
}
