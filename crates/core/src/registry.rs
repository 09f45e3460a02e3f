//! Tables, columns and column groups as this file numbers them.
//!
//! A number is given once, also to what only other sites have, and never to anything else; but for that of
//! a table that turned out to be another, of which then nothing here has the number.

use crate::catalog::{Catalog, Relation, Tracked};
use crate::schema::{self, Table};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub fn add_table(conn: &Connection, name: &str, canonical: &str) -> Result<u32> {
    let sql = "INSERT INTO synqlite_table(name, canonical, shape) VALUES(?1, ?2, '')";
    conn.execute(sql, [name, canonical])?;
    u32::try_from(conn.last_insert_rowid()).map_err(|_| Error::Damaged("table numbers".into()))
}

/// Number of the table that other sites call `canonical`, if it has one: also if it was dropped here.
pub fn known_table(conn: &Connection, canonical: &str) -> Result<Option<u32>> {
    let sql = "SELECT no FROM synqlite_table WHERE canonical = ?1 COLLATE NOCASE";
    Ok(conn.prepare_cached(sql)?.query_row([canonical], |row| row.get(0)).optional()?)
}

/// The same, given now if it has none.
pub fn number_of_table(conn: &Connection, canonical: &str) -> Result<u32> {
    known_table(conn, canonical)?.map_or_else(|| add_table(conn, canonical, canonical), Ok)
}

/// Takes note that the table with this number has another name here.
pub fn call_table(conn: &Connection, no: u32, name: &str) -> Result<()> {
    let sql = "UPDATE synqlite_table SET name = ?2 WHERE no = ?1";
    Ok(conn.prepare_cached(sql)?.execute(params![no, name]).map(drop)?)
}

/// The same of a column.
pub fn call_column(conn: &Connection, table: u32, no: u32, name: &str) -> Result<()> {
    let sql = "UPDATE synqlite_column SET name = ?3 WHERE tbl = ?1 AND no = ?2";
    Ok(conn.prepare_cached(sql)?.execute(params![table, no, name]).map(drop)?)
}

/// Takes note that the table with this number had another name first.
pub fn call_first(conn: &Connection, no: u32, canonical: &str) -> Result<()> {
    let sql = "UPDATE synqlite_table SET canonical = ?2 WHERE no = ?1";
    Ok(conn.prepare_cached(sql)?.execute(params![no, canonical]).map(drop)?)
}

/// Forgets a table that is not here, and of which nothing is kept any more.
pub fn forget_table(conn: &Connection, no: u32) -> Result<()> {
    for table in ["synqlite_unit", "synqlite_column", "synqlite_sum"] {
        conn.execute(&format!("DELETE FROM {table} WHERE tbl = ?1"), [no])?;
    }
    Ok(conn.execute("DELETE FROM synqlite_table WHERE no = ?1", [no]).map(drop)?)
}

/// The name by which other sites know the table with this number.
pub fn name_of_table(conn: &Connection, no: u32) -> Result<String> {
    let sql = "SELECT canonical FROM synqlite_table WHERE no = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([no], |row| row.get(0))?)
}

/// Number of the column that other sites call `canonical`, given now if it has none.
pub fn number_of_column(conn: &Connection, table: u32, canonical: &str) -> Result<u32> {
    let sql = "SELECT no FROM synqlite_column WHERE tbl = ?1 AND canonical = ?2 COLLATE NOCASE";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![table, canonical])?;
    if let Some(row) = rows.next()? {
        return Ok(row.get(0)?);
    }
    let sql = "INSERT INTO synqlite_column(tbl, no, canonical, since) SELECT ?1, \
               1 + coalesce(max(no), -1), ?2, -2 FROM synqlite_column WHERE tbl = ?1 RETURNING no";
    Ok(conn.prepare_cached(sql)?.query_row(params![table, canonical], |row| row.get(0))?)
}

/// Numbers of the columns of one table, by the names that other sites know; read once however many are
/// asked for.
pub struct Columns {
    table: u32,
    next: u32,
    /// In small letters.
    known: HashMap<String, u32>,
}

impl Columns {
    /// Those that have numbers.
    pub fn read(conn: &Connection, table: u32) -> Result<Columns> {
        let names = column_names(conn, table)?;
        let next = names.keys().next_back().map_or(0, |last| last + 1);
        let mut known = HashMap::new();
        for (no, name) in names {
            known.entry(name.to_ascii_lowercase()).or_insert(no);
        }
        Ok(Columns { table, next, known })
    }

    /// The number of the column that other sites call `canonical`, given now if it has none.
    pub fn number(&mut self, conn: &Connection, canonical: &str) -> Result<u32> {
        let Columns { table, next, known } = self;
        let name = canonical.to_ascii_lowercase();
        if let Some(no) = known.get(&name) {
            return Ok(*no);
        }
        let (no, sql) = (
            *next,
            "INSERT INTO synqlite_column(tbl, no, canonical, since) VALUES(?1, ?2, ?3, -2)",
        );
        conn.prepare_cached(sql)?.execute(params![*table, no, canonical])?;
        *next += 1;
        known.insert(name, no);
        Ok(no)
    }
}

/// Tables that have numbers and are not in the catalog: known from other sites only, or dropped.
pub fn absent(conn: &Connection, catalog: &Catalog) -> Result<Vec<Tracked>> {
    let mut statement = conn.prepare_cached("SELECT no, canonical FROM synqlite_table")?;
    let mut rows = statement.query([])?;
    let mut absent = Vec::new();
    while let Some(row) = rows.next()? {
        let (no, canonical): (u32, String) = (row.get(0)?, row.get(1)?);
        if catalog.position_of_no(no).is_none() {
            let table = Table::absent(&canonical);
            absent.push(Relation::unnumbered(no, &canonical, table).into());
        }
    }
    Ok(absent)
}

/// Numbers of all tables, those that are not here too.
pub fn tables(conn: &Connection) -> Result<BTreeSet<u32>> {
    let mut statement = conn.prepare_cached("SELECT no FROM synqlite_table")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// Canonical names of all columns of a table, dropped and unknown ones too, by number.
pub fn column_names(conn: &Connection, table: u32) -> Result<BTreeMap<u32, String>> {
    let sql = "SELECT no, canonical FROM synqlite_column WHERE tbl = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Canonical names of the columns that a table has or had here, dropped ones too.
pub fn own_columns(conn: &Connection, table: u32) -> Result<Vec<String>> {
    let sql = "SELECT canonical FROM synqlite_column WHERE tbl = ?1 AND since <> -2";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([table], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Canonical names of the columns that a table has lost since its triggers were made, by number.
pub fn lost_columns(conn: &Connection, t: &Relation) -> Result<BTreeMap<u32, String>> {
    let sql = "SELECT no, canonical FROM synqlite_column WHERE tbl = ?1 AND name IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([t.no], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut names = names.collect::<Result<BTreeMap<u32, String>, _>>()?;
    names.retain(|no, _| !t.has(*no));
    Ok(names)
}

/// Canonical names of the columns of a table that only other sites have ever had, by number.
pub fn foreign_columns(conn: &Connection, table: u32) -> Result<BTreeMap<u32, String>> {
    let sql = "SELECT no, canonical FROM synqlite_column WHERE tbl = ?1 AND since = -2";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Takes note that in some rows only these columns are written, since others came without the rest.
/// Whether that is news.
pub fn lacking(conn: &Connection, t: &Tracked, columns: &[u32]) -> Result<bool> {
    let sql = "UPDATE synqlite_column SET since = 0 WHERE tbl = ?1 AND no = ?2 AND since = -1";
    let mut news = false;
    for (no, since) in t.column_nos.iter().zip(&t.since) {
        if *since == -1 && !columns.contains(no) {
            news |= conn.prepare_cached(sql)?.execute([t.no, *no])? > 0;
        }
    }
    Ok(news)
}

/// Records the groups (R-GROUP) for which states are stored from now on.
pub fn record_units(conn: &Connection, t: &Relation) -> Result<()> {
    conn.execute("DELETE FROM synqlite_unit WHERE tbl = ?1", [t.no])?;
    let sql = "INSERT INTO synqlite_unit(tbl, unit, place, item) VALUES(?1, ?2, ?3, ?4)";
    let mut statement = conn.prepare_cached(sql)?;
    for (unit, group) in (0i64..).zip(&t.table.groups) {
        for (place, &c) in (0i64..).zip(&group.columns) {
            statement.execute(params![t.no, unit, place, t.column_nos[c]])?;
        }
        for (place, &f) in (group.columns.len() as i64..).zip(&group.foreign_keys) {
            statement.execute(params![t.no, unit, place, t.key_names[f]])?;
        }
    }
    Ok(())
}

/// Gives a foreign key another name in the groups of a table.
pub fn rename_key(conn: &Connection, t: &Tracked, key: &str, name: &str) -> Result<()> {
    let sql = "UPDATE synqlite_unit SET item = ?3 WHERE tbl = ?1 AND item = ?2";
    conn.prepare_cached(sql)?.execute(params![t.no, key, name])?;
    Ok(())
}

/// The groups (R-GROUP) of a table as they were when its triggers were made: columns and canonical
/// names of foreign keys.
pub fn groups(conn: &Connection, table: u32) -> Result<Vec<(Vec<u32>, Vec<String>)>> {
    let sql = "SELECT unit, item FROM synqlite_unit WHERE tbl = ?1 ORDER BY unit, place";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([table])?;
    let mut units: BTreeMap<i64, (Vec<u32>, Vec<String>)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let unit = units.entry(row.get(0)?).or_default();
        match row.get_ref(1)? {
            rusqlite::types::ValueRef::Integer(_) => unit.0.push(row.get(1)?),
            _ => unit.1.push(row.get(1)?),
        }
    }
    Ok(units.into_values().collect())
}

/// Whether each site numbered the rows of a table for itself when its triggers were made (R-OWN).
pub fn had_own_numbers(conn: &Connection, no: u32) -> Result<bool> {
    let sql = "SELECT shape FROM synqlite_table WHERE no = ?1";
    let shape: String = conn.prepare_cached(sql)?.query_row([no], |row| row.get(0))?;
    Ok(schema::had_own_numbers(&shape))
}
