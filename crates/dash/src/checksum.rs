//! The checksum of pages and trailers: XXH3, 128 bits.
//!
//! It tells what a power failure tore from what is whole. Nobody chooses what is torn, so it need
//! not withstand anyone. All the same the pages of a version begin from the random number of that
//! version, which whoever writes rows cannot know: no rows can be made up beforehand of which one
//! half has the checksum of the other.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

/// Length of a checksum in bytes.
pub(crate) const LENGTH: usize = 16;

/// The checksum of the pages of a version that has none.
pub(crate) const NO_PAGES: [u8; LENGTH] = [0; LENGTH];

/// The checksum of some bytes.
pub(crate) fn of(bytes: &[u8]) -> [u8; LENGTH] {
    xxh3_128(bytes).to_le_bytes()
}

/// Eight bytes that stand for others.
pub(crate) fn short(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The checksum of the pages of a version, piece by piece.
pub(crate) struct Pages {
    state: Xxh3,
    any: bool,
}

impl Pages {
    /// Of no page yet, for the version with this number.
    pub(crate) fn new(id: u64) -> Pages {
        Pages { state: Xxh3::with_seed(id), any: false }
    }

    /// Adds the bytes that follow.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.any |= !bytes.is_empty();
    }

    /// The checksum of all that was added.
    pub(crate) fn sum(&self) -> [u8; LENGTH] {
        if self.any { self.state.digest128().to_le_bytes() } else { NO_PAGES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_every_byte_and_on_the_version_and_not_on_the_pieces() {
        let bytes: Vec<u8> = (0..9000_u32).map(|i| (i * 7 / 3) as u8).collect();
        let sum = |id: u64, pieces: usize, bytes: &[u8]| {
            let mut pages = Pages::new(id);
            bytes.chunks(pieces).for_each(|piece| pages.add(piece));
            pages.sum()
        };
        let whole = sum(1, 9000, &bytes);
        assert_eq!(sum(1, 512, &bytes), whole);
        assert_ne!(sum(2, 512, &bytes), whole);
        for at in [0, 1, 511, 512, 4096, 8999] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(sum(1, 512, &changed), whole, "{at}");
        }
        assert_eq!(Pages::new(5).sum(), NO_PAGES);
    }
}
