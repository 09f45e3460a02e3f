//! TPC-C: a wholesale supplier's five transaction types in their mix.
//!
//! As the standard has it, except: terminals do not think, all transactions come from one, and money
//! is whole cents, so that the consistency conditions hold exactly. `scale` divides the numbers of
//! items, customers and orders; the rows of one warehouse at scale 1 are the standard's. HISTORY has
//! no primary key. Dates are counted, not read from a clock: same seed, same statements.

mod check;
mod load;
mod transactions;

use super::Workload;
use super::random::Random;
use crate::database::Database;
use crate::meter::{Done, Meter, Phase, Timer, Watch};
use crate::{Error, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use transactions::Terminal;

/// A TPC-C run.
#[derive(Clone, Debug)]
pub struct Tpcc {
    /// Warehouses.
    pub warehouses: i64,
    /// Divisor of items, customers and orders.
    pub scale: i64,
    /// How long it runs.
    pub length: Length,
    /// Engines fold once after the load.
    pub fold_after_load: bool,
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many transactions, the same for every engine.
    Transactions(u64),
    /// So many seconds; engines execute as much as they can.
    Seconds(u64),
}

/// Numbers of rows.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    warehouses: i64,
    districts: i64,
    items: i64,
    customers: i64,
    /// Orders of the initial load that are not delivered yet, a district.
    waiting: i64,
}

/// A transaction type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Delivery,
    NewOrder,
    OrderStatus,
    Payment,
    StockLevel,
}

impl Kind {
    const ALL: [(Kind, &'static str); 5] = [
        (Kind::Delivery, "delivery"),
        (Kind::NewOrder, "new order"),
        (Kind::OrderStatus, "order status"),
        (Kind::Payment, "payment"),
        (Kind::StockLevel, "stock level"),
    ];

    /// The mix: 45 % new orders, 43 % payments, 4 % of each of the others.
    fn draw(random: &mut Random) -> Kind {
        match random.between(1, 100) {
            1..=45 => Kind::NewOrder,
            46..=88 => Kind::Payment,
            89..=92 => Kind::Delivery,
            93..=96 => Kind::OrderStatus,
            _ => Kind::StockLevel,
        }
    }
}

/// Sums of one transaction type.
struct Sum {
    phase: Phase,
    timer: Timer,
}

impl Tpcc {
    /// Refuses what cannot be executed.
    pub fn check(&self) -> Result<()> {
        if !(1..=100).contains(&self.warehouses) || !(1..=100).contains(&self.scale) {
            return Err(Error::Bad(
                "tpcc takes 1 to 100 warehouses and a scale of 1 to 100".into(),
            ));
        }
        Ok(())
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            warehouses: self.warehouses,
            districts: 10,
            items: 100_000 / self.scale,
            customers: 3_000 / self.scale,
            waiting: 900 / self.scale,
        }
    }

    fn execute(&self, db: &mut Database, seed: u64, sums: &mut [Sum]) -> Result<Done> {
        let mut random = Random::new(seed, 2);
        let mut terminal = Terminal::new(self.sizes(), seed);
        let started = Instant::now();
        let mut executed = 0;
        loop {
            let over = match self.length {
                Length::Transactions(n) => executed >= n,
                Length::Seconds(s) => started.elapsed() >= Duration::from_secs(s),
            };
            if over {
                return Ok(Done { operations: executed, transactions: executed });
            }
            let kind = Kind::draw(&mut random);
            let watch = Watch::start();
            let changes = terminal.execute(kind, &db.conn)?;
            db.committed(changes)?;
            executed += 1;
            let at = Kind::ALL.iter().position(|(k, _)| *k == kind).unwrap_or_default();
            let Sum { phase, timer } = &mut sums[at];
            timer.add(watch.stop(phase, Done { operations: 1, transactions: 1 }));
        }
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn options(&self) -> Value {
        let (transactions, seconds) = match self.length {
            Length::Transactions(n) => (Some(n), None),
            Length::Seconds(s) => (None, Some(s)),
        };
        json!({
            "warehouses": self.warehouses,
            "scale": self.scale,
            "transactions": transactions,
            "seconds": seconds,
            "fold_after_load": self.fold_after_load,
        })
    }

    fn schema(&self) -> String {
        load::SCHEMA.to_owned()
    }

    fn run(&self, db: &mut Database, seed: u64, meter: &mut Meter) -> Result<()> {
        let sizes = self.sizes();
        meter.add(load::load(db, sizes, seed)?);
        meter.fact("bytes after load", db.bytes()?);
        if self.fold_after_load {
            db.fold()?;
            meter.fact("bytes after fold", db.bytes()?);
        }
        db.checkpoint()?;
        let mut sums = Vec::new();
        for (_, name) in Kind::ALL {
            sums.push(Sum { phase: Phase::named(name), timer: Timer::new()? });
        }
        meter.phase("all transactions", || self.execute(db, seed, &mut sums))?;
        for Sum { phase, timer } in sums {
            if phase.transactions > 0 {
                meter.add(Phase { latency: timer.latency(), ..phase });
            }
        }
        meter.fact("bytes after transactions", db.bytes()?);
        check::check(&db.conn, db.engine())
    }

    fn same_for_all(&self) -> bool {
        matches!(self.length, Length::Transactions(_))
    }

    fn megabytes(&self) -> u64 {
        // The standard's warehouse takes 100 MB, the hungriest engine five times that, its log as much.
        (self.warehouses * 1000 / self.scale).unsigned_abs() + 50
    }
}
