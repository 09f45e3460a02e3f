//! The keys of rows that were born together, packed: each says how many bytes it shares with the
//! one before it, then the rest.
//!
//! Keys that are texts are UUIDs, numbers in hex or other random characters more often than not, which
//! share nothing. Of a rest all of whose bytes are in one of two alphabets each takes five or six bits.

use crate::{Error, Result};

/// Characters, and with how many bits each is numbered.
struct Alphabet {
    bits: usize,
    characters: &'static [u8],
    /// The number of each byte; what is none of the characters has [`NONE`].
    numbers: [u8; 256],
}

const NONE: u8 = u8::MAX;

/// UUIDs, hex digits.
static FIVE: Alphabet = Alphabet::new(5, b"0123456789abcdef-");
/// What identifiers are made of.
static SIX: Alphabet =
    Alphabet::new(6, b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_");

impl Alphabet {
    const fn new(bits: usize, characters: &'static [u8]) -> Alphabet {
        let (mut numbers, mut i) = ([NONE; 256], 0);
        while i < characters.len() {
            numbers[characters[i] as usize] = i as u8;
            i += 1;
        }
        Alphabet { bits, characters, numbers }
    }

    /// Numbers of the bytes of `text`, highest bit first; `None` if one is not among the characters.
    fn pack(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity((text.len() * self.bits).div_ceil(8));
        let (mut pending, mut count) = (0_u32, 0);
        for &byte in text {
            let number = Some(self.numbers[byte as usize]).filter(|&number| number != NONE)?;
            (pending, count) = (pending << self.bits | u32::from(number), count + self.bits);
            while count >= 8 {
                count -= 8;
                out.push((pending >> count) as u8);
            }
        }
        if count > 0 {
            out.push((pending << (8 - count)) as u8);
        }
        Some(out)
    }

    /// Adds the `len` bytes that were packed to `text`.
    fn unpack(&self, packed: &[u8], len: usize, text: &mut Vec<u8>) -> Result<()> {
        let (mut pending, mut count, mut packed) = (0_u32, 0, packed.iter());
        for _ in 0..len {
            if count < self.bits {
                let byte = packed.next().ok_or_else(damaged)?;
                (pending, count) = (pending << 8 | u32::from(*byte), count + 8);
            }
            count -= self.bits;
            let number = (pending >> count) as usize & ((1 << self.bits) - 1);
            text.push(*self.characters.get(number).ok_or_else(damaged)?);
        }
        Ok(())
    }
}

/// Packed keys, in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(pub Vec<u8>);

impl Keys {
    /// Adds `key` after `last`.
    pub fn push(&mut self, last: &[u8], key: &[u8]) {
        let shared = last.iter().zip(key).take_while(|(a, b)| a == b).count();
        let rest = &key[shared..];
        self.number(shared);
        let packed = [&FIVE, &SIX].into_iter().zip(1..);
        let packed = packed.filter_map(|(alphabet, no)| Some((alphabet.pack(rest)?, no))).next();
        let (bytes, alphabet) = match &packed {
            Some((packed, alphabet)) => (&packed[..], *alphabet),
            None => (rest, 0),
        };
        self.number(rest.len() << 2 | alphabet);
        self.0.extend(bytes);
    }

    /// Puts the `i`th key into `out`, which must be empty.
    pub fn get(&self, i: i64, out: &mut Vec<u8>) -> Result<()> {
        let mut reader = self.reader();
        for _ in 0..=i {
            if !reader.next_into(out)? {
                return Err(damaged());
            }
        }
        Ok(())
    }

    /// All of them.
    pub fn all(&self) -> Result<Vec<Vec<u8>>> {
        let (mut reader, mut all, mut key) = (self.reader(), Vec::new(), Vec::new());
        while reader.next_into(&mut key)? {
            all.push(key.clone());
        }
        Ok(all)
    }

    /// Changes each of them; says whether any is another then.
    pub fn rewrite(&mut self, change: impl Fn(&mut Vec<u8>)) -> Result<bool> {
        let (before, mut last, mut new) = (self.all()?, Vec::new(), Keys::default());
        for mut key in before {
            change(&mut key);
            new.push(&last, &key);
            last = key;
        }
        let other = new != *self;
        *self = new;
        Ok(other)
    }

    fn reader(&self) -> Reader<'_> {
        Reader(&self.0)
    }

    fn number(&mut self, mut n: usize) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// Makes the last key the next one. False if there is none.
    fn next_into(&mut self, key: &mut Vec<u8>) -> Result<bool> {
        if self.0.is_empty() {
            return Ok(false);
        }
        let (shared, rest) = (self.number()?, self.number()?);
        if shared > key.len() {
            return Err(damaged());
        }
        let alphabet = match rest & 3 {
            0 => None,
            1 => Some(&FIVE),
            2 => Some(&SIX),
            _ => return Err(damaged()),
        };
        let (len, bits) = (rest >> 2, alphabet.map_or(8, |alphabet| alphabet.bits));
        let bytes = len.checked_mul(bits).ok_or_else(damaged)?.div_ceil(8);
        let (head, tail) = self.0.split_at_checked(bytes).ok_or_else(damaged)?;
        key.truncate(shared);
        match alphabet {
            None => key.extend(head),
            Some(alphabet) => alphabet.unpack(head, len, key)?,
        }
        self.0 = tail;
        Ok(true)
    }

    fn number(&mut self) -> Result<usize> {
        let mut n = 0;
        for shift in (0..63).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(damaged)?;
            self.0 = rest;
            n |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(damaged())
    }
}

fn damaged() -> Error {
    Error::Damaged("the keys of a segment cannot be read".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_keys_come_back_one_by_one_and_together() {
        let long = vec![7; 300];
        let keys: Vec<&[u8]> = vec![b"", b"ab", b"abc", b"b", b"", &long, &long, b"x"];
        let (mut packed, mut last) = (Keys::default(), &b""[..]);
        for key in &keys {
            packed.push(last, key);
            last = key;
        }
        assert_eq!(packed.all().unwrap(), keys);
        for (i, key) in (0..).zip(&keys) {
            let mut found = Vec::new();
            packed.get(i, &mut found).unwrap();
            assert_eq!(found, *key);
        }
        assert!(packed.get(keys.len() as i64, &mut Vec::new()).is_err());
        for cut in 1..3 {
            assert!(Keys(packed.0[..packed.0.len() - cut].to_vec()).all().is_err());
        }
        assert!(Keys(vec![1, 0]).all().is_err(), "there is nothing to share");
        assert!(Keys(vec![0, 7]).all().is_err(), "there is no third alphabet");
        assert!(Keys(vec![0, 1 << 2 | 1, 0xff]).all().is_err(), "its characters are 17");
    }

    #[test]
    fn random_texts_take_five_or_six_bits_a_character() {
        for (text, bytes) in [
            (&b"9f86d081-884c-4d65-9a2f-eaa0c55ad015"[..], 23),
            (b"01ARZ3NDEKTSV4RRFFQ69G5FAV", 20),
            (b"with a blank", 12),
        ] {
            let mut keys = Keys::default();
            keys.push(b"", text);
            assert_eq!(keys.0.len(), 2 + bytes + usize::from(text.len() >= 32));
            assert_eq!(keys.all().unwrap(), [text]);
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_packed_comes_back(
            keys in proptest::collection::vec("[0-9a-f-]{0,40}|[0-9A-Za-z_-]{0,40}|.{0,9}", 1..20),
        ) {
            let (mut packed, mut last) = (Keys::default(), &b""[..]);
            for key in &keys {
                packed.push(last, key.as_bytes());
                last = key.as_bytes();
            }
            let all: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
            proptest::prop_assert_eq!(packed.all().unwrap(), all);
        }
    }
}
