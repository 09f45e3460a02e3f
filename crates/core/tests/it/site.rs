//! A site: a replica, and the application that writes to it with no extension loaded.

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::path::PathBuf;
use std::sync::Arc;
use synqlite_core::{InitOptions, Policy, Replica, System};

/// A folder of sites.
pub struct World {
    dir: tempfile::TempDir,
}

/// One site.
pub struct Site {
    /// The application's connection, with foreign keys on.
    pub app: Connection,
    /// Its replica.
    pub replica: Replica,
}

impl World {
    /// An empty folder.
    pub fn new() -> World {
        // Memory-backed storage where there is some: these tests are not about the disk.
        let memory = std::path::Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        World { dir: tempfile::tempdir_in(base).expect("a temporary folder") }
    }

    /// Path of the file called `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.db"))
    }

    /// A database made by `sql`, as a replica.
    pub fn init(&self, name: &str, sql: &str) -> Site {
        self.init_with(name, sql, &[])
    }

    /// The same with policies.
    pub fn init_with(&self, name: &str, sql: &str, policies: &[(&str, &str)]) -> Site {
        let path = self.path(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let policies = policies.iter().map(|(k, v)| Policy::new(k, v).unwrap()).collect();
        let options = InitOptions { policies, ..InitOptions::default() };
        Replica::init(&path, &options, Arc::new(System)).unwrap();
        self.open(name)
    }

    /// An existing replica.
    pub fn open(&self, name: &str) -> Site {
        let path = self.path(name);
        let app = Connection::open(&path).unwrap();
        app.execute_batch("PRAGMA foreign_keys=ON").unwrap();
        Site { app, replica: Replica::open(&path, Arc::new(System)).unwrap() }
    }

    /// A clone: a copy of the file with a site id of its own.
    pub fn clone_site(&self, from: &mut Site, name: &str) -> Site {
        from.replica.fold().unwrap();
        let path = self.path(name);
        std::fs::copy(from.replica.path(), &path).unwrap();
        let options = InitOptions { new_site: true, ..InitOptions::default() };
        Replica::init(&path, &options, Arc::new(System)).unwrap();
        self.open(name)
    }
}

impl Site {
    /// Runs statements as the application, at a later millisecond than before.
    pub fn run(&self, sql: &str) {
        std::thread::sleep(std::time::Duration::from_millis(2));
        self.app.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Rows of a query, as text.
    pub fn rows(&self, sql: &str) -> Vec<String> {
        let mut statement = self.app.prepare(sql).unwrap();
        let count = statement.column_count();
        let rows = statement.query_map([], |row| {
            let texts: Vec<String> = (0..count).map(|i| text(row.get_ref(i).unwrap())).collect();
            Ok(texts.join("|"))
        });
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// One row of a query, as text.
    pub fn row(&self, sql: &str) -> String {
        let rows = self.rows(sql);
        assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
        rows[0].clone()
    }

    /// Pulls what `other` has; panics if SQLite finds anything wrong afterwards.
    pub fn pull(&mut self, other: &mut Site) {
        self.replica.pull_from(&mut other.replica, false).unwrap();
        self.check();
    }

    /// What must hold after every merge.
    pub fn check(&self) {
        assert_eq!(self.row("PRAGMA integrity_check"), "ok");
        assert_eq!(self.rows("PRAGMA foreign_key_check"), [""; 0]);
    }
}

/// Pulls both ways, twice, so that both have seen everything and made their renumberings permanent.
pub fn settle(a: &mut Site, b: &mut Site) {
    for _ in 0..2 {
        a.pull(b);
        b.pull(a);
    }
}

/// All rows of some tables, in an order of their own.
pub fn dump(conn: &Connection, tables: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for table in tables {
        let mut statement = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let count = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values = (0..count).map(|i| format!("{:?}", row.get_ref(i).unwrap()));
            out.push(format!("{table}: {}", values.collect::<Vec<_>>().join(" ")));
        }
    }
    out.sort();
    out
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(i) => i.to_string(),
        ValueRef::Real(r) => format!("{r:?}"),
        ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
        ValueRef::Blob(b) => format!("{b:02x?}"),
    }
}
