//! The replica's own tables: who it is, whom it knows, how far it is.
//!
//! All of them are called `synqlite_…`, live in the database itself and change in the same
//! transactions as the rows they describe. `docs/formats/metadata.md` lists them column by column.

use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeSet, HashMap};
use synqlite_wire::{DatabaseId, Hlc, Id, SiteId, Stamp, VersionVector};

/// Version of the metadata tables.
pub const FORMAT: i64 = 2;

/// Prefix of every object of ours.
pub const PREFIX: &str = "synqlite_";

const DDL: &[&str] = &[
    "CREATE TABLE synqlite_meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE synqlite_site(no INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, \
     hlc INTEGER NOT NULL, root INTEGER, fork INTEGER)",
    "CREATE TABLE synqlite_line(site INTEGER, hlc INTEGER, births INTEGER NOT NULL, \
     PRIMARY KEY(site, hlc)) WITHOUT ROWID",
    "CREATE TABLE synqlite_table(no INTEGER PRIMARY KEY, name TEXT NOT NULL, \
     canonical TEXT NOT NULL, shape TEXT NOT NULL)",
    "CREATE TABLE synqlite_column(tbl INTEGER, no INTEGER, name TEXT, canonical TEXT NOT NULL, \
     since INTEGER NOT NULL, PRIMARY KEY(tbl, no)) WITHOUT ROWID",
    "CREATE TABLE synqlite_unit(tbl INTEGER, unit INTEGER, place INTEGER, item, \
     PRIMARY KEY(tbl, unit, place)) WITHOUT ROWID",
    "CREATE TABLE synqlite_policy(key TEXT PRIMARY KEY, value TEXT NOT NULL, \
     hlc INTEGER NOT NULL, site INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE synqlite_remote(name TEXT PRIMARY KEY, url TEXT NOT NULL, \
     pushed INTEGER, pulled INTEGER, sent BLOB, place BLOB, token TEXT, key TEXT) \
     WITHOUT ROWID",
    "CREATE TABLE synqlite_peer(site INTEGER PRIMARY KEY, position INTEGER NOT NULL, \
     taken BLOB, given BLOB)",
    "CREATE TABLE synqlite_row(id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, rid BLOB NOT NULL, \
     loc, wants INTEGER, position INTEGER NOT NULL, state BLOB NOT NULL, kind TEXT, \
     cons TEXT, winner BLOB)",
    "CREATE UNIQUE INDEX synqlite_row_rid ON synqlite_row(tbl, rid)",
    "CREATE UNIQUE INDEX synqlite_row_loc ON synqlite_row(tbl, loc) WHERE loc IS NOT NULL",
    "CREATE INDEX synqlite_row_wants ON synqlite_row(tbl, wants) WHERE wants IS NOT NULL",
    "CREATE INDEX synqlite_row_pending ON synqlite_row(tbl, loc) \
     WHERE wants IS NOT NULL AND loc IS NOT NULL",
    "CREATE INDEX synqlite_row_position ON synqlite_row(position)",
    "CREATE INDEX synqlite_row_kind ON synqlite_row(kind) WHERE kind IS NOT NULL",
    "CREATE TABLE synqlite_reference(tbl INTEGER, rid BLOB, entry INTEGER, \
     PRIMARY KEY(tbl, rid, entry)) WITHOUT ROWID",
    "CREATE INDEX synqlite_reference_entry ON synqlite_reference(entry)",
    "CREATE TABLE synqlite_claim(tbl INTEGER, idx TEXT, key BLOB, entry INTEGER, \
     PRIMARY KEY(tbl, idx, key, entry)) WITHOUT ROWID",
    "CREATE INDEX synqlite_claim_entry ON synqlite_claim(entry)",
    "CREATE TABLE synqlite_segment(tbl INTEGER, lo INTEGER, hi INTEGER NOT NULL, \
     site INTEGER NOT NULL, first INTEGER, hlc INTEGER NOT NULL, \
     position INTEGER NOT NULL, keys BLOB, PRIMARY KEY(tbl, lo)) WITHOUT ROWID",
    "CREATE INDEX synqlite_segment_birth ON synqlite_segment(tbl, site, first) \
     WHERE first IS NOT NULL",
    "CREATE INDEX synqlite_segment_position ON synqlite_segment(position)",
    "CREATE TABLE synqlite_stash(tbl INTEGER, rid BLOB, unit TEXT, position INTEGER NOT NULL, \
     state BLOB NOT NULL, PRIMARY KEY(tbl, rid, unit)) WITHOUT ROWID",
    "CREATE INDEX synqlite_stash_position ON synqlite_stash(position)",
    "CREATE TABLE synqlite_sum(tbl INTEGER, lo INTEGER, sums BLOB NOT NULL, PRIMARY KEY(tbl, lo)) \
     WITHOUT ROWID",
    "CREATE TABLE synqlite_history(hlc INTEGER, site INTEGER, tbl INTEGER, rid BLOB, col INTEGER, \
     value, PRIMARY KEY(hlc, site, tbl, rid, col)) WITHOUT ROWID",
    "CREATE TABLE synqlite_closed(no INTEGER PRIMARY KEY, entry INTEGER, record TEXT, \
     tbl TEXT NOT NULL, row TEXT NOT NULL, kind TEXT NOT NULL, cons TEXT NOT NULL, what TEXT NOT NULL, \
     opened INTEGER NOT NULL, closed INTEGER, how TEXT, \
     lost INTEGER, lost_site INTEGER, kept INTEGER, kept_site INTEGER)",
    "CREATE UNIQUE INDEX synqlite_closed_open ON synqlite_closed(entry) WHERE closed IS NULL",
    "CREATE UNIQUE INDEX synqlite_closed_told ON synqlite_closed(record) WHERE lost IS NOT NULL",
    JOURNAL_DDL,
];

/// The journal, one for all tables.
pub const JOURNAL_DDL: &str = "CREATE TABLE synqlite_journal(\
     seq INTEGER PRIMARY KEY, ev INTEGER NOT NULL, a, b, m, at REAL NOT NULL, \
     v0, v1, v2, v3, v4, v5, v6, v7)";

/// Who the replica is and how far it has come. Kept in memory during a transaction and saved at
/// its end.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The replicated database.
    pub database: DatabaseId,
    /// This replica.
    pub site: SiteId,
    /// Latest clock value given or seen.
    pub clock: Hlc,
    /// Position of the latest transaction that changed any row state, by fold or merge.
    pub position: i64,
    /// What this replica contains.
    pub seen: VersionVector,
    /// The last point of this site's line.
    pub sealed: Hlc,
    /// Rows whose sums are to be taken before the transaction ends.
    pub unsummed: Unsummed,
    /// What the file says of clock, position and version vector.
    saved: (Hlc, i64, VersionVector),
    sites: Vec<SiteId>,
    numbers: HashMap<SiteId, u32>,
}

/// Rows whose sums are to be taken.
#[derive(Clone, Debug, Default)]
pub struct Unsummed {
    /// Numbers of tables and places in them.
    pub places: Vec<(u32, i64)>,
    /// Tables of which all sums are to be taken.
    pub tables: BTreeSet<u32>,
}

/// Whether the database has our metadata.
pub fn is_replica(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM main.sqlite_master WHERE type='table' AND name='synqlite_meta'";
    Ok(conn.prepare(sql)?.exists([])?)
}

/// Tables and indexes that every replica has and this database lacks.
pub fn missing(conn: &Connection) -> Result<Vec<String>> {
    let mut there = conn.prepare("SELECT 1 FROM main.sqlite_master WHERE name = ?1")?;
    let mut missing = Vec::new();
    for sql in DDL {
        let words = sql.split([' ', '(']);
        for name in words.filter(|word| word.starts_with(PREFIX)).take(1) {
            if !there.exists([name])? {
                missing.push(name.to_owned());
            }
        }
    }
    Ok(missing)
}

/// One entry of the metadata.
pub fn get<T: rusqlite::types::FromSql>(conn: &Connection, key: &str) -> Result<Option<T>> {
    let sql = "SELECT value FROM synqlite_meta WHERE key = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?)
}

/// Sets one entry of the metadata.
pub fn set(conn: &Connection, key: &str, value: impl rusqlite::ToSql) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO synqlite_meta(key, value) VALUES(?1, ?2)";
    conn.prepare_cached(sql)?.execute(params![key, value])?;
    Ok(())
}

fn need<T: rusqlite::types::FromSql>(conn: &Connection, key: &str) -> Result<T> {
    get(conn, key)?.ok_or_else(|| Error::Damaged(format!("entry `{key}` is missing")))
}

/// How many numbers of births this file has given.
pub fn births(conn: &Connection) -> Result<i64> {
    need(conn, "births")
}

impl Meta {
    /// Creates the metadata tables for a new database or a new site of one.
    pub fn create(conn: &Connection, database: DatabaseId, site: SiteId) -> Result<Meta> {
        DDL.iter().try_for_each(|sql| conn.execute_batch(sql))?;
        set(conn, "format", FORMAT)?;
        set(conn, "database", database.0)?;
        set(conn, "site", site.0)?;
        set(conn, "clock", 0)?;
        set(conn, "position", 0)?;
        set(conn, "births", 0)?;
        let mut meta = Meta::load(conn)?;
        meta.number(conn, site)?;
        Ok(meta)
    }

    /// Reads the metadata.
    pub fn load(conn: &Connection) -> Result<Meta> {
        let mut meta = Meta {
            database: Id(need(conn, "database")?),
            site: Id(need(conn, "site")?),
            clock: Hlc(need(conn, "clock")?),
            position: need(conn, "position")?,
            seen: VersionVector::default(),
            sealed: Hlc::ZERO,
            unsummed: Unsummed::default(),
            saved: Default::default(),
            sites: Vec::new(),
            numbers: HashMap::new(),
        };
        let mut statement =
            conn.prepare_cached("SELECT no, id, hlc FROM synqlite_site ORDER BY no")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (no, id, hlc): (u32, _, _) = (row.get(0)?, Id(row.get(1)?), Hlc(row.get(2)?));
            if no as usize != meta.sites.len() {
                return Err(Error::Damaged(format!("site number {no} is out of order")));
            }
            meta.sites.push(id);
            meta.numbers.insert(id, no);
            meta.seen.raise(id, hlc);
        }
        meta.saved = (meta.clock, meta.position, meta.seen.clone());
        meta.sealed = meta.seen.get(meta.site);
        Ok(meta)
    }

    /// Saves clock, position and version vector. Touches nothing that is as it was: a transaction
    /// that writes nothing costs no synchronization.
    pub fn save(&self, conn: &Connection) -> Result<()> {
        let (clock, position, seen) = &self.saved;
        if self.clock != *clock {
            set(conn, "clock", self.clock.0)?;
        }
        if self.position != *position {
            set(conn, "position", self.position)?;
        }
        let mut statement =
            conn.prepare_cached("UPDATE synqlite_site SET hlc = ?2 WHERE no = ?1")?;
        for (no, &site) in (0u32..).zip(&self.sites) {
            if self.seen.get(site) != seen.get(site) {
                statement.execute(params![no, self.seen.get(site).0])?;
            }
        }
        Ok(())
    }

    /// The small number by which this file refers to `site`; given on first use.
    pub fn number(&mut self, conn: &Connection, site: SiteId) -> Result<u32> {
        if let Some(&no) = self.numbers.get(&site) {
            return Ok(no);
        }
        let no = u32::try_from(self.sites.len()).map_err(|_| Error::Damaged("sites".into()))?;
        let sql = "INSERT INTO synqlite_site(no, id, hlc) VALUES(?1, ?2, 0)";
        conn.prepare_cached(sql)?.execute(params![no, site.0])?;
        self.sites.push(site);
        self.numbers.insert(site, no);
        Ok(no)
    }

    /// The number of a site that already has one.
    pub fn known_number(&self, site: SiteId) -> Option<u32> {
        self.numbers.get(&site).copied()
    }

    /// The site with this number.
    pub fn site_of(&self, no: u32) -> Result<SiteId> {
        let found = self.sites.get(no as usize).copied();
        found.ok_or_else(|| Error::Damaged(format!("no site has number {no}")))
    }

    /// A stamp of this site, later than everything it has given or seen.
    pub fn tick(&mut self, ms: i64) -> Stamp {
        self.clock = self.clock.after(ms);
        self.seen.raise(self.site, self.clock);
        Stamp { hlc: self.clock, site: self.site }
    }

    /// What had been seen when the transaction began.
    pub fn had_seen(&self) -> &VersionVector {
        &self.saved.2
    }

    /// The clock when the transaction began: what this site has stamped since is later.
    pub fn began(&self) -> Hlc {
        self.saved.0
    }

    /// Takes note of a stamp of another site (R-HLC).
    pub fn observe(&mut self, hlc: Hlc) {
        self.clock = self.clock.max(hlc);
    }
}
