//! The frame of a batch: signature, sizes, checksums, compression.
//!
//! Invariant: no byte of a batch goes unchecked, and no size is believed before it is bounded. The
//! frame itself (signature, format, length of the header, its checksum) is the same in every format,
//! so that damage is never mistaken for a newer format.

use super::FORMAT;
use super::error::BatchError;
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
/// A body may unpack to `SLACK` bytes plus `RATIO` for each byte packed.
const SLACK: u64 = 256 << 10;
const RATIO: u64 = 64;
/// First bytes of a zstd frame that decompresses to nothing.
const SKIPPABLE: u32 = 0x184d_2a50;

/// The part of a batch that can be read without its body.
pub(super) struct Opened<'a> {
    pub(super) format: u16,
    pub(super) header: &'a [u8],
    /// Where the body begins.
    pub(super) body: usize,
}

/// Puts header and packed body into a frame. The caller answers for their contents.
pub fn seal(header: &[u8], packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PRELUDE + header.len() + packed.len() + 2 * CHECKSUM);
    out.extend(MAGIC);
    out.extend(FORMAT.to_le_bytes());
    out.extend(u32::try_from(header.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(header);
    out.extend(checksum(&out));
    out.extend(packed);
    out.extend(checksum(&out));
    out
}

/// Bytes of a batch whose body begins at `body` and is `packed` bytes long.
pub(super) fn size(body: usize, packed: u64) -> Option<u64> {
    packed.checked_add(body as u64)?.checked_add(CHECKSUM as u64)
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
    if *sum != checksum(bytes.get(..end).unwrap_or_default()) {
        return Err(BatchError::Damaged("header"));
    }
    match u16::from_le_bytes([f0, f1]) {
        FORMAT => Ok(Opened { format: FORMAT, header, body: end + CHECKSUM }),
        0 => Err(BatchError::malformed("there is no format 0")),
        found => Err(BatchError::Newer { found, known: FORMAT }),
    }
}

/// Verifies a batch of `size` bytes and returns its packed body, which begins at `body`.
pub(super) fn open_body(bytes: &[u8], body: usize, size: u64) -> Result<&[u8], BatchError> {
    let have = bytes.len() as u64;
    if have < size {
        return Err(BatchError::Truncated { have, need: size });
    }
    if have > size {
        return Err(BatchError::malformed("bytes follow its end"));
    }
    let no_body = || BatchError::malformed("it has no body");
    let (checked, sum) = bytes.split_last_chunk::<CHECKSUM>().ok_or_else(no_body)?;
    if *sum != checksum(checked) {
        return Err(BatchError::Damaged("body"));
    }
    checked.get(body..).ok_or_else(no_body)
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.iter_mut().zip(blake3::hash(bytes).as_bytes()).for_each(|(to, from)| *to = *from);
    sum
}

/// Compresses a body.
///
/// One that shrinks beyond [`RATIO`] is filled up with a frame that zstd skips, so that readers may
/// take any greater ratio for an attack.
pub(super) fn pack(raw: &[u8]) -> Result<Vec<u8>, BatchError> {
    let failed = |why: &dyn ToString| BatchError::Compress(why.to_string());
    let mut packed = zstd::bulk::compress(raw, LEVEL).map_err(|e| failed(&e))?;
    let least = (raw.len() as u64).saturating_sub(SLACK).div_ceil(RATIO);
    if let Some(missing @ 1..) = least.checked_sub(packed.len() as u64) {
        let filling = u32::try_from(missing.saturating_sub(8)).map_err(|e| failed(&e))?;
        packed.extend(SKIPPABLE.to_le_bytes());
        packed.extend(filling.to_le_bytes());
        packed.resize(packed.len() + filling as usize, 0);
    }
    Ok(packed)
}

/// Decompresses a body of `unpacked` bytes.
pub(super) fn unpack(packed: &[u8], unpacked: u64) -> Result<Vec<u8>, BatchError> {
    let limit = SLACK.saturating_add(RATIO.saturating_mul(packed.len() as u64));
    let len = usize::try_from(unpacked).ok().filter(|_| unpacked <= limit);
    let too_large = BatchError::TooLarge { what: "body", size: unpacked, limit };
    let len = len.ok_or(too_large)?;
    // What it takes to decompress is larger than most batches, and made once.
    thread_local! {
        static UNPACK: RefCell<Decompressor<'static>> = RefCell::default();
    }
    let raw = UNPACK
        .with_borrow_mut(|unpack| unpack.decompress(packed, len))
        .map_err(|_| BatchError::malformed("its body does not decompress to its declared size"))?;
    if raw.len() as u64 == unpacked {
        Ok(raw)
    } else {
        Err(BatchError::malformed("its body does not decompress to its declared size"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_survive_at_every_ratio() {
        for len in [0, 1, SLACK as usize, SLACK as usize + 1, 1 << 20, 16 << 20] {
            let raw = vec![7; len];
            let packed = pack(&raw).unwrap();
            assert!(unpack(&packed, len as u64).unwrap() == raw, "{len} bytes");
            assert!(packed.len() < 1_000 + len / RATIO as usize, "{len} bytes");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_goes_off() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], LEVEL).unwrap();
        assert!(bomb.len() < 10_000);
        let refused = unpack(&bomb, 64 << 20);
        assert!(matches!(refused, Err(BatchError::TooLarge { what: "body", .. })), "{refused:?}");
        assert!(matches!(unpack(&bomb, 1_000), Err(BatchError::Malformed(_))));
        assert!(matches!(unpack(&bomb, u64::MAX), Err(BatchError::TooLarge { .. })));
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut newer = seal(b"another header", b"");
        newer[8] = 2;
        assert!(matches!(open(&newer), Err(BatchError::Damaged("header"))));
        let end = PRELUDE + 14;
        let sum = checksum(&newer[..end]);
        newer[end..end + CHECKSUM].copy_from_slice(&sum);
        assert!(matches!(open(&newer), Err(BatchError::Newer { found: 2, known: 1 })));
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
