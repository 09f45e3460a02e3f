//! Keeps the catalog in step with the application's schema.
//!
//! Tables and columns get their numbers here. When a table no longer looks as it did when its
//! triggers were made, they are made anew, after the journal that the old ones wrote was folded.

use crate::Result;
use crate::capture;
use crate::catalog::{Catalog, Tracked};
use crate::policy::Policies;
use crate::schema::{self, Selection, Table};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};

/// The replicated tables as they are now.
pub struct Loaded {
    /// All tables that are tracked and still there.
    pub catalog: Catalog,
    /// Numbers of tables whose triggers no longer fit, with the columns new since they were made.
    pub stale: BTreeMap<u32, Vec<u32>>,
}

/// Reads the schema and matches it with the numbers given so far. Writes nothing; columns without
/// a number get the next ones, as [`renew`] will record them.
pub fn load(conn: &Connection, policies: &Policies) -> Result<Loaded> {
    let mut statement = conn.prepare_cached(
        "SELECT name FROM synqlite_table WHERE EXISTS(SELECT 1 FROM main.sqlite_master AS m \
         WHERE m.type = 'table' AND m.name = synqlite_table.name COLLATE NOCASE)",
    )?;
    let only = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let schema = schema::read(conn, policies, &Selection { only, exclude: vec![] })?;
    let mut statement = conn.prepare_cached("SELECT no, name, shape FROM synqlite_table")?;
    let known = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let known: Vec<(u32, String, String)> = known.collect::<Result<_, _>>()?;
    let (mut tables, mut stale) = (Vec::new(), BTreeMap::new());
    let present: BTreeSet<String> = own_objects(conn)?.into_iter().map(|(_, name)| name).collect();
    for table in &schema.tables {
        let same = |(_, name, _): &&(u32, String, String)| name.eq_ignore_ascii_case(&table.name);
        let Some((no, _, shape)) = known.iter().find(same) else { continue };
        let (column_nos, fresh) = number_columns(conn, *no, table)?;
        let tracked = Tracked { no: *no, table: table.clone(), column_nos };
        // Dropping a table takes its triggers along, and rebuilding one under its name too.
        let complete = || capture::objects(&tracked).iter().all(|(name, _)| present.contains(name));
        if *shape != table.describe() || !complete() {
            stale.insert(*no, fresh);
        }
        tables.push(tracked);
    }
    // Only tracked tables were read, so positions in the schema are positions in the catalog.
    let components = if tables.is_empty() { vec![] } else { schema.components.clone() };
    Ok(Loaded { catalog: Catalog::new(tables, components), stale })
}

/// Numbers of the table's columns, and those of them that are new.
fn number_columns(conn: &Connection, no: u32, table: &Table) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut statement =
        conn.prepare_cached("SELECT name, no FROM synqlite_column WHERE tbl = ?1")?;
    let known = statement.query_map([no], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let known: BTreeMap<String, u32> = known.collect::<Result<_, _>>()?;
    let mut next = known.values().max().map_or(0, |max| max + 1);
    let (mut numbers, mut fresh) = (Vec::new(), Vec::new());
    for column in &table.columns {
        numbers.push(match known.get(&column.name) {
            Some(&number) => number,
            None => {
                fresh.push(next);
                next += 1;
                next - 1
            }
        });
    }
    Ok((numbers, fresh))
}

/// Takes a table in: numbers, triggers, no rows yet.
pub fn track(conn: &Connection, table: &Table) -> Result<Tracked> {
    let sql = "INSERT INTO synqlite_table(name, births, shape) VALUES(?1, 0, ?2)";
    conn.execute(sql, params![table.name, table.describe()])?;
    let no = u32::try_from(conn.last_insert_rowid())
        .map_err(|_| crate::Error::Damaged("table numbers".into()))?;
    let (column_nos, _) = number_columns(conn, no, table)?;
    let tracked = Tracked { no, table: table.clone(), column_nos };
    record_columns(conn, &tracked)?;
    capture::install(conn, &tracked)?;
    Ok(tracked)
}

/// Makes the triggers of a stale table anew. Its part of the journal must be empty.
pub fn renew(conn: &Connection, t: &Tracked) -> Result<()> {
    drop_objects(conn, t.no)?;
    record_columns(conn, t)?;
    capture::install(conn, t)?;
    let sql = "UPDATE synqlite_table SET shape = ?2 WHERE no = ?1";
    conn.execute(sql, params![t.no, t.table.describe()])?;
    Ok(())
}

fn record_columns(conn: &Connection, t: &Tracked) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO synqlite_column(tbl, no, name) VALUES(?1, ?2, ?3)";
    let mut statement = conn.prepare_cached(sql)?;
    for (column, no) in t.table.columns.iter().zip(&t.column_nos) {
        statement.execute(params![t.no, no, column.name])?;
    }
    Ok(())
}

fn drop_objects(conn: &Connection, no: u32) -> Result<()> {
    let suffix = format!("_{no}");
    for (kind, name) in own_objects(conn)? {
        if name.ends_with(&suffix) && capture::is_own(&name, no) {
            conn.execute_batch(&format!("DROP {kind} main.{}", schema::quote(&name)))?;
        }
    }
    Ok(())
}

/// Everything of ours in the database, as (TABLE, INDEX or TRIGGER; name), triggers first and
/// indexes before tables, so that each can be dropped.
pub fn own_objects(conn: &Connection) -> Result<Vec<(String, String)>> {
    let sql = "SELECT upper(type), name FROM main.sqlite_master \
               WHERE name LIKE 'synqlite\\_%' ESCAPE '\\' AND sql IS NOT NULL \
               ORDER BY type = 'table', type = 'index', name";
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
