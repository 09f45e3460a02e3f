//! `table`: prints results.

use crate::Result;
use crate::cli::{Select, Table};
use crate::compare::{self, Group};
use crate::engine::Engine;
use crate::record::{self, Record};
use crate::table::{self, Style};

pub fn table(args: &Table) -> Result<()> {
    let (records, notes) = select(&args.select)?;
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    print_over(&records, args.over, args.markdown);
    Ok(())
}

/// Reads what a selection names, and says which files are not whole.
pub fn select(args: &Select) -> Result<(Vec<Record>, Vec<String>)> {
    let (mut records, mut notes) = (Vec::new(), Vec::new());
    for file in &args.files {
        let results = record::read(file, args.force)?;
        notes.extend(results.cut.map(|why| format!("{}: {why}", file.display())));
        records.extend(results.records);
    }
    records.retain(|r| {
        let p = &r.parameters;
        args.name.as_ref().is_none_or(|name| r.name.starts_with(name.as_str()))
            && (args.engines.is_empty() || args.engines.contains(&p.engine()))
            && args.workload.as_ref().is_none_or(|name| p.workload().name == *name)
    });
    Ok((records, notes))
}

/// Prints every group with its parameters.
pub fn print(records: &[Record], markdown: bool) {
    print_over(records, Engine::Plain, markdown);
}

fn print_over(records: &[Record], over: Engine, markdown: bool) {
    let style = if markdown { Style::Markdown } else { Style::Terminal };
    let groups = compare::group_over(records, over);
    if groups.is_empty() {
        say!("no results");
    }
    groups.iter().for_each(|group| say!("{}", of_group(group, style)));
}

/// A group's heading, tables, notes and parameters.
pub fn of_group(group: &Group<'_>, style: Style) -> String {
    let (bullet, heading) = match style {
        Style::Markdown => ("- ", "## "),
        Style::Terminal => ("  ", ""),
    };
    let mut text = format!("{heading}{}\n\n", group.title());
    for table in [
        table::of_group(group, style),
        table::of_latencies(group, style),
        table::of_devices(group, style),
        table::of_facts(group, style),
    ] {
        if !table.is_empty() {
            text += &format!("{table}\n\n");
        }
    }
    let parameters = group.parameters().map(|p| p.lines()).unwrap_or_default();
    for line in table::notes(group).iter().chain(&parameters) {
        text += &format!("{bullet}{line}\n");
    }
    text
}
