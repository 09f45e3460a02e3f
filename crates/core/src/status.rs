//! What the application did since the last fold, and the triggers that saw it. Read only.

use crate::Result;
use crate::journal::{self, Window};
use crate::replica::Replica;
use crate::track::Loaded;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// What waits in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Net changes by table; tables without any are left out.
    pub pending: BTreeMap<String, Pending>,
    /// Entries in the journal.
    pub unfolded: u64,
}

/// Net changes of one table since the last fold, in rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Rows that came into being and are still there.
    pub inserted: u64,
    /// Rows that were there and show something else.
    pub updated: u64,
    /// Rows that were there and are gone.
    pub deleted: u64,
}

/// A trigger of the database, the application's or one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// The statement that creates it.
    pub sql: String,
}

impl Replica {
    /// What the next fold will find. Writes nothing and folds nothing.
    pub fn status(&self) -> Result<Status> {
        self.read(|conn, _, loaded| {
            let sql = "SELECT count(*) FROM synqlite_journal";
            let unfolded: i64 = conn.query_row(sql, [], |row| row.get(0))?;
            let mut status = Status { unfolded: unfolded.cast_unsigned(), ..Status::default() };
            for (t, window) in loaded.catalog.tables.iter().zip(windows(conn, loaded)?) {
                let updated = window.changed.values();
                let updated = updated.filter(|c| !c.written.is_empty() || c.replaced.is_some());
                let pending = Pending {
                    inserted: window.born.len() as u64,
                    updated: updated.count() as u64,
                    // Without an image there was no row: an insert only made sure of its place.
                    deleted: window.gone.values().filter(|g| g.image.is_some()).count() as u64,
                };
                if pending != Pending::default() {
                    status.pending.insert(t.table.name.clone(), pending);
                }
            }
            Ok(status)
        })
    }

    /// Every trigger in the database by the table or view it is on, each list by name.
    pub fn triggers(&self) -> Result<BTreeMap<String, Vec<Trigger>>> {
        self.read(|conn, _, _| {
            let sql = "SELECT tbl_name, name, sql FROM main.sqlite_master \
                       WHERE type = 'trigger' ORDER BY tbl_name, name";
            let mut statement = conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            let mut tables: BTreeMap<String, Vec<Trigger>> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let trigger = Trigger { name: row.get(1)?, sql: row.get(2)? };
                tables.entry(row.get(0)?).or_default().push(trigger);
            }
            Ok(tables)
        })
    }
}

/// Net changes of each table as the next fold will see them: an update by a trigger that did not
/// know a column yet may have written that column.
pub(crate) fn windows(conn: &Connection, loaded: &Loaded) -> Result<Vec<Window>> {
    let mut windows = journal::read(conn, &loaded.catalog)?;
    for (t, window) in loaded.catalog.tables.iter().zip(&mut windows) {
        let Some(fresh) = loaded.stale.get(&t.no) else { continue };
        for changed in window.changed.values_mut().filter(|changed| changed.last > 0) {
            changed.written.extend(fresh.iter().map(|&no| (no, changed.last)));
        }
    }
    Ok(windows)
}
