//! The replica's own tables: who it is, whom it knows, how far it is.
//!
//! All of them are called `synqlite_…`, live in the database itself and change in the same
//! transactions as the rows they describe.

mod names;
pub mod rowids;
mod tables;

pub use names::{SITE, SiteNames, check as check_name};
pub use tables::{FORMAT, JOURNAL_DDL, births, get, is_replica, missing, set, unset};

use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::{DatabaseId, Hlc, Id, Rid, SiteId, Stamp, Value, VersionVector};
use tables::{DDL, need};

/// Who the replica is and how far it has come. Kept in memory during a transaction and saved at
/// its end.
#[derive(Clone, Debug)]
pub struct Meta {
    /// This replica.
    pub site: SiteId,
    /// Latest clock value given or seen.
    pub clock: Hlc,
    /// Position of the latest transaction that changed any row state, by fold or merge.
    pub local_seq: i64,
    /// What this replica contains.
    pub seen: VersionVector,
    /// The last point of this site's line.
    pub sealed: Hlc,
    /// Rows whose sums are to be taken before the transaction ends.
    pub unsummed: Unsummed,
    /// What rows showed when the transaction began that local tables may refer to, by table and name, each
    /// with how many were noted before it.
    pub left: BTreeMap<(u32, Rid), (usize, Vec<Value>)>,
    /// What sites are called.
    pub names: SiteNames,
    /// Entries whose records may have opened or closed, for the log of closed ones, each with the row that had what
    /// it asked for, if it does not any more.
    pub records: RefCell<BTreeMap<i64, Option<Vec<u8>>>>,
    /// Whether anybody listens to what rows show.
    pub listened: bool,
    /// The latest position at which rows are noted that show something else; 0 if none is.
    pub noted: i64,
    saved: Saved,
    sites: Vec<SiteId>,
    numbers: HashMap<SiteId, u32>,
}

/// How far the replica had come when the transaction began, as the file says.
#[derive(Clone, Debug, Default)]
struct Saved {
    clock: Hlc,
    local_seq: i64,
    seen: VersionVector,
}

/// Rows whose sums are to be taken.
#[derive(Clone, Debug, Default)]
pub struct Unsummed {
    /// Numbers of tables and places in them.
    pub places: Vec<(u32, i64)>,
    /// Tables of which all sums are to be taken.
    pub tables: BTreeSet<u32>,
}

impl Meta {
    /// Creates the metadata tables for a new database or a new site of one.
    pub fn create(conn: &Connection, database: DatabaseId, site: SiteId) -> Result<Meta> {
        DDL.iter().try_for_each(|sql| conn.execute_batch(sql))?;
        rowids::mark(conn)?;
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
            site: Id(need(conn, "site")?),
            clock: Hlc(need(conn, "clock")?),
            local_seq: need(conn, "position")?,
            seen: VersionVector::default(),
            sealed: Hlc::ZERO,
            unsummed: Unsummed::default(),
            left: BTreeMap::new(),
            names: SiteNames::default(),
            records: RefCell::default(),
            listened: get(conn, "listened")?.unwrap_or(false),
            noted: 0,
            saved: Saved::default(),
            sites: Vec::new(),
            numbers: HashMap::new(),
        };
        meta.names = SiteNames::load(conn, meta.site)?;
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
        let (clock, local_seq) = (meta.clock, meta.local_seq);
        meta.saved = Saved { clock, local_seq, seen: meta.seen.clone() };
        meta.sealed = meta.seen.get(meta.site);
        Ok(meta)
    }

    /// Saves clock, local sequence and version vector. Touches nothing that is as it was: a transaction
    /// that writes nothing costs no synchronization.
    pub fn save(&self, conn: &Connection) -> Result<()> {
        let Saved { clock, local_seq, seen } = &self.saved;
        if self.clock != *clock {
            set(conn, "clock", self.clock.0)?;
        }
        let position = self.local_seq.max(self.noted);
        if position != *local_seq {
            set(conn, "position", position)?;
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
        &self.saved.seen
    }

    /// The clock when the transaction began: what this site has stamped since is later.
    pub fn began(&self) -> Hlc {
        self.saved.clock
    }

    /// Takes note of a stamp of another site (R-HLC).
    pub fn observe(&mut self, hlc: Hlc) {
        self.clock = self.clock.max(hlc);
    }
}
