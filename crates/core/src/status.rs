//! What the application did since the last fold, and the triggers that saw it. Read only.

use crate::Result;
use crate::catalog::Tracked;
use crate::inbox;
use crate::journal::{self, Window};
use crate::replica::Replica;
use crate::schema::Skipped;
use crate::track::{self, Loaded};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// What waits in the journal, and what never gets there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Net changes by table; tables without any are left out.
    pub pending: BTreeMap<String, Pending>,
    /// Writes that wait.
    pub unfolded: u64,
    /// Rows that have arrived and are not merged yet.
    pub arriving: u64,
    /// Tables that are not replicated, those too that were made since `init`.
    pub skipped: Vec<Skipped>,
    /// Those of them that were replicated until they were altered.
    pub paused: Vec<Skipped>,
    /// What others wrote for tables and columns that this database never had.
    pub kept: Vec<Kept>,
    /// Tables that may have been written while our triggers were gone, or misled: the next fold compares all of their rows.
    pub uncaptured: Vec<String>,
}

/// Rows of which something is kept that they show once the schema has it (R-MIG-STASH).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The table.
    pub table: String,
    /// The column by the first name that it had, or none where the table is not here.
    pub column: Option<String>,
    /// How many.
    pub rows: u64,
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
            let unfolded = journal::waiting(conn, &loaded.catalog, i64::MAX)?;
            let (unfolded, arriving) = (unfolded.cast_unsigned(), inbox::rows(conn)?);
            let mut status = Status { unfolded, arriving, ..Status::default() };
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
            status.skipped = track::skipped(conn, &loaded.catalog)?;
            status.paused = track::paused(conn, &loaded.catalog)?;
            status.kept = kept(conn)?;
            let gap = |t: &&Tracked| loaded.stale.get(&t.no).is_some_and(|stale| stale.gap);
            let uncaptured = loaded.catalog.tables.iter().filter(gap);
            status.uncaptured = uncaptured.map(|t| t.table.name.clone()).collect();
            Ok(status)
        })
    }

    /// Tables that were replicated until they were altered so that they cannot be, each with the reason. What is
    /// written to them reaches nobody until they can again.
    pub fn paused(&self) -> Result<Vec<Skipped>> {
        self.read(|conn, _, loaded| track::paused(conn, &loaded.catalog))
    }

    /// Every trigger in the database by the table or view it is on, each list by name.
    pub fn triggers(&self) -> Result<BTreeMap<String, Vec<Trigger>>> {
        self.peek(|conn, _| {
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

/// Net changes of each table as the next fold will see them, every new row by itself.
pub(crate) fn windows(conn: &Connection, loaded: &Loaded) -> Result<Vec<Window>> {
    let fresh = loaded.stale.iter().map(|(no, stale)| (*no, stale.fresh.clone())).collect();
    let windows = journal::read_altered(conn, &loaded.catalog, &fresh)?;
    Ok(windows.into_iter().map(Window::expanded).collect())
}

/// What is kept for tables and columns that the schema never had.
fn kept(conn: &Connection) -> Result<Vec<Kept>> {
    let mut statement = conn.prepare(
        "SELECT t.name, iif(t.shape = '', NULL, c.canonical) AS lacks, count(DISTINCT s.rid) \
         FROM synqlite_stash AS s JOIN synqlite_table AS t ON t.no = s.tbl \
         JOIN synqlite_column AS c ON c.tbl = s.tbl AND c.name IS NULL AND c.since = -2 \
         AND instr(',' || s.unit || ',', ',' || c.no || ',') GROUP BY t.name, lacks",
    )?;
    let found = statement.query_map([], |row| {
        let rows: i64 = row.get(2)?;
        Ok(Kept { table: row.get(0)?, column: row.get(1)?, rows: rows.unsigned_abs() })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Site;

    fn pending(site: &Site) -> Vec<(String, [u64; 3])> {
        let status = site.replica.status().unwrap();
        let counts = |p: Pending| [p.inserted, p.updated, p.deleted];
        status.pending.into_iter().map(|(table, p)| (table, counts(p))).collect()
    }

    fn site() -> Site {
        Site::new(
            "CREATE TABLE a(id INTEGER PRIMARY KEY, x, y); CREATE TABLE b(k TEXT PRIMARY KEY, x) WITHOUT ROWID; \
             CREATE TABLE c(x); INSERT INTO a(x) VALUES (1),(2),(3); INSERT INTO b VALUES ('k', 1); \
             INSERT INTO c VALUES (1),(2)",
        )
    }

    fn one(table: &str, counts: [u64; 3]) -> Vec<(String, [u64; 3])> {
        vec![(table.to_owned(), counts)]
    }

    #[test]
    fn net_changes_are_counted_by_row() {
        let mut site = site();
        assert_eq!(site.replica.status().unwrap(), Status::default());
        site.run("INSERT INTO a(x) VALUES (4),(5); UPDATE a SET y = 1 WHERE id IN (1, 2, 4); DELETE FROM a WHERE id = 3");
        site.run("UPDATE b SET x = 2; UPDATE b SET x = 3; UPDATE b SET k = 'l'");
        site.run("DELETE FROM c; INSERT INTO c VALUES (9); DELETE FROM c");
        let want = [("a", [2, 2, 1]), ("b", [0, 1, 0]), ("c", [0, 0, 2])];
        assert_eq!(pending(&site), want.map(|(t, c)| (t.to_owned(), c)));
        let entries: i64 =
            site.app.query_row("SELECT count(*) FROM synqlite_journal", [], |r| r.get(0)).unwrap();
        // The second row that was inserted into `a` shares the entry of the first.
        assert_eq!(site.replica.status().unwrap().unfolded, entries.cast_unsigned() + 1);
        site.replica.fold().unwrap();
        assert_eq!(site.replica.status().unwrap(), Status::default());
    }

    #[test]
    fn writes_without_effect_are_not_pending() {
        let site = site();
        site.run("UPDATE a SET x = x; INSERT INTO c VALUES (3); DELETE FROM c WHERE x = 3");
        site.run("INSERT OR IGNORE INTO b VALUES ('k', 7)");
        assert_eq!(pending(&site), []);
        assert!(site.replica.status().unwrap().unfolded > 0);
    }

    #[test]
    fn replaced_rows_are_updates() {
        let site = site();
        site.run("INSERT OR REPLACE INTO a VALUES (2, 'new', NULL)");
        assert_eq!(pending(&site), one("a", [0, 1, 0]));
    }

    #[test]
    fn a_column_added_since_counts() {
        let site = site();
        site.run("ALTER TABLE a ADD COLUMN z; UPDATE a SET z = 1 WHERE id = 2");
        assert_eq!(pending(&site), one("a", [0, 1, 0]));
    }

    #[test]
    fn asking_writes_nothing() {
        let site = site();
        site.run("UPDATE a SET x = 9; DELETE FROM b");
        let file = std::fs::read(&site.path).unwrap();
        site.replica.status().unwrap();
        site.replica.triggers().unwrap();
        assert_eq!(std::fs::read(&site.path).unwrap(), file);
    }

    #[test]
    fn triggers_are_listed_by_table() {
        let site = site();
        site.run("CREATE VIEW v AS SELECT 1 AS x");
        site.run("CREATE TRIGGER zz AFTER INSERT ON c BEGIN SELECT 1; END");
        site.run("CREATE TRIGGER on_view INSTEAD OF INSERT ON v BEGIN SELECT 2; END");
        let triggers = site.replica.triggers().unwrap();
        assert_eq!(triggers.keys().collect::<Vec<_>>(), ["a", "b", "c", "v"]);
        let names: Vec<_> = triggers["c"].iter().map(|t| t.name.as_str()).collect();
        assert!(names.is_sorted() && names.ends_with(&["zz"]) && names.len() == 4, "{names:?}");
        let on_view = &triggers["v"][0];
        assert_eq!(
            on_view.sql,
            "CREATE TRIGGER on_view INSTEAD OF INSERT ON v BEGIN SELECT 2; END"
        );
    }
}
