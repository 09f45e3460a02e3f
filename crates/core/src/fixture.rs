//! Replicas on temporary files, for unit tests.

use crate::env::System;
use crate::init::InitOptions;
use crate::replica::Replica;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A replica and the application that writes to it.
pub struct Site {
    pub dir: tempfile::TempDir,
    pub path: PathBuf,
    /// The application's connection: plain SQLite.
    pub app: Connection,
    pub replica: Replica,
}

impl Site {
    /// A replica of a database made by `sql`.
    pub fn new(sql: &str) -> Site {
        Site::with(sql, &InitOptions::default())
    }

    pub fn with(sql: &str, options: &InitOptions) -> Site {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.db");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        Replica::init(&path, options, Arc::new(System)).unwrap();
        Site::open(dir, path)
    }

    fn open(dir: tempfile::TempDir, path: PathBuf) -> Site {
        let app = Connection::open(&path).unwrap();
        app.execute_batch("PRAGMA foreign_keys=ON").unwrap();
        let replica = Replica::open(&path, Arc::new(System)).unwrap();
        Site { dir, path, app, replica }
    }

    /// Another site with the same data.
    pub fn another(&mut self) -> Site {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.db");
        self.replica.fold().unwrap();
        std::fs::copy(&self.path, &path).unwrap();
        let options = InitOptions { new_site: true, ..InitOptions::default() };
        Replica::init(&path, &options, Arc::new(System)).unwrap();
        Site::open(dir, path)
    }

    /// Writes as the application does, in a later millisecond than anything before.
    pub fn run(&self, sql: &str) {
        std::thread::sleep(Duration::from_millis(2));
        self.app.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Writes behind the back of capture and checks, to do damage.
    pub fn damage(&self, sql: &str) {
        let raw = crate::connection::connect(&self.path, true, &System).unwrap();
        raw.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    pub fn pull(&mut self, other: &mut Site) {
        self.replica.pull_from(&mut other.replica, false).unwrap();
    }
}
