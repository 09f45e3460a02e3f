//! How the engine opens a database.

use crate::dash::{self, Used};
use crate::env::Environment;
use crate::geometry;
use crate::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use std::borrow::Cow;
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long SQLite waits for another program's transaction.
const MOST: Duration = Duration::from_secs(10);

/// How long it does before it is asked whether to wait on.
const STEP: Duration = Duration::from_secs(1);

thread_local! {
    /// How long this thread waits for a lock, and since when it does.
    static PATIENCE: Cell<Duration> = const { Cell::new(MOST) };
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes a connection wait for other programs' transactions.
///
/// SQLite's own waiting looks for the lock ten times a second. A program that writes without a pause leaves it free
/// for microseconds at a time, so that a command next to it would wait for half a minute; one that looks a thousand
/// times a second is through at once.
fn wait_for_others(conn: &mut Connection) -> rusqlite::Result<()> {
    conn.busy_handler(Some(look_again as fn(i32) -> bool))
}

/// Whether to look for a lock once more, after `looks` times.
fn look_again(looks: i32) -> bool {
    let now = Instant::now();
    let since = SINCE.get().filter(|_| looks > 0).unwrap_or(now);
    SINCE.set(Some(since));
    let wait = now.duration_since(since) < PATIENCE.get();
    if wait {
        std::thread::sleep(Duration::from_millis(1));
    }
    wait
}

/// Does what waits for a step at most.
pub(crate) fn briefly<T>(act: impl FnOnce() -> T) -> T {
    within(STEP, act)
}

fn within<T>(most: Duration, act: impl FnOnce() -> T) -> T {
    let before = PATIENCE.replace(most);
    let done = act();
    PATIENCE.set(before);
    done
}

/// Does what needs a lock, for as long as the environment has patience with those who hold it.
pub(crate) fn patiently<T>(
    conn: &Connection,
    path: &Path,
    env: &dyn Environment,
    act: impl Fn() -> rusqlite::Result<T>,
) -> Result<T> {
    let step = if env.wait(path, Duration::ZERO) { STEP } else { Duration::ZERO };
    let mut waited = Duration::ZERO;
    loop {
        match within(step, &act) {
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                waited += STEP;
                let (used, name) = (dash::used(path), || path.display().to_string());
                match env.wait(path, waited) {
                    // Such a program has it open for as long as it runs, most often.
                    _ if used == Used::Shared && !dash::serves(conn) => {
                        return Err(Error::OnDash(name()));
                    }
                    true => {}
                    false if used == Used::Alone => return Err(Error::Alone(name())),
                    false => return Err(e.into()),
                }
            }
            done => return Ok(done?),
        }
    }
}

/// Begins a transaction that writes, as patiently.
pub(crate) fn to_write<'c>(
    conn: &'c Connection,
    path: &Path,
    env: &dyn Environment,
) -> Result<Transaction<'c>> {
    patiently(conn, path, env, || Transaction::new_unchecked(conn, TransactionBehavior::Immediate))
}

/// Begins a transaction that reads, as patiently: from its first statement on nobody is in its way.
pub(crate) fn to_read<'c>(
    conn: &'c Connection,
    path: &Path,
    env: &dyn Environment,
) -> Result<Transaction<'c>> {
    let tx = conn.unchecked_transaction()?;
    let first = || tx.prepare_cached("PRAGMA main.schema_version")?.query_row([], |_| Ok(()));
    patiently(conn, path, env, first)?;
    Ok(tx)
}

/// A path that SQLite takes for no more than one: it has names with another meaning, as `:memory:`.
pub(crate) fn plain(path: &Path) -> Cow<'_, Path> {
    let special = |name: &str| name.starts_with(':') || name.starts_with("file:");
    match path.to_str() {
        Some(name) if special(name) => Path::new(".").join(path).into(),
        _ => path.into(),
    }
}

/// Opens a database for the engine: no trigger fires and no foreign key acts on what it writes.
pub(crate) fn connect(path: &Path, write: bool, env: &dyn Environment) -> Result<Connection> {
    if !path.exists() {
        return Err(Error::NoDatabase(path.display().to_string()));
    }
    if !path.is_file() {
        return Err(Error::NotADatabase(path.display().to_string()));
    }
    let path = &plain(path);
    let access =
        if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let prepare = |mut conn: Connection| {
        wait_for_others(&mut conn)?;
        conn.set_prepared_statement_cache_capacity(256);
        conn.execute_batch("PRAGMA foreign_keys=OFF; PRAGMA recursive_triggers=OFF;")?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        geometry::register(&conn)?;
        Ok(conn)
    };
    // Rows are looked up in the order in which they come; SQLite's 2 MB hold a small part of most files. This
    // is the first that reads, and shows whether it is a database at all.
    let read = |conn: &Connection| {
        conn.execute_batch("PRAGMA cache_size=-16384")?;
        conn.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let ready = |opened: rusqlite::Result<Connection>| {
        let conn = opened.and_then(prepare)?;
        patiently(&conn, path, env, || read(&conn))?;
        Ok(conn)
    };
    if dash::keeps(path) {
        // Beside it others can only read. One that this process does
        // not know, or that refuses the database by now, says that it cannot open it.
        let opened = ready(Connection::open_with_flags_and_vfs(path, flags, c"dash"));
        let refused = matches!(&opened, Err(Error::Sqlite(e)) if matches!(
            e.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::Unknown)
        ));
        if !refused {
            return opened.map_err(|e| e.on(path));
        }
    }
    ready(Connection::open_with_flags(path, flags)).map_err(|e| e.on(path))
}
