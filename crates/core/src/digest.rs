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
