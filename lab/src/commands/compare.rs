//! `compare`: two runs, side by side, if they differ in nothing but what is compared.

use crate::cli::Compare;
use crate::compare;
use crate::engine::Engine;
use crate::meter::Phase;
use crate::record::{self, Record};
use crate::stats::Summary;
use crate::table::{self, Style, interval, number};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Results that differ in their round only.
struct Series {
    records: Vec<Record>,
}

impl Series {
    fn first(&self) -> &Record {
        &self.records[0]
    }

    fn label(&self) -> String {
        let p = &self.first().parameters;
        format!("{} {}, {}", p.workload().name, p.engine(), p.asked().label())
    }

    fn values(&self, phase: &str, of: impl Fn(&Phase) -> f64) -> Vec<f64> {
        let phases = self.records.iter().flat_map(|r| &r.outcome.phases);
        phases.filter(|p| p.name == phase).map(of).collect()
    }
}

/// FILE or FILE:ENGINE.
fn parse(text: &str) -> Result<(PathBuf, Option<Engine>)> {
    let mut cuts = text.match_indices(':').map(|(at, _)| at);
    if Path::new(text).exists() {
        return Ok((text.into(), None));
    }
    match cuts.find(|at| Path::new(&text[..*at]).exists()) {
        Some(at) => Ok((text[..at].into(), Some(text[at + 1..].parse()?))),
        None => Err(Error::Bad(format!("there is no results file {text}"))),
    }
}

fn read(text: &str, force: bool) -> Result<Vec<Series>> {
    let (path, engine) = parse(text)?;
    let results = record::read(&path, force)?;
    if let Some(why) = &results.cut {
        eprintln!("note: {}: {why}", path.display());
    }
    let mut series: Vec<Series> = Vec::new();
    let wanted = |r: &Record| engine.is_none_or(|e| r.parameters.engine() == e);
    for group in compare::group(&results.records) {
        for (_, records) in group.engines {
            let records: Vec<Record> = records.into_iter().filter(|r| wanted(r)).cloned().collect();
            if !records.is_empty() {
                series.push(Series { records });
            }
        }
    }
    if series.is_empty() {
        return Err(Error::Bad(format!("{text} holds no such results")));
    }
    Ok(series)
}

pub fn run(args: &Compare) -> Result<()> {
    let (ours, theirs) = (read(&args.a, args.force)?, read(&args.b, args.force)?);
    let asked: Vec<&str> = args.by.iter().map(String::as_str).collect();
    check(&asked, ours.iter().chain(&theirs))?;
    let by = implied(&args.by);
    let by: Vec<&str> = by.iter().map(String::as_str).collect();
    let style = if args.markdown { Style::Markdown } else { Style::Terminal };
    let mut pairs = Vec::new();
    let mut unlike = Vec::new();
    for a in &ours {
        let differences = |b: &Series| a.first().parameters.differences(&b.first().parameters, &by);
        let Some(b) = theirs.iter().min_by_key(|b| differences(b).len()) else { continue };
        let found = differences(b);
        if !found.is_empty() {
            unlike.push(format!("{} / {}:", a.label(), b.label()));
            unlike.extend(found.iter().map(|line| format!("  {line}")));
        }
        pairs.push((a, b, found));
    }
    if !unlike.is_empty() && !args.force {
        return Err(Error::Incomparable(unlike.join("\n")));
    }
    for (a, b, differences) in pairs {
        print(a, b, &differences, style);
    }
    Ok(())
}

/// What is compared, with what cannot be alike when it differs: who took turns, and what SQLite says
/// of a pragma that was asked for.
fn implied(by: &[String]) -> Vec<String> {
    let mut all = by.to_vec();
    for name in by {
        match name.strip_prefix("asked") {
            Some("") => all.extend(["sqlite.pragmas", "sqlite.triggers"].map(str::to_owned)),
            Some(".no_triggers") => all.push("sqlite.triggers".to_owned()),
            Some(pragma) => all.push(format!("sqlite{pragma}")),
            None if name == "engine" => all.extend(["round.in_turn", "store"].map(str::to_owned)),
            None => {}
        }
    }
    all
}

/// Refuses to compare by what is no parameter.
fn check<'a>(by: &[&str], series: impl Iterator<Item = &'a Series>) -> Result<()> {
    let paths = series.flat_map(|s| s.first().parameters.comparable());
    let mut known: Vec<String> = paths.map(|(path, _)| path).collect();
    let tops: Vec<String> =
        known.iter().map(|p| p.split('.').next().unwrap_or_default().to_owned()).collect();
    known.extend(tops);
    known.sort();
    known.dedup();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for name in by {
        if !known.iter().any(|k| k == name || k.starts_with(&format!("{name}."))) {
            return Err(Error::unknown("parameter", name, &known));
        }
    }
    Ok(())
}

fn print(a: &Series, b: &Series, differences: &[String], style: Style) {
    say!("{}  against  {}\n", b.label(), a.label());
    let mut lines = Vec::new();
    for phase in &a.first().outcome.phases {
        let name = &phase.name;
        let rate = |s: &Series| Summary::of(&s.values(name, |p| p.operations as f64 / p.wall));
        let ratio = |of: fn(&Phase) -> f64| {
            interval(&Summary::of_ratios(&b.values(name, of), &a.values(name, of)))
        };
        let median = |s: &Series| rate(s).map(|r| number(r.median)).unwrap_or_default();
        lines.push(vec![
            name.clone(),
            median(a),
            median(b),
            ratio(|p| p.processor),
            ratio(|p| p.wall),
        ]);
    }
    let header = ["phase", "A, operations/s", "B, operations/s", "B / A, processor", "B / A, wall"];
    say!("{}\n", table::draw(style, &header, &lines));
    let turns = |s: &Series| s.first().parameters.round().in_turn.clone();
    let one_run = a.first().parameters.program() == b.first().parameters.program()
        && turns(a) == turns(b)
        && turns(a).contains(&b.first().parameters.engine())
        && a.first().parameters.engine() != b.first().parameters.engine();
    if !one_run {
        say!(
            "  the two did not take turns: what changed on the machine in between is in the ratio"
        );
    }
    for line in differences {
        say!("  UNLIKE: {line}");
    }
    say!("");
}
