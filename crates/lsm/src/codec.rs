//! Small pieces every format shares: varints, a bounded reader, the key hash, key prefixes.

/// Appends `n` as a little-endian base-128 varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a length-prefixed byte string.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from a byte slice and never past its end; `None` means the bytes do not fit the format.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    #[inline(always)]
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub(crate) fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        if first < 0x80 {
            self.0 = rest;
            return Some(u64::from(first));
        }
        let (&second, rest) = rest.split_first()?;
        if second < 0x80 {
            self.0 = rest;
            return Some(u64::from(first & 0x7f) | u64::from(second) << 7);
        }
        self.long_varint()
    }

    #[cold]
    fn long_varint(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    #[inline(always)]
    pub(crate) fn len(&mut self) -> Option<usize> {
        self.varint().and_then(|n| usize::try_from(n).ok())
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.len()?;
        self.take(n)
    }
}

/// CRC-32 that starts from a seed, so that a part in another place or file does not fit.
pub(crate) fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

const K: u64 = 0x9E37_79B9_7F4A_7C15;

/// The 64-bit key hash of the filters; part of the file format.
pub(crate) fn hash(key: &[u8]) -> u64 {
    let mut h = (key.len() as u64).wrapping_mul(K);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        h = (h.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(K);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        h = (h.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(K);
    }
    h ^= h >> 32;
    h = h.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    h ^ (h >> 32)
}

/// The first 16 bytes of a key as a big-endian number, zero-padded: most comparisons end here.
#[inline]
pub(crate) fn prefix(key: &[u8]) -> u128 {
    if let Some(first) = key.first_chunk() {
        return u128::from_be_bytes(*first);
    }
    let mut padded = [0; 16];
    padded[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(padded)
}

/// Length of the common prefix of two byte strings.
#[inline]
pub(crate) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let mut i = 0;
    while i + 8 <= n {
        let (x, y) = (word(a, i), word(b, i));
        if x != y {
            return i + ((x ^ y).trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    while i < n && a[i] == b[i] {
        i += 1;
    }
    i
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |w| u64::from_le_bytes(*w))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip(n: u64) {
            let mut out = Vec::new();
            put_varint(&mut out, n);
            let mut r = Reader(&out);
            prop_assert_eq!(r.varint(), Some(n));
            prop_assert!(r.0.is_empty());
        }

        #[test]
        fn prefixes_order_like_keys(a: Vec<u8>, b: Vec<u8>) {
            if prefix(&a) != prefix(&b) {
                prop_assert_eq!(prefix(&a).cmp(&prefix(&b)), a.cmp(&b));
            }
        }

        #[test]
        fn shared_len_is_the_longest_common_prefix(a: Vec<u8>, b: Vec<u8>, cut: usize) {
            let n = shared_len(&a, &b);
            prop_assert_eq!(&a[..n], &b[..n]);
            prop_assert!(a.get(n).is_none() || b.get(n).is_none() || a[n] != b[n]);
            let cut = cut % (a.len() + 1);
            prop_assert_eq!(shared_len(&a, &a[..cut]), cut);
        }
    }

    #[test]
    fn overlong_varints_are_refused() {
        assert_eq!(Reader(&[0xff; 11]).varint(), None);
        assert_eq!(Reader(&[0x80]).varint(), None);
    }
}
