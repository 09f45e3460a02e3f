//! The DASH paper's section 7, as far as stock SQLite goes: PERSIST and WAL. The paper's own two
//! modes are no modes of SQLite and are not measured here.

use super::{Claims, cell, find};
use crate::compare::Group;
use crate::engine::{Engine, Fold};
use crate::meter::Latency;
use crate::params::Settings;
use crate::run::Plan;
use crate::stats::Summary;
use crate::table::{self, Style};
use crate::workload::mobibench::Mobibench;

/// Table 2: mode, operation, milliseconds on average, median, 99.9th percentile.
const TABLE: [(&str, &str, [f64; 3]); 4] = [
    ("persist", "insert", [5.2, 5.1, 10.6]),
    ("wal", "insert", [2.4, 2.3, 10.1]),
    ("persist", "update", [5.3, 5.3, 10.0]),
    ("wal", "update", [2.1, 1.8, 36.9]),
];

pub fn plans(full: bool) -> Vec<Plan> {
    let mut plans = Vec::new();
    for mode in ["persist", "wal", "delete"] {
        for operations in [1, 3, 5] {
            // DELETE is not in the paper; one size of it shows what SQLite's default costs.
            if mode == "delete" && operations > 1 {
                continue;
            }
            plans.push(Plan {
                workload: Box::new(Mobibench {
                    transactions: if full { 10_000 } else { 100 },
                    operations,
                    record: 100,
                    duplication: if operations == 3 { vec![0, 100] } else { vec![] },
                    recoveries: 10,
                }),
                engines: vec![Engine::Plain, Engine::Replica(Fold::Never)],
                settings: Settings::default()
                    .with("foreign_keys", "off")
                    .with("synchronous", "full")
                    .with("journal_mode", mode),
                rounds: if full { 5 } else { 3 },
                warm_up: 1,
                seed: 1,
                name: format!("T{operations}"),
                dir: None,
            });
        }
    }
    plans
}

fn latency(group: &Group<'_>, phase: &str, of: fn(&Latency) -> f64) -> Option<f64> {
    let records = group.of(Engine::Plain)?;
    let phases = records.iter().flat_map(|r| &r.outcome.phases).filter(|p| p.name == phase);
    let values: Vec<f64> = phases.filter_map(|p| p.latency.as_ref()).map(of).collect();
    Summary::of(&values).map(|s| s.median / 1000.0)
}

pub fn report(groups: &[Group<'_>], style: Style) -> String {
    let mut claims = Claims::default();
    let plain = Engine::Plain;
    let written = |mode: &str, name: &str| {
        let row = find(groups, name, mode)?.row(plain, "insert")?;
        Some((row.syncs?, row.written_kb?, row.rate.median))
    };
    let mut rows = Vec::new();
    for name in ["T1", "T3", "T5"] {
        for mode in ["persist", "wal", "delete"] {
            let Some((syncs, kb, rate)) = written(mode, name) else { continue };
            let replica = find(groups, name, mode)
                .and_then(|g| g.row(Engine::Replica(Fold::Never), "insert"));
            let published = match (mode, name) {
                ("persist", "T1") => "5 syncs, 40 KB at the device",
                _ => "–",
            };
            rows.push(vec![
                format!("{name}, {}", mode.to_uppercase()),
                published.to_owned(),
                cell(Some(syncs)),
                cell(Some(kb)),
                cell(Some(rate)),
                cell(replica.as_ref().and_then(|r| r.syncs)),
                cell(replica.as_ref().and_then(|r| r.written_kb)),
            ]);
        }
    }
    let header = [
        "a transaction of inserts",
        "published",
        "syncs",
        "KB that SQLite writes",
        "transactions/s",
        "replica: syncs",
        "replica: KB",
    ];
    let mut text = table::draw(style, &header, &rows);
    let mut lines = Vec::new();
    for (mode, phase, published) in TABLE {
        let Some(group) = find(groups, "T3", mode) else { continue };
        lines.push(vec![
            format!("{phase}, {}", mode.to_uppercase()),
            cell(Some(published[0])),
            cell(latency(group, phase, |l| l.mean)),
            cell(Some(published[1])),
            cell(latency(group, phase, |l| l.p50)),
            cell(Some(published[2])),
            cell(latency(group, phase, |l| l.p999)),
        ]);
    }
    let header = [
        "milliseconds, T3",
        "average, published",
        "here",
        "median, published",
        "here",
        "p99.9, published",
        "here",
    ];
    text += &format!("\n\n{}", table::draw(style, &header, &lines));
    claims.add(
        "an insert of 100 bytes takes 5 syncs in PERSIST",
        written("persist", "T1").map(|(syncs, _, _)| (4.9..5.1).contains(&syncs)),
        &cell(written("persist", "T1").map(|w| w.0)),
    );
    claims.add(
        "and makes the device write 40 KB",
        None,
        &format!(
            "SQLite itself writes {} KB; what the file system's journal adds is not counted",
            cell(written("persist", "T1").map(|w| w.1))
        ),
    );
    let median = |mode: &str, phase: &str| latency(find(groups, "T3", mode)?, phase, |l| l.p50);
    claims.add(
        "WAL's median latency is less than half of PERSIST's",
        median("wal", "insert").zip(median("persist", "insert")).map(|(w, p)| 2.0 * w < p),
        &format!(
            "inserts {} ms and {} ms; the machine's syncs decide",
            cell(median("wal", "insert")),
            cell(median("persist", "insert"))
        ),
    );
    let tail = |mode: &str| latency(find(groups, "T3", mode)?, "update", |l| l.p999);
    claims.add(
        "WAL's p99.9 of updates is worse than PERSIST's, because checkpoints come in between",
        tail("wal").zip(tail("persist")).map(|(w, p)| w > p),
        "percentiles of fewer than 10,000 transactions on a shared machine are rough",
    );
    let recovery = |mode: &str| {
        let facts = find(groups, "T5", mode)?.facts();
        facts.get("recovery µs, median")?.iter().find(|(e, _, _)| *e == plain).map(|f| f.1)
    };
    claims.add(
        "recovery takes longer in WAL than in PERSIST",
        recovery("wal").zip(recovery("persist")).map(|(w, p)| w > p),
        &format!("{} µs and {} µs", cell(recovery("wal")), cell(recovery("persist"))),
    );
    claims.add(
        "SHADOW and SHADOW-X need 3 and 2 syncs, and are as fast as WAL or faster",
        None,
        "",
    );
    format!("{text}\n\n{}", claims.text())
}
