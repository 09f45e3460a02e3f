//! TPC-C in WAL and DELETE mode: transactions a second of wall time, on a disk.

use super::{Claims, cell, find, rate};
use crate::compare::Group;
use crate::engine::{Engine, Fold};
use crate::params::Settings;
use crate::run::Plan;
use crate::table::{self, Style};
use crate::workload::tpcc::{Length, Tpcc};

/// Published transactions a second, WAL and DELETE.
const TABLE: [(&str, f64, f64); 6] = [
    ("delivery", 50.25, 32.92),
    ("new order", 98.35, 50.20),
    ("order status", 636.96, 476.26),
    ("payment", 263.09, 96.32),
    ("stock level", 610.87, 421.31),
    ("all transactions", 140.31, 67.46),
];

pub fn plans(full: bool) -> Vec<Plan> {
    let plan = |mode: &str| Plan {
        workload: Box::new(if full {
            let length = Length::Seconds(1800);
            Tpcc { warehouses: 10, scale: 1, length, fold_after_load: false }
        } else {
            let length = Length::Transactions(500);
            Tpcc { warehouses: 1, scale: 10, length, fold_after_load: false }
        }),
        engines: vec![Engine::Plain, Engine::Replica(Fold::Never)],
        settings: Settings::default()
            .with("foreign_keys", "off")
            .with("synchronous", "full")
            .with("journal_mode", mode),
        rounds: if full { 1 } else { 5 },
        warm_up: 1,
        seed: 1,
        name: "tpcc".to_owned(),
        dir: None,
    };
    vec![plan("wal"), plan("delete")]
}

pub fn report(groups: &[Group<'_>], style: Style) -> String {
    let engine = Engine::Plain;
    let here = |mode: &str, phase: &str, engine| {
        find(groups, "tpcc", mode).and_then(|group| rate(group, engine, phase))
    };
    let ratio =
        |phase: &str, engine| Some(here("wal", phase, engine)? / here("delete", phase, engine)?);
    let row = |&(phase, wal, delete): &(&str, f64, f64)| {
        vec![
            phase.to_owned(),
            cell(Some(wal)),
            cell(here("wal", phase, engine)),
            cell(Some(delete)),
            cell(here("delete", phase, engine)),
            cell(Some(wal / delete)),
            cell(ratio(phase, engine)),
            cell(ratio(phase, Engine::Replica(Fold::Never))),
        ]
    };
    let header = [
        "transactions a second",
        "WAL, published",
        "here",
        "DELETE, published",
        "here",
        "WAL/DELETE, published",
        "here",
        "replica",
    ];
    let text = table::draw(style, &header, &TABLE.iter().map(row).collect::<Vec<_>>());
    let mut claims = Claims::default();
    let total = ratio("all transactions", engine);
    claims.add(
        "WAL executes more transactions than DELETE (2.08 times as many)",
        total.map(|r| r > 1.5),
        &format!("{} times; the share of syncs in a transaction decides", cell(total)),
    );
    let syncs = |mode: &str| {
        find(groups, "tpcc", mode)?.row(engine, "all transactions").and_then(|row| row.syncs)
    };
    claims.add(
        "because WAL syncs less",
        syncs("wal").zip(syncs("delete")).map(|(w, d)| w < d),
        &format!("{} syncs a transaction against {}", cell(syncs("wal")), cell(syncs("delete"))),
    );
    let gain = |phase: &str| ratio(phase, engine);
    claims.add(
        "payments gain most, order status and stock level, which only read, least",
        gain("payment").zip(gain("order status")).map(|(p, o)| p > o),
        "",
    );
    format!("{text}\n\n{}", claims.text())
}
