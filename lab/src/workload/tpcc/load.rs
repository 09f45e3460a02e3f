//! Schema and initial rows of TPC-C (clauses 1.3 and 4.3.3).

use super::Sizes;
use crate::Result;
use crate::database::Database;
use crate::meter::{Done, Phase, Watch};
use crate::workload::random::Random;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, params_from_iter};

/// Rows a transaction of the load.
const BATCH: usize = 10_000;
/// Date of the initial rows, in seconds; later ones count up from it.
pub const EPOCH: i64 = 1_600_000_000;

pub const SCHEMA: &str = "
CREATE TABLE warehouse(w_id INTEGER NOT NULL PRIMARY KEY, w_name TEXT, w_street_1 TEXT,
  w_street_2 TEXT, w_city TEXT, w_state TEXT, w_zip TEXT, w_tax REAL, w_ytd INTEGER);
CREATE TABLE district(d_id INTEGER NOT NULL, d_w_id INTEGER NOT NULL REFERENCES warehouse,
  d_name TEXT, d_street_1 TEXT, d_street_2 TEXT, d_city TEXT, d_state TEXT, d_zip TEXT, d_tax REAL,
  d_ytd INTEGER, d_next_o_id INTEGER, PRIMARY KEY(d_w_id, d_id));
CREATE TABLE item(i_id INTEGER NOT NULL PRIMARY KEY, i_im_id INTEGER, i_name TEXT, i_price INTEGER,
  i_data TEXT);
CREATE TABLE customer(c_id INTEGER NOT NULL, c_d_id INTEGER NOT NULL, c_w_id INTEGER NOT NULL,
  c_first TEXT, c_middle TEXT, c_last TEXT, c_street_1 TEXT, c_street_2 TEXT, c_city TEXT,
  c_state TEXT, c_zip TEXT, c_phone TEXT, c_since INTEGER, c_credit TEXT, c_credit_lim INTEGER,
  c_discount REAL, c_balance INTEGER, c_ytd_payment INTEGER, c_payment_cnt INTEGER,
  c_delivery_cnt INTEGER, c_data TEXT, PRIMARY KEY(c_w_id, c_d_id, c_id),
  FOREIGN KEY(c_w_id, c_d_id) REFERENCES district(d_w_id, d_id));
CREATE INDEX customer_name ON customer(c_w_id, c_d_id, c_last);
CREATE TABLE history(h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER,
  h_w_id INTEGER, h_date INTEGER, h_amount INTEGER, h_data TEXT,
  FOREIGN KEY(h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer(c_w_id, c_d_id, c_id),
  FOREIGN KEY(h_w_id, h_d_id) REFERENCES district(d_w_id, d_id));
CREATE TABLE stock(s_i_id INTEGER NOT NULL REFERENCES item,
  s_w_id INTEGER NOT NULL REFERENCES warehouse, s_quantity INTEGER, s_dist_01 TEXT, s_dist_02 TEXT,
  s_dist_03 TEXT, s_dist_04 TEXT, s_dist_05 TEXT, s_dist_06 TEXT, s_dist_07 TEXT, s_dist_08 TEXT,
  s_dist_09 TEXT, s_dist_10 TEXT, s_ytd INTEGER, s_order_cnt INTEGER, s_remote_cnt INTEGER,
  s_data TEXT, PRIMARY KEY(s_w_id, s_i_id));
CREATE TABLE orders(o_id INTEGER NOT NULL, o_c_id INTEGER, o_d_id INTEGER NOT NULL,
  o_w_id INTEGER NOT NULL, o_entry_d INTEGER, o_carrier_id INTEGER, o_ol_cnt INTEGER,
  o_all_local INTEGER, PRIMARY KEY(o_w_id, o_d_id, o_id),
  FOREIGN KEY(o_w_id, o_d_id, o_c_id) REFERENCES customer(c_w_id, c_d_id, c_id));
CREATE INDEX orders_customer ON orders(o_w_id, o_d_id, o_c_id);
CREATE TABLE new_order(no_o_id INTEGER NOT NULL, no_d_id INTEGER NOT NULL,
  no_w_id INTEGER NOT NULL, PRIMARY KEY(no_w_id, no_d_id, no_o_id),
  FOREIGN KEY(no_w_id, no_d_id, no_o_id) REFERENCES orders(o_w_id, o_d_id, o_id));
CREATE TABLE order_line(ol_o_id INTEGER NOT NULL, ol_d_id INTEGER NOT NULL,
  ol_w_id INTEGER NOT NULL, ol_number INTEGER NOT NULL, ol_i_id INTEGER, ol_supply_w_id INTEGER,
  ol_delivery_d INTEGER, ol_quantity INTEGER, ol_amount INTEGER, ol_dist_info TEXT,
  PRIMARY KEY(ol_w_id, ol_d_id, ol_o_id, ol_number),
  FOREIGN KEY(ol_w_id, ol_d_id, ol_o_id) REFERENCES orders(o_w_id, o_d_id, o_id),
  FOREIGN KEY(ol_supply_w_id, ol_i_id) REFERENCES stock(s_w_id, s_i_id));
";

/// The last name of a number (4.3.2.3).
pub fn last_name(number: i64) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let syllable = |n: i64| SYLLABLES[(n % 10) as usize];
    [syllable(number / 100), syllable(number / 10), syllable(number)].concat()
}

/// Rows on their way into the database. They are made first and executed in batches, each one
/// transaction; only the execution counts.
struct Loader<'a> {
    db: &'a mut Database,
    pending: Vec<(&'static str, Vec<Value>)>,
    phase: Phase,
}

impl Loader<'_> {
    fn insert(&mut self, sql: &'static str, values: Vec<Value>) -> Result<()> {
        self.pending.push((sql, values));
        if self.pending.len() == BATCH { self.execute() } else { Ok(()) }
    }

    fn execute(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let rows = pending.len() as u64;
        if rows == 0 {
            return Ok(());
        }
        let watch = Watch::start();
        self.db.conn.execute_batch("BEGIN")?;
        let mut open: Option<(&str, CachedStatement<'_>)> = None;
        for (sql, values) in &pending {
            let statement = match &mut open {
                Some((same, statement)) if same == sql => statement,
                other => &mut other.insert((sql, self.db.conn.prepare_cached(sql)?)).1,
            };
            statement.execute(params_from_iter(values))?;
        }
        drop(open);
        self.db.conn.execute_batch("COMMIT")?;
        self.db.committed(rows)?;
        watch.stop(&mut self.phase, Done { operations: rows, transactions: 1 });
        Ok(())
    }
}

/// A row's values.
macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$(Value::from($value)),*] };
}

/// Loads all tables. Gives the measured part.
pub fn load(db: &mut Database, sizes: Sizes, seed: u64) -> Result<Phase> {
    let mut random = Random::new(seed, 1);
    let random = &mut random;
    let mut to = Loader { db, pending: Vec::new(), phase: Phase::named("load") };
    for i in 1..=sizes.items {
        let (name, data) = (random.text(14, 24), data(random));
        let values = row![i, random.between(1, 10_000), name, random.between(100, 10_000), data];
        to.insert("INSERT INTO item VALUES(?,?,?,?,?)", values)?;
    }
    for w in 1..=sizes.warehouses {
        warehouse(&mut to, sizes, w, random)?;
    }
    to.execute()?;
    Ok(to.phase)
}

/// A tenth of all items and stocks is marked (4.3.3.1).
fn data(random: &mut Random) -> String {
    let mut text = random.text(26, 50);
    if random.one_in(10) {
        let at = random.between(0, text.len() as i64 - 8) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

fn address(random: &mut Random) -> [String; 5] {
    let zip = random.digits(4) + "11111";
    let mut text = |low, high| random.text(low, high);
    [text(10, 20), text(10, 20), text(10, 20), text(2, 2), zip]
}

fn warehouse(to: &mut Loader<'_>, sizes: Sizes, w: i64, random: &mut Random) -> Result<()> {
    let (name, [s1, s2, city, state, zip]) = (random.text(6, 10), address(random));
    let tax = random.between(0, 2000) as f64 / 10_000.0;
    let values = row![w, name, s1, s2, city, state, zip, tax, 3_000_000 * sizes.districts];
    to.insert("INSERT INTO warehouse VALUES(?,?,?,?,?,?,?,?,?)", values)?;
    for d in 1..=sizes.districts {
        let (name, [s1, s2, city, state, zip]) = (random.text(6, 10), address(random));
        let tax = random.between(0, 2000) as f64 / 10_000.0;
        let next = sizes.customers + 1;
        let values = row![d, w, name, s1, s2, city, state, zip, tax, 3_000_000, next];
        to.insert("INSERT INTO district VALUES(?,?,?,?,?,?,?,?,?,?,?)", values)?;
        for c in 1..=sizes.customers {
            customer(to, sizes, (w, d, c), random)?;
        }
        orders(to, sizes, (w, d), random)?;
    }
    for i in 1..=sizes.items {
        let mut values = row![i, w, random.between(10, 100)];
        values.extend((0..10).map(|_| Value::from(random.text(24, 24))));
        values.extend(row![0, 0, 0, data(random)]);
        to.insert("INSERT INTO stock VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", values)?;
    }
    Ok(())
}

fn customer(
    to: &mut Loader<'_>,
    sizes: Sizes,
    (w, d, c): (i64, i64, i64),
    random: &mut Random,
) -> Result<()> {
    let names = sizes.customers.min(1000);
    let last = if c <= names { c - 1 } else { random.between(0, names - 1) };
    let (first, last) = (random.text(8, 16), last_name(last));
    let [s1, s2, city, state, zip] = address(random);
    let credit = if random.one_in(10) { "BC" } else { "GC" }.to_owned();
    let discount = random.between(0, 5000) as f64 / 10_000.0;
    let (phone, data) = (random.digits(16), random.text(300, 500));
    let values = row![
        c,
        d,
        w,
        first,
        "OE".to_owned(),
        last,
        s1,
        s2,
        city,
        state,
        zip,
        phone,
        EPOCH,
        credit,
        5_000_000,
        discount,
        -1000,
        1000,
        1,
        0,
        data
    ];
    let sql = "INSERT INTO customer VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    to.insert(sql, values)?;
    let values = row![c, d, w, d, w, EPOCH, 1000, random.text(12, 24)];
    to.insert("INSERT INTO history VALUES(?,?,?,?,?,?,?,?)", values)
}

fn orders(
    to: &mut Loader<'_>,
    sizes: Sizes,
    (w, d): (i64, i64),
    random: &mut Random,
) -> Result<()> {
    let mut customers: Vec<i64> = (1..=sizes.customers).collect();
    random.shuffle(&mut customers);
    for (o, c) in (1..).zip(customers) {
        let delivered = o <= sizes.customers - sizes.waiting;
        let (carrier, lines) = (random.between(1, 10), random.between(5, 15));
        let values = row![o, c, d, w, EPOCH, delivered.then_some(carrier), lines, 1];
        to.insert("INSERT INTO orders VALUES(?,?,?,?,?,?,?,?)", values)?;
        for number in 1..=lines {
            let item = random.between(1, sizes.items);
            let amount = if delivered { 0 } else { random.between(1, 999_999) };
            let (date, info) = (delivered.then_some(EPOCH), random.text(24, 24));
            let values = row![o, d, w, number, item, w, date, 5, amount, info];
            to.insert("INSERT INTO order_line VALUES(?,?,?,?,?,?,?,?,?,?)", values)?;
        }
        if !delivered {
            to.insert("INSERT INTO new_order VALUES(?,?,?)", row![o, d, w])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn last_names_are_made_of_syllables() {
        assert_eq!(super::last_name(371), "PRICALLYOUGHT");
        assert_eq!(super::last_name(40), "BARPRESBAR");
    }
}
