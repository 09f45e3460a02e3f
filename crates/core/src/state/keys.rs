//! The keys of rows that were born together, packed: each says how many bytes it shares with the
//! one before it, then the rest.

use crate::{Error, Result};

/// Packed keys, in the order of their rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(pub Vec<u8>);

impl Keys {
    /// Adds `key` after `last`.
    pub fn push(&mut self, last: &[u8], key: &[u8]) {
        let shared = last.iter().zip(key).take_while(|(a, b)| a == b).count();
        self.number(shared);
        self.number(key.len() - shared);
        self.0.extend(&key[shared..]);
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
        let (head, tail) = self.0.split_at_checked(rest).ok_or_else(damaged)?;
        key.truncate(shared);
        key.extend(head);
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
    }
}
