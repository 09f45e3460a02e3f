//! SplitMix64: small, seeded, the same everywhere.

/// A source of random numbers. The same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A source for `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any 64-bit number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; `n` must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.any() % n
    }

    /// An index into a list of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the elements.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.index(from.len())]
    }

    /// Puts the elements in a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.index(i + 1));
        }
    }

    /// Sixteen random bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.any()) << 64 | u128::from(self.any())).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        let mut r = Random::new(1_234_567);
        assert_eq!(r.any(), 6_457_827_717_110_365_317);
        assert_eq!(r.any(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_shuffle_keeps_the_elements() {
        let mut list: Vec<u32> = (0..50).collect();
        Random::new(1).shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<_>>());
    }
}
