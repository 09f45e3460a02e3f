//! Sites on real files, with a clock that the test sets and ids that follow from the seed.

use crate::families::{Context, Family};
use crate::history::{Action, START_MS, Step};
use crate::random::Random;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use synqlite_core::{ConflictKind, Environment, InitOptions, Policy, Replica};
use synqlite_remote::Session;
use synqlite_wire::{Cell, Delta, GroupShape, RowChange, Value, VersionVector};

/// Result of playing something.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A clock that is set, and random bytes from a seed.
#[derive(Debug)]
pub struct Simulated {
    ms: AtomicI64,
    random: Mutex<Random>,
    /// First byte of every id: site ids compare as the sites are numbered.
    first: u8,
    /// Whether a seal is the next value of the clock instead of a random one.
    even: bool,
    /// What the site is called, if it is.
    name: Option<String>,
    /// What others do between two slices, from the last to the first.
    between: Between,
}

#[derive(Default)]
struct Between(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Between")
    }
}

impl Simulated {
    /// The world around site number `site`.
    pub fn new(seed: u64, site: usize) -> Simulated {
        let random = Mutex::new(Random::new(seed ^ (site as u64) << 32));
        let (ms, between) = (AtomicI64::new(START_MS), Between::default());
        Simulated { ms, random, first: site as u8 + 1, even: false, name: None, between }
    }

    /// The same, of a site that has a name, which it tells others.
    pub fn named(seed: u64, site: usize, name: String) -> Simulated {
        Simulated { name: Some(name), ..Simulated::new(seed, site) }
    }

    /// The same, where clocks follow from the times of the writes alone: a seal takes its random part
    /// from the last bytes, which are zero here.
    fn even(seed: u64, site: usize) -> Simulated {
        Simulated { even: true, ..Simulated::new(seed, site) }
    }

    /// Does this in the next rest between two slices in which nothing else is done.
    pub fn between(&self, act: impl FnOnce() + Send + 'static) {
        let mut acts = self.between.0.lock().unwrap_or_else(PoisonError::into_inner);
        acts.insert(0, Box::new(act));
    }

    /// Forgets what has not been done.
    pub fn forget(&self) {
        self.between.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sets the clock.
    pub fn set(&self, ms: i64) {
        self.ms.store(ms, Ordering::Relaxed);
    }
}

impl Environment for Simulated {
    fn now_ms(&self) -> i64 {
        self.ms.load(Ordering::Relaxed)
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = self.random.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        bytes[0] = self.first;
        if self.even {
            bytes[12..].fill(0);
        }
        bytes
    }

    /// Files are copied on purpose here.
    fn instance(&self, _: &Path) -> String {
        String::new()
    }

    fn site_name(&self) -> Option<String> {
        self.name.clone()
    }

    /// Time stands still.
    fn rest(&self, _: i64) {
        let act = self.between.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(act) = act {
            act();
        }
    }
}

/// A folder of sites that begin with the same database.
pub struct World {
    dir: tempfile::TempDir,
    family: Family,
    seed: u64,
    /// The sites; the first made the database.
    pub sites: Vec<Site>,
}

/// A replica and the application that writes to it.
pub struct Site {
    /// The application's connection, with foreign keys on, if merges keep them, and nothing of ours
    /// loaded.
    pub app: Connection,
    /// The replica.
    pub replica: Replica,
    env: Arc<Simulated>,
    family: Family,
}

/// What became of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// They are committed.
    Done,
    /// One met a constraint; nothing was done.
    Failed,
    /// One touched a row that another had touched since the last fold; nothing was done.
    Again,
}

/// Kind of a journal entry.
const INSERT: i64 = 0;

/// The Julian day of milliseconds since 1970.
pub(crate) fn julian_day(ms: i64) -> f64 {
    ms as f64 / 86_400_000.0 + 2_440_587.5
}

fn outcome(done: rusqlite::Result<()>) -> Result<Ran> {
    match done {
        Ok(()) => Ok(Ran::Done),
        Err(rusqlite::Error::SqliteFailure(e, _))
            if matches!(
                e.code,
                // NULL for an integer key is refused as a mismatch.
                rusqlite::ErrorCode::ConstraintViolation | rusqlite::ErrorCode::TypeMismatch
            ) =>
        {
            Ok(Ran::Failed)
        }
        Err(e) => Err(e.into()),
    }
}

/// What a replica holds, in a form that does not depend on the order in which it got it.
#[derive(Debug, PartialEq)]
pub struct State {
    /// What its tables show.
    pub rows: Vec<String>,
    /// What it has seen.
    pub seen: VersionVector,
    /// The state of each row, dead ones included.
    pub changes: Vec<RowChange>,
}

impl World {
    /// `count` sites of one database.
    pub fn new(family: Family, count: usize, recursive: bool, seed: u64) -> Result<World> {
        World::of(family, count, recursive, seed, Simulated::new)
    }

    /// The same, of a site that has a name, which it tells others.
    pub fn named(seed: u64, site: usize, name: String) -> Simulated {
        Simulated { name: Some(name), ..Simulated::new(seed, site) }
    }

    /// The same, where clocks follow from the times of the writes alone.
    pub fn even(family: Family, count: usize, recursive: bool, seed: u64) -> Result<World> {
        World::of(family, count, recursive, seed, Simulated::even)
    }

    fn of(
        family: Family,
        count: usize,
        recursive: bool,
        seed: u64,
        simulated: fn(u64, usize) -> Simulated,
    ) -> Result<World> {
        #[cfg(target_os = "linux")]
        if std::env::var("SYNQLITE_VFS").is_ok_and(|vfs| vfs == synqlite_dash::NAME) {
            let registered = synqlite_dash::register_default();
            registered.map_err(|code| format!("SQLite's result code {code}"))?;
        }
        // Memory-backed storage where there is some: these histories are not about the disk.
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let dir = tempfile::tempdir_in(base)?;
        let mut world = World { dir, family, seed, sites: Vec::new() };
        let path = world.path("0");
        Connection::open(&path)?.execute_batch(&family.schema())?;
        let env = Arc::new(simulated(seed, 0));
        let policies = family.policies().into_iter().map(|(key, value)| Policy::new(&key, &value));
        let policies = policies.collect::<std::result::Result<_, _>>()?;
        Replica::init(&path, &InitOptions { policies, ..InitOptions::default() }, env.clone())?;
        world.sites.push(Site::open(&path, env, family, recursive)?);
        for site in 1..count {
            let path = world.path(&site.to_string());
            world.sites[0].replica.fold()?;
            std::fs::copy(world.sites[0].replica.path(), &path)?;
            let env = Arc::new(simulated(seed, site));
            let options = InitOptions { new_site: true, ..InitOptions::default() };
            Replica::init(&path, &options, env.clone())?;
            world.sites.push(Site::open(&path, env, family, recursive)?);
        }
        Ok(world)
    }

    /// Path of the file called `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.db"))
    }

    /// A statement of the family.
    pub fn statement(&self, r: &mut Random, context: &Context) -> String {
        self.family.statement(r, context)
    }

    /// A copy of a site as it is, its id included.
    pub fn copy(&self, site: usize, name: &str) -> Result<Site> {
        let path = self.path(name);
        std::fs::copy(self.sites[site].replica.path(), &path)?;
        let env = Arc::new(Simulated::new(self.seed, site));
        Site::open(&path, env, self.family, false)
    }

    /// Plays one step. A statement may fail: then `false`.
    pub fn play(&mut self, step: &Step) -> Result<bool> {
        let site = &mut self.sites[step.site];
        site.env.set(step.ms);
        match &step.action {
            Action::Run(sql) => site.run(sql, step.ms),
            Action::Pull(from) => {
                let pair = self.sites.get_disjoint_mut([step.site, *from])?;
                let [mine, theirs] = pair;
                mine.replica.pull_from(&mut theirs.replica, true)?;
                mine.check()?;
                Ok(true)
            }
        }
    }
}

impl Site {
    fn open(path: &Path, env: Arc<Simulated>, family: Family, recursive: bool) -> Result<Site> {
        let app = Connection::open(path)?;
        let recursive = if recursive { "ON" } else { "OFF" };
        let enforce = if family.enforces() { "ON" } else { "OFF" };
        app.execute_batch(&format!("PRAGMA foreign_keys={enforce}; PRAGMA synchronous=OFF"))?;
        app.execute_batch(&format!("PRAGMA recursive_triggers={recursive}"))?;
        Ok(Site { app, replica: Replica::open(path, env.clone())?, env, family })
    }

    /// Runs one statement as the application does, at time `ms`; or several that make a transaction.
    /// Returns whether they succeeded.
    ///
    /// The triggers read SQLite's clock, so the time is put into the journal afterwards.
    pub fn run(&self, sql: &str, ms: i64) -> Result<bool> {
        Ok(self.run_apart(sql, ms, false)? == Ran::Done)
    }

    /// The same; with `apart` nothing is done if a row is touched that another statement has touched
    /// since the last fold.
    pub fn run_apart(&self, sql: &str, ms: i64, apart: bool) -> Result<Ran> {
        let start = "SELECT coalesce(max(seq), 0) FROM synqlite_journal";
        let start = self.app.prepare_cached(start)?.query_row([], |row| row.get::<_, i64>(0))?;
        let mut touched = if apart { self.touched(0)? } else { BTreeSet::new() };
        self.app.execute_batch("BEGIN")?;
        let ran = self.run_begun(sql, ms, start, apart.then_some(&mut touched));
        if !self.app.is_autocommit() {
            self.app.execute_batch("ROLLBACK")?;
        }
        ran
    }

    /// The statements of a transaction that has begun after entry `start`, and its end.
    fn run_begun(
        &self,
        sql: &str,
        ms: i64,
        start: i64,
        mut touched: Option<&mut BTreeSet<String>>,
    ) -> Result<Ran> {
        let last = "SELECT coalesce(max(seq), 0) FROM synqlite_journal";
        let last = || self.app.prepare_cached(last)?.query_row([], |row| row.get::<_, i64>(0));
        let mut ran = Ran::Done;
        for statement in sql.split(";\n") {
            let before = last()?;
            ran = outcome(self.app.execute_batch(statement))?;
            if let (Ran::Done, Some(touched)) = (&ran, touched.as_deref_mut()) {
                let news = self.touched(before)?;
                if !news.is_disjoint(touched) {
                    ran = Ran::Again;
                }
                touched.extend(news);
            }
            if ran != Ran::Done {
                break;
            }
        }
        if ran == Ran::Done {
            self.app
                .prepare_cached("UPDATE synqlite_journal SET at = ?1 WHERE seq > ?2")?
                .execute((julian_day(ms), start))?;
            ran = outcome(self.app.execute_batch("COMMIT"))?;
        }
        Ok(ran)
    }

    /// Rows that journal entries after `seq` name, as text.
    fn touched(&self, seq: i64) -> Result<BTreeSet<String>> {
        let sql = "SELECT j.ev >> 3, j.ev & 7, quote(j.a), quote(j.b), t.name \
                   FROM synqlite_journal AS j JOIN synqlite_table AS t ON t.no = j.ev >> 3 \
                   WHERE seq > ?1 AND j.ev & 7 <> 3";
        let mut statement = self.app.prepare_cached(sql)?;
        let mut rows = statement.query([seq])?;
        let mut touched = BTreeSet::new();
        while let Some(row) = rows.next()? {
            let (table, kind): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (a, b, name): (String, String, String) = (row.get(2)?, row.get(3)?, row.get(4)?);
            let mut places = vec![a];
            if kind != INSERT {
                places.push(b);
            } else if b != "NULL" {
                // Rows that share the entry.
                let sql = format!("SELECT quote(rowid) FROM \"{name}\" WHERE rowid > {b}");
                let mut statement = self.app.prepare(&sql)?;
                let more = statement.query_map([], |row| row.get(0))?;
                places.extend(more.collect::<rusqlite::Result<Vec<String>>>()?);
            }
            let named = places.into_iter().filter(|place| place != "NULL");
            touched.extend(named.map(|place| format!("{table} {place}")));
        }
        Ok(touched)
    }

    /// Gives all unfolded writes one time.
    pub fn at_once(&self, ms: i64) -> Result<()> {
        self.app.execute("UPDATE synqlite_journal SET at = ?1", [julian_day(ms)])?;
        Ok(())
    }

    /// Moves the times of unfolded writes to just before `last`, in their order.
    pub fn level(&self, last: i64) -> Result<()> {
        let sql = "SELECT DISTINCT at FROM synqlite_journal ORDER BY at DESC";
        let times: Vec<f64> = self
            .app
            .prepare(sql)?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        // The latest first: it moves forward, the others towards it.
        for (before, at) in (0..).zip(times) {
            let sql = "UPDATE synqlite_journal SET at = ?2 WHERE at = ?1";
            self.app.execute(sql, [at, julian_day(last - before)])?;
        }
        Ok(())
    }

    /// What SQLite must find in order after every merge.
    pub fn check(&self) -> Result<()> {
        self.check_integrity()?;
        if self.family.enforces() && self.app.prepare("PRAGMA foreign_key_check")?.exists([])? {
            return Err("foreign_key_check finds a dangling reference".into());
        }
        Ok(())
    }

    /// What SQLite must find in order whatever another site says; that foreign keys are kept is a policy.
    pub fn check_integrity(&self) -> Result<()> {
        let found: String = self.app.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        if found == "ok" { Ok(()) } else { Err(format!("integrity_check: {found}").into()) }
    }

    /// Exchanges something at time `ms`.
    pub fn exchange<T>(
        &mut self,
        ms: i64,
        with: impl FnOnce(&mut Replica, &mut Session) -> T,
    ) -> T {
        self.env.set(ms);
        let env = self.env.clone();
        with(&mut self.replica, &mut Session { env, force: true, whole: false })
    }

    /// What the tables show, sorted.
    pub fn rows(&self) -> Result<Vec<String>> {
        rows(&self.app, self.family)
    }

    /// The open conflicts, by kind and table, sorted; without those that an action of a foreign key
    /// has when nobody disagreed.
    pub fn conflicts(&self) -> Result<Vec<String>> {
        let mut list = self.replica.conflicts()?;
        let by_action =
            [ConflictKind::FkCascade, ConflictKind::FkParentHidden, ConflictKind::SetNull];
        list.retain(|c| !by_action.contains(&c.kind));
        let mut named: Vec<_> =
            list.iter().map(|c| format!("conflict {} in {}", c.kind, c.table)).collect();
        named.sort();
        Ok(named)
    }

    /// Everything the replica holds. Folds.
    pub fn state(&mut self) -> Result<State> {
        let (delta, _) = self.replica.export(&VersionVector::default(), 0)?;
        Ok(State { rows: self.rows()?, seen: delta.upto.clone(), changes: sorted(delta) })
    }
}

/// The rows of a delta in an order of their own.
///
/// A column that follows a referenced row is blank: its value is derived from that row, and sites
/// may export different former ones.
pub fn sorted(delta: Delta) -> Vec<RowChange> {
    let Delta { tables, mut rows, .. } = delta;
    for change in &mut rows {
        change.registers.sort_by_key(|register| register.group);
        for register in &mut change.registers {
            let shape = &tables[change.table as usize].groups[register.group as usize];
            blank(shape, &mut register.cell);
            register.previous.iter_mut().for_each(|cell| blank(shape, cell));
        }
    }
    rows.sort_by(|a, b| (a.table, &a.rid).cmp(&(b.table, &b.rid)));
    rows
}

/// Columns that follow a referenced row.
pub(crate) fn blank(shape: &GroupShape, cell: &mut Cell) {
    let Cell { values, refs } = cell;
    for (name, _) in shape.refs.iter().zip(refs).filter(|(_, rid)| rid.is_some()) {
        let columns = name.rsplit_once('>').map_or("", |(columns, _)| columns);
        for (column, value) in shape.columns.iter().zip(&mut *values) {
            if columns.split(',').any(|c| c == column) {
                *value = Value::Null;
            }
        }
    }
}

/// A query that gives each row of a table as one text, generated columns included.
pub fn dump_sql(conn: &Connection, table: &str) -> Result<String> {
    let mut statement =
        conn.prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden <> 1")?;
    let names = statement.query_map([table], |row| row.get::<_, String>(0))?;
    let mut sql = String::from("SELECT ");
    for (i, name) in names.enumerate() {
        let separator = if i == 0 { "" } else { "||' '||" };
        write!(sql, "{separator}quote({})", quote(&name?))?;
    }
    write!(sql, " FROM {}", quote(table))?;
    Ok(sql)
}

/// What the tables of a database show, sorted.
pub fn rows(conn: &Connection, family: Family) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for table in family.tables {
        let mut statement = conn.prepare(&dump_sql(conn, table)?)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // Text need not be UTF-8.
            let shown = row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?;
            out.push(format!("{table}: {}", String::from_utf8_lossy(shown)));
        }
    }
    out.sort();
    Ok(out)
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
