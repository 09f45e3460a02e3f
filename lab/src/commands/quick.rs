//! `quick`: the project's headline ratios.
//!
//! Processor time over plain SQLite's, in a folder in memory where there is one: what capture
//! costs, without the disk's share. On a disk both have to wait for, the ratios are nearer to 1.

use super::{measure_in, memory, show};
use crate::Result;
use crate::cli::Quick;
use crate::compare::{self, Group};
use crate::engine::{Engine, Fold, Keys};
use crate::params::Settings;
use crate::run::Plan;
use crate::stats::Summary;
use crate::table::{self, Style, number};
use crate::workload::Workload;
use crate::workload::micro::Micro;
use crate::workload::tpcc::{Length, Tpcc};

const ENGINES: [Engine; 5] = [
    Engine::Plain,
    Engine::Replica(Fold::Never),
    Engine::Improved(Fold::Never),
    Engine::Original(Keys::Indexed),
    Engine::Again,
];

/// The settings of the two journal modes that applications use.
pub fn modes() -> [Settings; 2] {
    [("wal", "normal"), ("delete", "full")].map(|(mode, synchronous)| {
        Settings::default()
            .with("foreign_keys", "off")
            .with("synchronous", synchronous)
            .with("journal_mode", mode)
    })
}

pub fn run(args: &Quick) -> Result<()> {
    let mut plans = Vec::new();
    for settings in modes() {
        let length = Length::Transactions(700);
        let tpcc = Tpcc { warehouses: 1, scale: 10, length, fold_after_load: false };
        let bulk = Micro { rows: vec![10_000], ..Micro::default() };
        let single =
            Micro { rows: vec![2_000], transaction: 1, populate: 10_000, ..Micro::default() };
        let workloads: [(&str, Box<dyn Workload>); 3] =
            [("tpcc", Box::new(tpcc)), ("bulk", Box::new(bulk)), ("single", Box::new(single))];
        for (name, workload) in workloads {
            plans.push(Plan {
                workload,
                engines: ENGINES.to_vec(),
                settings: settings.clone(),
                rounds: args.rounds,
                warm_up: 1,
                seed: 1,
                name: name.to_owned(),
                dir: None,
            });
        }
    }
    let records = measure_in(&args.place, &memory(), plans)?;
    if args.details {
        show::print(&records, args.place.markdown);
    }
    let groups = compare::group(&records);
    let style = if args.place.markdown { Style::Markdown } else { Style::Terminal };
    say!("{}\n", headline(&groups, style));
    let vague = groups.iter().flat_map(Group::rows).any(|r| r.cost.is_some_and(|c| c.is_vague()));
    if vague {
        say!("  ?: too few rounds or too much noise to conclude; see --rounds");
    }
    if let Some(parameters) = groups.first().and_then(Group::parameters) {
        parameters.lines().iter().for_each(|line| say!("  {line}"));
    }
    Ok(())
}

/// The table: a line a figure, a column for each engine in each journal mode.
pub fn headline(groups: &[Group<'_>], style: Style) -> String {
    let named = |name: &str| -> Vec<&Group<'_>> {
        let is = |g: &&Group<'_>| g.name() == name;
        groups.iter().filter(is).collect()
    };
    let shown = &ENGINES[1..];
    let mut header = vec!["over plain SQLite".to_owned()];
    for group in named("tpcc") {
        let mode = group.parameters().map_or("", |p| p.asked().journal_mode()).to_uppercase();
        header.extend(shown.iter().map(|engine| format!("{engine} {mode}")));
    }
    let ratio = |name: &str, phase: &str, of: &dyn Fn(Summary) -> f64| {
        let mut cells = Vec::new();
        for group in named(name) {
            for engine in shown {
                let cost = group.row(*engine, phase).and_then(|row| row.cost);
                cells.push(cost.map_or(String::new(), |c| {
                    format!("{}{}", number(of(c)), if c.is_vague() { " ?" } else { "" })
                }));
            }
        }
        cells
    };
    let size = |name: &str, fact: &str| {
        let mut cells = Vec::new();
        for group in named(name) {
            let facts = group.facts();
            let values = facts.get(fact);
            for engine in shown {
                let found = values.and_then(|v| v.iter().find(|(e, _, _)| e == engine));
                cells.push(found.and_then(|(_, _, r)| *r).map(number).unwrap_or_default());
            }
        }
        cells
    };
    let cost = |c: Summary| c.median;
    let mut rows = Vec::new();
    let mut line = |what: &str, cells: Vec<String>| {
        rows.push([vec![what.to_owned()], cells].concat());
    };
    line("TPC-C throughput", ratio("tpcc", "all transactions", &|c| 1.0 / c.median));
    line("TPC-C load time", ratio("tpcc", "load", &cost));
    line("TPC-C file after load", size("tpcc", "bytes after load"));
    for phase in ["insert", "update", "delete"] {
        line(&format!("{phase}, 10,000 a transaction: time"), ratio("bulk", phase, &cost));
    }
    for phase in ["insert", "update", "delete"] {
        line(&format!("{phase}, 1 a transaction: time"), ratio("single", phase, &cost));
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table::draw(style, &header, &rows)
}
