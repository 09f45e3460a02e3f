//! What results look like: the plots of a group, and one page for all of them.
//!
//! The page needs nothing but itself: style and plots are in it, no script, no font, no network. The
//! summary comes first; every figure has its parameters beside it.

use crate::Result;
use crate::compare::Group;
use crate::engine::Engine;
use crate::meter::Latency;
use crate::plot::{self, Bar, Scale};
use crate::table::{self, Cells};
use std::fmt::Write;

/// A plot and a name for its file.
pub struct Plot {
    /// Without an ending.
    pub name: String,
    /// SVG for a page; see [`plot::standalone`].
    pub svg: String,
    /// Its parameters, a line each.
    pub parameters: Vec<String>,
}

/// An engine in a sentence.
fn sqlite(engine: Engine) -> String {
    if engine == Engine::Plain { "plain SQLite".to_owned() } else { engine.to_string() }
}

fn names(group: &Group<'_>) -> Vec<String> {
    group.engines.iter().map(|(engine, _)| engine.to_string()).collect()
}

/// Phases with a bar for each engine.
fn by_engine(
    group: &Group<'_>,
    of: impl Fn(&crate::compare::Row) -> Option<(f64, (f64, f64))>,
) -> Vec<(String, Vec<Bar>)> {
    let mut categories = Vec::new();
    for phase in group.phases() {
        let engines = group.engines.iter().enumerate();
        let bars = engines.filter_map(|(i, (engine, _))| {
            let (value, interval) = of(&group.row(*engine, &phase)?)?;
            Some((i, value, Some(interval)))
        });
        let bars: Vec<Bar> = bars.collect();
        if !bars.is_empty() {
            categories.push((phase, bars));
        }
    }
    categories
}

/// The plots of one group: cost by engine, rates, latencies, and each round by itself.
pub fn plots(group: &Group<'_>) -> Result<Vec<Plot>> {
    let names = names(group);
    let title = group.title();
    let mut plots = Vec::new();
    let parameters = group.parameters().map(|p| p.lines()).unwrap_or_default();
    let mut add = |name: String, svg: String| {
        plots.push(Plot { name, svg, parameters: parameters.clone() });
    };
    let cost = by_engine(group, |row| row.cost.map(|c| (c.median, c.interval)));
    if !cost.is_empty() {
        let heading = format!("{title}: processor time over {}", sqlite(group.over));
        add("cost by engine".into(), plot::bars(&heading, &names, &cost, Scale::Common(1.0))?);
    }
    let rate = by_engine(group, |row| Some((row.rate.median, row.rate.interval)));
    let heading = format!("{title}: operations a second");
    add("rate by engine".into(), plot::bars(&heading, &names, &rate, Scale::Own)?);
    for phase in group.phases() {
        let curves: Vec<_> = group
            .engines
            .iter()
            .enumerate()
            .filter_map(|(i, (engine, records))| {
                let phases = records.iter().flat_map(|r| &r.outcome.phases);
                let found = phases.filter(|p| p.name == phase);
                let latency: &Latency = found.filter_map(|p| p.latency.as_ref()).next()?;
                let curve = latency.curve.iter().map(|(share, time)| (*time, *share));
                Some((engine.to_string(), i, curve.collect::<Vec<_>>()))
            })
            .collect();
        if !curves.is_empty() {
            let heading = format!("{title}: latency of {phase}, first round");
            let axes = ("microseconds", "share of transactions");
            add(format!("latency of {phase}"), plot::lines(&heading, axes, true, &curves)?);
        }
    }
    for phase in group.phases() {
        let rounds: Vec<_> = group
            .engines
            .iter()
            .enumerate()
            .map(|(i, (engine, records))| {
                let point = |(round, record): (usize, &&crate::record::Record)| {
                    let phase = record.outcome.phases.iter().find(|p| p.name == phase)?;
                    let cost = phase.processor * 1e6 / phase.operations.max(1) as f64;
                    Some((round as f64 + 1.0, cost))
                };
                (engine.to_string(), i, records.iter().enumerate().filter_map(point).collect())
            })
            .collect();
        let heading = format!("{title}: {phase}, round by round");
        let axes = ("round", "µs processor time an operation");
        add(format!("rounds of {phase}"), plot::lines(&heading, axes, false, &rounds)?);
    }
    Ok(plots)
}

/// For groups that differ in the journal mode: rates by mode, a plot for each engine.
pub fn by_journal_mode(groups: &[Group<'_>]) -> Result<Vec<Plot>> {
    fn of<'a>(group: &Group<'a>) -> Option<(&'a str, &'a crate::params::Workload)> {
        group.parameters().map(|p| (group.name(), p.workload()))
    }
    let mut plots = Vec::new();
    for (i, first) in groups.iter().enumerate() {
        if groups[..i].iter().any(|g| of(g) == of(first)) {
            continue;
        }
        let alike: Vec<&Group<'_>> = groups.iter().filter(|g| of(g) == of(first)).collect();
        let mode = |g: &Group<'_>| {
            g.parameters().map_or_else(String::new, |p| p.asked().journal_mode().to_uppercase())
        };
        let modes: Vec<String> = alike.iter().map(|g| mode(g)).collect();
        if modes.len() < 2 || modes.iter().enumerate().any(|(i, m)| modes[..i].contains(m)) {
            continue;
        }
        for (engine, _) in &first.engines {
            if *engine == Engine::Again {
                continue;
            }
            let mut categories = Vec::new();
            for phase in first.phases() {
                let bars = alike.iter().enumerate().filter_map(|(i, g)| {
                    let row = g.row(*engine, &phase)?;
                    Some((i, row.rate.median, Some(row.rate.interval)))
                });
                categories.push((phase.clone(), bars.collect::<Vec<Bar>>()));
            }
            categories.retain(|(_, bars)| !bars.is_empty());
            let title = first.title();
            let workload = title.split(',').next().unwrap_or_default();
            let heading = format!("{}: {engine}, operations a second by journal mode", workload);
            let svg = plot::bars(&heading, &modes, &categories, Scale::Own)?;
            let name = format!("{} {engine} by journal mode", workload);
            let parameters = alike.iter().filter_map(|g| {
                let lines = g.parameters()?.lines();
                Some([vec![format!("{}:", mode(g))], lines].concat())
            });
            plots.push(Plot { name, svg, parameters: parameters.flatten().collect() });
        }
    }
    Ok(plots)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn html_table((header, lines): &Cells) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
        cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let mut html = format!(
        "<div class=scroll><table><thead><tr>{}</tr></thead><tbody>",
        cells("th", &mut header.iter().map(String::as_str))
    );
    for line in lines {
        let _ = write!(html, "<tr>{}</tr>", cells("td", &mut line.iter().map(String::as_str)));
    }
    html + "</tbody></table></div>\n"
}

/// The ratios of all groups, engine by engine.
fn summary(groups: &[Group<'_>]) -> String {
    let mut engines: Vec<Engine> = Vec::new();
    for (engine, _) in groups.iter().flat_map(|g| &g.engines) {
        if *engine != groups[0].over && !engines.contains(engine) {
            engines.push(*engine);
        }
    }
    let mut lines = Vec::new();
    for group in groups {
        for phase in group.phases() {
            let cells = engines.iter().map(|engine| {
                table::interval(&group.row(*engine, &phase).and_then(|row| row.cost))
            });
            let cells: Vec<String> = cells.collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                lines.push([vec![group.title(), phase], cells].concat());
            }
        }
    }
    let mut html = String::from("<div class=scroll><table><thead><tr><th>run</th><th>phase</th>");
    for engine in &engines {
        let _ = write!(html, "<th>{engine}</th>");
    }
    html += "</tr></thead><tbody>";
    for line in lines {
        let cells: String = line.iter().map(|c| format!("<td>{}</td>", escape(c))).collect();
        let _ = write!(html, "<tr>{cells}</tr>");
    }
    html + "</tbody></table></div>\n"
}

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1240px;margin:2rem auto;padding:0 1rem;color:var(--ink);background:Canvas}
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:3rem;border-bottom:1px solid var(--faint)}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:2px 10px;text-align:right;white-space:nowrap}th{border-bottom:1px solid var(--faint)}
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}
.scroll{overflow-x:auto;margin:1rem 0}
figure{display:flex;flex-wrap:wrap;align-items:flex-start;gap:1rem;margin:1.5rem 0}
figure svg{flex:0 1 760px;max-width:100%;height:auto}
figcaption{flex:1 1 300px;font-size:12px;color:var(--ink);opacity:.85;overflow-wrap:anywhere}
figcaption ul,.notes{padding-left:1rem;margin:0}
";

/// The page.
pub fn page(groups: &[Group<'_>], notes: &[String]) -> Result<String> {
    let mut html = format!(
        "<!doctype html>\n<html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>SynQLite benchmarks</title>\n<style>\n{}{PAGE_STYLE}</style>\n\
         <h1>SynQLite benchmarks</h1>\n",
        plot::STYLE
    );
    let over = groups.first().map_or(Engine::Plain, |group| group.over);
    let again = if over == Engine::Plain {
        "; <em>again</em> is plain SQLite once more, so its distance from 1 is what this machine \
         cannot tell apart"
    } else {
        ""
    };
    let _ = writeln!(
        html,
        "<p>Processor time over that of {0}: the median of the ratios of each round, and its \
         95&nbsp;% interval. 1 costs as much as {0}{again}. A question mark: too vague to \
         conclude.</p>",
        sqlite(over)
    );
    html += &summary(groups);
    list(&mut html, "notes", notes);
    for group in groups {
        let _ = writeln!(html, "<h2>{}</h2>", escape(&group.title()));
        list(&mut html, "notes", &table::notes(group));
        // The picture of the costs, the figures behind it, the other pictures.
        let plots = plots(group)?;
        plots.iter().take(1).for_each(|plot| figure(&mut html, plot));
        html += &html_table(&table::cells_of_group(group));
        html += &html_table(&table::cells_of_latencies(group));
        html += &html_table(&table::cells_of_facts(group));
        plots.iter().skip(1).for_each(|plot| figure(&mut html, plot));
    }
    let by_mode = by_journal_mode(groups)?;
    if !by_mode.is_empty() {
        html += "<h2>By journal mode</h2>\n";
        by_mode.iter().for_each(|plot| figure(&mut html, plot));
    }
    Ok(html + "</html>\n")
}

fn list(html: &mut String, class: &str, lines: &[String]) {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
    let _ = writeln!(html, "<ul class={class}>{items}</ul>");
}

fn figure(html: &mut String, plot: &Plot) {
    let _ = write!(html, "<figure>{}<figcaption>", plot.svg);
    list(html, "parameters", &plot.parameters);
    html.push_str("</figcaption></figure>\n");
}
