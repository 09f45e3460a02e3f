//! `table`: prints results.

use crate::Result;
use crate::cli::Select;
use crate::compare::{self, Group};
use crate::record::{self, Record};
use crate::table::{self, Style};

pub fn table(args: &Select) -> Result<()> {
    let records = select(args)?;
    print(&records, args.markdown);
    Ok(())
}

/// Reads what a selection names.
pub fn select(args: &Select) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for file in &args.files {
        let results = record::read(file, args.force)?;
        if let Some(why) = results.cut {
            eprintln!("note: {}: {why}", file.display());
        }
        records.extend(results.records);
    }
    records.retain(|r| {
        let p = &r.parameters;
        args.name.as_ref().is_none_or(|name| r.name.starts_with(name.as_str()))
            && (args.engines.is_empty() || args.engines.contains(&p.engine()))
            && args.workload.as_ref().is_none_or(|name| p.workload().name == *name)
    });
    Ok(records)
}

/// Prints every group with its parameters.
pub fn print(records: &[Record], markdown: bool) {
    let groups = compare::group(records);
    if groups.is_empty() {
        println!("no results");
    }
    for group in groups {
        print_group(&group, if markdown { Style::Markdown } else { Style::Terminal });
    }
}

fn print_group(group: &Group<'_>, style: Style) {
    let bullet = if style == Style::Markdown { "- " } else { "  " };
    let heading = if style == Style::Markdown { "## " } else { "" };
    println!("{heading}{}\n", group.title());
    for table in [
        table::of_group(group, style),
        table::of_latencies(group, style),
        table::of_facts(group, style),
    ] {
        if !table.is_empty() {
            println!("{table}\n");
        }
    }
    for line in table::notes(group) {
        println!("{bullet}{line}");
    }
    for line in group.parameters().map(|p| p.lines()).unwrap_or_default() {
        println!("{bullet}{line}");
    }
    println!();
}
