//! One call of a function: its arguments and options, and the file that it is about.

use crate::wait::Waits;
use rusqlite::functions::Context;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ffi};
use serde_json::{Map, Value as Json};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use synqlite_core::units::count;
use synqlite_core::{Environment, Replica, System};
use synqlite_front::{Failure, Kind, remotes};
use synqlite_remote::Access;

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// What a call was given.
pub struct Call<'c, 'f> {
    /// What the connection keeps of its waits.
    pub waits: &'c Waits,
    ctx: &'c Context<'f>,
    /// Arguments without the options.
    args: Vec<Value>,
    options: Map<String, Json>,
}

/// The arguments do not fit.
pub fn usage(what: impl Into<String>) -> Failure {
    Failure::new(what).of(Kind::Usage, None)
}

impl<'c, 'f> Call<'c, 'f> {
    /// Reads the arguments: `most` at most, and an object of options, of which these are known.
    pub fn read(
        (ctx, waits): (&'c Context<'f>, &'c Waits),
        most: usize,
        known: &[&str],
    ) -> Result<Call<'c, 'f>> {
        let mut args: Vec<Value> = (0..ctx.len()).map(|i| ctx.get(i)).collect::<Result<_, _>>()?;
        if args.iter().any(|arg| matches!(arg, Value::Text(text) if text.contains('\0'))) {
            return Err(usage("an argument has a zero byte in it"));
        }
        let is_options =
            |last: &Value| matches!(last, Value::Text(t) if t.trim_start().starts_with('{'));
        let mut options = Map::new();
        if let Some(Value::Text(text)) = args.pop_if(|last| is_options(last)) {
            options = serde_json::from_str(&text)
                .map_err(|e| usage(format!("the options are no JSON object: {e}")))?;
        }
        let unknown = options
            .keys()
            .find(|key| !known.contains(&key.as_str()) && *key != "schema" && *key != "wait");
        if let Some(key) = unknown {
            let all: Vec<_> = known.iter().copied().chain(["schema", "wait"]).collect();
            return Err(usage(format!("there is no option {key}"))
                .hint(format!("Options are {}", all.join(", "))));
        }
        while args.last().is_some_and(|last| matches!(last, Value::Null)) {
            args.pop();
        }
        if args.len() > most {
            let given = count(args.len() as u64, "argument");
            return Err(usage(format!("{given} where {most} may be, and options")));
        }
        Ok(Call { waits, ctx, args, options })
    }

    /// An argument; `None` if it is absent or NULL.
    pub fn text(&self, i: usize) -> Result<Option<&str>> {
        match self.args.get(i) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(usage(format!("argument {} is to be a text", i + 1))),
        }
    }

    /// An argument that must be there; `name` says what it is.
    pub fn given(&self, i: usize, name: &str) -> Result<&str> {
        self.text(i)?.ok_or_else(|| usage(format!("argument {}, {name}, is missing", i + 1)))
    }

    /// An integer argument.
    pub fn number(&self, i: usize) -> Result<Option<i64>> {
        match self.args.get(i) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Integer(n)) => Ok(Some(*n)),
            // Some languages have no other numbers.
            Some(Value::Real(r)) if r.fract() == 0.0 && r.abs() < 1e15 => Ok(Some(*r as i64)),
            Some(_) => Err(usage(format!("argument {} is to be an integer", i + 1))),
        }
    }

    /// An argument that is a time.
    pub fn seconds(&self, i: usize) -> Result<Option<f64>> {
        let seconds = match self.args.get(i) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Integer(n)) => *n as f64,
            Some(Value::Real(r)) => *r,
            Some(_) => f64::NAN,
        };
        match (0.0..=1e6).contains(&seconds) {
            true => Ok(Some(seconds)),
            false => Err(usage(format!("argument {} is to be a number of seconds", i + 1))),
        }
    }

    /// What the caller says of a remote.
    pub fn said(&self) -> Result<Access> {
        remotes::access(
            self.option("token")?.map(str::to_owned),
            self.option("key_file")?.map(Path::new),
        )
    }

    /// An option that is a text.
    pub fn option(&self, key: &str) -> Result<Option<&str>> {
        match self.options.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(usage(format!("option {key} is to be a text"))),
        }
    }

    /// The primary key of a row, as SQL writes it; of numbers JSON has its own.
    pub fn row(&self) -> Result<Option<String>> {
        match self.options.get("row") {
            Some(Json::Number(number)) => Ok(Some(number.to_string())),
            _ => Ok(self.option("row")?.map(str::to_owned)),
        }
    }

    /// An option that is true or false.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.options.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(usage(format!("option {key} is to be true or false"))),
        }
    }

    /// An option that is a list of texts.
    pub fn list(&self, key: &str) -> Result<Vec<String>> {
        let wrong = || usage(format!("option {key} is to be a list of texts"));
        match self.options.get(key) {
            None | Some(Json::Null) => Ok(vec![]),
            Some(Json::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect(),
            Some(_) => Err(wrong()),
        }
    }

    /// An option that is an object of texts.
    pub fn pairs(&self, key: &str) -> Result<Vec<(String, String)>> {
        let wrong = || usage(format!("option {key} is to be an object of texts"));
        match self.options.get(key) {
            None | Some(Json::Null) => Ok(vec![]),
            Some(Json::Object(pairs)) => pairs
                .iter()
                .map(|(k, v)| Ok((k.clone(), v.as_str().ok_or_else(wrong)?.to_owned())))
                .collect(),
            Some(_) => Err(wrong()),
        }
    }

    /// How long others are waited for.
    pub fn env(&self) -> Result<Arc<dyn Environment>> {
        let seconds = match self.options.get("wait") {
            None | Some(Json::Null) => 60.0,
            Some(wait) => wait
                .as_f64()
                .filter(|s| (0.0..=1e6).contains(s))
                .ok_or_else(|| usage("option wait is to be a number of seconds".to_owned()))?,
        };
        Ok(machine(Duration::from_secs_f64(seconds)))
    }

    /// Refuses to work while the connection that calls is in a transaction, whose locks may be in the way.
    pub fn refuse_inside(&self) -> Result<()> {
        // SAFETY: as in `path`.
        let conn = unsafe { self.ctx.get_connection() }.map_err(Failure::from)?;
        match conn.is_autocommit() {
            true => Ok(()),
            false => Err(inside()),
        }
    }

    /// The file of the database that the call is about.
    pub fn path(&self, to: Use) -> Result<PathBuf> {
        // SAFETY: the connection is the caller's and outlives the call; what is done on it reads only.
        let conn = unsafe { self.ctx.get_connection() }.map_err(Failure::from)?;
        file_of(&conn, self.option("schema")?.unwrap_or("main"), to)
    }

    /// The replica that the call is about.
    pub fn replica(&self, to: Use) -> Result<Replica> {
        Ok(Replica::open(&self.path(to)?, self.env()?)?)
    }
}

/// What a call does to a file on a connection of its own, beside the caller's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It reads.
    Reads,
    /// It writes too.
    Writes,
    /// It may take long.
    Waits,
}

/// The file behind a database of a connection. Refused where the call would wait for the connection that calls:
/// while that writes, and to write or wait while that is in a transaction, or reads in a journal mode in which
/// whoever reads keeps others from committing.
pub fn file_of(conn: &Connection, schema: &str, to: Use) -> Result<PathBuf> {
    let name = CString::new(schema).map_err(|_| usage("the name of a schema has no zero bytes"))?;
    // SAFETY: the handle is of an open connection, and the texts live as long as the calls.
    let (access, state, file) = unsafe {
        let db = conn.handle();
        let file = ffi::sqlite3_db_filename(db, name.as_ptr());
        (
            ffi::sqlite3_db_readonly(db, name.as_ptr()),
            ffi::sqlite3_txn_state(db, name.as_ptr()),
            (!file.is_null()).then(|| CStr::from_ptr(file)),
        )
    };
    if access < 0 {
        return Err(usage(format!("no database called {schema} is attached")));
    }
    let file = file.map(CStr::to_string_lossy).filter(|file| !file.is_empty());
    let file = file.ok_or_else(|| {
        Failure::new(format!("{schema} is a database in memory, which nobody else can open"))
            .hint("Replicas are files: open one, or VACUUM INTO one")
    })?;
    if let Some(other) = other_file_system(conn, &name) {
        let what = format!("{schema} is open on the file system {other}, whose locks are others");
        return Err(Failure::new(what).hint("Open it on SQLite's own"));
    }
    let locked = |what: &str, hint| Err(Failure::new(what).hint(hint).of(Kind::Locked, None));
    match to {
        Use::Writes | Use::Waits if !conn.is_autocommit() => Err(inside()),
        // Also a single statement may be, as one with a call in its trigger.
        _ if state == ffi::SQLITE_TXN_WRITE => {
            locked("this connection is writing to the database", "Commit or roll back first")
        }
        Use::Writes if access > 0 => {
            Err(Failure::new(format!("{schema} is open for reading only"))
                .hint("Open it for writing"))
        }
        Use::Writes | Use::Waits if state != ffi::SQLITE_TXN_NONE && !is_wal(conn, schema) => {
            locked(
                "a statement of this connection is reading the database",
                "Finish it first, or use WAL mode",
            )
        }
        _ => Ok(PathBuf::from(file.into_owned())),
    }
}

fn inside() -> Failure {
    let what = "a transaction is open on this connection";
    Failure::new(what).hint("Commit it or roll it back first").of(Kind::Locked, None)
}

/// The name of the file system that a database is open on, if files are not opened on it here: SQLite's default
/// is, and DASH's where it keeps the database.
fn other_file_system(conn: &Connection, schema: &CStr) -> Option<String> {
    let mut vfs: *mut ffi::sqlite3_vfs = ptr::null_mut();
    // SAFETY: the handle is of an open connection; SQLite writes one pointer, to what lives as long as it does,
    // as does the name in it.
    unsafe {
        let into = (&raw mut vfs).cast();
        ffi::sqlite3_file_control(
            conn.handle(),
            schema.as_ptr(),
            ffi::SQLITE_FCNTL_VFS_POINTER,
            into,
        );
        let name = CStr::from_ptr(vfs.as_ref()?.zName);
        let ours = vfs == ffi::sqlite3_vfs_find(ptr::null()) || name == c"dash";
        (!ours).then(|| name.to_string_lossy().into_owned())
    }
}

fn is_wal(conn: &Connection, schema: &str) -> bool {
    let sql = format!("PRAGMA \"{}\".journal_mode", schema.replace('"', "\"\""));
    let mode = conn.query_row(&sql, [], |row| match row.get_ref(0)? {
        ValueRef::Text(mode) => Ok(mode == b"wal"),
        _ => Ok(false),
    });
    mode.unwrap_or(false)
}

/// The machine as it is, for whoever waits so long for others.
pub fn machine(patience: Duration) -> Arc<dyn Environment> {
    Arc::new(Machine { patience })
}

/// The machine as it is, and the caller's patience.
struct Machine {
    patience: Duration,
}

impl Environment for Machine {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn site_name(&self) -> Option<String> {
        synqlite_front::machine_name()
    }

    fn wait(&self, _: &Path, waited: Duration) -> bool {
        waited < self.patience
    }
}
