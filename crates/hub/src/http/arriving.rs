//! What has not arrived in full: files of the staging folder, and whose they are. They count against
//! the limit of a token as if they were stored, so nobody fills the disk with what is never finished.

use crate::backend::TokenId;
use crate::error::{Error, Result};
use crate::wait::lock;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Nobody continues an upload after so long.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);
/// So many unfinished uploads of a token are kept: each may be of a byte, and is a file.
const MOST: usize = 1000;

/// Start of the name of an upload in parts.
const UPLOAD: &str = "upload-";

/// A file that is arriving, or waits for its next part.
struct Entry {
    token: TokenId,
    /// Bytes that it has, or will have after the part that is arriving.
    bytes: u64,
    /// Somebody is writing it.
    busy: bool,
}

/// All that has not arrived in full.
pub(crate) struct Arriving {
    folder: PathBuf,
    files: Mutex<HashMap<String, Entry>>,
}

/// Name of the file of an upload. Each token has its own: nobody spoils what another sends.
pub fn upload_name(token: TokenId, key: &blake3::Hash) -> String {
    format!("{UPLOAD}{token:016x}-{key}")
}

fn token_of(name: &str) -> Option<TokenId> {
    let (token, _) = name.strip_prefix(UPLOAD)?.split_once('-')?;
    TokenId::from_str_radix(token, 16).ok()
}

impl Arriving {
    /// What an earlier hub left in the folder. Of uploads in parts it is what has arrived of them; the
    /// rest is removed.
    pub fn open(folder: &Path) -> Result<Arriving> {
        let failed = || Error::io("read", folder);
        let mut files = HashMap::new();
        for entry in fs::read_dir(folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match token_of(&name) {
                Some(token) => {
                    let bytes = entry.metadata().map_err(failed())?.len();
                    files.insert(name, Entry { token, bytes, busy: false });
                }
                None if name.starts_with(UPLOAD) || name.starts_with("put-") => {
                    fs::remove_file(entry.path()).map_err(Error::io("remove", &entry.path()))?;
                }
                None => {}
            }
        }
        let arriving = Arriving { folder: folder.to_owned(), files: Mutex::new(files) };
        arriving.sweep()?;
        Ok(arriving)
    }

    /// Where a file is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Whoever gets a turn writes a file alone, up to `bytes`; it counts from now on. `None` if
    /// somebody else is writing it. [`Error::Unfinished`] if the token has too many.
    pub fn turn(&self, token: TokenId, name: String, bytes: u64) -> Result<Option<Turn<'_>>> {
        let mut files = lock(&self.files);
        let new = !files.contains_key(&name);
        if new && files.values().filter(|file| file.token == token).count() >= MOST {
            return Err(Error::Unfinished { most: MOST });
        }
        let entry = files.entry(name.clone()).or_insert(Entry { token, bytes: 0, busy: false });
        if entry.busy {
            return Ok(None);
        }
        (entry.busy, entry.bytes) = (true, bytes);
        Ok(Some(Turn { all: self, token, name }))
    }

    /// Bytes of a token that have not arrived in full, but for those of one file.
    pub fn bytes(&self, token: TokenId, but: Option<&str>) -> u64 {
        let files = lock(&self.files);
        let counted =
            files.iter().filter(|(name, file)| file.token == token && Some(name.as_str()) != but);
        counted.fold(0, |sum, (_, file)| sum.saturating_add(file.bytes))
    }

    /// Removes uploads that nobody continues.
    pub fn sweep(&self) -> Result<()> {
        let mut files = lock(&self.files);
        let idle = files.iter().filter(|(_, file)| !file.busy).map(|(name, _)| name.clone());
        for name in idle.collect::<Vec<_>>() {
            let path = self.path(&name);
            let changed = fs::metadata(&path).and_then(|file| file.modified()).ok();
            let age = changed.and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > ABANDONED) {
                fs::remove_file(&path).map_err(Error::io("remove", &path))?;
                files.remove(&name);
            }
        }
        Ok(())
    }
}

/// The right to write a file, until it is dropped. What the file holds then goes on counting; if it is
/// gone, nothing does.
pub(crate) struct Turn<'a> {
    all: &'a Arriving,
    token: TokenId,
    name: String,
}

impl Turn<'_> {
    /// Where the file is.
    pub fn path(&self) -> PathBuf {
        self.all.path(&self.name)
    }

    /// Bytes of the token that have not arrived in full, beside this file.
    pub fn others(&self) -> u64 {
        self.all.bytes(self.token, Some(&self.name))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let left = fs::metadata(self.path());
        let mut files = lock(&self.all.files);
        match (left, files.get_mut(&self.name)) {
            (Ok(left), Some(entry)) => (entry.bytes, entry.busy) = (left.len(), false),
            _ => drop(files.remove(&self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u8) -> String {
        upload_name(7, &blake3::hash(&[n]))
    }

    #[test]
    fn what_is_left_counts_also_after_a_restart_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let all = Arriving::open(dir.path()).unwrap();
        let turn = all.turn(7, name(1), 500).unwrap().unwrap();
        assert!(all.turn(7, name(1), 500).unwrap().is_none());
        assert_eq!((all.bytes(7, None), turn.others(), all.bytes(8, None)), (500, 0, 0));
        fs::write(turn.path(), [0; 300]).unwrap();
        drop(turn);
        drop(all.turn(7, name(2), 900).unwrap());
        assert_eq!(all.bytes(7, None), 300);
        for stale in ["put-x", "upload-of-old"] {
            fs::write(dir.path().join(stale), "x").unwrap();
        }
        let all = Arriving::open(dir.path()).unwrap();
        assert_eq!(all.bytes(7, None), 300);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_token_has_only_so_many() {
        let dir = tempfile::tempdir().unwrap();
        let all = Arriving::open(dir.path()).unwrap();
        let name = |n: usize| upload_name(7, &blake3::hash(&n.to_be_bytes()));
        let turns: Vec<_> = (0..MOST).map(|n| all.turn(7, name(n), 1).unwrap()).collect();
        assert!(matches!(all.turn(7, name(MOST), 1), Err(Error::Unfinished { .. })));
        assert!(all.turn(8, upload_name(8, &blake3::hash(b"x")), 1).unwrap().is_some());
        drop(turns);
        assert!(all.turn(7, name(MOST), 1).unwrap().is_some());
    }
}
