//! Rows that refer to keys, for whoever asks for many.
//!
//! SQLite finds them by an index, where the columns of the foreign key have one. Where they have none it reads
//! the whole table for each key; so from the [`FEW`]th key on the table is read once for all. What was read is
//! good as long as nobody writes to the table: who writes asks anew.

use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::equal::reference_bytes;
use crate::parts;
use crate::refs::Lookup;
use crate::schema::{ForeignKey, quote};
use crate::sqlvalue::values;
use crate::state::{self, Stored};
use crate::{Error, Result};
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use synqlite_wire::key::Collation;
use synqlite_wire::{Rid, Value};

/// So many keys are looked for one by one.
const FEW: usize = parts::of(16);

pub(crate) struct Referring<'a> {
    conn: &'a Connection,
    hasher: RandomState,
    /// By table and foreign key, as names of which no two are equal.
    known: RefCell<HashMap<(&'a str, usize), Known>>,
}

/// A row that refers to another: the position of its table, the foreign key, and the row.
pub(crate) type Referrer = (usize, usize, Stored);

enum Known {
    /// Whether an index helps is not known yet, after so many keys.
    Asked(usize),
    /// One helps, or only SQLite can compare.
    BySql,
    /// All rows that refer to anything: hashes of the keys in order, and where they are. 32 bytes each.
    Read(Vec<(u64, Loc)>),
}

impl<'a> Referring<'a> {
    pub fn new(conn: &'a Connection) -> Referring<'a> {
        Referring { conn, hasher: RandomState::new(), known: RefCell::default() }
    }

    /// The rows that refer to one which shows this, if it is shown, and the living ones that keep a reference to it.
    pub fn rows(
        &self,
        lookup: Lookup<'a>,
        (table, rid): (usize, &Rid),
        shown: Option<&[Value]>,
    ) -> Result<Vec<Referrer>> {
        let Lookup { conn, meta, catalog } = lookup;
        let mut found = Vec::new();
        for (child, f) in catalog.references_to(table) {
            let c = &catalog.tables[child];
            let key = shown.and_then(|row| c.table.foreign_keys[f].parent_key(row));
            for loc in key.map_or(Ok(vec![]), |key| self.to(c, f, &key))? {
                let stored = state::at(conn, meta, c, &loc)?;
                found.extend(stored.map(|stored| (child, f, stored)));
            }
        }
        for (no, entry) in state::waiting_for_row(conn, meta, &catalog.tables[table], rid)? {
            let Some(child) = catalog.position_of_no(no) else { continue };
            let c = &catalog.tables[child];
            let Some(stored) = state::entry_by_id(conn, meta, c, entry)? else { continue };
            let refers = |f: &usize| stored.state.kept_reference(c, *f) == Some(rid);
            let alive = stored.state.header.alive();
            let keys = (0..c.table.foreign_keys.len()).filter(|f| alive && refers(f));
            found.extend(keys.map(|f| (child, f, stored.clone())));
        }
        Ok(found)
    }

    /// The first row of a table that is not replicated which refers to one that shows this.
    pub fn local(
        &self,
        catalog: &'a Catalog,
        t: &'a Tracked,
        shown: Option<&[Value]>,
    ) -> Result<Option<(&'a Tracked, Loc)>> {
        for (child, f) in catalog.local_references_to(t) {
            let c = &catalog.local[child];
            let key = shown.and_then(|row| c.table.foreign_keys[f].parent_key(row));
            let found = key.map_or(Ok(vec![]), |key| self.to(c, f, &key))?;
            if let Some(loc) = found.into_iter().next() {
                return Ok(Some((c, loc)));
            }
        }
        Ok(None)
    }

    /// Where the rows of `child` are that refer by its foreign key `f` to a row with this key.
    pub fn to(&self, child: &'a Tracked, f: usize, key: &[Value]) -> Result<Vec<Loc>> {
        let mut known = self.known.borrow_mut();
        let known = known.entry((&child.table.name, f)).or_insert(Known::Asked(0));
        let fk = &child.table.foreign_keys[f];
        if let Known::Asked(times) = known {
            *times += 1;
            if *times > FEW {
                *known = match by_sql(self.conn, child, fk, key)? {
                    true => Known::BySql,
                    false => Known::Read(self.read(child, fk)?),
                };
            }
        }
        let Known::Read(rows) = known else { return child.find_children(self.conn, fk, key) };
        let wanted = reference_bytes(fk, key);
        let hash = self.hasher.hash_one(&wanted);
        let alike = &rows[rows.partition_point(|(h, _)| *h < hash)..];
        let mut found = Vec::new();
        for (_, loc) in alike.iter().take_while(|(h, _)| *h == hash) {
            let row = child.read(self.conn, loc)?.ok_or_else(|| changed(child))?;
            if reference_bytes(fk, fk.columns.iter().map(|&c| &row[c])) == wanted {
                found.push(loc.clone());
            }
        }
        Ok(found)
    }

    fn read(&self, child: &Tracked, fk: &ForeignKey) -> Result<Vec<(u64, Loc)>> {
        let columns = || fk.columns.iter().map(|&c| quote(&child.table.columns[c].name));
        let given: Vec<_> = columns().map(|column| format!("o.{column} IS NOT NULL")).collect();
        let sql = format!(
            "SELECT {}, {} FROM {} AS o WHERE {}",
            loc_sql(&child.table, "o."),
            columns().collect::<Vec<_>>().join(", "),
            child.target(),
            given.join(" AND ")
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        let mut read = Vec::new();
        while let Some(row) = rows.next()? {
            let key = values(row, 1, fk.columns.len())?;
            let hash = self.hasher.hash_one(reference_bytes(fk, &key));
            read.push((hash, child.place(row.get(0)?)?));
        }
        read.sort_unstable();
        Ok(read)
    }
}

/// Whether SQLite finds the rows by an index, or alone can tell which they are.
fn by_sql(conn: &Connection, child: &Tracked, fk: &ForeignKey, key: &[Value]) -> Result<bool> {
    if fk.parent_keys.iter().any(|(_, collation)| matches!(collation, Collation::Other(_))) {
        return Ok(true);
    }
    let sql = format!("EXPLAIN QUERY PLAN {}", child.children_sql(fk, key));
    let mut statement = conn.prepare(&sql)?;
    let mut steps = statement.raw_query();
    while let Some(step) = steps.next()? {
        if step.get_ref("detail")?.as_str().is_ok_and(|detail| detail.starts_with("SCAN")) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn changed(child: &Tracked) -> Error {
    Error::Damaged(format!("table {} changed while it was read", child.table.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Site;

    const TYPES: [&str; 5] = ["", "TEXT", "NUMERIC", "INT", "REAL"];

    /// Without the doubles that mean no text ([`crate::equal::means_none`]), for which SQLite finds more.
    const VALUES: &str = "('a'), ('A'), ('a '), ('1'), ('01'), (' 1'), ('1.0'), (1), (1.0), (0.5), ('.5'), ('0.5'), \
         (x'61'), (x'31'), (9007199254740993), ('9007199254740993'), (NULL), (-0.0), (0), ('1e20')";

    /// A key of any type, referred to by columns of any type that have no index, and by one that has.
    #[test]
    fn what_was_read_once_is_what_sqlite_finds_for_each_key() {
        let (mut sql, mut fill) = (String::new(), "PRAGMA foreign_keys = OFF;".to_owned());
        for (p, parent) in TYPES.into_iter().enumerate() {
            for collation in ["BINARY", "NOCASE", "RTRIM"] {
                let name = format!("{p}{collation}");
                let children: Vec<_> = (0..TYPES.len()).map(|c| format!("c{c}")).collect();
                let columns = children
                    .iter()
                    .zip(TYPES)
                    .map(|(column, child)| format!("{column} {child} REFERENCES p{name}(k)"));
                sql += &format!(
                    "CREATE TABLE p{name}(k {parent} COLLATE {collation} UNIQUE);
                     CREATE TABLE c{name}({}, i {parent} COLLATE {collation} REFERENCES p{name}(k));
                     CREATE INDEX i{name} ON c{name}(i);",
                    columns.collect::<Vec<_>>().join(", "),
                );
                fill += &format!(
                    "WITH v(x) AS (VALUES {VALUES}) INSERT OR IGNORE INTO p{name} SELECT x FROM v;
                     WITH v(x) AS (VALUES {VALUES}) INSERT INTO c{name}({}, i) SELECT {} FROM v;",
                    children.join(", "),
                    vec!["x"; TYPES.len() + 1].join(", ")
                );
            }
        }
        let mut site = Site::new(&sql);
        site.run(&fill);
        let compare = |work: &mut crate::work::Work<'_>| {
            let (mut read, mut found) = (0, 0);
            for (position, p) in work.catalog.tables.iter().enumerate() {
                for (child, f) in work.catalog.references_to(position) {
                    let (c, referring) = (&work.catalog.tables[child], Referring::new(work.conn));
                    let fk = &c.table.foreign_keys[f];
                    let keys: Vec<Vec<Value>> = p
                        .all_places(work.conn)?
                        .iter()
                        .filter_map(|loc| p.read(work.conn, loc).unwrap())
                        .filter_map(|row| fk.parent_key(&row))
                        .collect();
                    for key in keys.iter().cycle().take(keys.len() + FEW) {
                        let one = c.find_children(work.conn, fk, key)?;
                        found += one.len();
                        assert_eq!(referring.to(c, f, key)?, one, "{} {f} {key:?}", c.table.name);
                    }
                    let known = referring.known.borrow();
                    let known: Vec<bool> =
                        known.values().map(|known| matches!(known, Known::Read(_))).collect();
                    read += usize::from(known == [true]);
                }
            }
            Ok((read, found))
        };
        let (read, found) = site.replica.write(compare).unwrap();
        assert!(
            (5 * 3 * 5..5 * 3 * 6).contains(&read) && found > 1_000,
            "{read} tables, {found} rows"
        );
    }
}
