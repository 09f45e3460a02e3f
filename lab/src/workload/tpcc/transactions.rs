//! The five transactions of TPC-C (clause 2).

use super::load::{EPOCH, last_name};
use super::{Kind, Sizes};
use crate::Result;
use crate::workload::random::Random;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

/// A terminal: draws inputs and executes transactions.
pub struct Terminal {
    sizes: Sizes,
    random: Random,
    now: i64,
    /// Constants of the non-uniform distribution, fixed for a run (2.1.6).
    names: i64,
    customers: i64,
    items: i64,
}

/// Executes statements of one transaction and counts the rows they change.
struct Work<'a> {
    conn: &'a Connection,
    changes: u64,
}

impl Work<'_> {
    fn write(&mut self, sql: &str, values: impl Params) -> Result<()> {
        self.changes += self.conn.prepare_cached(sql)?.execute(values)? as u64;
        Ok(())
    }

    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.conn.prepare_cached(sql)?.query_row(values, read).optional()?)
    }

    fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map(values, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// How a customer is named.
enum Customer {
    Id(i64),
    Name(String),
}

impl Terminal {
    pub fn new(sizes: Sizes, seed: u64) -> Terminal {
        let mut random = Random::new(seed, 3);
        let mut constant = |high| random.between(0, high);
        let (names, customers, items) = (constant(255), constant(1023), constant(8191));
        Terminal { sizes, random, now: EPOCH, names, customers, items }
    }

    /// Executes one transaction. Gives the number of rows it changed; 0 if it was rolled back.
    pub fn execute(&mut self, kind: Kind, conn: &Connection) -> Result<u64> {
        self.now += 1;
        let mut work = Work { conn, changes: 0 };
        conn.prepare_cached("BEGIN")?.execute([])?;
        let commit = match kind {
            Kind::Delivery => self.delivery(&mut work)?,
            Kind::NewOrder => self.new_order(&mut work)?,
            Kind::OrderStatus => self.order_status(&mut work)?,
            Kind::Payment => self.payment(&mut work)?,
            Kind::StockLevel => self.stock_level(&mut work)?,
        };
        conn.prepare_cached(if commit { "COMMIT" } else { "ROLLBACK" })?.execute([])?;
        Ok(if commit { work.changes } else { 0 })
    }

    /// The standard's non-uniform distribution over 1 to `high` (2.1.6).
    fn uneven(&mut self, a: i64, constant: i64, high: i64) -> i64 {
        let (first, second) = (self.random.between(0, a), self.random.between(1, high));
        ((first | second) + constant) % high + 1
    }

    fn customer_id(&mut self) -> i64 {
        self.uneven(1023, self.customers, self.sizes.customers)
    }

    fn item_id(&mut self) -> i64 {
        self.uneven(8191, self.items, self.sizes.items)
    }

    fn warehouse(&mut self) -> i64 {
        self.random.between(1, self.sizes.warehouses)
    }

    fn district(&mut self) -> i64 {
        self.random.between(1, self.sizes.districts)
    }

    /// A warehouse other than `w`, where there is one.
    fn other_warehouse(&mut self, w: i64) -> i64 {
        if self.sizes.warehouses == 1 {
            return w;
        }
        let other = self.random.between(1, self.sizes.warehouses - 1);
        if other >= w { other + 1 } else { other }
    }

    /// 60 % by last name (2.5.1.2, 2.6.1.2).
    fn customer(&mut self) -> Customer {
        if self.random.between(1, 100) > 60 {
            return Customer::Id(self.customer_id());
        }
        let names = self.sizes.customers.min(1000);
        Customer::Name(last_name(self.uneven(255, self.names, names) - 1))
    }

    fn new_order(&mut self, work: &mut Work<'_>) -> Result<bool> {
        let (w, d, c) = (self.warehouse(), self.district(), self.customer_id());
        let lines = self.random.between(5, 15);
        let fails = self.random.one_in(100);
        let mut order = Vec::new();
        for line in 1..=lines {
            let wrong = fails && line == lines;
            let item = if wrong { self.sizes.items + 1 } else { self.item_id() };
            let remote = self.sizes.warehouses > 1 && self.random.one_in(100);
            let from = if remote { self.other_warehouse(w) } else { w };
            order.push((item, from, self.random.between(1, 10)));
        }
        work.one("SELECT w_tax FROM warehouse WHERE w_id=?", [w], |row| row.get::<_, f64>(0))?;
        let sql = "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id=? AND d_id=?";
        let next = work.one(sql, [w, d], |row| row.get::<_, i64>(1))?;
        let sql = "SELECT c_discount, c_last, c_credit FROM customer \
                   WHERE c_w_id=? AND c_d_id=? AND c_id=?";
        work.one(sql, [w, d, c], |row| row.get::<_, f64>(0))?;
        let Some(o) = next else { return Ok(false) };
        let sql = "UPDATE district SET d_next_o_id=? WHERE d_w_id=? AND d_id=?";
        work.write(sql, [o + 1, w, d])?;
        let local = i64::from(order.iter().all(|(_, from, _)| *from == w));
        let values = params![o, c, d, w, self.now, None::<i64>, lines, local];
        work.write("INSERT INTO orders VALUES(?,?,?,?,?,?,?,?)", values)?;
        work.write("INSERT INTO new_order VALUES(?,?,?)", [o, d, w])?;
        for (number, (item, from, quantity)) in (1..).zip(order) {
            let sql = "SELECT i_price, i_name, i_data FROM item WHERE i_id=?";
            let price = work.one(sql, [item], |row| row.get::<_, i64>(0))?;
            // An unused item: the whole order is rolled back (2.4.2.3).
            let Some(price) = price else { return Ok(false) };
            let sql = format!(
                "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data, s_dist_{d:02} \
                 FROM stock WHERE s_w_id=? AND s_i_id=?"
            );
            let stock = work.one(&sql, [from, item], |row| {
                let number = |i| row.get::<_, i64>(i);
                Ok((number(0)?, number(1)?, number(2)?, number(3)?, row.get::<_, String>(5)?))
            })?;
            let Some((there, ytd, orders, remote, info)) = stock else { return Ok(false) };
            let left =
                if there >= quantity + 10 { there - quantity } else { there + 91 - quantity };
            let sql = "UPDATE stock SET s_quantity=?, s_ytd=?, s_order_cnt=?, s_remote_cnt=? \
                       WHERE s_w_id=? AND s_i_id=?";
            let remote = remote + i64::from(from != w);
            work.write(sql, [left, ytd + quantity, orders + 1, remote, from, item])?;
            let none = None::<i64>;
            let values =
                params![o, d, w, number, item, from, none, quantity, price * quantity, info];
            work.write("INSERT INTO order_line VALUES(?,?,?,?,?,?,?,?,?,?)", values)?;
        }
        Ok(true)
    }

    fn payment(&mut self, work: &mut Work<'_>) -> Result<bool> {
        let (w, d) = (self.warehouse(), self.district());
        // 15 % pay at another warehouse than their own (2.5.1.2).
        let (c_w, c_d) = match self.random.between(1, 100) {
            1..=85 => (w, d),
            _ => (self.other_warehouse(w), self.district()),
        };
        let customer = self.customer();
        let amount = self.random.between(100, 500_000);
        let sql = "UPDATE warehouse SET w_ytd=w_ytd+? WHERE w_id=?";
        work.write(sql, [amount, w])?;
        let sql = "SELECT w_name FROM warehouse WHERE w_id=?";
        let w_name = work.one(sql, [w], |row| row.get::<_, String>(0))?;
        let sql = "UPDATE district SET d_ytd=d_ytd+? WHERE d_w_id=? AND d_id=?";
        work.write(sql, [amount, w, d])?;
        let sql = "SELECT d_name FROM district WHERE d_w_id=? AND d_id=?";
        let d_name = work.one(sql, [w, d], |row| row.get::<_, String>(0))?;
        let Some(c) = find(work, c_w, c_d, &customer)? else { return Ok(false) };
        let sql = "SELECT c_credit, c_data FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?";
        let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let Some((credit, data)) = work.one(sql, [c_w, c_d, c], read)? else { return Ok(false) };
        if credit == "BC" {
            let mut data = format!("{c} {c_d} {c_w} {d} {w} {amount}|{data}");
            data.truncate(500);
            let sql = "UPDATE customer SET c_balance=c_balance-?1, c_ytd_payment=c_ytd_payment+?1, \
                       c_payment_cnt=c_payment_cnt+1, c_data=?5 \
                       WHERE c_w_id=?2 AND c_d_id=?3 AND c_id=?4";
            work.write(sql, params![amount, c_w, c_d, c, data])?;
        } else {
            let sql = "UPDATE customer SET c_balance=c_balance-?1, c_ytd_payment=c_ytd_payment+?1, \
                       c_payment_cnt=c_payment_cnt+1 WHERE c_w_id=?2 AND c_d_id=?3 AND c_id=?4";
            work.write(sql, [amount, c_w, c_d, c])?;
        }
        let data = format!("{}    {}", w_name.unwrap_or_default(), d_name.unwrap_or_default());
        let values = params![c, c_d, c_w, d, w, self.now, amount, data];
        work.write("INSERT INTO history VALUES(?,?,?,?,?,?,?,?)", values)?;
        Ok(true)
    }

    fn order_status(&mut self, work: &mut Work<'_>) -> Result<bool> {
        let (w, d) = (self.warehouse(), self.district());
        let customer = self.customer();
        let Some(c) = find(work, w, d, &customer)? else { return Ok(true) };
        let sql = "SELECT c_first, c_middle, c_last, c_balance FROM customer \
                   WHERE c_w_id=? AND c_d_id=? AND c_id=?";
        work.one(sql, [w, d, c], |row| row.get::<_, i64>(3))?;
        let sql = "SELECT o_id, o_carrier_id, o_entry_d FROM orders \
                   WHERE o_w_id=? AND o_d_id=? AND o_c_id=? ORDER BY o_id DESC LIMIT 1";
        let Some(o) = work.one(sql, [w, d, c], |row| row.get::<_, i64>(0))? else {
            return Ok(true);
        };
        let sql = "SELECT ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d \
                   FROM order_line WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
        work.all(sql, [w, d, o], |row| row.get::<_, i64>(3))?;
        Ok(true)
    }

    fn delivery(&mut self, work: &mut Work<'_>) -> Result<bool> {
        let (w, carrier) = (self.warehouse(), self.random.between(1, 10));
        for d in 1..=self.sizes.districts {
            let sql = "SELECT no_o_id FROM new_order WHERE no_w_id=? AND no_d_id=? \
                       ORDER BY no_o_id LIMIT 1";
            // A district may have nothing to deliver (2.7.4.2).
            let Some(o) = work.one(sql, [w, d], |row| row.get::<_, i64>(0))? else { continue };
            let sql = "DELETE FROM new_order WHERE no_w_id=? AND no_d_id=? AND no_o_id=?";
            work.write(sql, [w, d, o])?;
            let sql = "SELECT o_c_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_id=?";
            let c = work.one(sql, [w, d, o], |row| row.get::<_, i64>(0))?;
            let sql = "UPDATE orders SET o_carrier_id=? WHERE o_w_id=? AND o_d_id=? AND o_id=?";
            work.write(sql, [carrier, w, d, o])?;
            let sql = "UPDATE order_line SET ol_delivery_d=? \
                       WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
            work.write(sql, [self.now, w, d, o])?;
            let sql =
                "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
            let total = work.one(sql, [w, d, o], |row| row.get::<_, i64>(0))?;
            let sql = "UPDATE customer SET c_balance=c_balance+?, c_delivery_cnt=c_delivery_cnt+1 \
                       WHERE c_w_id=? AND c_d_id=? AND c_id=?";
            work.write(sql, params![total, w, d, c])?;
        }
        Ok(true)
    }

    fn stock_level(&mut self, work: &mut Work<'_>) -> Result<bool> {
        let (w, d, threshold) = (self.warehouse(), self.district(), self.random.between(10, 20));
        let sql = "SELECT d_next_o_id FROM district WHERE d_w_id=? AND d_id=?";
        let next = work.one(sql, [w, d], |row| row.get::<_, i64>(0))?.unwrap_or_default();
        let sql = "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock \
                   ON s_w_id=ol_w_id AND s_i_id=ol_i_id \
                   WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id<? AND ol_o_id>=? AND s_quantity<?";
        work.one(sql, [w, d, next, next - 20, threshold], |row| row.get::<_, i64>(0))?;
        Ok(true)
    }
}

/// The customer, or of several with one last name the middle one by first name (2.5.2.2).
fn find(work: &Work<'_>, w: i64, d: i64, customer: &Customer) -> Result<Option<i64>> {
    match customer {
        Customer::Id(id) => Ok(Some(*id)),
        Customer::Name(name) => {
            let sql = "SELECT c_id FROM customer WHERE c_w_id=? AND c_d_id=? AND c_last=? \
                       ORDER BY c_first";
            let ids = work.all(sql, params![w, d, name], |row| row.get(0))?;
            Ok(ids.get(ids.len().saturating_sub(1) / 2).copied())
        }
    }
}
