//! The frame of a batch: signature, sizes, checksums, compression.
//!
//! Invariant: no byte of a batch goes unchecked, and no size is believed before it is bounded. The
//! frame itself (signature, format, length of the header, its checksum) is the same in every format,
//! so that damage is never mistaken for a newer format.

use super::FORMAT;
use super::error::BatchError;
use super::header::{BatchHeader, BodySize};
use std::cell::RefCell;
use zstd::bulk::Decompressor;

const MAGIC: [u8; 8] = *b"\x93SynQBat";
/// Signature, format (u16), length of the header (u32).
const PRELUDE: usize = 14;
/// Bytes of BLAKE3 kept as a checksum.
const CHECKSUM: usize = 16;
/// Longest header: room for 400,000 sites.
const MAX_HEADER: u32 = 16 << 20;
/// Compression level of zstd.
const LEVEL: i32 = 3;
/// All bodies may unpack to `SLACK` bytes plus `RATIO` for each byte packed.
const SLACK: u64 = 256 << 10;
const RATIO: u64 = 64;
/// First bytes of a zstd frame that decompresses to nothing.
const SKIPPABLE: u32 = 0x184d_2a50;

/// The part of a batch that can be read without its body.
pub(super) struct Opened<'a> {
    pub(super) format: u16,
    pub(super) header: &'a [u8],
    /// Where the bodies begin.
    pub(super) start: u64,
}

/// All that comes before the bodies. The caller answers for the header's contents.
pub(super) fn open_with(header: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PRELUDE + header.len() + CHECKSUM);
    out.extend(MAGIC);
    out.extend(FORMAT.to_le_bytes());
    out.extend(u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(header);
    out.extend(checksum(blake3::hash(&out)));
    out
}

/// The whole batch, of all that comes before its bodies ([`super::Writer::head`]), and those.
pub fn close(mut head: Vec<u8>, packed: &[u8]) -> Vec<u8> {
    head.reserve(packed.len() + CHECKSUM);
    head.extend(packed);
    head.extend(checksum(blake3::hash(&head)));
    head
}

/// Puts header and packed bodies into a frame, whatever they are.
pub fn seal(header: &[u8], packed: &[u8]) -> Vec<u8> {
    close(open_with(header), packed)
}

/// Bytes of a batch whose bodies begin at `start`. What they unpack to is believed up to the
/// [`RATIO`].
pub(super) fn size(start: u64, bodies: &[BodySize]) -> Result<u64, BatchError> {
    let sum = |of: fn(&BodySize) -> u64| {
        let sum = bodies.iter().try_fold(0_u64, |sum, body| sum.checked_add(of(body)));
        sum.ok_or_else(|| BatchError::malformed("its declared size has more than 64 bits"))
    };
    let (packed, unpacked) = (sum(|body| body.packed)?, sum(|body| body.unpacked)?);
    let limit = SLACK.saturating_add(RATIO.saturating_mul(packed));
    if unpacked > limit {
        return Err(BatchError::TooLarge { what: "body", size: unpacked, limit });
    }
    let size = packed.checked_add(start).and_then(|size| size.checked_add(CHECKSUM as u64));
    size.ok_or_else(|| BatchError::malformed("its declared size has more than 64 bits"))
}

/// Finds and verifies the header.
pub(super) fn open(bytes: &[u8]) -> Result<Opened<'_>, BatchError> {
    if bytes.iter().zip(MAGIC).any(|(&a, b)| a != b) {
        return Err(BatchError::NotABatch);
    }
    let truncated = |need| BatchError::Truncated { have: bytes.len() as u64, need: need as u64 };
    let (prelude, rest) = bytes.split_first_chunk::<PRELUDE>().ok_or_else(|| truncated(PRELUDE))?;
    let [.., f0, f1, l0, l1, l2, l3] = *prelude;
    let len = u32::from_le_bytes([l0, l1, l2, l3]);
    if len > MAX_HEADER {
        let (size, limit) = (u64::from(len), u64::from(MAX_HEADER));
        return Err(BatchError::TooLarge { what: "header", size, limit });
    }
    let end = PRELUDE + len as usize;
    let (header, rest) =
        rest.split_at_checked(len as usize).ok_or_else(|| truncated(end + CHECKSUM))?;
    let sum = rest.first_chunk::<CHECKSUM>().ok_or_else(|| truncated(end + CHECKSUM))?;
    if *sum != checksum(blake3::hash(bytes.get(..end).unwrap_or_default())) {
        return Err(BatchError::Damaged("header"));
    }
    match u16::from_le_bytes([f0, f1]) {
        FORMAT => Ok(Opened { format: FORMAT, header, start: (end + CHECKSUM) as u64 }),
        ..FORMAT => Err(BatchError::malformed("its format is no longer read")),
        found => Err(BatchError::Newer { found, known: FORMAT }),
    }
}

/// Verifies a batch as its bytes pass by.
pub struct Verifier {
    size: u64,
    passed: u64,
    hasher: blake3::Hasher,
    sum: Vec<u8>,
}

impl Verifier {
    /// Of the batch with this header, all of whose bytes are to pass.
    pub fn new(header: &BatchHeader) -> Verifier {
        Verifier::of(header.size)
    }

    fn of(size: u64) -> Verifier {
        Verifier { size, passed: 0, hasher: blake3::Hasher::new(), sum: Vec::new() }
    }

    /// The next bytes.
    pub fn pass(&mut self, bytes: &[u8]) {
        let left = self.size.saturating_sub(CHECKSUM as u64).saturating_sub(self.passed);
        let checked = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (checked, sum) = bytes.split_at(checked);
        self.hasher.update(checked);
        self.sum.extend(sum.iter().take(CHECKSUM));
        self.passed = self.passed.saturating_add(bytes.len() as u64);
    }

    /// Whether that were all of them, as they were written.
    pub fn end(self) -> Result<(), BatchError> {
        if self.passed < self.size {
            return Err(BatchError::Truncated { have: self.passed, need: self.size });
        }
        if self.passed > self.size {
            return Err(BatchError::malformed("bytes follow its end"));
        }
        match self.sum == checksum(self.hasher.finalize()) {
            true => Ok(()),
            false => Err(BatchError::Damaged("body")),
        }
    }

    /// The last bytes of a batch of which all others have passed a [`Verifier::default`].
    pub fn sum(&self) -> [u8; CHECKSUM] {
        checksum(self.hasher.finalize())
    }
}

/// Of a batch that is being written, so of any length.
impl Default for Verifier {
    fn default() -> Verifier {
        Verifier::of(u64::MAX)
    }
}

fn checksum(hash: blake3::Hash) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    sum
}

/// Compresses the bodies of a batch.
///
/// What shrinks beyond [`RATIO`] is filled up with a frame that zstd skips, so that readers may take
/// any greater ratio for an attack.
pub(super) struct Packer {
    /// So many bytes may still unpack beyond it.
    slack: u64,
}

impl Default for Packer {
    fn default() -> Packer {
        Packer { slack: SLACK }
    }
}

impl Packer {
    pub(super) fn pack(&mut self, raw: &[u8]) -> Result<Vec<u8>, BatchError> {
        let failed = |why: &dyn ToString| BatchError::Compress(why.to_string());
        let mut packed = zstd::bulk::compress(raw, LEVEL).map_err(|e| failed(&e))?;
        let beyond = (raw.len() as u64).saturating_sub(RATIO * packed.len() as u64);
        let missing = beyond.saturating_sub(self.slack).div_ceil(RATIO);
        self.slack = self.slack.saturating_sub(beyond);
        if missing > 0 {
            let filling = u32::try_from(missing.saturating_sub(8)).map_err(|e| failed(&e))?;
            packed.extend(SKIPPABLE.to_le_bytes());
            packed.extend(filling.to_le_bytes());
            packed.resize(packed.len() + filling as usize, 0);
        }
        Ok(packed)
    }
}

/// Decompresses a body of `unpacked` bytes, which the header's [`size`] has bounded.
pub(super) fn unpack(packed: &[u8], unpacked: u64) -> Result<Vec<u8>, BatchError> {
    let wrong = || BatchError::malformed("its body does not decompress to its declared size");
    let len = usize::try_from(unpacked).map_err(|_| wrong())?;
    // What it takes to decompress is larger than most batches, and made once.
    thread_local! {
        static UNPACK: RefCell<Decompressor<'static>> = RefCell::default();
    }
    let raw =
        UNPACK.with_borrow_mut(|unpack| unpack.decompress(packed, len)).map_err(|_| wrong())?;
    if raw.len() == len { Ok(raw) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_survive_at_every_ratio() {
        let (mut packer, mut bodies) = (Packer::default(), vec![]);
        for len in [0, 1, SLACK as usize, 1 << 20, 16 << 20, 1_000, SLACK as usize + 1] {
            let raw = vec![7; len];
            let packed = packer.pack(&raw).unwrap();
            assert!(unpack(&packed, len as u64).unwrap() == raw, "{len} bytes");
            assert!(packed.len() < 1_000 + len / RATIO as usize, "{len} bytes");
            bodies.push(BodySize { rows: 0, unpacked: len as u64, packed: packed.len() as u64 });
            size(0, &bodies).unwrap();
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_goes_off() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], LEVEL).unwrap();
        assert!(bomb.len() < 10_000);
        let body = |unpacked| BodySize { rows: 1, unpacked, packed: bomb.len() as u64 };
        let refused = size(0, &[body(64 << 20)]);
        assert!(matches!(refused, Err(BatchError::TooLarge { what: "body", .. })), "{refused:?}");
        // Many small ones, each of which would pass.
        let refused = size(0, &vec![BodySize { rows: 1, unpacked: SLACK, packed: 20 }; 9]);
        assert!(matches!(refused, Err(BatchError::TooLarge { what: "body", .. })), "{refused:?}");
        assert!(matches!(unpack(&bomb, 1_000), Err(BatchError::Malformed(_))));
        let refused = size(1, &[body(u64::MAX), body(1)]);
        assert!(matches!(refused, Err(BatchError::Malformed(_))), "{refused:?}");
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut newer = seal(b"another header", b"");
        newer[8] = 3;
        assert!(matches!(open(&newer), Err(BatchError::Damaged("header"))));
        let end = PRELUDE + 14;
        let sum = checksum(blake3::hash(&newer[..end]));
        newer[end..end + CHECKSUM].copy_from_slice(&sum);
        assert!(matches!(open(&newer), Err(BatchError::Newer { found: 3, known: 2 })));
    }

    #[test]
    fn other_files_are_told_from_cut_ones() {
        assert!(matches!(open(b"SQLite format 3\0"), Err(BatchError::NotABatch)));
        assert!(matches!(open(b""), Err(BatchError::Truncated { have: 0, need: 14 })));
        let mut endless = seal(b"", b"");
        endless[10..14].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(open(&endless), Err(BatchError::TooLarge { what: "header", .. })));
    }
}
