//! The digest: equal on two sites if and only if their replicated tables show the same data.
//!
//! The digest of a table is SHA-256 over its name, the number of its rows and the sum, modulo 2^256,
//! of the SHA-256 of each row. A sum does not depend on order, so page layout, rowids and the order
//! of inserts do not matter, and one pass in constant memory suffices. Unlike XOR it counts: a row
//! that is there twice adds twice.
//!
//! Why it is sound. The bytes of a row are injective: columns come in the order of their names, each
//! with its name, each value with its storage class and text and blobs with their length, so different
//! rows have different bytes. Two different tables of equal count differ in how often some rows occur;
//! if their sums were equal, a nonzero combination of independent 256-bit hashes, with factors below
//! 2^63, would vanish, which has a probability below 2^-192. That rules out accidents. It does not
//! rule out an adversary who may choose millions of rows to make two tables collide (Wagner's
//! generalized birthday attack), and the digest is no signature.
//!
//! Sites whose schemas differ can agree all the same (R-MIG). Names are canonical ones. What this
//! site keeps for columns and tables that it never had counts as if it had them. A column that
//! nobody has written in a row and that shows its default does not count, nor does an empty table:
//! the other site may not have it.
//!
//! A number that each site gives for itself (R-OWN) counts as the identity of the row that it means there,
//! in the table and in references to it. One that means nobody counts as none, also on the site that has given it
//! to a row since.
//!
//! Values are compared as applications see them: -0.0 and 0.0 are the same, while 1, 1.0, '1' and
//! x'31' are four values. Generated columns follow from the others and are left out (R-GEN).

use crate::Result;
use crate::catalog::{Loc, Tracked, loc_sql};
use crate::equal;
use crate::journal;
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::registry;
use crate::replica::Replica;
use crate::schema::{Affinity, quote};
use crate::settings;
use crate::sqlvalue::{as_ref, hex, value};
use crate::state::stash::{self, Piece};
use crate::state::{self, Body, Stored, numbers};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::key::{KeyPart, encode};
use synqlite_wire::{Counter, Rid, Value};

/// What the replicated tables show, in short. All digests are SHA-256 in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Of all replicated tables together.
    pub digest: String,
    /// Of each replicated table, by name.
    pub tables: BTreeMap<String, String>,
}

impl Replica {
    /// Digests what the replicated tables show, writes that are not folded yet included. Writes
    /// nothing.
    pub fn digest(&self) -> Result<Digest> {
        self.apart(Replica::digest_here)
    }

    fn digest_here(&self) -> Result<Digest> {
        self.read(|conn, meta, loaded| {
            let mut tables = BTreeMap::new();
            let mut hashes = BTreeMap::new();
            for t in &loaded.catalog.tables {
                let rows = visible(Lookup { conn, meta, catalog: &loaded.catalog }, t)?;
                tables.insert(t.table.name.clone(), hex(&rows.hash(&t.canonical)));
                hashes.insert(t.canonical.clone(), rows);
            }
            for t in registry::absent(conn, &loaded.catalog)? {
                let rows = kept(conn, meta, &t)?;
                if rows.count > 0 {
                    tables.insert(t.canonical.clone(), hex(&rows.hash(&t.canonical)));
                    hashes.insert(t.canonical.clone(), rows);
                }
            }
            let mut all = Sha256::new();
            for (name, rows) in hashes.iter().filter(|(_, rows)| rows.count > 0) {
                all.update(rows.hash(name));
            }
            Ok(Digest { digest: hex(&all.finalize()), tables })
        })
    }
}

/// The rows of one table.
#[derive(Default)]
struct Rows {
    sum: Sum,
    count: u64,
}

impl Rows {
    fn add(&mut self, row: Sha256) {
        self.sum.add(&row.finalize().into());
        self.count += 1;
    }

    fn hash(&self, table: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        put_bytes(&mut hash, table.as_bytes());
        hash.update(self.count.to_be_bytes());
        self.sum.0.iter().for_each(|limb| hash.update(limb.to_be_bytes()));
        hash.finalize().into()
    }
}

/// The identity of the row of this number; of one that no fold has seen yet, the number as of this site. A
/// number of no row means nobody anywhere.
fn identity(conn: &Connection, meta: &Meta, t: &Tracked, number: i64) -> Result<Value> {
    let loc = Loc::Row(number);
    let rid = match state::at(conn, meta, t, &loc)? {
        Some(stored) => stored.rid,
        None if !t.exists(conn, &loc)? => return Ok(Value::Null),
        None => Rid::Birth { site: meta.site, n: u64::MAX - number.unsigned_abs() },
    };
    Ok(Value::Blob(encode(&[KeyPart::Row(rid)])))
}

/// Whether the number in column `c` of a row means a row: a reference of which another column is NULL is none, and
/// the number a plain value. `is_there`: whether another column is not NULL.
fn refers(t: &Tracked, c: usize, is_there: impl Fn(usize) -> Result<bool>) -> Result<bool> {
    if t.table.own_number() == Some(c) {
        return Ok(true);
    }
    for fk in t.table.foreign_keys.iter().filter(|fk| fk.columns.contains(&c)) {
        let mut whole = true;
        for &other in fk.columns.iter().filter(|other| **other != c) {
            whole &= is_there(other)?;
        }
        if whole {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the row at `loc` holds a number in column `c` that means nobody, or a row that is gone, whoever has
/// that number here by now.
fn means_nobody(lookup: Lookup<'_>, t: &Tracked, loc: &Loc, c: usize) -> Result<bool> {
    let Some(stored) = state::at(lookup.conn, lookup.meta, t, loc)? else { return Ok(false) };
    if !matches!(stored.state.groups[t.table.columns[c].group].body, Body::Stored(_)) {
        return Ok(false);
    }
    for (f, fk) in t.table.foreign_keys.iter().enumerate().filter(|(_, k)| k.columns.contains(&c)) {
        let Some(rid) = stored.state.kept_reference(t, f) else { continue };
        if is_shown(lookup, lookup.parent(&fk.parent)?, rid)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether references to this row show a row: it, or one that stands for it (R-UNIFY).
fn is_shown(Lookup { conn, meta, .. }: Lookup<'_>, t: &Tracked, rid: &Rid) -> Result<bool> {
    let unified = settings::load(conn)?.unifies(&t.table.name);
    // A damaged file may say that rows lost to each other.
    let (mut rid, mut met) = (rid.clone(), BTreeSet::new());
    while met.insert(rid.clone()) {
        let Some(meant) = state::of(conn, meta, t, &rid)? else { return Ok(false) };
        if meant.loc.is_some() {
            return Ok(true);
        }
        match state::unique_winner(conn, meta, &meant)? {
            Some(winner) if unified => rid = winner,
            _ => break,
        }
    }
    Ok(false)
}

/// What a table shows.
fn visible(Lookup { conn, meta, catalog }: Lookup<'_>, t: &Tracked) -> Result<Rows> {
    let mut order: Vec<usize> = (0..t.table.columns.len()).collect();
    order.sort_by(|&a, &b| t.column_names[a].cmp(&t.column_names[b]));
    let names: Vec<_> = order.iter().map(|&c| quote(&t.table.columns[c].name)).collect();
    // Only a column that some site lacks or lacked can be unwritten.
    let late: Vec<usize> = (0..order.len()).filter(|&i| t.since[order[i]] >= 0).collect();
    let defaults: Vec<Value> = late.iter().map(|&i| t.default_of(order[i])).collect();
    let sql = format!(
        "SELECT {},{} FROM {} AS o",
        names.iter().map(|name| format!("o.{name}")).collect::<Vec<_>>().join(","),
        loc_sql(&t.table, "o."),
        t.target()
    );
    let stashed = !stash::rows(conn, meta, t.no, -1)?.is_empty();
    let others = registry::foreign_columns(conn, t.no)?;
    // What is written and not folded is to whoever has the number.
    let loose = numbers::any(conn)? && !journal::any(conn)?;
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &c)| place[c] = i);
    let means = |c: usize, row: &Row<'_>, i: usize| {
        let shown = value(row.get_ref(i)?);
        // A reference may be in a column of text.
        let number = equal::stored(&shown, Affinity::Integer).as_integer();
        let (Some(&owner), Some(n)) = (t.site_numbers.get(&c), number) else { return Ok(shown) };
        if !refers(t, c, |other| Ok(row.get_ref(place[other])? != ValueRef::Null))? {
            return Ok(shown);
        }
        let parent = &catalog.tables[owner];
        if loose && t.table.own_number() != Some(c) && numbers::is_kept(conn, parent, n)? {
            let loc = t.place(row.get(order.len())?)?;
            if means_nobody(Lookup { conn, meta, catalog }, t, &loc, c)? {
                return Ok(Value::Null);
            }
        }
        identity(conn, meta, parent, n)
    };
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut found = Rows::default();
    while let Some(row) = rows.next()? {
        let mut unwritten = BTreeSet::new();
        for (&i, default) in late.iter().zip(&defaults) {
            if value(row.get_ref(i)?) == *default {
                unwritten.insert(i);
            }
        }
        let mut hash = Sha256::new();
        if !stashed && unwritten.is_empty() {
            for (i, &c) in order.iter().enumerate() {
                put_bytes(&mut hash, t.column_names[c].as_bytes());
                match t.site_numbers.contains_key(&c) {
                    true => put_value(&mut hash, as_ref(&means(c, row, i)?)),
                    false => put_value(&mut hash, row.get_ref(i)?),
                }
            }
            found.add(hash);
            continue;
        }
        let stored = state::at(conn, meta, t, &t.place(row.get(order.len())?)?)?;
        let is_unwritten = |i: usize| {
            let column = order[i];
            let group = t.table.columns[column].group;
            let place = t.table.groups[group].columns.iter().position(|&c| c == column);
            let is = |s: &Stored| s.state.groups[group].is_unwritten(place.unwrap_or(0));
            unwritten.contains(&i) && stored.as_ref().is_some_and(is)
        };
        let mut cells: BTreeMap<&str, Value> = BTreeMap::new();
        if let Some(stored) = stored.as_ref().filter(|_| stashed) {
            let pieces = stash::of(conn, meta, t.no, &stored.rid)?;
            let named = |(no, value)| Some((others.get(&no)?.as_str(), value));
            cells.extend(latest(&pieces).into_iter().filter_map(named));
        }
        for (i, &c) in order.iter().enumerate().filter(|(i, _)| !is_unwritten(*i)) {
            cells.insert(&t.column_names[c], means(c, row, i)?);
        }
        put_cells(&mut hash, &cells);
        found.add(hash);
    }
    Ok(found)
}

/// What this replica keeps of a table that it does not have.
fn kept(conn: &Connection, meta: &Meta, t: &Tracked) -> Result<Rows> {
    let names = registry::foreign_columns(conn, t.no)?;
    let mut found = Rows::default();
    if names.is_empty() {
        return Ok(found);
    }
    for rid in stash::rows(conn, meta, t.no, -1)? {
        let stored = state::of(conn, meta, t, &rid)?;
        if stored.is_some_and(|stored| stored.state.header.alive()) {
            let pieces = stash::of(conn, meta, t.no, &rid)?;
            let named = |(no, value)| Some((names.get(&no)?.as_str(), value));
            let mut hash = Sha256::new();
            put_cells(&mut hash, &latest(&pieces).into_iter().filter_map(named).collect());
            found.add(hash);
        }
    }
    Ok(found)
}

/// The latest value of each column; of a counter, its sum.
fn latest(pieces: &[Piece]) -> BTreeMap<u32, Value> {
    let mut pieces: Vec<&Piece> = pieces.iter().collect();
    pieces.sort_by_key(|piece| piece.stamp);
    let value = |p: &Piece, value: &Value| match p.counts.is_empty() {
        true => value.clone(),
        false => {
            let (base, counts) = (value.clone(), p.counts.clone());
            Counter { stamp: p.stamp, base, counts }.shown(false)
        }
    };
    let cells = |p: &'_ &Piece| -> Vec<(u32, Value)> {
        p.columns.iter().copied().zip(p.cell.values.iter().map(|v| value(p, v))).collect()
    };
    pieces.iter().flat_map(cells).collect()
}

fn put_cells(hash: &mut Sha256, cells: &BTreeMap<&str, Value>) {
    for (name, value) in cells {
        put_bytes(hash, name.as_bytes());
        put_value(hash, as_ref(value));
    }
}

fn put_value(hash: &mut Sha256, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => hash.update([0]),
        ValueRef::Integer(i) => {
            hash.update([1]);
            hash.update(i.to_be_bytes());
        }
        ValueRef::Real(r) => {
            hash.update([2]);
            // -0.0 + 0.0 is 0.0; every other double stays what it is.
            hash.update((r + 0.0).to_bits().to_be_bytes());
        }
        ValueRef::Text(bytes) => {
            hash.update([3]);
            put_bytes(hash, bytes);
        }
        ValueRef::Blob(bytes) => {
            hash.update([4]);
            put_bytes(hash, bytes);
        }
    }
}

fn put_bytes(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

/// A sum modulo 2^256, most significant limb first.
#[derive(Default)]
struct Sum([u64; 4]);

impl Sum {
    fn add(&mut self, hash: &[u8; 32]) {
        let mut carry = false;
        for (limb, bytes) in self.0.iter_mut().zip(hash.as_chunks::<8>().0).rev() {
            let (sum, over) = limb.overflowing_add(u64::from_be_bytes(*bytes));
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, over || again);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InitOptions;
    use crate::fixture::Site;

    /// Digest of a database made by `sql`.
    fn of(sql: &str) -> Digest {
        Site::new(sql).replica.digest().unwrap()
    }

    /// Digest of a table `t(a, b)` without types and with these rows.
    fn rows(rows: &str) -> String {
        let insert =
            if rows.is_empty() { String::new() } else { format!("INSERT INTO t VALUES {rows}") };
        of(&format!("CREATE TABLE t(a, b); {insert}")).digest
    }

    #[test]
    fn order_layout_and_rowids_do_not_matter() {
        let a = Site::new("CREATE TABLE t(a, b); INSERT INTO t VALUES (1,'x'),(2,'y'),(3,'z')");
        let b = Site::new(
            "PRAGMA page_size=512; CREATE TABLE t(a, b); CREATE INDEX i ON t(b); \
             INSERT INTO t(rowid, a, b) VALUES (70,3,'z'),(80,9,'w'),(90,1,'x'),(95,2,'y'); \
             DELETE FROM t WHERE a = 9",
        );
        let digest = a.replica.digest().unwrap();
        assert_eq!(b.replica.digest().unwrap(), digest);
        b.app.execute_batch("VACUUM").unwrap();
        assert_eq!(b.replica.digest().unwrap(), digest);
        assert_eq!(digest.digest.len(), 64);
        assert_eq!(digest.tables.keys().collect::<Vec<_>>(), ["t"]);
    }

    #[test]
    fn order_of_columns_does_not_matter_but_their_names_do() {
        let mut a = Site::new("CREATE TABLE t(id TEXT PRIMARY KEY)");
        let b = a.another();
        let write = "INSERT INTO t(id, x, y) VALUES ('k', 1, 2)";
        a.run(&format!("ALTER TABLE t ADD COLUMN x; ALTER TABLE t ADD COLUMN y; {write}"));
        b.run(&format!("ALTER TABLE t ADD COLUMN y; ALTER TABLE t ADD COLUMN x; {write}"));
        assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
        b.run("UPDATE t SET x = y, y = x");
        assert_ne!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
        let one = |table: &str| {
            let name = table.split('(').next().unwrap_or_default();
            of(&format!("CREATE TABLE {table}; INSERT INTO {name} VALUES (1)")).digest
        };
        assert_ne!(one("t(a)"), one("t(b)"));
        assert_ne!(one("t(a)"), one("u(a)"));
    }

    #[test]
    fn every_value_has_a_digest_of_its_own() {
        let values = [
            "NULL",
            "''",
            "x''",
            "0",
            "1",
            "1.0",
            "'1'",
            "x'31'",
            "49",
            "1e300",
            "-1",
            "'1.0'",
            "'NULL'",
            "x'00'",
            "CAST(x'00' AS TEXT)",
            "CAST(x'ff' AS TEXT)",
            "x'ff'",
            "9223372036854775807",
            "9.2233720368547758e18",
        ];
        let digests: BTreeMap<_, _> =
            values.iter().map(|v| (rows(&format!("({v}, 0)")), v)).collect();
        assert_eq!(digests.len(), values.len(), "{digests:?}");
    }

    #[test]
    fn zero_has_one_digest() {
        let with = |zero: f64| {
            let site = Site::new("CREATE TABLE t(a, b)");
            site.app.execute("INSERT INTO t VALUES (?1, 0)", [zero]).unwrap();
            site.replica.digest().unwrap().digest
        };
        assert_eq!(with(-0.0), with(0.0));
        assert_ne!(with(-0.0), with(f64::MIN_POSITIVE));
        // A column of type REAL keeps whole numbers as integers and shows them as reals.
        let real = |value| of(&format!("CREATE TABLE t(a REAL); INSERT INTO t VALUES ({value})"));
        assert_eq!(real("3"), real("3.0"));
    }

    #[test]
    fn values_cannot_move_from_one_column_or_row_to_another() {
        for (a, b) in [
            ("(1, 2)", "(2, 1)"),
            ("('ab', 'c')", "('a', 'bc')"),
            ("('a' || char(3) || 'b', 'c')", "('a', 'b' || char(3) || 'c')"),
            ("('ab', '')", "('', 'ab')"),
            ("(NULL, '')", "('', NULL)"),
            ("(1, 2), (3, 4)", "(1, 4), (3, 2)"),
            ("(1, 2), (3, 4)", "(3, 2), (1, 4)"),
            ("", "(NULL, NULL)"),
        ] {
            assert_ne!(rows(a), rows(b), "{a} and {b}");
        }
        let two = |a, b| {
            let insert = |t, rows: &str| format!("INSERT INTO {t} SELECT {rows};");
            let tables = "CREATE TABLE t(a); CREATE TABLE u(a);";
            of(&format!("{tables}{}{}", insert("t", a), insert("u", b))).digest
        };
        assert_ne!(two("1", "2"), two("2", "1"));
    }

    #[test]
    fn the_encoding_of_the_database_does_not_matter() {
        let sql = "CREATE TABLE t(a); INSERT INTO t VALUES ('grün'), (x'6772')";
        assert_eq!(of(&format!("PRAGMA encoding='UTF-16'; {sql}")), of(sql));
    }

    #[test]
    fn equal_rows_are_counted() {
        let digests =
            ["", "(1,1)", "(1,1),(1,1)", "(1,1),(1,1),(1,1)", "(2,2),(2,2)", "(1,1),(2,2)"];
        let digests: std::collections::BTreeSet<_> = digests.iter().map(|r| rows(r)).collect();
        assert_eq!(digests.len(), 6);
    }

    #[test]
    fn generated_columns_and_local_tables_are_left_out() {
        let plain = of("CREATE TABLE t(a); INSERT INTO t VALUES (1)");
        let sql = "CREATE TABLE t(a, g AS (a + 1) STORED, h AS (a + 2)); INSERT INTO t VALUES (1)";
        assert_eq!(of(sql), plain);
        let options = InitOptions { exclude: vec!["cache".into()], ..InitOptions::default() };
        let sql = "CREATE TABLE t(a); INSERT INTO t VALUES (1); CREATE TABLE cache(a)";
        assert_eq!(Site::with(sql, &options).replica.digest().unwrap(), plain);
    }

    #[test]
    fn unfolded_writes_count_and_nothing_is_written() {
        let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, a)");
        let before = site.replica.digest().unwrap();
        site.run("INSERT INTO t(a) VALUES (1), (2); UPDATE t SET a = 3 WHERE id = 1");
        let file = std::fs::read(&site.path).unwrap();
        let unfolded = site.replica.digest().unwrap();
        assert_ne!(unfolded, before);
        assert_eq!(std::fs::read(&site.path).unwrap(), file);
        site.replica.fold().unwrap();
        assert_eq!(site.replica.digest().unwrap(), unfolded);
    }

    #[test]
    fn sites_agree_once_they_have_seen_the_same() {
        let mut a = Site::new("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 1), (1, 1)");
        let mut b = a.another();
        a.run("INSERT INTO t VALUES (2, 2)");
        b.run("INSERT INTO t VALUES (3, 3); DELETE FROM t WHERE rowid = 1");
        assert_ne!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
        a.pull(&mut b);
        b.pull(&mut a);
        assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
    }

    #[test]
    fn sums_carry_and_wrap() {
        let one = {
            let mut bytes = [0; 32];
            bytes[31] = 1;
            bytes
        };
        let mut sum = Sum([0, 7, u64::MAX, u64::MAX]);
        sum.add(&one);
        assert_eq!(sum.0, [0, 8, 0, 0]);
        let mut sum = Sum([u64::MAX; 4]);
        sum.add(&one);
        assert_eq!(sum.0, [0; 4]);
        sum.add(&[0xff; 32]);
        sum.add(&[0xff; 32]);
        assert_eq!(sum.0, [u64::MAX, u64::MAX, u64::MAX, u64::MAX - 1]);
    }
}
