//! What an earlier process left in a log is forced while the flush thread puts it into a table.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use synqlite_lsm::disk::{Disk, LogFile, ReadFile, WriteFile};
use synqlite_lsm::{Batch, Db, Options, Real};

/// Forces the log of an earlier session only after the flush thread has removed it.
#[derive(Debug, Default)]
struct Late {
    waited: AtomicBool,
}

impl Disk for Late {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Real.create_dir(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Real.lock(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        Real.list(dir)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Real.open(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Real.create(path)
    }
    fn create_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Real.create_log(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Real.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Real.remove(path)
    }
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let begin = Instant::now();
        if path.extension().is_some_and(|ending| ending == "log") {
            while path.exists() && begin.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.waited.store(true, Ordering::Relaxed);
        }
        Real.sync_file(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Real.sync_dir(dir)
    }
    fn boot(&self) -> [u8; 16] {
        Real.boot()
    }
}

#[test]
fn a_log_may_be_flushed_while_it_is_forced() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let db = Db::open(&first, Options::default()).unwrap();
    db.put("a", "1").unwrap();
    // What a process that is killed now leaves.
    std::fs::create_dir(&second).unwrap();
    for entry in std::fs::read_dir(&first).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), second.join(entry.file_name())).unwrap();
    }
    let disk = Arc::new(Late::default());
    let db = Db::open_on(disk.clone(), &second, Options::default()).unwrap();
    db.sync().unwrap();
    assert!(disk.waited.load(Ordering::Relaxed), "the log was flushed before it could be forced");
    let mut batch = Batch::new();
    batch.put("b", "2").unwrap();
    db.write_with(&batch, true).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}
