//! A replica: the one entrance to the engine.

use crate::capture;
use crate::catalog::Catalog;
use crate::closed;
use crate::env::Environment;
use crate::equal;
use crate::fold::{self, Folded};
use crate::merge::{self, Anew, Merge, Merged};
use crate::meta::{self, Meta};
use crate::policy::{self, Policies};
use crate::schema::{self, Affinity, ForeignKey, Schema, Selection, Skipped, Table};
use crate::state::sums;
use crate::track::{self, Loaded};
use crate::{Error, Result, export, migrate, state, verify};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use synqlite_wire::{DatabaseId, Delta, Id, Setting, SiteId, VersionVector};

/// An open replica.
pub struct Replica {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    pub(crate) env: Arc<dyn Environment>,
    site: SiteId,
    database: DatabaseId,
    known: Option<Known>,
    /// What its site id was until it learned that it had been restored.
    former: Option<SiteId>,
}

/// The catalog that the last write transaction worked with. The next one takes it over, if nothing
/// was written since that a catalog is read from.
struct Known {
    versions: (i64, i64),
    catalog: Catalog,
}

/// What `init` is to do.
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// Replicate only these tables; all if empty.
    pub tables: Vec<String>,
    /// Do not replicate these tables.
    pub exclude: Vec<String>,
    /// Policies, as (key, value).
    pub policies: Vec<(String, String)>,
    /// Keep every change for `log`.
    pub history: bool,
    /// The file was copied from a replica: give it a site id of its own.
    pub new_site: bool,
}

/// What `init` did.
#[derive(Clone, Debug)]
pub struct InitReport {
    /// The replica's site.
    pub site: SiteId,
    /// Replicated tables.
    pub tables: Vec<TableReport>,
    /// What is not replicated, and why.
    pub skipped: Vec<Skipped>,
    /// Warnings.
    pub notes: Vec<String>,
}

/// A replicated table.
#[derive(Clone, Debug)]
pub struct TableReport {
    /// Its name.
    pub name: String,
    /// `key` or `birth`.
    pub identity: &'static str,
    /// Rows it has.
    pub rows: i64,
}

/// Everything inside a write transaction.
pub(crate) struct Work<'a> {
    pub conn: &'a Connection,
    pub meta: Meta,
    pub catalog: Catalog,
    pub policies: Policies,
    pub env: &'a dyn Environment,
    pub now_ms: i64,
    /// Whether a catalog read now would be this one.
    pub settled: bool,
    /// Whether policies are followed that another site has set.
    pub received: bool,
}

impl Replica {
    /// Makes the database at `path` a replica, or takes new tables into one that is.
    pub fn init(
        path: &Path,
        options: &InitOptions,
        env: Arc<dyn Environment>,
    ) -> Result<InitReport> {
        let conn = connect(path, true)?;
        init(&conn, path, options, env.as_ref()).map_err(|e| e.on(path))
    }

    /// Opens a replica.
    pub fn open(path: &Path, env: Arc<dyn Environment>) -> Result<Replica> {
        open(path, env, true)
    }

    /// This replica's site id.
    pub fn site(&self) -> SiteId {
        self.site
    }

    /// The site id that this replica bore until it learned, since it was opened or last asked, that it
    /// had been restored from an older copy.
    pub fn take_former(&mut self) -> Option<SiteId> {
        self.former.take()
    }

    /// The replicated database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Folds the journal: everything written since the last fold gets its stamps.
    pub fn fold(&mut self) -> Result<Folded> {
        self.write(|work| work.fold())
    }

    /// What this replica contains, unfolded writes aside.
    pub fn seen(&self) -> Result<VersionVector> {
        Ok(Meta::load(&self.conn)?.seen)
    }

    /// Position of the latest transaction that changed row states, by fold or merge.
    pub fn position(&self) -> Result<i64> {
        Ok(Meta::load(&self.conn)?.position)
    }

    /// Folds, then gives everything that a site which has seen `base` lacks, among rows that
    /// changed after position `after` (0: all), with the position it reaches.
    pub fn export(&mut self, base: &VersionVector, after: i64) -> Result<(Delta, i64)> {
        self.write(|work| {
            work.fold()?;
            let delta = export::delta(work.conn, &work.meta, &work.catalog, base, after)?;
            Ok((delta, work.meta.position))
        })
    }

    /// Folds, then joins and shows what another site sent. `force` merges changes that are stamped
    /// far ahead of this machine's clock.
    pub fn merge(&mut self, delta: &Delta, force: bool) -> Result<Merged> {
        self.merge_from(force, |sink| sink(delta.clone()))
    }

    /// How many writes wait to be folded; counts no further than `most`.
    pub fn unfolded(&self, most: i64) -> Result<i64> {
        self.read(|conn, _, loaded| crate::journal::waiting(conn, &loaded.catalog, most))
    }

    /// A number that changes when another connection writes to the database.
    pub fn data_version(&self) -> Result<i64> {
        let version = self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |r| r.get(0));
        version.map_err(|e| Error::from(e).on(&self.path))
    }

    /// How many rows the replicated tables show.
    pub fn count_rows(&self) -> Result<i64> {
        self.read(|conn, _, loaded| {
            let count = |t: &crate::catalog::Tracked| {
                let sql = format!("SELECT count(*) FROM {}", t.target());
                Ok(conn.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
            };
            loaded.catalog.tables.iter().map(count).sum()
        })
    }

    /// Runs `f` in a write transaction; nothing of it remains if it fails.
    pub(crate) fn write<T>(&mut self, f: impl FnOnce(&mut Work<'_>) -> Result<T>) -> Result<T> {
        let known = self.known.take();
        let written = write(&mut self.conn, self.env.as_ref(), known, f);
        let (result, site, known) = written.map_err(|e| e.on(&self.path))?;
        self.known = known;
        if self.site != site {
            self.former = Some(std::mem::replace(&mut self.site, site));
        }
        Ok(result)
    }

    /// Runs `f` in a read transaction.
    pub(crate) fn read<T>(
        &self,
        f: impl FnOnce(&Connection, &Meta, &Loaded) -> Result<T>,
    ) -> Result<T> {
        let read = || {
            let tx = self.conn.unchecked_transaction()?;
            let meta = Meta::load(&tx)?;
            let loaded = match &self.known {
                Some(known) if known.versions == versions(&tx)? => Loaded {
                    catalog: known.catalog.clone(),
                    stale: BTreeMap::new(),
                    gone: vec![],
                    left: vec![],
                },
                _ => track::load(&tx, &Policies::load(&tx)?)?,
            };
            f(&tx, &meta, &loaded)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// Runs `f` in a read transaction. It learns nothing of the schema, which takes long to read.
    pub(crate) fn peek<T>(&self, f: impl FnOnce(&Connection, &Meta) -> Result<T>) -> Result<T> {
        let read = || {
            let tx = self.conn.unchecked_transaction()?;
            f(&tx, &Meta::load(&tx)?)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// The policies that were set.
    pub fn policies(&self) -> Result<Policies> {
        Policies::load(&self.conn)
    }

    /// Sets policies, as replicated writes.
    pub fn set_policies(&mut self, settings: &[(String, String)]) -> Result<()> {
        let now = self.env.now_ms();
        self.write(|work| {
            work.fold()?;
            set_policies(work, settings, now)?;
            work.follow_policies()
        })
    }
}

/// Opens a replica. `own`: refuses a file that was copied from the one whose site id it bears.
pub(crate) fn open(path: &Path, env: Arc<dyn Environment>, own: bool) -> Result<Replica> {
    let conn = connect(path, true)?;
    let checked = (|| {
        check_format(&conn, path)?;
        let (site, database) = (meta::get(&conn, "site")?, meta::get(&conn, "database")?);
        let site = Id(site.ok_or_else(|| Error::Damaged("no site id".into()))?);
        let database = Id(database.ok_or_else(|| Error::Damaged("no database id".into()))?);
        if own {
            refuse_copy(&conn, path, env.as_ref(), site)?;
        }
        Ok((site, database))
    })();
    let (site, database) = checked.map_err(|e: Error| e.on(path))?;
    Ok(Replica { conn, path: path.to_owned(), env, site, database, known: None, former: None })
}

pub(crate) fn set_policies(
    work: &mut Work<'_>,
    settings: &[(String, String)],
    now: i64,
) -> Result<()> {
    work.settled = false;
    work.policies.add(settings)?;
    if !settings.is_empty() {
        work.meta.position += 1;
    }
    let set = Policies(settings.iter().cloned().collect());
    schema::read(work.conn, &set, &Selection { strict: true, ..Selection::default() })?;
    for (key, value) in settings {
        policy::check_names(work.conn, key, value)?;
        let stamp = work.meta.tick(now);
        let (key, value) = policy::canonical(work.conn, key, value)?;
        let setting = Setting { key, value, stamp };
        policy::store(work.conn, &mut work.meta, &setting)?;
    }
    if settings.iter().any(|(_, value)| value == policy::COUNTER) {
        let schema = schema::read(work.conn, &work.policies, &Selection::default())?;
        let set = |(key, _): &&(String, String)| settings.iter().any(|(k, _)| k == key);
        if let Some((key, why)) = schema.idle.iter().find(set) {
            let (key, why) = (key.clone(), why.clone());
            return Err(Error::Policy { key, value: policy::COUNTER.to_owned(), why });
        }
    }
    Ok(())
}

impl<'a> Work<'a> {
    pub(crate) fn begin(conn: &'a Connection, env: &'a dyn Environment) -> Result<Work<'a>> {
        let (meta, policies) = (Meta::load(conn)?, Policies::load(conn)?);
        let (catalog, now_ms) = (Catalog::default(), env.now_ms());
        Ok(Work { conn, meta, catalog, policies, env, now_ms, settled: true, received: false })
    }

    /// Saves the metadata, at the end of a transaction. What it gave stamps to is sealed.
    pub(crate) fn save(&mut self) -> Result<()> {
        sums::settle(self.conn, &mut self.meta, &self.catalog)?;
        self.learner().seal()?;
        track::note_schema(self.conn)?;
        self.meta.save(self.conn)
    }

    /// R-FBM: the journal is folded before anything else happens.
    pub fn fold(&mut self) -> Result<Folded> {
        let Work { conn, meta, catalog, policies, now_ms, .. } = self;
        let folded = fold::fold(conn, meta, catalog, policies)?;
        closed::update(conn, meta, catalog, *now_ms, "write")?;
        self.learner().seal()?;
        Ok(folded)
    }

    /// Begins to merge a delta with this base, up to `upto`. `None` if it brings nothing.
    pub fn begin_merge(
        &mut self,
        base: &VersionVector,
        upto: &VersionVector,
        force: bool,
    ) -> Result<Option<Merge>> {
        let now = self.now_ms;
        Merge::begin(&mut self.site(), base, upto, now, force)
    }

    /// What a merge works with.
    pub fn site(&mut self) -> merge::Site<'_> {
        let Work { conn, meta, catalog, policies, .. } = self;
        merge::Site { conn, meta, catalog, policies }
    }

    /// Ends a merge, all of whose parts have come.
    pub fn end_merge(&mut self, merge: Merge) -> Result<Merged> {
        let merged = merge.end(&mut self.site())?;
        let Work { conn, meta, catalog, now_ms, .. } = self;
        closed::update(conn, meta, catalog, *now_ms, "merge")?;
        closed::note(conn, meta, catalog, &merged.told, *now_ms)?;
        self.settled &= !merged.unwritten;
        Ok(merged)
    }

    /// Takes over settings of another site.
    pub fn take_settings(&mut self, settings: &[Setting]) -> Result<()> {
        let mut news = false;
        for setting in settings {
            news |= policy::store(self.conn, &mut self.meta, setting)?;
        }
        if news {
            self.settled = false;
            self.policies = Policies::load(self.conn)?;
            self.received = true;
            self.follow_policies()?;
            self.received = false;
        }
        Ok(())
    }

    /// Catches up with policies that changed.
    fn follow_policies(&mut self) -> Result<()> {
        let Work { conn, meta, catalog, policies, .. } = self;
        if !policies.enforces_foreign_keys() {
            catalog.tables.iter().try_for_each(|t| state::expand(conn, meta, t, true))?;
        }
        migrate::catch_up(self)?;
        let references = self.catalog.tables.iter().map(|t| t.no).collect();
        migrate::follow(self, &Anew { references, ..Anew::default() }, "policy")
    }
}

fn write<T>(
    conn: &mut Connection,
    env: &dyn Environment,
    known: Option<Known>,
    f: impl FnOnce(&mut Work<'_>) -> Result<T>,
) -> Result<(T, SiteId, Option<Known>)> {
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut work = Work::begin(&tx, env)?;
    let mut versions = versions(&tx)?;
    match known {
        Some(known) if known.versions == versions => work.catalog = known.catalog,
        _ => migrate::catch_up(&mut work)?,
    }
    let result = f(&mut work)?;
    if capture::guard(&tx, &work.catalog)? {
        // The catalog says nothing of this trigger.
        versions = self::versions(&tx)?;
    }
    work.save()?;
    let Work { meta, catalog, settled, .. } = work;
    tx.commit()?;
    Ok((result, meta.site, settled.then_some(Known { versions, catalog })))
}

/// Numbers that change with the schema, and with what any other connection commits.
fn versions(conn: &Connection) -> Result<(i64, i64)> {
    let pragma = |sql| conn.prepare_cached(sql)?.query_row([], |row| row.get(0));
    Ok((pragma("PRAGMA schema_version")?, pragma("PRAGMA data_version")?))
}

/// How long to wait for another program's transaction.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// Opens a database for the engine: no trigger fires and no foreign key acts on what it writes.
pub(crate) fn connect(path: &Path, write: bool) -> Result<Connection> {
    if !path.exists() {
        return Err(Error::NoDatabase(path.display().to_string()));
    }
    let access =
        if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let prepare = |conn: Connection| {
        conn.busy_timeout(BUSY)?;
        conn.set_prepared_statement_cache_capacity(256);
        conn.execute_batch("PRAGMA foreign_keys=OFF; PRAGMA recursive_triggers=OFF;")?;
        // Rows are looked up in the order in which they come; SQLite's 2 MB hold a small part of most
        // files.
        conn.execute_batch("PRAGMA cache_size=-16384")?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        // The first read shows whether this is a database at all.
        conn.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
        Ok(conn)
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if kept_on_dash(path) {
        // In use there it can only be read with another file system. One that this process does
        // not know, or that refuses the database by now, says that it cannot open it.
        let opened = Connection::open_with_flags_and_vfs(path, flags, c"dash").and_then(prepare);
        let code = opened.as_ref().err().and_then(rusqlite::Error::sqlite_error_code);
        if !matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::Unknown)) {
            return opened.map_err(|e| Error::from(e).on(path));
        }
    }
    let opened = Connection::open_with_flags(path, flags).and_then(prepare);
    opened.map_err(|e| Error::from(e).on(path))
}

/// Whether the registry of file system `dash` lies beside a database.
fn kept_on_dash(path: &Path) -> bool {
    let mut registry = path.as_os_str().to_owned();
    registry.push("-dash");
    Path::new(&registry).exists()
}

/// Whether this program can read the metadata, and all of it is there.
pub(crate) fn check_format(conn: &Connection, path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let ours = track::own_objects(conn)?;
    if ours.is_empty() {
        return Err(Error::NotAReplica(name));
    }
    let format = if meta::is_replica(conn)? { meta::get::<i64>(conn, "format")? } else { None };
    if let Some(found) = format.filter(|found| *found > meta::FORMAT) {
        return Err(Error::NewerFormat { path: name, found, known: meta::FORMAT });
    }
    if let Some(found) = format.filter(|found| *found < meta::FORMAT) {
        return Err(Error::OlderFormat { path: name, found });
    }
    let missing = meta::missing(conn)?;
    if !missing.is_empty() {
        let captured = track::captured(conn)?;
        let fails = missing.iter().any(|name| name == "synqlite_journal");
        let tables = if fails { captured } else { vec![] };
        return Err(Error::Torn { path: name, missing, tables });
    }
    for key in ["format", "database", "site", "clock", "position", "births"] {
        if meta::get::<rusqlite::types::Value>(conn, key)?.is_none() {
            return Err(Error::Damaged(format!("entry `{key}` is missing")));
        }
    }
    Ok(())
}

/// Catches up with the schema of a copy. One made row by row, as from a dump, may have placed rows
/// elsewhere than its metadata says.
fn refuse_unlike(work: &mut Work<'_>, path: &Path) -> Result<()> {
    let mut found = || {
        migrate::catch_up(work)?;
        capture::guard(work.conn, &work.catalog)?;
        work.save()?;
        verify::unsound(work.conn)
    };
    let problem = match found() {
        Ok(problems) => problems.into_iter().next(),
        Err(Error::Damaged(why)) => Some(why),
        Err(e) => return Err(e),
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(Error::Refused(format!(
            "{} is no faithful copy: {problem}. Make it with synqlite clone",
            path.display()
        ))),
    }
}

/// A file copied by hand shares its site id with the original, and two writes under one stamp would
/// never converge.
fn refuse_copy(conn: &Connection, path: &Path, env: &dyn Environment, site: SiteId) -> Result<()> {
    let made: String = meta::get(conn, "instance")?.unwrap_or_default();
    let here = env.instance(path);
    if made.is_empty() || here.is_empty() || made == here {
        return Ok(());
    }
    Err(Error::Copied { path: path.display().to_string(), site })
}

fn init(
    conn: &Connection,
    path: &Path,
    options: &InitOptions,
    env: &dyn Environment,
) -> Result<InitReport> {
    let now = env.now_ms();
    let tx = rusqlite::Transaction::new_unchecked(conn, rusqlite::TransactionBehavior::Immediate)?;
    let again = !track::own_objects(&tx)?.is_empty();
    if again {
        check_format(&tx, path)?;
        if options.new_site {
            new_site(&tx, Id(env.random()), &env.instance(path))?;
        }
        refuse_copy(&tx, path, env, Meta::load(&tx)?.site)?;
    }
    if !again && options.new_site {
        return Err(Error::NotAReplica(path.display().to_string()));
    }
    if !again {
        create(&tx, path, Id(env.random()), options.history, env)?;
    }
    let mut work = Work::begin(&tx, env)?;
    if again {
        if options.new_site {
            refuse_unlike(&mut work, path)?;
        } else {
            migrate::catch_up(&mut work)?;
        }
        work.fold()?;
    }
    set_policies(&mut work, &options.policies, now)?;
    let schema = select(&tx, &work.policies, options)?;
    refuse_dangling(&tx, &schema, &work.policies)?;
    let mut notes = schema.notes;
    notes.extend(schema::kept_sums(&tx, &schema.tables)?);
    notes.extend(schema::feed_notes(&tx, &schema.tables)?);
    let unknown = |t: &&Table| work.catalog.by_name(&t.name).is_none();
    let fresh: Vec<Table> = schema.tables.iter().filter(unknown).cloned().collect();
    if !fresh.is_empty() {
        migrate::take_in(&mut work, &fresh)?;
    }
    let tables = table_reports(&tx, &work.catalog)?;
    let site = work.meta.site;
    capture::guard(&tx, &work.catalog)?;
    work.save()?;
    drop(work);
    tx.commit()?;
    Ok(InitReport { site, tables, skipped: schema.skipped, notes })
}

/// A new site of a database, which knows nothing yet.
pub(crate) fn create(
    conn: &Connection,
    path: &Path,
    database: DatabaseId,
    history: bool,
    env: &dyn Environment,
) -> Result<()> {
    Meta::create(conn, database, Id(env.random()))?;
    meta::set(conn, "instance", env.instance(path))?;
    meta::set(conn, "history", history)
}

/// The replicated tables with the rows that they show.
pub(crate) fn table_reports(conn: &Connection, catalog: &Catalog) -> Result<Vec<TableReport>> {
    let tables = catalog.tables.iter().map(|t| {
        let sql = format!("SELECT count(*) FROM {}", t.target());
        let rows = conn.query_row(&sql, [], |row| row.get(0))?;
        Ok(TableReport { name: t.table.name.clone(), identity: identity(&t.table), rows })
    });
    tables.collect()
}

/// The tables to replicate: those asked for, remembered so that `init` run again means the same.
pub(crate) fn select(
    conn: &Connection,
    policies: &Policies,
    options: &InitOptions,
) -> Result<Schema> {
    let remembered = |key: &str, now: &[String]| -> Result<Vec<String>> {
        let old: String = meta::get(conn, key)?.unwrap_or_default();
        let mut names: Vec<String> = old.lines().map(str::to_owned).collect();
        names.extend(now.iter().filter(|n| !names.contains(n)).cloned().collect::<Vec<_>>());
        meta::set(conn, key, names.join("\n"))?;
        Ok(names)
    };
    let only = remembered("only", &options.tables)?;
    let exclude = remembered("exclude", &options.exclude)?;
    schema::read(conn, policies, &Selection { only, exclude, strict: true })
}

/// R-FK-MODE: a database that already has dangling references cannot promise that none ever dangle.
fn refuse_dangling(conn: &Connection, schema: &Schema, policies: &Policies) -> Result<()> {
    if !policies.enforces_foreign_keys() {
        return Ok(());
    }
    for table in schema.tables.iter().filter(|t| t.foreign_keys.iter().any(|fk| fk.enforced)) {
        let sql = format!("PRAGMA main.foreign_key_check({})", schema::quote(&table.name));
        let mut statement = conn.prepare(&sql)?;
        let rows = statement.query_map([], |_| Ok(()))?.count();
        if rows > 0 {
            return Err(Error::Dangling { table: table.name.clone(), rows });
        }
        for fk in table.foreign_keys.iter().filter(|fk| fk.enforced) {
            refuse_doubles(conn, table, fk)?;
        }
    }
    Ok(())
}

/// Floating-point numbers that refer to texts, of which SQLite's versions differ.
fn refuse_doubles(conn: &Connection, table: &Table, fk: &ForeignKey) -> Result<()> {
    for (&c, (parent, _)) in fk.columns.iter().zip(&fk.parent_keys) {
        if *parent != Affinity::Text {
            continue;
        }
        let column = schema::quote(&table.columns[c].name);
        let (target, none) = (schema::quote(&table.name), equal::means_none_sql(&column));
        let sql = format!("SELECT count(*) FROM main.{target} WHERE {none}");
        let rows: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
        if rows > 0 {
            let (table, column) = (table.name.clone(), table.columns[c].name.clone());
            return Err(Error::Doubles { table, column, rows: rows.unsigned_abs() });
        }
    }
    Ok(())
}

pub(crate) fn identity(table: &Table) -> &'static str {
    match table.identity {
        schema::Identity::Key => "key",
        schema::Identity::Birth => "birth",
    }
}

/// Gives a copied file a site id of its own.
///
/// Its clock goes on from the copied one, so that its stamps stay later than what it contains.
/// What was written since the last fold before the copy was made is folded as this site's.
pub(crate) fn new_site(conn: &Connection, site: SiteId, instance: &str) -> Result<()> {
    let mut meta = Meta::load(conn)?;
    meta::set(conn, "site", site.0)?;
    meta::set(conn, "instance", instance)?;
    // What happened in the other file is not this one's history.
    let sql = "DELETE FROM synqlite_closed WHERE closed IS NOT NULL AND lost IS NULL";
    conn.execute(sql, [])?;
    meta.number(conn, site)?;
    Ok(())
}
