//! The thesis: its tables 15 to 18 (insert, update, delete), 20, 22 and 27 (TPC-C).

use super::{Claims, cell, cost, find, rate};
use crate::compare::Group;
use crate::engine::{Engine, Fold, Keys};
use crate::params::Settings;
use crate::run::Plan;
use crate::table::{self, Style};
use crate::workload::Workload;
use crate::workload::micro::Micro;
use crate::workload::tpcc::{Length, Tpcc};

const ORIGINAL: Engine = Engine::Original(Keys::Indexed);
const SCANNED: Engine = Engine::Original(Keys::Scanned);
const IMPROVED: Engine = Engine::Improved(Fold::Never);
const FOLDING: Engine = Engine::Improved(Fold::Transaction);
const REPLICA: Engine = Engine::Replica(Fold::Never);

/// Tables 15 to 17: rows a second of plain, improved, original.
const TABLES: [(&str, &str, [f64; 3]); 6] = [
    ("delete", "insert", [554_793.31, 156_145.518, 9_777.2]),
    ("delete", "update", [88_381.306, 49_081.882, 3_615.517]),
    ("delete", "delete", [103_457.016, 68_902.149, 8_217.511]),
    ("wal", "insert", [347_778.904, 127_091.246, 8_556.376]),
    ("wal", "update", [65_812.151, 34_134.442, 3_249.911]),
    ("wal", "delete", [64_572.802, 52_750.076, 6_444.405]),
];

/// Table 18, DELETE: rows a second with a fold after every transaction.
const FOLDED: [(&str, f64); 3] =
    [("insert", 51_607.011), ("update", 14_422.126), ("delete", 11_900.94)];

pub fn plans(full: bool) -> Vec<Plan> {
    let plan =
        |name: &str, workload: Box<dyn Workload>, engines: &[Engine], mode: &str, rounds| Plan {
            workload,
            engines: engines.to_vec(),
            settings: Settings::default()
                .with("foreign_keys", "off")
                .with("synchronous", "full")
                .with("journal_mode", mode),
            rounds,
            warm_up: 1,
            seed: 1,
            name: name.to_owned(),
            dir: None,
        };
    let mut plans = Vec::new();
    let sizes: &[u64] = if full { &[10_000, 20_000, 30_000, 40_000, 50_000] } else { &[10_000] };
    for mode in ["delete", "wal"] {
        for &rows in sizes {
            let micro = Micro {
                rows: vec![rows],
                transaction: rows,
                fold_between: false,
                ..Micro::default()
            };
            let engines = [Engine::Plain, REPLICA, IMPROVED, FOLDING, ORIGINAL, Engine::Again];
            plans.push(plan("micro", Box::new(micro), &engines, mode, 5));
        }
    }
    let tpcc = |scale, length| Tpcc { warehouses: 1, scale, length, fold_after_load: false };
    let (scale, length) =
        if full { (1, Length::Seconds(600)) } else { (10, Length::Transactions(1000)) };
    let engines = [Engine::Plain, REPLICA, IMPROVED, ORIGINAL, Engine::Again];
    plans.push(plan("tpcc", Box::new(tpcc(scale, length)), &engines, "delete", 5));
    // Scans make it quadratic, days at full size: two small parts of the rows show how it grows.
    for scale in [100, 50] {
        let length = Length::Transactions(200);
        let engines = [Engine::Plain, ORIGINAL, SCANNED];
        let name = format!("scanned {scale}");
        plans.push(plan(&name, Box::new(tpcc(scale, length)), &engines, "delete", 3));
    }
    plans
}

pub fn report(groups: &[Group<'_>], style: Style) -> String {
    let mut claims = Claims::default();
    let mut rows = Vec::new();
    for (mode, phase, published) in TABLES {
        let Some(group) = find(groups, "micro", mode) else { continue };
        let here = |engine| rate(group, engine, phase);
        let over = |engine| cost(group, engine, phase);
        rows.push(vec![
            format!("{phase}, {}", mode.to_uppercase()),
            cell(Some(published[0])),
            cell(here(Engine::Plain)),
            cell(Some(published[0] / published[1])),
            cell(over(IMPROVED)),
            cell(Some(published[0] / published[2])),
            cell(over(ORIGINAL)),
            cell(over(REPLICA)),
        ]);
    }
    let header = [
        "rows a second",
        "plain, published",
        "here",
        "cost of improved, published",
        "here",
        "cost of original, published",
        "here",
        "cost of a replica",
    ];
    let mut text = table::draw(style, &header, &rows);
    let each = |test: &dyn Fn(&Group<'_>, &str) -> Option<bool>| {
        let all = TABLES.iter().map(|(mode, phase, _)| test(find(groups, "micro", mode)?, phase));
        all.collect::<Option<Vec<bool>>>().map(|found| found.iter().all(|b| *b))
    };
    claims.add(
        "plain is faster than improved, improved faster than original, for every operation",
        each(&|g, p| {
            Some(1.0 < cost(g, IMPROVED, p)? && cost(g, IMPROVED, p)? < cost(g, ORIGINAL, p)?)
        }),
        "",
    );
    claims.add(
        "a journal makes the cost of capture at least three times smaller",
        each(&|g, p| Some(cost(g, ORIGINAL, p)? > 3.0 * cost(g, IMPROVED, p)?)),
        "",
    );
    let folded = find(groups, "micro", "delete").map(|group| {
        let row = |(phase, published): &(&str, f64)| {
            let plain = TABLES.iter().find(|(m, p, _)| *m == "delete" && p == phase);
            vec![
                (*phase).to_owned(),
                cell(plain.map(|(_, _, v)| v[0] / published)),
                cell(cost(group, FOLDING, phase)),
                cell(plain.map(|(_, _, v)| v[0] / v[1])),
                cell(cost(group, IMPROVED, phase)),
            ]
        };
        let header =
            ["improved, DELETE", "folding, published", "here", "not folding, published", "here"];
        table::draw(style, &header, &FOLDED.iter().map(row).collect::<Vec<_>>())
    });
    text += &format!("\n\n{}", folded.unwrap_or_default());
    text += &format!("\n\n{}", tpcc(groups, style, &mut claims));
    format!("{text}\n\n{}", claims.text())
}

fn tpcc(groups: &[Group<'_>], style: Style, claims: &mut Claims) -> String {
    let Some(group) = find(groups, "tpcc", "delete") else { return String::new() };
    let scanned = |scale: u32, phase| {
        let group = find(groups, &format!("scanned {scale}"), "delete");
        cell(group.and_then(|g| cost(g, SCANNED, phase)))
    };
    let facts = group.facts();
    let size = |engine| {
        let values = facts.get("bytes after load")?;
        values.iter().find(|(e, _, _)| *e == engine)?.2
    };
    let throughput = |engine| cost(group, engine, "all transactions").map(|c| 1.0 / c);
    let load = |engine| cost(group, engine, "load");
    let mut rows = Vec::new();
    let mut line = |what: &str, published: [Option<f64>; 2], of: &dyn Fn(Engine) -> Option<f64>| {
        rows.push(vec![
            what.to_owned(),
            cell(published[0]),
            cell(of(IMPROVED)),
            cell(published[1]),
            cell(of(ORIGINAL)),
            cell(of(REPLICA)),
        ]);
    };
    line("throughput over plain", [Some(0.883), Some(0.008)], &throughput);
    line("load time over plain", [Some(1.38), Some(415.985)], &load);
    line("file over plain, after load", [Some(1.778), Some(4.879)], &size);
    claims.add(
        "TPC-C: plain, then improved, then original",
        throughput(IMPROVED).zip(throughput(ORIGINAL)).map(|(i, o)| o < i && i < 1.0),
        "",
    );
    claims.add(
        "the file of improved is about 1.8 times plain's, of original about 4.9 times",
        size(IMPROVED)
            .zip(size(ORIGINAL))
            .map(|(i, o)| (1.5..2.1).contains(&i) && (3.4..6.0).contains(&o)),
        &format!("{} and {}", cell(size(IMPROVED)), cell(size(ORIGINAL))),
    );
    claims.add(
        "original loads hundreds of times slower and reaches 0.8 % of plain's throughput",
        load(ORIGINAL).zip(throughput(ORIGINAL)).map(|(l, t)| l > 100.0 && t < 0.05),
        &format!(
            "load {} times, throughput {}; where its look-ups scan, load {} times at a hundredth \
             and {} times at a fiftieth of the rows, transactions {} and {} times as slow: it grows \
             with the rows",
            cell(load(ORIGINAL)),
            cell(throughput(ORIGINAL)),
            scanned(100, "load"),
            scanned(50, "load"),
            scanned(100, "all transactions"),
            scanned(50, "all transactions"),
        ),
    );
    let header =
        ["TPC-C, DELETE", "improved, published", "here", "original, published", "here", "replica"];
    table::draw(style, &header, &rows)
}
