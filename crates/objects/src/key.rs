//! Keys by which sites seal what they exchange. A key is a file: 32 random bytes as one line of
//! text. Nothing of it is kept anywhere else.

use crate::error::{Error, Result};
use crate::files::{Temp, folder_of, sync_dir};
use crate::store::Put;
use std::fs;
use std::io::Write;
use std::path::Path;

/// The line begins so.
const WORD: &str = "synqlite-key-1 ";

/// A key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// A key of these random bytes.
    pub fn new(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// Reads a key file. [`Error::NoKey`] if it is not there or is none.
    pub fn read(path: &Path) -> Result<Key> {
        let bad = |why: String| Error::NoKey { path: path.to_owned(), why };
        let text = fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        let hex = text.trim_end().strip_prefix(WORD);
        let hash = hex.and_then(|hex| blake3::Hash::from_hex(hex).ok());
        Ok(Key(*hash.ok_or_else(|| bad("it holds no key".into()))?.as_bytes()))
    }

    /// Writes a new key file, which only its owner may read. [`Put::AlreadyThere`], and the file as
    /// it was, if there is a file of that name.
    pub fn write(&self, path: &Path) -> Result<Put> {
        let failed = Error::io("write", path);
        let mut temp = Temp::beside(path)?;
        let hex = blake3::Hash::from_bytes(self.0).to_hex();
        writeln!(temp.file(), "{WORD}{hex}").map_err(&failed)?;
        let put = temp.publish(path, |from, to| fs::hard_link(from, to))?;
        sync_dir(folder_of(path))?;
        Ok(put)
    }

    /// The part of the key that is for one purpose; from it neither the key nor another part can be
    /// told.
    pub(crate) fn part(&self, purpose: &str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }
}

/// Shows nothing of the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_reads_back_and_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert!(matches!(Key::read(&path), Err(Error::NoKey { .. })));
        let key = Key::new([7; 32]);
        assert_eq!(key.write(&path).unwrap(), Put::Created);
        assert_eq!(Key::new([8; 32]).write(&path).unwrap(), Put::AlreadyThere);
        assert!(Key::read(&path).unwrap() == key);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
        }
        fs::write(&path, "synqlite-key-1 abc").unwrap();
        assert!(matches!(Key::read(&path), Err(Error::NoKey { .. })));
    }
}
