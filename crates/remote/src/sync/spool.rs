//! Bytes that are written once and read again, few in memory and many in a file.

use super::Result;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use synqlite_objects::Error;
use synqlite_objects::files::Temp;

/// More bytes than these lie in a file.
const MEMORY: usize = if cfg!(feature = "small-parts") { 64 } else { 4 << 20 };

/// Bytes one after another.
pub(super) struct Spool {
    /// The file that a file of its own would lie beside.
    beside: PathBuf,
    memory: Vec<u8>,
    file: Option<Temp>,
    len: u64,
}

impl Spool {
    pub fn beside(path: &Path) -> Spool {
        Spool { beside: path.to_owned(), memory: Vec::new(), file: None, len: 0 }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        if self.file.is_none() && self.memory.len() + bytes.len() <= MEMORY {
            self.memory.extend(bytes);
            return Ok(());
        }
        if self.file.is_none() {
            let memory = std::mem::take(&mut self.memory);
            let file = self.file.insert(Temp::beside(&self.beside)?);
            file.file().write_all(&memory).map_err(Error::io("write", file.path()))?;
        }
        if let Some(file) = &mut self.file {
            let end = file.file().seek(SeekFrom::End(0));
            end.and_then(|_| file.file().write_all(bytes))
                .map_err(Error::io("write", file.path()))?;
        }
        Ok(())
    }

    /// The bytes in `range`, which must have been appended.
    pub fn read(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        let (from, len) = (range.start as usize, (range.end - range.start) as usize);
        let Some(file) = &mut self.file else {
            let there = from.checked_add(len).and_then(|to| self.memory.get(from..to));
            let lacks =
                || Error::io("read", &self.beside)(std::io::ErrorKind::UnexpectedEof.into());
            return Ok(there.ok_or_else(lacks)?.to_vec());
        };
        let mut bytes = vec![0; len];
        let read = file.file().seek(SeekFrom::Start(range.start));
        read.and_then(|_| file.file().read_exact(&mut bytes))
            .map_err(Error::io("read", file.path()))?;
        Ok(bytes)
    }

    /// An empty file in the same folder.
    pub fn beside_it(&self) -> Result<Temp> {
        Ok(Temp::beside(&self.beside)?)
    }

    /// All bytes, if they are in memory.
    pub fn whole(&self) -> Option<&[u8]> {
        self.file.is_none().then_some(&self.memory[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_memory_and_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        // Beside it lies what tells that its writer lives.
        let files = || std::fs::read_dir(dir.path()).unwrap().count().div_ceil(2);
        let mut spool = Spool::beside(&dir.path().join("x.db"));
        let chunk: Vec<u8> = (0..=250).cycle().take(MEMORY / 2).collect();
        for n in 1..=5_u64 {
            spool.append(&chunk).unwrap();
            assert_eq!((spool.len(), files()), (n * chunk.len() as u64, usize::from(n > 2)));
            // Reading in between does not disturb what is appended.
            let from = (n - 1) * chunk.len() as u64;
            assert_eq!(spool.read(from..spool.len()).unwrap(), chunk);
            assert_eq!(spool.read(7..9).unwrap(), [7, 8]);
            assert_eq!(spool.whole().is_some(), n <= 2);
        }
        drop(spool);
        assert_eq!(files(), 0);
    }
}
