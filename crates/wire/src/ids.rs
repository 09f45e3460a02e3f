//! Identities: of a site, of a replicated database, of a row.

use std::fmt;
use std::str::FromStr;

/// Sixteen random bytes, printed as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 16]);

/// Names one replica. Two files never write under the same site id.
pub type SiteId = Id;

/// Names one replicated database: equal in every clone of it.
pub type DatabaseId = Id;

/// Stands for a beginning of the row of objects that a remote store took, in their order: a
/// hash over their names. [`Id::ZERO`] is the prefix hash of none.
pub type PrefixHash = Id;

impl Id {
    /// The smallest id; the site of [`crate::Stamp::ZERO`].
    pub const ZERO: Id = Id([0; 16]);
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not 32 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id: 32 hex digits are expected")]
pub struct BadId(pub String);

impl FromStr for Id {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Id, BadId> {
        let bad = || BadId(text.to_owned());
        if text.len() != 32 || !text.is_ascii() {
            return Err(bad());
        }
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Id(bytes))
    }
}

/// Identity of a row within its table, the same on every site for ever (R-ID).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rid {
    /// Born at a site: the `n`th row that this site made.
    Birth {
        /// The site that inserted the row.
        site: SiteId,
        /// Number of the birth, counted for each site.
        n: u64,
    },
    /// Named by its primary key at birth, see [`crate::key`].
    Key {
        /// Canonical encoding of the key values, see [`crate::key`].
        key: Vec<u8>,
        /// 0, or more if the key had been freed by renaming an earlier row.
        generation: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_parse() {
        let id = Id(*b"0123456789abcdef");
        assert_eq!(id.to_string(), "30313233343536373839616263646566");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("30".parse::<Id>().is_err());
        assert!("zz313233343536373839616263646566".parse::<Id>().is_err());
    }
}
