//! The replicated tables as this replica numbers them, and SQL that reaches their rows.
//!
//! Numbers of tables and columns are given once and never reused: journal entries, stored states
//! and triggers refer to them, so they stay valid when the application alters its schema.

use crate::equal::{self, Pair};
use crate::schema::{self, Affinity, Encoding, ForeignKey, Table, TableKind, quote};
use crate::sqlvalue::{Bind, values};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Statement, params_from_iter};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use synqlite_wire::key::{Collation, KeyPart, encode, encode_values, normalise};
use synqlite_wire::{Cell, Rid, Value};

/// Numbers of the columns that the triggers of a table did not know yet, by number of the table.
pub type Fresh = BTreeMap<u32, Vec<u32>>;

/// Where a visible row is in its table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Loc {
    /// Its rowid.
    Row(i64),
    /// Its primary key, for `WITHOUT ROWID` tables: one text for all keys that SQLite holds for equal
    /// ([`Tracked::place`]).
    Key(String),
}

impl rusqlite::ToSql for Loc {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            Loc::Row(rowid) => rowid.to_sql(),
            Loc::Key(key) => key.to_sql(),
        }
    }
}

impl rusqlite::types::FromSql for Loc {
    fn column_result(v: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Loc> {
        match v {
            rusqlite::types::ValueRef::Integer(i) => Ok(Loc::Row(i)),
            _ => v.as_str().map(|s| Loc::Key(s.to_owned())),
        }
    }
}

/// A replicated table with its numbers.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// Number of the table.
    pub no: u32,
    /// Its schema.
    pub table: Table,
    /// Number of each column, parallel to `table.columns`.
    pub column_nos: Vec<u32>,
    /// The name by which other sites know the table: its first (R-MIG-RENAME).
    pub canonical: String,
    /// The same for each column, parallel to `table.columns`.
    pub column_names: Vec<String>,
    /// The same for each foreign key, parallel to `table.foreign_keys`.
    pub key_names: Vec<String>,
    /// Foreign keys, by position, that the states of the table do not know yet: by them no value was to a
    /// row before.
    pub new_keys: Vec<usize>,
    /// The same as `column_names` for each unique index, parallel to `table.uniques`, ascending.
    pub unique_names: Vec<String>,
    /// Position of this file after which each column was there, parallel to `table.columns`; -1 for
    /// those that the table had when it was taken in.
    pub since: Vec<i64>,
    /// Foreign keys that are part of the primary key; `None` if a row that is named by another row
    /// cannot be found through the key that the other shows.
    pub key_rows: Option<Vec<KeyRow>>,
    /// SQL that is needed for many rows, once it is made.
    sql: Statements,
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
    /// Ranges of `tables` that refer to each other in cycles, parents first.
    pub components: Vec<Range<usize>>,
    by_name: HashMap<String, usize>,
    by_no: HashMap<u32, usize>,
}

impl Catalog {
    /// A catalog of `tables`, which stay in their order.
    pub fn new(tables: Vec<Tracked>, components: Vec<Range<usize>>) -> Catalog {
        let by_name = tables.iter().enumerate().map(|(i, t)| (fold_name(&t.table.name), i));
        let by_no = tables.iter().enumerate().map(|(i, t)| (t.no, i));
        Catalog { by_name: by_name.collect(), by_no: by_no.collect(), tables, components }
    }

    /// Finds out through which other rows the rows of each table can be found by their keys. What
    /// must hold: wherever such a row is visible, so is the other, and shows the key to which it
    /// refers. Merges see to that if they enforce foreign keys.
    pub fn link_keys(&mut self, enforced: bool) {
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

    /// Position of the table called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(&fold_name(name)).copied()
    }

    /// The table called `name`.
    pub fn by_name(&self, name: &str) -> Option<&Tracked> {
        self.position(name).map(|i| &self.tables[i])
    }

    /// Position of the table with this number.
    pub fn position_of_no(&self, no: u32) -> Option<usize> {
        self.by_no.get(&no).copied()
    }

    /// References to the table at `parent`: (position of the child table, of its foreign key).
    pub fn references_to(&self, parent: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let name = fold_name(&self.tables[parent].table.name);
        self.tables.iter().enumerate().flat_map(move |(child, t)| {
            let name = name.clone();
            let fks = t.table.foreign_keys.iter().enumerate();
            fks.filter(move |(_, fk)| fold_name(&fk.parent) == name).map(move |(f, _)| (child, f))
        })
    }

    /// Whether rows of these tables refer to others of them.
    pub fn refer_to_themselves(&self, tables: &Range<usize>) -> bool {
        let mut keys = tables.clone().flat_map(|table| &self.tables[table].table.foreign_keys);
        keys.any(|fk| self.position(&fk.parent).is_some_and(|parent| tables.contains(&parent)))
    }

    /// Whether the table at `position` refers to itself, or is in a circle of references.
    pub fn is_in_circle(&self, position: usize) -> bool {
        let component = self.components.iter().find(|tables| tables.contains(&position));
        component.is_some_and(|tables| self.refer_to_themselves(tables))
    }
}

fn fold_name(name: &str) -> String {
    name.to_ascii_lowercase()
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

/// One text for all keys that SQLite holds for equal; in UTF-8 what [`key_sql`] would write of one.
pub(crate) fn place_of_key(key: &[Value], collations: &[Collation]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let part = |(value, collation): (&Value, &Collation)| match &*normalise(value, collation) {
        Value::Null => "NULL".to_owned(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Text(text) => format!("t{}", hex(text)),
        Value::Blob(blob) => format!("X'{}'", hex(blob)),
    };
    key.iter().zip(collations).map(part).collect::<Vec<_>>().join(",")
}

impl Tracked {
    /// A table whose columns have no numbers yet.
    pub fn unnumbered(no: u32, canonical: &str, table: Table) -> Tracked {
        let (canonical, names) = (canonical.to_owned(), Vec::new());
        let (column_nos, since) = (Vec::new(), Vec::new());
        let (new_keys, key_rows, sql) = (Vec::new(), None, Statements::default());
        let (column_names, key_names, unique_names) = (names, Vec::new(), Vec::new());
        Tracked {
            no,
            table,
            column_nos,
            canonical,
            column_names,
            key_names,
            new_keys,
            unique_names,
            since,
            key_rows,
            sql,
        }
    }

    /// Whether this database has the table, or other sites told of it or it was dropped.
    pub fn is_here(&self) -> bool {
        !self.table.columns.is_empty()
    }

    /// Whether it has the column with this number.
    pub fn has(&self, no: u32) -> bool {
        self.column_nos.contains(&no)
    }

    /// What a row shows in the columns of a group that nobody has written: their defaults.
    pub fn default_cell(&self, group: usize) -> Cell {
        let group = &self.table.groups[group];
        let values = group.columns.iter().map(|&c| self.default_of(c)).collect();
        Cell { values, refs: vec![None; group.foreign_keys.len()] }
    }

    /// The default of a column, as it stores it; NULL if it is not the same for ever.
    pub fn default_of(&self, column: usize) -> Value {
        let column = &self.table.columns[column];
        let value = column.default.as_deref().and_then(schema::constant).unwrap_or(Value::Null);
        equal::stored(&value, column.affinity)
    }

    /// Number that stands for a group in stored states: that of its first column.
    pub fn group_no(&self, group: usize) -> u32 {
        self.column_nos[self.table.groups[group].columns[0]]
    }

    /// Group of which `no` is the number, if the schema still has it.
    pub fn group_of_no(&self, no: u32) -> Option<usize> {
        let column = self.column_nos.iter().position(|&n| n == no)?;
        let group = self.table.columns[column].group;
        (self.group_no(group) == no).then_some(group)
    }

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
    fn primary_key(&self) -> impl Iterator<Item = (usize, &Collation)> {
        self.table.primary_key.iter().copied().zip(&self.table.key_collations)
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
    pub fn place(&self, written: Loc) -> Result<Loc> {
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

    /// Locations of the rows that have this primary key, as its index compares.
    pub fn find_key(&self, conn: &Connection, key: &[Value]) -> Result<Vec<Loc>> {
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

    /// Locations of the rows that refer by a foreign key of this table to a row with this key.
    pub fn find_children(
        &self,
        conn: &Connection,
        fk: &ForeignKey,
        key: &[Value],
    ) -> Result<Vec<Loc>> {
        let term = |(n, ((&c, parent), key)): (usize, ((&usize, _), &Value))| {
            let column = &self.table.columns[c];
            let name = format!("o.{}", quote(&column.name));
            let child = (name.as_str(), column.affinity, &column.collation);
            Pair { child, parent }.means_sql(key, n)
        };
        let columns = fk.columns.iter().zip(&fk.parent_keys).zip(key);
        let terms: Vec<_> = (1..).zip(columns).map(term).collect();
        self.locations(conn, &terms.join(" AND "), key)
    }

    fn locations(&self, conn: &Connection, condition: &str, values: &[Value]) -> Result<Vec<Loc>> {
        let (loc, target) = (loc_sql(&self.table, "o."), self.target());
        let sql = format!("SELECT {loc} FROM {target} AS o WHERE {condition}");
        let mut statement = conn.prepare_cached(&sql)?;
        self.places(&mut statement, params_from_iter(values.iter().map(Bind)))
    }

    /// Whether its rows are addressed by rowid.
    pub fn has_rowid(&self) -> bool {
        self.table.kind != TableKind::WithoutRowid && self.table.rowid_name.is_some()
    }

    /// Whether canonical bytes of a key are equal exactly when SQLite holds two keys for equal.
    pub fn knows_collations(&self) -> bool {
        !self.table.key_collations.iter().any(|c| matches!(c, Collation::Other(_)))
    }

    /// Whether keys of this table that differ in the columns of a foreign key, which are at these places,
    /// never refer to one row.
    fn tells_apart(&self, fk: &ForeignKey, at: &[usize]) -> bool {
        let whole = |a: Affinity| matches!(a, Affinity::Integer | Affinity::Numeric);
        let mut pairs = fk.columns.iter().zip(at).zip(&fk.parent_keys);
        pairs.all(|((&c, &at), (parent, collation))| {
            let own = self.table.columns[c].affinity;
            let converted = *parent == Affinity::Blob
                || *parent == own
                || whole(*parent) && (whole(own) || own == Affinity::Real);
            let own = &self.table.key_collations[at];
            converted && (*collation == Collation::Binary || collation == own)
        })
    }

    /// Foreign keys that lie in the primary key, with the places of their columns there.
    pub fn references_in_key(&self) -> impl Iterator<Item = (usize, Vec<usize>)> + '_ {
        let place = |c: &usize| self.table.primary_key.iter().position(|p| p == c);
        let keys = self.table.foreign_keys.iter().enumerate();
        keys.filter_map(move |(f, fk)| {
            Some((f, fk.columns.iter().map(place).collect::<Option<_>>()?))
        })
    }

    /// Foreign keys that lie in the primary key and count in it as the row that they are to (R-ID-KEY), with
    /// the places of their columns there.
    pub fn keys_in_key(&self) -> impl Iterator<Item = (usize, Vec<usize>)> + '_ {
        let tells =
            |(f, at): &(usize, Vec<usize>)| self.tells_apart(&self.table.foreign_keys[*f], at);
        self.references_in_key().filter(tells)
    }

    /// Canonical bytes of the primary key of a row with these values. `refers` says to which row a
    /// foreign key refers; one that refers to nobody leaves its values in the key.
    pub fn key_of<'v>(
        &'v self,
        value: impl Fn(usize) -> &'v Value,
        mut refers: impl FnMut(usize) -> Result<Option<Rid>>,
    ) -> Result<Vec<u8>> {
        let pk = &self.table.primary_key;
        let mut covered = vec![None; pk.len()];
        for (f, at) in self.keys_in_key() {
            if at.iter().any(|&i| covered[i].is_some()) {
                continue;
            }
            let Some(rid) = refers(f)? else { continue };
            let mut parts = std::iter::once(Some(KeyPart::Row(rid))).chain(std::iter::repeat(None));
            at.iter().for_each(|&i| covered[i] = Some(parts.next().flatten()));
        }
        if covered.iter().all(Option::is_none) {
            return Ok(self.key_of_values(value));
        }
        let mut parts = Vec::new();
        for ((covered, &c), collation) in
            covered.into_iter().zip(pk).zip(&self.table.key_collations)
        {
            match covered {
                None => parts.push(KeyPart::Value(normalise(value(c), collation).into_owned())),
                Some(part) => parts.extend(part),
            }
        }
        Ok(encode(&parts))
    }

    /// The same where no foreign key is a part.
    pub fn key_of_values<'v>(&'v self, value: impl Fn(usize) -> &'v Value) -> Vec<u8> {
        let key = self.table.primary_key.iter().zip(&self.table.key_collations);
        encode_values(key.map(|(&c, collation)| (value(c), collation)))
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

    /// Inserts a row, in the order of [`Tracked::column_list`]; OR ABORT as in [`Tracked::insert`].
    pub fn insert_sql(&self) -> String {
        let marks = vec!["?"; self.table.columns.len()].join(",");
        let (target, columns) = (self.target(), self.column_list());
        format!("INSERT OR ABORT INTO {target}({columns}) VALUES({marks})")
    }

    /// Inserts a row and returns where it went. For a table addressed by rowid, `rowid` chooses it.
    ///
    /// OR ABORT overrides a conflict clause of the schema: a merge must never replace or skip rows
    /// silently.
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
        let sql = format!("INSERT OR ABORT INTO {}({names}) VALUES({marks})", self.target());
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
        format!("UPDATE OR ABORT {target} SET {} WHERE {place}", sets.join(","))
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

    #[test]
    fn equal_keys_are_one_place() {
        let place = |key: [Value; 2]| place_of_key(&key, &[Collation::NoCase, Collation::Rtrim]);
        assert_eq!(place(["Ab".into(), 1.into()]), place(["aB".into(), Value::Real(1.0)]));
        assert_eq!(place(["a".into(), "x  ".into()]), place(["A".into(), "x".into()]));
        assert_ne!(place(["a".into(), "x".into()]), place(["a".into(), "X".into()]));
        assert_ne!(place(["1".into(), 1.into()]), place([1.into(), "1".into()]));
    }
}
