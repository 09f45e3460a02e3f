//! The database of the demonstration: customers, their orders, and notes, made from a seed.

use crate::error::Result;
use rusqlite::{Connection, Transaction};

/// Customers; the last [`QUIET`] of them have no orders.
pub const CUSTOMERS: i64 = 400;
/// Customers that nothing refers to.
pub const QUIET: i64 = 20;
/// Orders.
pub const ORDERS: i64 = 1_200;
/// Notes.
const NOTES: i64 = 200;

const SCHEMA: &str = "\
CREATE TABLE customers(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, credit INTEGER NOT NULL DEFAULT 0,
  email TEXT UNIQUE
);
CREATE TABLE orders(
  id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customers(id),
  placed TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'open'
);
CREATE INDEX orders_by_customer ON orders(customer);
CREATE TABLE order_lines(
  \"order\" INTEGER NOT NULL REFERENCES orders(id), line INTEGER NOT NULL,
  product TEXT NOT NULL, quantity INTEGER NOT NULL CHECK(quantity > 0), cents INTEGER NOT NULL,
  PRIMARY KEY(\"order\", line)
);
CREATE TABLE notes(about TEXT, text TEXT NOT NULL);";

const FIRST: [&str; 8] = ["Ada", "Bo", "Chidi", "Dunya", "Emre", "Freja", "Goro", "Hana"];
const LAST: [&str; 8] = ["Berg", "Okoye", "Lind", "Haddad", "Sato", "Moreau", "Novak", "Silva"];
const CITIES: [&str; 6] = ["Tromsø", "Lagos", "Kyoto", "Lyon", "Porto", "Brno"];
const PRODUCTS: [&str; 6] = ["kettle", "lamp", "rope", "chair", "globe", "drum"];

/// Numbers that look random and are the same for the same seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    /// A number from 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    /// A number from `lo` to `hi`.
    pub fn between(&mut self, lo: i64, hi: i64) -> i64 {
        lo + self.below(hi.abs_diff(lo) + 1) as i64
    }

    fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        let at = self.below(words.len() as u64) as usize;
        words.get(at).copied().unwrap_or_default()
    }
}

/// Creates the tables and fills them. Returns the number of rows.
pub fn fill(conn: &mut Connection, seed: u64) -> Result<i64> {
    let mut dice = Dice(seed);
    let tx = conn.transaction()?;
    tx.execute_batch(SCHEMA)?;
    customers(&tx, &mut dice)?;
    let lines = orders(&tx, &mut dice)?;
    for n in 1..=NOTES {
        let about = dice.one_of(&PRODUCTS);
        let text = format!("remember no. {}", n / 2);
        tx.execute("INSERT INTO notes VALUES(?1, ?2)", [about, &text])?;
    }
    tx.commit()?;
    Ok(CUSTOMERS + ORDERS + lines + NOTES)
}

fn customers(tx: &Transaction<'_>, dice: &mut Dice) -> Result<()> {
    let mut insert =
        tx.prepare("INSERT INTO customers(id, name, city, credit) VALUES(?1, ?2, ?3, ?4)")?;
    for id in 1..=CUSTOMERS {
        let name = format!("{} {}", dice.one_of(&FIRST), dice.one_of(&LAST));
        insert.execute((id, name, dice.one_of(&CITIES), dice.between(0, 500)))?;
    }
    Ok(())
}

fn orders(tx: &Transaction<'_>, dice: &mut Dice) -> Result<i64> {
    let mut insert = tx.prepare("INSERT INTO orders VALUES(?1, ?2, ?3, ?4)")?;
    let mut insert_line = tx.prepare("INSERT INTO order_lines VALUES(?1, ?2, ?3, ?4, ?5)")?;
    let mut lines = 0;
    for id in 1..=ORDERS {
        let customer = dice.between(1, CUSTOMERS - QUIET);
        let placed = format!("2026-{:02}-{:02}", dice.between(1, 11), dice.between(1, 28));
        insert.execute((id, customer, placed, dice.one_of(&["open", "sent", "paid"])))?;
        for line in 1..=dice.between(1, 4) {
            let (product, cents) = (dice.one_of(&PRODUCTS), dice.between(100, 9_999));
            insert_line.execute((id, line, product, dice.between(1, 9), cents))?;
            lines += 1;
        }
    }
    Ok(lines)
}
