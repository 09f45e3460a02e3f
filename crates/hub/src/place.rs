//! The name of a place: the `NAME` of `http://HOST/NAME`.

use std::fmt;
use std::sync::Arc;

/// Longest name, in characters.
const LONGEST: usize = 64;
/// Paths that the hub itself answers.
const TAKEN: [&str; 5] = ["healthz", "metrics", "openapi.json", "overview", "backup"];

/// A valid name of a place. Never empty, never longer than 64 bytes, never with a zero byte: keys of
/// stores end it with one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Arc<str>);

/// Why a text is no name of a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPlace {
    /// Not of the right form.
    #[error("`{0}` cannot name a place. Use 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first")]
    Form(String),
    /// The hub answers that path itself.
    #[error("`{0}` is taken by the hub itself. Choose another name")]
    Taken(String),
}

impl Place {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<Place, BadPlace> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if !first || text.len() > LONGEST || !text.bytes().all(plain) {
            // What is shown back is short, whatever was sent.
            return Err(BadPlace::Form(text.chars().take(LONGEST).collect()));
        }
        if TAKEN.contains(&text) {
            return Err(BadPlace::Taken(text.to_owned()));
        }
        Ok(Place(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "7", "todo", "Team-1.2_x", &"x".repeat(64), "metrics2"] {
            assert_eq!(Place::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".a", "-a", "_a", "a/b", "a b", "é", "a\0", &"x".repeat(65)] {
            assert!(matches!(Place::parse(bad), Err(BadPlace::Form(_))), "{bad}");
        }
        for taken in TAKEN {
            assert!(matches!(Place::parse(taken), Err(BadPlace::Taken(_))), "{taken}");
        }
    }
}
