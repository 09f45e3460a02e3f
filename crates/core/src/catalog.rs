//! The replicated tables as this replica numbers them, and SQL that reaches their rows.
//!
//! Numbers of tables and columns are given once and never reused: journal entries, stored states
//! and triggers refer to them, so they stay valid when the application alters its schema.

use crate::equal::{self, Pair};
use crate::schema::{Encoding, ForeignKey, Table, TableKind, quote};
use crate::sqlvalue::{Bind, Located, values};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Statement, params_from_iter};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};
use synqlite_wire::Value;
use synqlite_wire::key::Collation;

pub use synqlite_view::catalog::{Loc, Relation, name_keys, place_of_key};

/// Numbers of the columns that the triggers of a table did not know yet, by number of the table.
pub type Fresh = BTreeMap<u32, Vec<u32>>;

/// A replicated table in this file: what merges know of it, and SQL that reaches its rows.
#[derive(Clone, Debug)]
pub struct Tracked {
    relation: Arc<Relation>,
    /// Foreign keys that are part of the primary key; `None` if a row that is named by another row
    /// cannot be found through the key that the other shows.
    pub key_rows: Option<Vec<KeyRow>>,
    /// SQL that is needed for many rows, once it is made.
    sql: Statements,
}

impl From<Arc<Relation>> for Tracked {
    fn from(relation: Arc<Relation>) -> Tracked {
        Tracked { relation, key_rows: None, sql: Statements::default() }
    }
}

impl From<Relation> for Tracked {
    fn from(relation: Relation) -> Tracked {
        Arc::new(relation).into()
    }
}

impl Deref for Tracked {
    type Target = Relation;

    fn deref(&self) -> &Relation {
        &self.relation
    }
}

/// A foreign key all of whose columns are in the primary key, so that the row to which it refers is a
/// part of identities (R-ID-KEY).
#[derive(Clone, Debug)]
pub struct KeyRow {
    /// Position of the foreign key.
    pub foreign_key: usize,
    /// Where its columns are in the primary key. The row stands where the first of them is.
    pub at: Vec<usize>,
    /// The table to which it refers.
    pub parent: Arc<Tracked>,
}

/// Texts of statements on one table.
#[derive(Clone, Debug, Default)]
struct Statements {
    read: OnceLock<String>,
    exists: OnceLock<String>,
    rowid_of_key: OnceLock<Option<String>>,
}

/// All replicated tables, parents first.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The tables in the order of the schema.
    pub tables: Vec<Tracked>,
    /// Tables that are not replicated and refer to others: only [`crate::local`] writes to them.
    pub local: Vec<Tracked>,
    relations: synqlite_view::Catalog,
}

impl Deref for Catalog {
    type Target = synqlite_view::Catalog;

    fn deref(&self) -> &synqlite_view::Catalog {
        &self.relations
    }
}

impl Catalog {
    /// A catalog of `tables`, which stay in their order. `components`: ranges of them that refer to each
    /// other in cycles. `enforced`: whether merges enforce foreign keys.
    pub fn new(relations: Vec<Relation>, components: Vec<Range<usize>>, enforced: bool) -> Catalog {
        let relations = synqlite_view::Catalog::new(relations, components, enforced);
        let tables = relations.tables.iter().cloned().map(Tracked::from).collect();
        let mut catalog = Catalog { tables, local: Vec::new(), relations };
        catalog.link_keys(enforced);
        catalog
    }

    /// Finds out through which other rows the rows of each table can be found by their keys. What
    /// must hold: wherever such a row is visible, so is the other, and shows the key to which it
    /// refers. Merges see to that if they enforce foreign keys.
    fn link_keys(&mut self, enforced: bool) {
        for position in 0..self.tables.len() {
            let t = &self.tables[position];
            let link = |(foreign_key, at): (usize, Vec<usize>)| {
                let fk = &t.table.foreign_keys[foreign_key];
                let others =
                    t.table.foreign_keys.iter().enumerate().filter(|(f, _)| *f != foreign_key);
                let shares = others.flat_map(|(_, fk)| &fk.columns).any(|c| fk.columns.contains(c));
                let parent = self.position(&fk.parent).filter(|parent| *parent < position)?;
                let found = enforced && fk.enforced && !shares && t.table.rowid_alias().is_none();
                found.then(|| KeyRow {
                    foreign_key,
                    at,
                    parent: Arc::new(self.tables[parent].clone()),
                })
            };
            let rows = t.keys_in_key().map(link).collect();
            self.tables[position].key_rows = rows;
        }
    }

    /// Foreign keys of local tables that are to a table, each with the position of its own.
    pub fn local_references_to<'c>(
        &'c self,
        t: &'c Tracked,
    ) -> impl Iterator<Item = (usize, usize)> + 'c {
        let keys = |(child, c): (usize, &'c Tracked)| {
            let keys = c.table.foreign_keys.iter().enumerate();
            keys.filter(|(_, fk)| fk.parent == t.table.name).map(move |(f, _)| (child, f))
        };
        self.local.iter().enumerate().flat_map(keys)
    }

    /// The table called `name`.
    pub fn by_name(&self, name: &str) -> Option<&Tracked> {
        self.position(name).map(|i| &self.tables[i])
    }
}

/// SQL that writes a primary key as one text, injectively: text as `t` and hex digits, anything
/// else as SQLite quotes it. `prefix` is `NEW.`, `OLD.` or an alias with its dot.
pub fn key_sql(table: &Table, prefix: &str) -> String {
    let part = |&i: &usize| {
        let c = format!("{prefix}{}", quote(&table.columns[i].name));
        format!("CASE typeof({c}) WHEN 'text' THEN 't'||hex({c}) ELSE quote({c}) END")
    };
    table.primary_key.iter().map(part).collect::<Vec<_>>().join("||','||")
}

/// SQL for the location of a row, to be read by [`Tracked::place`]. `prefix` as in [`key_sql`].
pub fn loc_sql(table: &Table, prefix: &str) -> String {
    match (&table.kind, &table.rowid_name) {
        (TableKind::WithoutRowid, _) | (_, None) => key_sql(table, prefix),
        (_, Some(name)) => format!("{prefix}{}", quote(name)),
    }
}

/// The key values that [`key_sql`] wrote in a database that keeps texts in this encoding.
fn parse_key(text: &str, encoding: Encoding) -> Option<Vec<Value>> {
    text.split(',')
        .map(|part| {
            if let Some(hex) = part.strip_prefix('t') {
                return equal::text_of_hex(hex, encoding).map(Value::Text);
            }
            if let Some(hex) = part.strip_prefix("X'").and_then(|p| p.strip_suffix('\'')) {
                return equal::bytes_of_hex(hex).map(Value::Blob);
            }
            if part == "NULL" {
                return Some(Value::Null);
            }
            if let Ok(i) = part.parse() {
                return Some(Value::Integer(i));
            }
            part.parse().ok().map(Value::Real)
        })
        .collect()
}

impl Tracked {
    /// Quoted names of all stored columns.
    pub fn column_list(&self) -> String {
        let names: Vec<_> = self.table.columns.iter().map(|c| quote(&c.name)).collect();
        names.join(",")
    }

    /// `main.` and the quoted table name.
    pub fn target(&self) -> String {
        format!("main.{}", quote(&self.table.name))
    }

    /// WHERE clause that finds one row by location, parameters from `?first` on.
    fn where_loc(&self, first: usize) -> String {
        match (&self.table.kind, &self.table.rowid_name) {
            (TableKind::WithoutRowid, _) | (_, None) => {
                self.where_columns(self.primary_key(), first)
            }
            (_, Some(name)) => format!("{} = ?{first}", quote(name)),
        }
    }

    /// Columns of the primary key, each with the collation of its index.
    pub fn primary_key(&self) -> impl Iterator<Item = (usize, &Collation)> {
        self.table.primary_key.iter().copied().zip(&self.table.key_collations)
    }

    /// WHERE clause of the rows with a primary key, parameters from `?1` on.
    pub fn where_key(&self) -> String {
        self.where_columns(self.primary_key(), 1)
    }

    /// WHERE clause that compares columns under collations, parameters from `?first` on.
    fn where_columns<'c>(
        &self,
        columns: impl Iterator<Item = (usize, &'c Collation)>,
        first: usize,
    ) -> String {
        let term = |(n, (c, collation)): (usize, (usize, &Collation))| {
            let name = quote(&self.table.columns[c].name);
            match *collation == self.table.columns[c].collation {
                true => format!("{name} = ?{n}"),
                false => format!("{name} COLLATE {} = ?{n}", equal::collation_sql(collation)),
            }
        };
        (first..).zip(columns).map(term).collect::<Vec<_>>().join(" AND ")
    }

    /// The key values of a location, or its rowid.
    pub fn loc_values(&self, loc: &Loc) -> Result<Vec<Value>> {
        match loc {
            Loc::Row(rowid) => Ok(vec![Value::Integer(*rowid)]),
            Loc::Key(text) => self.key_values(text, Encoding::Utf8),
        }
    }

    fn key_values(&self, text: &str, encoding: Encoding) -> Result<Vec<Value>> {
        let values = parse_key(text, encoding);
        values.filter(|key| key.len() == self.table.primary_key.len()).ok_or_else(|| {
            let name = &self.table.name;
            Error::Damaged(format!("journal or state of table {name}: key `{text}`"))
        })
    }

    /// The location that [`loc_sql`] wrote. Keys that are equal and spelled otherwise are one place, as
    /// they are for SQLite.
    pub fn place(&self, written: Located) -> Result<Loc> {
        let Located(written) = written;
        match written {
            Loc::Row(_) => Ok(written),
            Loc::Key(text) => {
                let key = self.key_values(&text, self.table.encoding)?;
                Ok(Loc::Key(place_of_key(&key, &self.table.key_collations)))
            }
        }
    }

    /// Locations that a query gives in its first column, as [`loc_sql`] writes them.
    pub fn places(
        &self,
        statement: &mut Statement<'_>,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Loc>> {
        let mut rows = statement.query(params)?;
        let mut places = Vec::new();
        while let Some(row) = rows.next()? {
            places.push(self.place(row.get(0)?)?);
        }
        Ok(places)
    }

    /// Locations of all rows.
    pub fn all_places(&self, conn: &Connection) -> Result<BTreeSet<Loc>> {
        let sql = format!("SELECT {} FROM {} AS o", loc_sql(&self.table, "o."), self.target());
        Ok(self.places(&mut conn.prepare(&sql)?, [])?.into_iter().collect())
    }

    /// Whether rows can be at places like `loc`: a rebuild may have given a table rowids, or taken them,
    /// or given it a key of other columns.
    pub fn has_places_like(&self, loc: &Loc) -> bool {
        self.values_of_place(loc).is_some()
    }

    /// The key values of a location, or its rowid; `None` if no row can be there.
    fn values_of_place(&self, loc: &Loc) -> Option<Vec<Value>> {
        let without_rowids = self.table.kind == TableKind::WithoutRowid;
        if without_rowids != matches!(loc, Loc::Key(_)) {
            return None;
        }
        self.loc_values(loc).ok()
    }

    /// The stored columns of the row at `loc`.
    pub fn read(&self, conn: &Connection, loc: &Loc) -> Result<Option<Vec<Value>>> {
        let Some(key) = self.values_of_place(loc) else { return Ok(None) };
        let sql = self.sql.read.get_or_init(|| {
            let (columns, target) = (self.column_list(), self.target());
            format!("SELECT {columns} FROM {target} WHERE {}", self.where_loc(1))
        });
        let count = self.table.columns.len();
        let mut statement = conn.prepare_cached(sql)?;
        let row = statement
            .query_row(params_from_iter(key.iter().map(Bind)), |row| values(row, 0, count))
            .optional()?;
        Ok(row)
    }

    /// Whether a row is at `loc`.
    pub fn exists(&self, conn: &Connection, loc: &Loc) -> Result<bool> {
        let Some(key) = self.values_of_place(loc) else { return Ok(false) };
        let sql = self
            .sql
            .exists
            .get_or_init(|| format!("SELECT 1 FROM {} WHERE {}", self.target(), self.where_loc(1)));
        Ok(conn.prepare_cached(sql)?.exists(params_from_iter(key.iter().map(Bind)))?)
    }

    /// Locations of the rows that have this primary key, as its index compares; none in a table without.
    pub fn find_key(&self, conn: &Connection, key: &[Value]) -> Result<Vec<Loc>> {
        if self.table.primary_key.is_empty() {
            return Ok(vec![]);
        }
        self.locations(conn, &self.where_columns(self.primary_key(), 1), key)
    }

    /// Locations of the rows to which a foreign key of another table refers with these values.
    pub fn find_parents(
        &self,
        conn: &Connection,
        fk: &ForeignKey,
        values: &[Value],
    ) -> Result<Vec<Loc>> {
        let none = |(v, (affinity, _)): (&Value, &(_, _))| equal::means_none(v, *affinity);
        if values.iter().zip(&fk.parent_keys).any(none) {
            return Ok(vec![]);
        }
        let collations = fk.parent_keys.iter().map(|(_, collation)| collation);
        let columns = fk.parent_columns.iter().copied().zip(collations);
        self.locations(conn, &self.where_columns(columns, 1), values)
    }

    /// Locations of the rows that refer by a foreign key of this table to a row with this key. For many keys:
    /// `referring`.
    pub fn find_children(
        &self,
        conn: &Connection,
        fk: &ForeignKey,
        key: &[Value],
    ) -> Result<Vec<Loc>> {
        let mut statement = conn.prepare_cached(&self.children_sql(fk, key))?;
        self.places(&mut statement, params_from_iter(key.iter().map(Bind)))
    }

    /// The query of [`Self::find_children`]; the key's values are its parameters.
    pub fn children_sql(&self, fk: &ForeignKey, key: &[Value]) -> String {
        let term = |(n, ((&c, parent), key)): (usize, ((&usize, _), &Value))| {
            let column = &self.table.columns[c];
            let name = format!("o.{}", quote(&column.name));
            let child = (name.as_str(), column.affinity, &column.collation);
            Pair { child, parent }.means_sql(key, n)
        };
        let columns = fk.columns.iter().zip(&fk.parent_keys).zip(key);
        let terms: Vec<_> = (1..).zip(columns).map(term).collect();
        self.locations_sql(&terms.join(" AND "))
    }

    fn locations(&self, conn: &Connection, condition: &str, values: &[Value]) -> Result<Vec<Loc>> {
        let mut statement = conn.prepare_cached(&self.locations_sql(condition))?;
        self.places(&mut statement, params_from_iter(values.iter().map(Bind)))
    }

    fn locations_sql(&self, condition: &str) -> String {
        let (loc, target) = (loc_sql(&self.table, "o."), self.target());
        format!("SELECT {loc} FROM {target} AS o WHERE {condition}")
    }

    /// Rowid of the row that has this primary key.
    pub fn rowid_of_key(&self, conn: &Connection, key: &[Value]) -> Result<Option<i64>> {
        if key.len() != self.table.primary_key.len() {
            return Ok(None);
        }
        let sql = self.sql.rowid_of_key.get_or_init(|| self.rowid_of_key_sql());
        let Some(sql) = sql else { return Ok(None) };
        let mut statement = conn.prepare_cached(sql)?;
        let key = params_from_iter(key.iter().map(Bind));
        Ok(statement.query_row(key, |row| row.get(0)).optional()?)
    }

    fn rowid_of_key_sql(&self) -> Option<String> {
        let named = !self.table.primary_key.is_empty() && self.knows_collations();
        let condition = self.where_columns(self.primary_key(), 1);
        let (loc, target) = (loc_sql(&self.table, "o."), self.target());
        (named && self.has_rowid())
            .then(|| format!("SELECT {loc} FROM {target} AS o WHERE {condition}"))
    }

    /// OR ABORT, where the schema says something else: a merge must never replace or skip rows silently. It would
    /// count in triggers too, over what these say, so it stands nowhere else: there it goes without saying.
    fn or_abort(&self) -> &'static str {
        if self.table.conflict_clause { " OR ABORT" } else { "" }
    }

    /// Inserts a row, in the order of [`Tracked::column_list`].
    pub fn insert_sql(&self) -> String {
        let marks = vec!["?"; self.table.columns.len()].join(",");
        let (target, columns) = (self.target(), self.column_list());
        format!("INSERT{} INTO {target}({columns}) VALUES({marks})", self.or_abort())
    }

    /// Inserts a row and returns where it went. For a table addressed by rowid, `rowid` chooses it.
    pub fn insert(&self, conn: &Connection, row: &[Value], rowid: Option<i64>) -> Result<Loc> {
        let explicit = match (self.table.kind, &self.table.rowid_name, rowid) {
            (TableKind::Rowid, Some(name), Some(rowid)) => Some((quote(name), rowid)),
            _ => None,
        };
        let (mut names, mut count) = (self.column_list(), self.table.columns.len());
        if let Some((name, _)) = &explicit {
            names = format!("{names},{name}");
            count += 1;
        }
        let marks = vec!["?"; count].join(",");
        let (or_abort, target) = (self.or_abort(), self.target());
        let sql = format!("INSERT{or_abort} INTO {target}({names}) VALUES({marks})");
        let rowid = explicit.map(|(_, rowid)| Value::Integer(rowid));
        let all = row.iter().chain(rowid.iter()).map(Bind);
        conn.prepare_cached(&sql)?.execute(params_from_iter(all))?;
        match self.table.kind {
            TableKind::WithoutRowid => self.loc_of_key(conn, row),
            _ => Ok(Loc::Row(conn.last_insert_rowid())),
        }
    }

    /// Location that a row with these values has in a `WITHOUT ROWID` table.
    fn loc_of_key(&self, conn: &Connection, row: &[Value]) -> Result<Loc> {
        let key: Vec<Value> = self.table.primary_key.iter().map(|&c| row[c].clone()).collect();
        let found = self.find_key(conn, &key)?;
        found.into_iter().next().ok_or_else(|| {
            Error::Damaged(format!("table {}: a row just inserted is not there", self.table.name))
        })
    }

    /// Sets `columns` of the row at `loc`.
    pub fn update(
        &self,
        conn: &Connection,
        loc: &Loc,
        columns: &[usize],
        row: &[Value],
    ) -> Result<()> {
        let mut statement = conn.prepare_cached(&self.update_sql(columns))?;
        self.update_with(&mut statement, loc, columns, row)
    }

    /// Sets `columns` of a row that is addressed after them.
    pub fn update_sql(&self, columns: &[usize]) -> String {
        let name = |&c: &usize| quote(&self.table.columns[c].name);
        let sets = columns.iter().map(name).enumerate();
        let sets: Vec<_> = sets.map(|(i, c)| format!("{c} = ?{}", i + 1)).collect();
        let (target, place) = (self.target(), self.where_loc(columns.len() + 1));
        format!("UPDATE{} {target} SET {} WHERE {place}", self.or_abort(), sets.join(","))
    }

    /// [`Tracked::update`] with a statement of [`Tracked::update_sql`].
    pub fn update_with(
        &self,
        statement: &mut Statement<'_>,
        loc: &Loc,
        columns: &[usize],
        row: &[Value],
    ) -> Result<()> {
        let key = self.loc_values(loc)?;
        let all = columns.iter().map(|&c| &row[c]).chain(key.iter()).map(Bind);
        statement.execute(params_from_iter(all))?;
        Ok(())
    }

    /// Deletes the row at `loc`.
    pub fn delete(&self, conn: &Connection, loc: &Loc) -> Result<()> {
        let sql = format!("DELETE FROM {} WHERE {}", self.target(), self.where_loc(1));
        let key = self.loc_values(loc)?;
        conn.prepare_cached(&sql)?.execute(params_from_iter(key.iter().map(Bind)))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_texts_parse_back() {
        let key = "t6162,-5,0.5,X'00FF',NULL,1.0e+300,-9.0e+999,Inf";
        let want = vec![
            Value::Text(b"ab".to_vec()),
            Value::Integer(-5),
            Value::Real(0.5),
            Value::Blob(vec![0, 255]),
            Value::Null,
            Value::Real(1.0e300),
            Value::Real(f64::NEG_INFINITY),
            Value::Real(f64::INFINITY),
        ];
        let binary = vec![Collation::Binary; want.len()];
        assert_eq!(parse_key(key, Encoding::Utf8).as_ref(), Some(&want));
        assert_eq!(parse_key(&place_of_key(&want, &binary), Encoding::Utf8), Some(want));
        assert_eq!(parse_key("t", Encoding::Utf8), Some(vec![Value::Text(vec![])]));
        assert_eq!(parse_key("t61006200", Encoding::Utf16le), Some(vec!["ab".into()]));
        assert_eq!(parse_key("t00610062", Encoding::Utf16be), Some(vec!["ab".into()]));
        assert_eq!(parse_key("x", Encoding::Utf8), None);
    }
}
