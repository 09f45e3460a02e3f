//! Numbers and byte strings in as few bytes as they need.
//!
//! Unsigned numbers are LEB128: seven bits a byte, lowest first, the top bit set on all bytes but
//! the last. Signed ones are folded to unsigned first (0, -1, 1, -2, ...). Every number has one
//! encoding: longer ones are refused.

use super::error::BatchError;
use crate::clock::Hlc;

/// Appends an unsigned number.
pub(super) fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a signed number.
pub(super) fn put_signed(out: &mut Vec<u8>, n: i64) {
    put(out, ((n << 1) ^ (n >> 63)) as u64);
}

/// Appends a clock plus one, or 0 for none.
pub(super) fn put_clock(out: &mut Vec<u8>, clock: Option<Hlc>) {
    put(out, clock.map_or(0, |clock| clock.0.cast_unsigned().wrapping_add(1)));
}

/// Appends a text: its length in bytes and its bytes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Appends a list of texts: their number and each of them.
pub(super) fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put(out, texts.len() as u64);
    texts.iter().for_each(|text| put_text(out, text));
}

/// What is left of the bytes being read.
///
/// Nothing here allocates by a number that was read: numbers come without bound, bytes do not.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], BatchError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or_else(ends_early)?;
        self.0 = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], BatchError> {
        let (head, rest) = self.0.split_first_chunk().ok_or_else(ends_early)?;
        self.0 = rest;
        Ok(*head)
    }

    /// An unsigned number.
    pub(super) fn varint(&mut self) -> Result<u64, BatchError> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            n |= bits << shift;
            if bits << shift >> shift != bits {
                return Err(BatchError::malformed("a number has more than 64 bits"));
            }
            if byte < 0x80 {
                return if byte == 0 && shift > 0 {
                    Err(BatchError::malformed("a number is longer than it need be"))
                } else {
                    Ok(n)
                };
            }
        }
        Err(BatchError::malformed("a number has more than ten bytes"))
    }

    /// A signed number.
    pub(super) fn signed(&mut self) -> Result<i64, BatchError> {
        let n = self.varint()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// A clock that may be absent.
    pub(super) fn clock(&mut self) -> Result<Option<Hlc>, BatchError> {
        let clock = self.varint()?.checked_sub(1).map(i64::try_from).transpose();
        Ok(clock.map_err(|_| BatchError::malformed("a clock is out of range"))?.map(Hlc))
    }

    /// A number of things of which each takes one byte or more, so that it cannot exceed what is left.
    pub(super) fn count(&mut self) -> Result<usize, BatchError> {
        let n = self.varint()?;
        usize::try_from(n).ok().filter(|&n| n <= self.left()).ok_or_else(ends_early)
    }

    /// A text.
    pub(super) fn text(&mut self) -> Result<String, BatchError> {
        let len = self.count()?;
        let text = std::str::from_utf8(self.bytes(len)?);
        text.map(str::to_owned).map_err(|_| BatchError::malformed("a name is not UTF-8"))
    }

    /// A list of texts.
    pub(super) fn texts(&mut self) -> Result<Vec<String>, BatchError> {
        (0..self.count()?).map(|_| self.text()).collect()
    }

    /// Nothing may be left.
    pub(super) fn finish(&self) -> Result<(), BatchError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(BatchError::malformed("bytes are left over at the end of a part"))
        }
    }
}

fn ends_early() -> BatchError {
    BatchError::malformed("a part ends before all that it announces")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_take_one_byte() {
        let mut out = Vec::new();
        put(&mut out, 127);
        put_signed(&mut out, -64);
        assert_eq!(out, [127, 127]);
    }

    #[test]
    fn a_number_has_one_encoding() {
        assert!(Reader::new(&[0x80, 0x00]).varint().is_err());
        assert!(Reader::new(&[0xff; 11]).varint().is_err());
        let mut widest = [0xff; 10];
        widest[9] = 1;
        assert_eq!(Reader::new(&widest).varint(), Ok(u64::MAX));
        widest[9] = 2;
        assert!(Reader::new(&widest).varint().is_err());
    }

    #[test]
    fn a_count_never_exceeds_what_is_left() {
        assert!(Reader::new(&[3, 0, 0]).count().is_err());
        assert_eq!(Reader::new(&[2, 0, 0]).count(), Ok(2));
    }

    proptest! {
        #[test]
        fn numbers_survive(n in any::<u64>(), low in 0u32..64, i in any::<i64>()) {
            let mut out = Vec::new();
            put(&mut out, n >> low);
            put_signed(&mut out, i >> low);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(n >> low));
            prop_assert_eq!(reader.signed(), Ok(i >> low));
            prop_assert_eq!(reader.finish(), Ok(()));
        }
    }
}
