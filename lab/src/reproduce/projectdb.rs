//! ProjectDB's measurements: microseconds an operation on seven tasks, by number of entries.

use super::{Claims, cell, find};
use crate::compare::Group;
use crate::engine::Engine;
use crate::params::Settings;
use crate::run::Plan;
use crate::store::Name;
use crate::table::{self, Style};
use crate::workload::kv::{Kv, Source};

const STORE: Engine = Engine::Store(Name::Ours);

const TASKS: [&str; 7] = [
    "fill sequential",
    "fill random",
    "overwrite",
    "delete sequential",
    "delete random",
    "read sequential",
    "read random",
];

/// The second table of the note, with blocks of 2 KiB: entries and microseconds.
const TABLE: [(u64, [f64; 7]); 5] = [
    (8_000, [52.94, 73.84, 52.67, 48.84, 66.94, 0.106, 0.136]),
    (16_000, [102.7, 153.0, 102.1, 93.20, 143.6, 0.105, 0.138]),
    (32_000, [125.0, 183.5, 124.2, 192.5, 302.7, 72.95, 73.71]),
    (64_000, [137.0, 208.9, 144.5, 527.9, 639.7, 87.24, 88.82]),
    (128_000, [141.1, 226.9, 166.5, 1323.0, 2297.0, 191.4, 189.2]),
];

pub fn plans(full: bool) -> Vec<Plan> {
    let sizes = if full { &TABLE[..] } else { &TABLE[..3] };
    let plan = |(entries, _): &(u64, [f64; 7])| Plan {
        workload: Box::new(Kv {
            source: Source::Random { entries: *entries, value: 100 },
            transaction: 1,
            sync: false,
            further: false,
        }),
        engines: vec![Engine::Plain, STORE],
        settings: Settings::default()
            .with("foreign_keys", "off")
            .with("synchronous", "normal")
            .with("journal_mode", "wal"),
        rounds: 5,
        warm_up: 1,
        seed: 1,
        name: entries.to_string(),
        dir: None,
    };
    sizes.iter().map(plan).collect()
}

/// Microseconds of wall time an operation.
fn time(group: &Group<'_>, engine: Engine, task: &str) -> Option<f64> {
    group.row(engine, task).map(|row| 1e6 / row.rate.median)
}

pub fn report(groups: &[Group<'_>], style: Style) -> String {
    let mut rows = Vec::new();
    let measured: Vec<_> = TABLE
        .iter()
        .filter_map(|(n, published)| Some((n, published, find(groups, &n.to_string(), "wal")?)))
        .collect();
    for (entries, published, group) in &measured {
        let mut line = |who: &str, of: &dyn Fn(usize) -> Option<f64>| {
            let cells = (0..TASKS.len()).map(|i| cell(of(i)));
            rows.push([vec![entries.to_string(), who.to_owned()], cells.collect()].concat());
        };
        line("ProjectDB, published", &|i| Some(published[i]));
        line("store, here", &|i| time(group, STORE, TASKS[i]));
        line("plain SQLite, here", &|i| time(group, Engine::Plain, TASKS[i]));
    }
    let header = [&["entries", "µs an operation"][..], &TASKS[..]].concat();
    let text = table::draw(style, &header, &rows);
    let growth = |task: usize| {
        let (first, last) = (measured.first()?, measured.last()?);
        let here = time(last.2, STORE, TASKS[task])? / time(first.2, STORE, TASKS[task])?;
        Some((last.1[task] / first.1[task], here))
    };
    let mut claims = Claims::default();
    for (task, claim, least) in [
        (0, "writes take longer the more entries there are", 1.5),
        (4, "deletes most of all", 1.5),
        (
            5,
            "reads take hundreds of times as long once the entries no longer fit into memory",
            50.0,
        ),
    ] {
        let found = growth(task);
        claims.add(
            claim,
            found.map(|(_, here)| here > least),
            &found.map_or(String::new(), |(published, here)| {
                format!(
                    "{} {} times as long in the largest run as in the smallest, published {} times",
                    TASKS[task],
                    cell(Some(here)),
                    cell(Some(published))
                )
            }),
        );
    }
    let ordered = measured
        .last()
        .and_then(|(_, _, g)| Some(time(g, STORE, TASKS[0])? < time(g, STORE, TASKS[1])?));
    claims.add("writes in random order cost more than in the order of the keys", ordered, "");
    let note = "ProjectDB itself is not run; the store is this project's. What does not agree \
                  are costs of ProjectDB that the store does not have: it walks its memtable on \
                  every write, and reads whole blocks again.";
    format!("{text}\n\n{note}\n\n{}", claims.text())
}
