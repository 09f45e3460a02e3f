//! What a replica keeps of a remote beside its URL. The engine keeps it without knowing what it says.
//!
//! Bytes: 1, the number of the form; then for each field its number (1 the token, 2 the key file), its
//! length (4 bytes, little-endian) and its text.

use crate::sync::{Result, SyncError};
use std::fmt;
use synqlite_core::{NamedRemote, Replica, Secret};

/// The form that this release writes.
const FORM: u8 = 1;

/// What a replica needs to use a remote, beside its URL.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// The token that it wants.
    pub token: Option<String>,
    /// Absolute path of the file with the key by which everything in it is sealed.
    pub key_file: Option<String>,
}

/// Never shows the token.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "...");
        f.debug_struct("Access").field("token", &token).field("key_file", &self.key_file).finish()
    }
}

impl Access {
    /// What a replica keeps of a remote.
    pub fn of(remote: &NamedRemote) -> Result<Access> {
        match &remote.secret {
            None => Ok(Access::default()),
            Some(Secret::Former([token, key_file])) => {
                Ok(Access { token: token.clone(), key_file: key_file.clone() })
            }
            Some(Secret::Bytes(bytes)) => {
                Access::decode(bytes).ok_or_else(|| SyncError::Kept(remote.name.clone()))
            }
        }
    }

    /// Adds a remote to a replica, and keeps this of it; of one that is there, what this says in place of what was
    /// kept. With a token the file becomes its owner's alone; whether others could read it before.
    pub fn add(&self, replica: &mut Replica, name: &str, url: &str) -> Result<bool> {
        let there = replica.remote(name)?;
        // One that is refused for its name changes nothing.
        let fits = there.as_ref().is_none_or(|there| there.url == url);
        let mut all = self.clone();
        if let Some(there) = there.filter(|_| fits && all != Access::default()) {
            let kept = Access::of(&there)?;
            all.token = all.token.or(kept.token);
            all.key_file = all.key_file.or(kept.key_file);
        }
        let closed = self.token.is_some() && fits && replica.close_to_others()?;
        replica.add_remote(name, url, all.encode().as_deref())?;
        Ok(closed)
    }

    fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![FORM];
        for (number, text) in [(1, &self.token), (2, &self.key_file)] {
            if let Some(text) = text {
                out.push(number);
                out.extend((text.len() as u32).to_le_bytes());
                out.extend(text.as_bytes());
            }
        }
        (out.len() > 1).then_some(out)
    }

    fn decode(bytes: &[u8]) -> Option<Access> {
        let mut access = Access::default();
        let mut rest = bytes.strip_prefix(&[FORM])?;
        while let Some((number, after)) = rest.split_first() {
            let (length, after) = after.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (text, after) = after.split_at_checked(length)?;
            let text = std::str::from_utf8(text).ok()?.to_owned();
            match number {
                1 => access.token = Some(text),
                2 => access.key_file = Some(text),
                _ => return None,
            }
            rest = after;
        }
        Some(access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back_and_never_shows_the_token() {
        let some = |text: &str| Some(text.to_owned());
        let all = Access { token: some("secret"), key_file: some("/a/key") };
        for access in [
            all.clone(),
            Access { token: None, ..all.clone() },
            Access { key_file: None, ..all.clone() },
        ] {
            let bytes = access.encode().expect("something");
            assert_eq!(Access::decode(&bytes), Some(access));
            assert_eq!(Access::decode(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(Access::default().encode(), None);
        assert_eq!(
            (Access::decode(&[]), Access::decode(&[2]), Access::decode(&[1, 9, 0, 0, 0, 0])),
            (None, None, None)
        );
        let told = format!("{all:?} {:?}", Secret::Bytes(all.encode().expect("something")));
        assert!(!told.contains("secret") && told.contains("/a/key"), "{told}");
    }
}
