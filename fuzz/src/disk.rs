//! Files in memory.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use synqlite_lsm::disk::{Disk, Force, LogFile, ReadFile, WriteFile};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// A disk that never fails and never forgets. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<BTreeMap<PathBuf, Bytes>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked")
}

impl Memory {
    /// Puts a file into the store's folder.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        lock(&self.0).insert(Path::new(crate::DIR).join(name), Arc::new(Mutex::new(bytes)));
    }

    fn find(&self, path: &Path) -> io::Result<Bytes> {
        lock(&self.0).get(path).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn make(&self, path: &Path) -> File {
        let bytes = Bytes::default();
        lock(&self.0).insert(path.to_owned(), bytes.clone());
        File(bytes)
    }
}

struct File(Bytes);

impl Disk for Memory {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }

    fn list(&self, _: &Path) -> io::Result<Vec<(String, u64)>> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(lock(&self.0).iter().map(|(p, b)| (name(p), lock(b).len() as u64)).collect())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(File(self.find(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(self.make(path)))
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(self.make(path)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = lock(&self.0);
        let file = files.remove(from).ok_or(ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        lock(&self.0).remove(path).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.find(path).map(drop)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn boot(&self) -> [u8; 16] {
        crate::format::BOOT
    }
}

impl ReadFile for File {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = lock(&self.0);
        let from = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
        let found = from.and_then(|rest| rest.get(..buf.len())).ok_or(ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(found);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }
}

impl WriteFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogFile for File {
    fn grow(&mut self, len: u64) -> io::Result<()> {
        lock(&self.0).resize(len as usize, 0);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8], _: bool) -> io::Result<()> {
        lock(&self.0)[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn force(&self) -> Force {
        Box::new(|| Ok(()))
    }
}
