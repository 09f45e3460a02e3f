//! The digest: equal on two sites if and only if their replicated tables show the same data.
//!
//! The digest of a table is SHA-256 over its name, the names of its columns, the number of its rows
//! and the sum, modulo 2^256, of the SHA-256 of each row. A sum does not depend on order, so page
//! layout, rowids and the order of inserts do not matter, and one pass in constant memory suffices.
//! Unlike XOR it counts: a row that is there twice adds twice.
//!
//! Why it is sound. The bytes of a row are injective: columns come in the order of their names, each
//! value with its storage class and text and blobs with their length, so different rows have
//! different bytes. Two different tables of equal count differ in how often some rows occur; if their
//! sums were equal, a nonzero combination of independent 256-bit hashes, with factors below 2^63,
//! would vanish, which has a probability below 2^-192. That rules out accidents. It does not rule out
//! an adversary who may choose millions of rows to make two tables collide (Wagner's generalized
//! birthday attack), and the digest is no signature.
//!
//! Values are compared as applications see them: -0.0 and 0.0 are the same, while 1, 1.0, '1' and
//! x'31' are four values. Generated columns follow from the others and are left out (R-GEN).

use crate::Result;
use crate::catalog::Tracked;
use crate::replica::Replica;
use crate::schema::quote;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

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
        self.read(|conn, _, loaded| {
            let mut hashes = BTreeMap::new();
            for t in &loaded.catalog.tables {
                hashes.insert(t.table.name.clone(), table(conn, t)?);
            }
            let mut all = Sha256::new();
            for (name, hash) in &hashes {
                put_bytes(&mut all, name.as_bytes());
                all.update(hash);
            }
            let tables = hashes.into_iter().map(|(name, hash)| (name, hex(&hash)));
            Ok(Digest { digest: hex(&all.finalize().into()), tables: tables.collect() })
        })
    }
}

fn table(conn: &Connection, t: &Tracked) -> Result<[u8; 32]> {
    let mut names: Vec<&str> = t.table.columns.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    let list: Vec<_> = names.iter().map(|name| quote(name)).collect();
    let sql = format!("SELECT {} FROM {}", list.join(","), t.target());
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let (mut sum, mut count) = (Sum::default(), 0u64);
    while let Some(row) = rows.next()? {
        let mut hash = Sha256::new();
        for i in 0..names.len() {
            put_value(&mut hash, row.get_ref(i)?);
        }
        sum.add(&hash.finalize().into());
        count += 1;
    }
    let mut hash = Sha256::new();
    put_bytes(&mut hash, t.table.name.as_bytes());
    hash.update((names.len() as u64).to_be_bytes());
    names.iter().for_each(|name| put_bytes(&mut hash, name.as_bytes()));
    hash.update(count.to_be_bytes());
    sum.0.iter().for_each(|limb| hash.update(limb.to_be_bytes()));
    Ok(hash.finalize().into())
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

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
        assert_ne!(of("CREATE TABLE t(a)").digest, of("CREATE TABLE t(b)").digest);
        assert_ne!(of("CREATE TABLE t(a)").digest, of("CREATE TABLE u(a)").digest);
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
