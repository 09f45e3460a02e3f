//! The DASH paper's section 7: SQLite's journal modes, the paper's two modes, and those of `vfs=dash`
//! that came of them, on ext4.

use super::{Claims, Prepared, cell};
use crate::Result;
use crate::compare::Group;
use crate::device::Work;
use crate::engine::Engine;
use crate::meter::Phase;
use crate::mount::Mount;
use crate::params::Settings;
use crate::run::Plan;
use crate::stats::Summary;
use crate::table::{self, Style, number};
use crate::workload::mobibench::Mobibench;
use std::path::Path;

/// What is compared: labels of settings, and the paper's synchronizing calls and kilobytes that
/// reach the device for an insert of 100 bytes (figures 1 and 13).
const MODES: [(&str, &str); 11] = [
    ("delete/full", ""),
    ("truncate/full", ""),
    ("persist/full", "5 fd, 40 KB"),
    ("wal/full", "1 fd"),
    ("wal/normal", ""),
    ("dash-strict/full", ""),
    ("dash-fast/full", ""),
    ("dash-shadow/full", ""),
    ("dash-shadow-x/full", ""),
    ("dash-paper/full", "3 fd, 12 KB"),
    ("dash-paper-x/full", "2 fd"),
];

/// Table 2: label, phase, milliseconds on average, median, 99.9th percentile.
const TABLE: [(&str, &str, [f64; 3]); 8] = [
    ("persist/full", "insert", [5.2, 5.1, 10.6]),
    ("wal/full", "insert", [2.4, 2.3, 10.1]),
    ("dash-paper/full", "insert", [2.2, 2.1, 5.9]),
    ("dash-paper-x/full", "insert", [1.7, 1.6, 5.5]),
    ("persist/full", "update", [5.3, 5.3, 10.0]),
    ("wal/full", "update", [2.1, 1.8, 36.9]),
    ("dash-paper/full", "update", [2.4, 2.3, 6.9]),
    ("dash-paper-x/full", "update", [2.0, 1.9, 6.3]),
];

/// The operations of a transaction, as the plans are named.
const SIZES: [(&str, u32); 3] = [("T1", 1), ("T3", 3), ("T5", 5)];
const KINDS: [&str; 3] = ["insert", "update", "delete"];
const DUPLICATION: [u32; 3] = [0, 50, 100];
/// The plan that times recovery.
const LARGE: &str = "20 MB";

pub fn prepare(dir: &Path, full: bool) -> Prepared {
    let mut notes = Vec::new();
    let mounts: Vec<Mount> = match Mount::new("ext4", dir) {
        Ok(mount) => vec![mount],
        Err(error) => {
            notes.push(format!("ext4 on a loop device was not measured, nor any device: {error}"));
            Vec::new()
        }
    };
    let mounted = mounts.first().map(|mount| mount.dir().to_owned());
    let settings = |label: &str| {
        let (mode, synchronous) = label.split_once('/').unwrap_or((label, "full"));
        let all = Settings::default().with("foreign_keys", "off").with("synchronous", synchronous);
        match mode.starts_with("dash-") {
            true => all.on_dash(mode),
            false => Ok(all.with("journal_mode", mode)),
        }
    };
    let plan = |label: &str, name: &str, bench: Mobibench| -> Result<Plan> {
        Ok(Plan {
            workload: Box::new(bench),
            engines: vec![Engine::Plain],
            settings: settings(label)?,
            rounds: if full { 5 } else { 3 },
            warm_up: 1,
            seed: 1,
            name: name.to_owned(),
            dir: mounted.clone(),
        })
    };
    let bench = |transactions, operations| Mobibench {
        transactions,
        operations,
        record: 100,
        duplication: Vec::new(),
        recoveries: 0,
        fill: 0,
        device: mounted.is_some(),
    };
    let mut plans = Vec::new();
    for (name, operations) in SIZES {
        for (label, _) in MODES {
            let mut bench = bench(if full { 10_000 } else { 100 }, operations);
            if operations == 5 {
                bench.duplication = DUPLICATION.to_vec();
            }
            plans.push(plan(label, name, bench));
        }
    }
    for (label, _) in MODES {
        let bench = Mobibench { recoveries: if full { 20 } else { 5 }, fill: 20, ..bench(20, 5) };
        plans.push(plan(label, LARGE, bench));
    }
    let mut prepared = Prepared { plans: Vec::new(), mounts, notes };
    for plan in plans {
        match plan {
            Ok(plan) => prepared.plans.push(plan),
            Err(error) => prepared.notes.push(error.to_string()),
        }
    }
    prepared
}

/// The measured groups, by name and label.
struct Found<'a, 'b>(&'b [Group<'a>]);

impl Found<'_, '_> {
    fn group(&self, name: &str, label: &str) -> Option<&Group<'_>> {
        let labelled = |g: &&Group<'_>| g.parameters().is_some_and(|p| p.asked().label() == label);
        self.0.iter().filter(|g| g.name() == name).find(labelled)
    }

    fn phases(&self, name: &str, label: &str, phase: &str) -> Vec<&Phase> {
        let records = self.group(name, label).and_then(|g| g.of(Engine::Plain)).unwrap_or_default();
        records.iter().flat_map(|r| &r.outcome.phases).filter(|p| p.name == phase).collect()
    }

    /// Median over the rounds.
    fn median(
        &self,
        name: &str,
        label: &str,
        phase: &str,
        of: fn(&Phase) -> Option<f64>,
    ) -> Option<f64> {
        let values: Vec<f64> = self.phases(name, label, phase).into_iter().filter_map(of).collect();
        Summary::of(&values).map(|s| s.median)
    }

    /// Transactions a second over those of another mode, round by round.
    fn over(&self, name: &str, label: &str, other: &str, phase: &str) -> Option<Summary> {
        let wall = |label| -> Vec<f64> {
            self.phases(name, label, phase).iter().map(|p| p.wall / p.transactions as f64).collect()
        };
        Summary::of_ratios(&wall(other), &wall(label))
    }

    fn work(&self, name: &str, label: &str, phase: &str) -> Option<Work> {
        self.group(name, label)?.work(Engine::Plain, phase)
    }

    fn fact(&self, label: &str, fact: &str) -> Option<f64> {
        let facts = self.group(LARGE, label)?.facts();
        facts.get(fact)?.iter().find(|(e, _, _)| *e == Engine::Plain).map(|f| f.1)
    }

    fn syncs(&self, name: &str, label: &str, phase: &str) -> Option<f64> {
        self.group(name, label)?.row(Engine::Plain, phase)?.syncs
    }
}

/// Mode, column by column.
fn each(cells: impl Fn(&str) -> Vec<String>) -> Vec<Vec<String>> {
    let row = |&(label, _): &(&str, &str)| {
        let mut row = vec![label.to_owned()];
        row.extend(cells(label));
        row
    };
    MODES.iter().map(row).collect()
}

fn milliseconds(phase: &Phase, of: fn(&crate::meter::Latency) -> f64) -> Option<f64> {
    phase.latency.as_ref().map(|latency| of(latency) / 1000.0)
}

pub fn report(groups: &[Group<'_>], style: Style) -> String {
    let found = Found(groups);
    let tables = [
        written(&found, style),
        throughput(&found, style),
        latencies(&found, style),
        published_latencies(&found, style),
        device(&found, style),
        recovery(&found, style),
        duplication(&found, style),
    ];
    format!("{}\n\n{}", tables.join("\n\n"), claims(&found).text())
}

fn written(found: &Found<'_, '_>, style: Style) -> String {
    let mut rows = Vec::new();
    for (name, _) in SIZES {
        for (label, published) in MODES {
            let row = found.group(name, label).and_then(|g| g.row(Engine::Plain, "insert"));
            let work = found.work(name, label, "insert");
            rows.push(vec![
                format!("{name} {label}"),
                if name == "T1" { published.to_owned() } else { String::new() },
                cell(row.as_ref().and_then(|r| r.syncs)),
                cell(row.as_ref().and_then(|r| r.renames)),
                cell(row.as_ref().and_then(|r| r.written_kb)),
                cell(work.as_ref().map(|w| w.flushes.mean)),
                cell(work.as_ref().map(|w| w.kilobytes.mean)),
            ]);
        }
    }
    let header = [
        "figures 13, 14: an insert",
        "published",
        "syncs",
        "renames",
        "KB written",
        "device: flushes",
        "device: KB",
    ];
    table::draw(style, &header, &rows)
}

fn throughput(found: &Found<'_, '_>, style: Style) -> String {
    let mut rows = Vec::new();
    for (name, _) in SIZES {
        for row in each(|label| {
            let rate =
                |phase| found.median(name, label, phase, |p| Some(p.transactions as f64 / p.wall));
            let ratio = |other| table::interval(&found.over(name, label, other, "update"));
            let mut cells: Vec<String> = KINDS.iter().map(|phase| cell(rate(phase))).collect();
            cells.extend([ratio("persist/full"), ratio("wal/full")]);
            cells
        }) {
            let named = format!("{name} {}", row[0]);
            rows.push([vec![named], row[1..].to_vec()].concat());
        }
    }
    let header = [
        "figure 15: transactions/s",
        "insert",
        "update",
        "delete",
        "update × PERSIST (95 %)",
        "update × WAL FULL (95 %)",
    ];
    table::draw(style, &header, &rows)
}

fn latencies(found: &Found<'_, '_>, style: Style) -> String {
    let rows = each(|label| {
        let mut cells = Vec::new();
        for phase in ["insert", "update"] {
            let at = |of| cell(found.median("T3", label, phase, of));
            cells.extend([
                at(|p| milliseconds(p, |l| l.p50)),
                at(|p| milliseconds(p, |l| l.p99)),
                at(|p| milliseconds(p, |l| l.p999)),
                at(|p| milliseconds(p, |l| l.max)),
            ]);
        }
        cells
    });
    let header = [
        "figure 16: T3, ms",
        "insert p50",
        "p99",
        "p99.9",
        "maximum",
        "update p50",
        "p99",
        "p99.9",
        "maximum",
    ];
    table::draw(style, &header, &rows)
}

fn published_latencies(found: &Found<'_, '_>, style: Style) -> String {
    let row = |&(label, phase, published): &(&str, &str, [f64; 3])| {
        let at = |of| cell(found.median("T3", label, phase, of));
        let here = [
            at(|p| milliseconds(p, |l| l.mean)),
            at(|p| milliseconds(p, |l| l.p50)),
            at(|p| milliseconds(p, |l| l.p999)),
        ];
        let pairs = published.iter().zip(here).flat_map(|(p, h)| [number(*p), h]);
        [vec![format!("{phase} {label}")], pairs.collect()].concat()
    };
    let header = [
        "table 2: T3, ms",
        "average, published",
        "here",
        "median, published",
        "here",
        "p99.9, published",
        "here",
    ];
    table::draw(style, &header, &TABLE.iter().map(row).collect::<Vec<_>>())
}

fn device(found: &Found<'_, '_>, style: Style) -> String {
    let mut rows = Vec::new();
    for name in ["T1", "T3"] {
        for (label, _) in MODES {
            let Some(work) = found.work(name, label, "update") else { continue };
            let Work { flushes: f, kilobytes: k } = work;
            let mut row = vec![format!("{name} {label}")];
            let figures = [f.mean, f.p50, f.p999, f.max, k.mean, k.p50, k.p999, k.worst, k.max];
            row.extend(figures.map(number));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return "The work of the device was not measured.".to_owned();
    }
    let header = [
        "device: an update",
        "flushes, mean",
        "p50",
        "p99.9",
        "maximum",
        "KB, mean",
        "p50",
        "p99.9",
        "worst 0.1 %",
        "maximum",
    ];
    table::draw(style, &header, &rows)
}

fn recovery(found: &Found<'_, '_>, style: Style) -> String {
    let rows = each(|label| {
        let fact = |name: &str, by: f64| cell(found.fact(label, name).map(|value| value / by));
        vec![
            fact("recovery µs, minimum", 1e3),
            fact("recovery µs, median", 1e3),
            fact("recovery µs, maximum", 1e3),
            fact("first write after recovery µs, median", 1e3),
            fact("clean open µs, median", 1e3),
            fact("syncs of an open, a write and a close", 1.0),
            fact("bytes at the end", 1e6),
            fact("bytes of all files", 1e6),
        ]
    });
    let header = [
        "figure 17: 20 MB, T5",
        "recovery ms, minimum",
        "median",
        "maximum",
        "first write then, ms",
        "clean open, ms",
        "syncs of open, write, close",
        "database, MB",
        "all files, MB",
    ];
    table::draw(style, &header, &rows)
}

fn duplication(found: &Found<'_, '_>, style: Style) -> String {
    let rows = each(|label| {
        let named = |percent: u32| format!("update, {percent} % of the pages again");
        let rate = |percent: u32| {
            found.median("T5", label, &named(percent), |p| Some(p.transactions as f64 / p.wall))
        };
        let written = |percent: u32| {
            found.group("T5", label)?.row(Engine::Plain, &named(percent))?.written_kb
        };
        let mut cells: Vec<String> = DUPLICATION.iter().map(|p| cell(rate(*p))).collect();
        let loss = rate(0).zip(rate(100)).map(|(none, all)| (1.0 - none / all) * 100.0);
        cells.push(cell(loss));
        cells.extend(DUPLICATION.iter().map(|p| cell(written(*p))));
        cells
    });
    let header = [
        "figure 18: T5 by duplication",
        "0 %: txn/s",
        "50 %",
        "100 %",
        "loss at 0 %, percent",
        "0 %: KB",
        "50 %",
        "100 %",
    ];
    table::draw(style, &header, &rows)
}

fn claims(found: &Found<'_, '_>) -> Claims {
    let mut claims = Claims::default();
    for (label, expected) in
        [("persist/full", 5.0), ("dash-paper/full", 3.0), ("dash-paper-x/full", 2.0)]
    {
        let syncs = found.syncs("T1", label, "insert");
        claims.add(
            &format!("an insert of 100 bytes takes {expected} syncs in {label}"),
            syncs.map(|s| (s - expected).abs() < 0.1),
            &cell(syncs),
        );
    }
    let kilobytes = |label: &str| found.work("T1", label, "insert").map(|w| w.kilobytes.mean);
    claims.add(
        "the device writes 40 KB for it in PERSIST and 12 KB in SHADOW",
        kilobytes("persist/full").zip(kilobytes("dash-paper/full")).map(|(p, s)| p > 2.0 * s),
        &format!("{} and {}", cell(kilobytes("persist/full")), cell(kilobytes("dash-paper/full"))),
    );
    let ratio = |label: &str, other: &str, phase: &str| found.over("T3", label, other, phase);
    let mut compared = |claim: &str, label: &str, other: &str, least: f64| {
        let here = ratio(label, other, "insert").map(|s| s.median);
        claims.add(claim, here.map(|r| r >= least), &cell(here));
    };
    compared("SHADOW inserts twice as fast as PERSIST", "dash-paper/full", "persist/full", 2.0);
    compared("SHADOW inserts as fast as WAL", "dash-paper/full", "wal/full", 0.9);
    compared("SHADOW-X inserts a quarter faster than WAL", "dash-paper-x/full", "wal/full", 1.15);
    let tail = |label: &str| found.work("T3", label, "update").map(|w| w.kilobytes.p999);
    let here = tail("dash-paper/full").zip(tail("wal/full")).map(|(s, w)| s / w);
    claims.add(
        "SHADOW's p99.9 of updates is a quarter of WAL's: its bytes at the device",
        here.map(|r| r <= 0.25),
        &cell(here),
    );
    let recovery = |label: &str| found.fact(label, "recovery µs, median");
    let here = recovery("dash-paper/full").zip(recovery("wal/full")).map(|(s, w)| s / w);
    claims.add("SHADOW recovers in a third of WAL's time", here.map(|r| r < 0.5), &cell(here));
    let rate = |percent: u32| {
        let phase = format!("update, {percent} % of the pages again");
        found.median("T5", "dash-paper/full", &phase, |p| Some(p.transactions as f64 / p.wall))
    };
    let loss = rate(0).zip(rate(100)).map(|(none, all)| 1.0 - none / all);
    claims.add(
        "without common pages throughput is at most 8 % lower than with nothing else",
        loss.map(|loss| loss < 0.1),
        &loss.map_or(String::new(), |loss| format!("{} %", number(loss * 100.0))),
    );
    claims.add(
        "a transaction that SHADOW acknowledged is durable on ext4",
        None,
        "crates/dash/tests/it finds states in which it is not; docs/benchmarks/dash.md",
    );
    claims
}
