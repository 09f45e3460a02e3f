//! An open replica, and the transactions in which everything happens to it.

use crate::catalog::Catalog;
use crate::connection::{connect, patiently, to_read, to_write};
use crate::dash;
use crate::env::Environment;
use crate::fold::Folded;
use crate::gaps::Wanted;
use crate::line::parted;
use crate::merge::{Merged, Merging};
use crate::meta::{self, Meta, SiteNames};
use crate::policy::{Policies, Policy};
use crate::schema::{self, Selection};
use crate::track::{self, Loaded};
use crate::work::Work;
use crate::{
    Error, Result, capture, export, journal, migrate, open as open_records, settings, state,
};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synqlite_wire::{DatabaseId, Delta, Hlc, Id, SiteId, VersionVector};

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

impl Replica {
    /// Opens a replica.
    pub fn open(path: &Path, env: Arc<dyn Environment>) -> Result<Replica> {
        open(path, env, true)
    }

    /// Opens the file once more if somebody may have opened it by the file system `dash` since: beside that this could
    /// only read, and what it has open goes by another name after a commit.
    pub fn follow_dash(&mut self) -> Result<()> {
        if dash::knows(&self.path) && !dash::serves(&self.conn) {
            self.conn = connect(&self.path, true, self.env.as_ref())?;
            self.known = None;
        }
        Ok(())
    }

    /// Closes the file, as another has taken its place, or its write-ahead log is gone. What is in that log is of
    /// another time: it must not be copied into the file, as is done where the last one closes a file. Nothing can be
    /// asked of this replica any more but who and where it was.
    pub fn let_go(&mut self) -> Result<()> {
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        self.conn = Connection::open_in_memory()?;
        self.known = None;
        Ok(())
    }

    /// Whether the file is a replica still, as far as it can be read: `deinit` makes it an ordinary database.
    pub fn is_one(&self) -> bool {
        meta::is_replica(&self.conn).unwrap_or(true)
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

    /// Folds the journal: everything written since the last fold gets its stamps. What has arrived here is
    /// merged first.
    pub fn fold(&mut self) -> Result<Folded> {
        let mut folded = self.fold_ahead()?;
        self.work_off()?;
        folded.add(self.write(|work| work.fold().map(|()| work.folded))?);
        Ok(folded)
    }

    /// What the sites are called that this one has heard of.
    pub fn site_names(&self) -> Result<SiteNames> {
        self.peek(|_, meta| Ok(meta.names.clone()))
    }

    /// What people call this site; nothing if nobody gave it a name.
    pub fn name(&self) -> Result<String> {
        Ok(meta::get(&self.conn, "name")?.unwrap_or_default())
    }

    /// Calls this site so, here and, with what it writes, everywhere.
    pub fn set_name(&mut self, name: &str) -> Result<()> {
        meta::check_name(name)?;
        self.write(|work| {
            meta::set(work.conn, "name", name)?;
            work.fold()
        })
    }

    /// What this replica contains, unfolded writes aside.
    pub fn seen(&self) -> Result<VersionVector> {
        Ok(Meta::load(&self.conn)?.seen)
    }

    /// Position of the latest transaction that changed row states, by fold or merge.
    pub fn local_seq(&self) -> Result<i64> {
        Ok(Meta::load(&self.conn)?.local_seq)
    }

    /// Folds, then gives everything that a site which has seen `base` lacks, among rows that
    /// changed after local sequence `after` (0: all), with the local sequence it reaches.
    pub fn export(&mut self, base: &VersionVector, after: i64) -> Result<(Delta, i64)> {
        self.work_off()?;
        self.write(|work| {
            work.fold()?;
            let wanted = Wanted::for_place(base, after);
            let delta = export::delta(work.conn, &work.meta, &work.catalog, &wanted)?;
            parted::tell(work.conn)?;
            Ok((delta, work.meta.local_seq))
        })
    }

    /// Folds, then joins and shows what another site sent, if it is valid ([`Delta::check`]). `force`
    /// merges changes that are stamped far ahead of this machine's clock.
    pub fn merge(&mut self, delta: &Delta, force: bool) -> Result<Merged> {
        self.merge_from(Merging { force, more: false }, &[], |sink| sink(delta.clone()))
    }

    /// How many writes wait to be folded; counts no further than `most`.
    pub fn unfolded(&self, most: i64) -> Result<i64> {
        self.read(|conn, _, loaded| crate::journal::waiting(conn, &loaded.catalog, most))
    }

    /// A number that changes when another connection writes to the database.
    pub fn data_version(&self) -> Result<i64> {
        let version =
            || self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |r| r.get(0));
        patiently(&self.conn, &self.path, self.env.as_ref(), version).map_err(|e| e.on(&self.path))
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
        let Replica { conn, path, env, site, database, .. } = self;
        let taken = Taken { site: *site, database: *database, known };
        let written = write(conn, path, env.as_ref(), taken, f);
        let (result, site, known) = written.map_err(|e| e.on(&self.path))?;
        self.known = known;
        if self.site != site {
            let former = std::mem::replace(&mut self.site, site);
            self.former.get_or_insert(former);
        }
        Ok(result)
    }

    /// Runs `f` in a read transaction.
    pub(crate) fn read<T>(
        &self,
        f: impl FnOnce(&Connection, &Meta, &Loaded) -> Result<T>,
    ) -> Result<T> {
        let read = || {
            let tx = to_read(&self.conn, &self.path, self.env.as_ref())?;
            let meta = Meta::load(&tx)?;
            let loaded = match &self.known {
                Some(known) if known.versions == versions(&tx)? => Loaded {
                    catalog: known.catalog.clone(),
                    stale: BTreeMap::new(),
                    gone: vec![],
                    left: vec![],
                },
                _ => track::load(&tx, &settings::load(&tx)?)?,
            };
            f(&tx, &meta, &loaded)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// Runs `f` in a read transaction. It learns nothing of the schema, which takes long to read.
    pub(crate) fn peek<T>(&self, f: impl FnOnce(&Connection, &Meta) -> Result<T>) -> Result<T> {
        let read = || {
            let tx = to_read(&self.conn, &self.path, self.env.as_ref())?;
            f(&tx, &Meta::load(&tx)?)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// The policies that were set.
    pub fn policies(&self) -> Result<Policies> {
        settings::load(&self.conn)
    }

    /// Fails with [`Error::NotReplicated`] or [`Error::NoTable`] unless a table of that name is replicated.
    pub fn check_table(&self, name: &str) -> Result<()> {
        self.read(|conn, _, loaded| track::named(conn, &loaded.catalog, name).map(drop))
    }

    /// Policies that were set and have no effect under the schema as it is now, each with the reason.
    pub fn idle_policies(&self) -> Result<Vec<(String, String)>> {
        Ok(schema::read(&self.conn, &self.policies()?, &Selection::default())?.idle)
    }

    /// Sets policies, as replicated writes.
    pub fn set_policies(&mut self, set: &[Policy]) -> Result<()> {
        let now = self.env.now_ms();
        self.write(|work| {
            work.fold()?;
            migrate::set_policies(work, set, now)?;
            migrate::follow_policies(work)
        })
    }
}

/// Opens a replica. `own`: refuses a file that was copied from the one whose site id it bears.
pub(crate) fn open(path: &Path, env: Arc<dyn Environment>, own: bool) -> Result<Replica> {
    with(connect(path, true, env.as_ref())?, path, env, own)
}

/// The same, of a file that is open.
pub(crate) fn with(
    conn: Connection,
    path: &Path,
    env: Arc<dyn Environment>,
    own: bool,
) -> Result<Replica> {
    let checked = (|| {
        upgrade(&conn, path, env.as_ref())?;
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

/// What an open replica knows of its file when a transaction begins.
struct Taken {
    site: SiteId,
    database: DatabaseId,
    known: Option<Known>,
}

/// Runs `f` in a transaction. Whoever holds a lock that it needs is waited for, at its end too: then all
/// of its work is done.
fn write<T>(
    conn: &Connection,
    path: &Path,
    env: &dyn Environment,
    taken: Taken,
    f: impl FnOnce(&mut Work<'_>) -> Result<T>,
) -> Result<(T, SiteId, Option<Known>)> {
    patiently(conn, path, env, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    let done = work(conn, path, env, taken, f).and_then(|done| {
        patiently(conn, path, env, || conn.execute_batch("COMMIT"))?;
        Ok(done)
    });
    if done.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    done
}

fn work<T>(
    conn: &Connection,
    path: &Path,
    env: &dyn Environment,
    taken: Taken,
    f: impl FnOnce(&mut Work<'_>) -> Result<T>,
) -> Result<(T, SiteId, Option<Known>)> {
    let mut work = Work::begin(conn, env)?;
    if work.meta.site != taken.site && own_copy(conn, path, env, &taken)? {
        work = Work::begin(conn, env)?;
    }
    let mut versions = versions(conn)?;
    let listed = open_records::exists(conn)?;
    match taken.known {
        Some(known) if known.versions == versions => work.catalog = known.catalog,
        _ => migrate::catch_up(&mut work)?,
    }
    let result = f(&mut work)?;
    if capture::guard(conn, &work.catalog)? {
        // The catalog says nothing of this trigger.
        versions = self::versions(conn)?;
    }
    work.save()?;
    if !listed {
        // Nor of the table of open records, which this transaction has made.
        versions = self::versions(conn)?;
    }
    let Work { meta, catalog, settled, .. } = work;
    Ok((result, meta.site, settled.then_some(Known { versions, catalog })))
}

/// Makes what was copied over the file since it was opened a site of its own, if it was made as another file: that
/// one may go on under its id. Whether it did.
fn own_copy(conn: &Connection, path: &Path, env: &dyn Environment, taken: &Taken) -> Result<bool> {
    let found = meta::get(conn, "database")?.map_or(taken.database, Id);
    if found != taken.database {
        return Err(Error::Unrelated { ours: taken.database, theirs: found });
    }
    if refuse_copy(conn, path, env, taken.site).is_ok() {
        return Ok(false);
    }
    // It is the same place as before, so people know it by the same name.
    let name: Option<String> = meta::get(conn, "name")?;
    new_site(conn, Id(env.random()), path, env)?;
    meta::set(conn, "name", name.unwrap_or_default())?;
    Ok(true)
}

/// Numbers that change with the schema, and with what any other connection commits.
fn versions(conn: &Connection) -> Result<(i64, i64)> {
    let pragma = |sql| conn.prepare_cached(sql)?.query_row([], |row| row.get(0));
    Ok((pragma("PRAGMA schema_version")?, pragma("PRAGMA data_version")?))
}

/// Writes metadata of the format before as this program does, where it can.
pub(crate) fn upgrade(conn: &Connection, path: &Path, env: &dyn Environment) -> Result<()> {
    if !state::is_older(conn)? || conn.is_readonly(rusqlite::MAIN_DB)? {
        return Ok(());
    }
    let tx = to_write(conn, path, env)?;
    state::upgrade(&tx)?;
    patiently(conn, path, env, || tx.execute_batch("COMMIT"))
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

/// A file copied by hand shares its site id with the original, and two writes under one stamp would
/// never converge.
pub(crate) fn refuse_copy(
    conn: &Connection,
    path: &Path,
    env: &dyn Environment,
    site: SiteId,
) -> Result<()> {
    let made: String = meta::get(conn, "instance")?.unwrap_or_default();
    let here = env.instance(path);
    if made.is_empty() || here.is_empty() || made == here {
        return Ok(());
    }
    Err(Error::Copied { path: path.display().to_string(), site })
}

/// Gives a copied file a site id of its own.
///
/// Its clock goes on from the copied one, so that its stamps stay later than what it contains.
/// What was written since the last fold before the copy was made is folded as this site's.
pub(crate) fn new_site(
    conn: &Connection,
    site: SiteId,
    path: &Path,
    env: &dyn Environment,
) -> Result<()> {
    let mut meta = Meta::load(conn)?;
    // What its source was before is for that to remember.
    parted::keep(conn, &[])?;
    if journal::any(conn)? {
        // Of what the copied file had folded this one gives nothing up.
        parted::note(conn, meta.site, Hlc::ZERO, env.now_ms())?;
    }
    meta::set(conn, "site", site.0)?;
    meta::set(conn, "instance", env.instance(path))?;
    meta::set(conn, "name", env.site_name().unwrap_or_default())?;
    // What happened in the other file is not this one's history.
    let sql = "DELETE FROM synqlite_closed WHERE closed IS NOT NULL AND lost IS NULL";
    conn.execute(sql, [])?;
    // Nor does it owe what that one had written.
    meta::unset(conn, "owed")?;
    meta.number(conn, site)?;
    Ok(())
}
