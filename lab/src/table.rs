//! Tables, in the terminal and as Markdown.

use crate::compare::{Group, Row};
use crate::device::Work;
use crate::engine::Engine;
use crate::stats::Summary;
use comfy_table::{CellAlignment, Table, presets};

/// How a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For a terminal.
    Terminal,
    /// For a document.
    Markdown,
}

/// A line below the header and nothing else.
const TERMINAL: &str = "     ──            ";

/// A table of these rows, first column to the left, the others to the right.
pub fn draw<S: AsRef<str>>(style: Style, header: &[S], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_preset(match style {
        Style::Terminal => TERMINAL,
        Style::Markdown => presets::ASCII_MARKDOWN,
    });
    table.set_header(header.iter().map(S::as_ref));
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Three significant digits, thousands separated.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs();
    let digits = match magnitude {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 0.995 || m == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |w| ("-", w));
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    format!("{sign}{out}{rest}")
}

/// `2.31 (2.25 to 2.40)`, marked where nothing can be concluded.
pub fn interval(summary: &Option<Summary>) -> String {
    match summary {
        None => String::new(),
        Some(s) => {
            let mark = if s.is_vague() { " ?" } else { "" };
            format!(
                "{} ({} to {}){mark}",
                number(s.median),
                number(s.interval.0),
                number(s.interval.1)
            )
        }
    }
}

/// Columns of [`of_group`]; `{}` is the engine over which ratios are.
const HEADER: [&str; 11] = [
    "phase",
    "engine",
    "operations/s",
    "difference",
    "µs processor/op",
    "× {}, processor (95 %)",
    "quartiles",
    "× {}, wall (95 %)",
    "file calls/txn",
    "syncs/txn",
    "KB written/txn",
];

fn header(columns: &[&str], over: Engine) -> Vec<String> {
    columns.iter().map(|column| column.replace("{}", &over.to_string())).collect()
}

/// The table of a group: rate, difference and ratio to plain or another, as the thesis's three, with
/// what stands behind them.
pub fn of_group(group: &Group<'_>, style: Style) -> String {
    let (header, lines) = cells_of_group(group);
    draw(style, &header, &lines)
}

/// Header and lines of a table.
pub type Cells = (Vec<String>, Vec<Vec<String>>);

/// The cells of [`of_group`].
pub fn cells_of_group(group: &Group<'_>) -> Cells {
    let rows = group.rows();
    let their_rate = |phase: &str| {
        let found = rows.iter().find(|r| r.engine == group.over && r.phase == phase);
        found.map(|r| r.rate.median)
    };
    let mut previous = String::new();
    let line = |row: &Row| {
        let difference = match their_rate(&row.phase) {
            Some(rate) if row.engine != group.over => number(row.rate.median - rate),
            _ => String::new(),
        };
        let quartiles = row.cost.map(|c| format!("{} to {}", number(c.lower), number(c.upper)));
        let phase = if previous == row.phase { String::new() } else { row.phase.clone() };
        previous.clone_from(&row.phase);
        vec![
            phase,
            row.engine.to_string(),
            number(row.rate.median),
            difference,
            number(row.processor.median),
            interval(&row.cost),
            quartiles.unwrap_or_default(),
            interval(&row.slowdown),
            row.calls.map(number).unwrap_or_default(),
            row.syncs.map(number).unwrap_or_default(),
            row.written_kb.map(number).unwrap_or_default(),
        ]
    };
    (header(&HEADER, group.over), rows.iter().map(line).collect())
}

/// Draws cells; nothing if there are no lines.
fn draw_some(style: Style, (header, lines): Cells) -> String {
    if lines.is_empty() { String::new() } else { draw(style, &header, &lines) }
}

/// The other figures of a group, such as sizes; empty if there are none.
pub fn of_facts(group: &Group<'_>, style: Style) -> String {
    draw_some(style, cells_of_facts(group))
}

/// The cells of [`of_facts`].
pub fn cells_of_facts(group: &Group<'_>) -> Cells {
    let mut lines = Vec::new();
    for (name, values) in group.facts() {
        for (engine, value, ratio) in values {
            let ratio = ratio.map(number).unwrap_or_default();
            lines.push(vec![name.clone(), engine.to_string(), number(value), ratio]);
        }
    }
    (header(&["figure", "engine", "value", "× {}"], group.over), lines)
}

/// Latencies of a group, in microseconds; empty if none were timed.
pub fn of_latencies(group: &Group<'_>, style: Style) -> String {
    draw_some(style, cells_of_latencies(group))
}

/// The cells of [`of_latencies`].
pub fn cells_of_latencies(group: &Group<'_>) -> Cells {
    let mut lines = Vec::new();
    for phase in group.phases() {
        for (engine, records) in &group.engines {
            let found = records.iter().flat_map(|r| &r.outcome.phases);
            let found: Vec<_> =
                found.filter(|p| p.name == phase).filter_map(|p| p.latency.as_ref()).collect();
            let median = |of: fn(&crate::meter::Latency) -> f64| {
                Summary::of(&found.iter().map(|l| of(l)).collect::<Vec<_>>())
                    .map(|s| number(s.median))
                    .unwrap_or_default()
            };
            if found.is_empty() {
                continue;
            }
            lines.push(vec![
                phase.clone(),
                engine.to_string(),
                median(|l| l.count as f64),
                median(|l| l.mean),
                median(|l| l.p50),
                median(|l| l.p90),
                median(|l| l.p99),
                median(|l| l.p999),
                median(|l| l.max),
            ]);
        }
    }
    let columns =
        ["latency, µs", "engine", "count", "mean", "p50", "p90", "p99", "p99.9", "maximum"];
    (header(&columns, group.over), lines)
}

/// What a transaction makes the device do; empty if nobody asked.
pub fn of_devices(group: &Group<'_>, style: Style) -> String {
    let mut lines = Vec::new();
    for phase in group.phases() {
        for (engine, _) in &group.engines {
            let Some(work) = group.work(*engine, &phase) else { continue };
            let Work { flushes: f, kilobytes: k } = work;
            let figures = [f.mean, f.p99, f.p999, f.max, k.mean, k.p99, k.p999, k.worst, k.max];
            let mut line = vec![phase.clone(), engine.to_string()];
            line.extend(figures.map(number));
            lines.push(line);
        }
    }
    let header = vec![
        "device, a transaction",
        "engine",
        "flushes, mean",
        "p99",
        "p99.9",
        "maximum",
        "KB, mean",
        "p99",
        "p99.9",
        "worst 0.1 %",
        "maximum",
    ];
    draw_some(style, (header.into_iter().map(str::to_owned).collect(), lines))
}

/// Whether any ratio of the group is too vague to conclude from, and how far plain SQLite is from
/// itself.
pub fn notes(group: &Group<'_>) -> Vec<String> {
    let rows = group.rows();
    let mut notes = Vec::new();
    let again: Vec<f64> = rows
        .iter()
        .filter(|r| r.engine == Engine::Again)
        .filter_map(|r| r.cost.map(|c| c.median))
        .filter(|_| group.over == Engine::Plain)
        .collect();
    if !again.is_empty() {
        let (low, high) = again.iter().fold((f64::MAX, 0_f64), |(l, h), &v| (l.min(v), h.max(v)));
        notes.push(format!(
            "resolution: plain SQLite against itself is {} to {} in processor time",
            number(low),
            number(high)
        ));
    }
    for (engine, records) in &group.engines {
        if let Some(label) = records.first().and_then(|r| r.parameters.store()) {
            notes.push(format!("{engine}: {}, {}", label.version, label.settings));
        }
    }
    if rows.iter().any(|r| r.cost.is_some_and(|c| c.is_vague())) {
        notes.push(
            "?: the rounds are too few or disagree too much to conclude from this ratio; \
             more rounds or a quieter machine will tell"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_thousands() {
        for (value, text) in [
            (0.0, "0.00"),
            (0.1234, "0.123"),
            (1.005, "1.00"),
            (12.34, "12.3"),
            (1234567.8, "1,234,568"),
            (-1234.0, "-1,234"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
