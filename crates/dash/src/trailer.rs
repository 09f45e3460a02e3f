//! The trailer: the last 4 KiB of both files of a pair. It says which version the file holds and
//! which bytes the transaction of that version wrote.
//!
//! It lies behind the pages, where no SQLite looks, and in the same file as they, so the
//! synchronization that makes the pages durable makes it durable too. Bytes: docs/formats/shadow.md.
//!
//! The first sector has a checksum of its own and one of the rest, so a trailer torn at 512 bytes
//! is not taken for a whole one. `pages` is the checksum of everything the commit wrote, so a file
//! of which only some pages reached the device is not taken for a whole one either.

use crate::checksum;
use crate::ranges::Ranges;

/// Length of a trailer in bytes.
pub(crate) const LENGTH: u64 = 4096;
const SECTOR: usize = 512;
const MAGIC: &[u8; 8] = b"SynQDash";
const FORMAT: u32 = 2;
/// Offset of the checksum that ends the first sector.
const SEAL: usize = SECTOR - checksum::LENGTH;
const BODY: usize = LENGTH as usize - SECTOR;

/// What a trailer says about its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Ties the two files of a pair together; a new one makes older trailers void.
    pub pair: [u8; 16],
    /// Counts the transactions of the pair. 0: reset, as the paper's protocol does after a commit.
    pub version: u64,
    /// A random number of this version, and that of the version before: a file that was put back
    /// from a copy may have the right version of another history.
    pub id: u64,
    /// See `id`.
    pub after: u64,
    /// Length of the database in bytes, without padding and trailer.
    pub size: u64,
    /// Change counter in the database header. If it differs there, another program wrote the file.
    pub counter: u32,
    /// What the transaction of this version wrote.
    pub wrote: Ranges,
    /// What was written to this file for it: that, and what the transaction before it wrote.
    pub here: Ranges,
    /// Checksum of all bytes in `here`, in ascending order.
    pub pages: [u8; checksum::LENGTH],
    /// The super-journal of a commit of several files, from the database's folder; empty for a commit
    /// of one. While that file exists this version does not count.
    pub commits_with: String,
}

impl Trailer {
    /// The bytes of this trailer. The lists must fit: see [`Trailer::room`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; LENGTH as usize];
        let mut at = SECTOR;
        for (start, end) in self.wrote.iter().chain(self.here.iter()) {
            out[at..at + 4].copy_from_slice(&blocks(start).to_le_bytes());
            out[at + 4..at + 8].copy_from_slice(&blocks(end - start).to_le_bytes());
            at += 8;
        }
        out[at..at + self.commits_with.len()].copy_from_slice(self.commits_with.as_bytes());
        let body = checksum::of(&out[SECTOR..]);
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        out[12..16].copy_from_slice(&self.counter.to_le_bytes());
        out[16..24].copy_from_slice(&self.version.to_le_bytes());
        out[24..32].copy_from_slice(&self.size.to_le_bytes());
        out[32..48].copy_from_slice(&self.pair);
        out[48..50].copy_from_slice(&(self.wrote.len() as u16).to_le_bytes());
        out[50..52].copy_from_slice(&(self.here.len() as u16).to_le_bytes());
        out[52..54].copy_from_slice(&(self.commits_with.len() as u16).to_le_bytes());
        out[56..64].copy_from_slice(&self.id.to_le_bytes());
        out[64..72].copy_from_slice(&self.after.to_le_bytes());
        out[80..96].copy_from_slice(&self.pages);
        out[96..112].copy_from_slice(&body);
        let seal = checksum::of(&out[..SEAL]);
        out[SEAL..SECTOR].copy_from_slice(&seal);
        out
    }

    /// The trailer in these bytes, or `None` if they are no whole one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Trailer> {
        if bytes.len() != LENGTH as usize || &bytes[..8] != MAGIC {
            return None;
        }
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let sealed = checksum::of(&bytes[..SEAL]) == bytes[SEAL..SECTOR];
        let whole = checksum::of(&bytes[SECTOR..]) == bytes[96..112];
        let (wrote, here, name) = (short(48), short(50), short(52));
        let lists = 8 * (wrote + here);
        if !sealed || !whole || word(8) != FORMAT || lists + name > BODY {
            return None;
        }
        let list = |from: usize, count: usize| {
            let mut ranges = Ranges::default();
            for at in (0..count).map(|i| SECTOR + 8 * (from + i)) {
                let start = u64::from(word(at)) * SECTOR as u64;
                ranges.add(start, start + u64::from(word(at + 4)) * SECTOR as u64);
            }
            ranges
        };
        let name = &bytes[SECTOR + lists..SECTOR + lists + name];
        Some(Trailer {
            pair: bytes[32..48].try_into().ok()?,
            version: long(16),
            id: long(56),
            after: long(64),
            size: long(24),
            counter: word(12),
            wrote: list(0, wrote),
            here: list(wrote, here),
            pages: bytes[80..96].try_into().ok()?,
            commits_with: String::from_utf8(name.to_vec()).ok()?,
        })
    }

    /// Where a file with this version may differ from a database of `size` bytes on which its
    /// transaction began. What that cut off counts too: it may have been written to before, or be
    /// gone with the end of the file.
    pub(crate) fn differs(&self, size: u64) -> Ranges {
        let mut ranges = self.here.clipped(size);
        ranges.add(self.size, size);
        ranges
    }

    /// How many ranges each of the two lists may have beside a name of `name` bytes; `None` if the
    /// name is too long.
    pub(crate) fn room(name: usize) -> Option<usize> {
        Some(BODY.checked_sub(name)? / 16).filter(|&ranges| ranges > 0)
    }
}

/// Largest database in bytes that a trailer can describe: 2 TiB.
pub(crate) const LARGEST: u64 = (u32::MAX as u64) * SECTOR as u64;

fn blocks(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR as u64)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some(version: u64, name: &str, starts: &[u64]) -> Trailer {
        let mut here = Ranges::default();
        starts.iter().for_each(|s| here.add(s * 512, s * 512 + 512));
        Trailer {
            pair: [7; 16],
            version,
            id: version ^ 5,
            after: version ^ 6,
            size: 1 << 20,
            counter: 9,
            wrote: here.at_most(3),
            here,
            pages: [3; checksum::LENGTH],
            commits_with: name.to_owned(),
        }
    }

    proptest! {
        #[test]
        fn decodes_what_was_encoded(version: u64, name in "[a-z/]{0,200}",
                                    starts in prop::collection::vec(0u64..1000, 0..100)) {
            let trailer = some(version, &name, &starts);
            prop_assert_eq!(Trailer::decode(&trailer.encode()), Some(trailer));
        }

        #[test]
        fn torn_or_flipped_ones_do_not_count(sectors in 1u8..255, bit in 0usize..4096 * 8) {
            let (old, new) = (some(1, "", &[1, 5]).encode(), some(2, "x", &[2, 7, 9]).encode());
            let mut torn = old.clone();
            for sector in (0..8).filter(|s| sectors & (1 << s) != 0) {
                let at = sector * 512..sector * 512 + 512;
                torn[at.clone()].copy_from_slice(&new[at]);
            }
            prop_assert!(torn == old || torn == new || Trailer::decode(&torn).is_none());
            let mut flipped = new.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // The zeros between the fields are under a checksum as well.
            prop_assert!(Trailer::decode(&flipped).is_none());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 4096)) {
            let mut bytes = bytes;
            bytes[..8].copy_from_slice(MAGIC);
            let body = checksum::of(&bytes[SECTOR..]);
            bytes[96..112].copy_from_slice(&body);
            let seal = checksum::of(&bytes[..SEAL]);
            bytes[SEAL..SECTOR].copy_from_slice(&seal);
            let _ = Trailer::decode(&bytes);
        }
    }
}
