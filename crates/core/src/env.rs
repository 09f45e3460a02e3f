//! What the engine needs from outside: time, randomness and the identity of a file; and whom it tells how
//! far it is.
//!
//! They are injected so that a test can set the clock, repeat a run, or copy a file by hand.

use crate::progress::{Phase, Step};
use std::path::Path;
use std::time::Duration;

/// The world outside the database.
pub trait Environment: Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Sixteen random bytes, for ids.
    fn random(&self) -> [u8; 16];

    /// A token that changes when the file at `path` is copied and stays when it is written or
    /// renamed; empty where the platform offers none.
    fn instance(&self, path: &Path) -> String;

    /// What to call a site that is made here, if nobody says.
    fn site_name(&self) -> Option<String> {
        None
    }

    /// Another program has kept the database locked for so long. Says whether to wait on.
    fn wait(&self, _database: &Path, waited: Duration) -> bool {
        waited < Duration::from_secs(60)
    }

    /// Work that may take a while is so far. Told from whatever thread does it.
    fn step(&self, _step: Step) {}

    /// Work begins of which is not known yet how much it is.
    fn begin(&self, phase: Phase) {
        self.step(Step { phase, done: 0, total: None });
    }

    /// Leaves other programs to their work for so many milliseconds.
    fn rest(&self, ms: i64) {
        std::thread::sleep(Duration::from_millis(ms.max(0).cast_unsigned()));
    }
}

/// The clock, the random numbers and the files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Environment for System {
    fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
        bytes
    }

    /// Inode and time of birth: device numbers may change when a machine restarts, these do not.
    /// A database and its shadow exchange their names with every commit; the older one speaks for
    /// both.
    #[cfg(unix)]
    fn instance(&self, path: &Path) -> String {
        use std::os::unix::fs::MetadataExt;
        let token = |path: &Path| {
            let meta = std::fs::metadata(path).ok()?;
            let born = meta.created().ok();
            let since = born.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            Some((since.map_or(0, |since| since.as_nanos()), meta.ino()))
        };
        let Some(own) = token(path) else { return String::new() };
        let mut shadow = path.as_os_str().to_owned();
        shadow.push("-shadow");
        let (born, inode) = token(Path::new(&shadow)).map_or(own, |shadow| own.min(shadow));
        format!("{inode:x}-{born:x}")
    }

    /// Volume and number of the file. NTFS counts in the number how often its place was given to another
    /// file, so a time of creation would say no more; and network shares make that up from times that
    /// change. To ask opens the file, which on Windows drops no lock that SQLite has on it.
    #[cfg(windows)]
    fn instance(&self, path: &Path) -> String {
        let file = winapi_util::Handle::from_path_any(path);
        let found = file.and_then(|file| winapi_util::file::information(&file));
        let token = |f: winapi_util::file::Information| {
            format!("{:x}-{:x}", f.volume_serial_number(), f.file_index())
        };
        found.map_or(String::new(), token)
    }
}
