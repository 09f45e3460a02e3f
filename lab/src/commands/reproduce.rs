//! `reproduce`: a published experiment, beside what is measured here.

use super::{measure_with, memory};
use crate::Result;
use crate::cli::Reproduce;
use crate::compare::{self, Group};
use crate::table::Style;

pub fn run(args: &Reproduce) -> Result<()> {
    let experiment = args.experiment;
    let base = if experiment.in_memory() { memory() } else { std::env::temp_dir() };
    let mut notes = Vec::new();
    let records = measure_with(&args.place, &base, |dir| {
        let prepared = experiment.prepare(dir, args.full)?;
        notes = prepared.notes;
        Ok((prepared.plans, prepared.mounts))
    })?;
    let groups = compare::group(&records);
    let style = if args.place.markdown { Style::Markdown } else { Style::Terminal };
    say!("{}\n", experiment.report(&groups, style));
    let lines = groups.first().and_then(Group::parameters).map(|p| p.lines()).unwrap_or_default();
    notes.iter().chain(&lines).for_each(|line| say!("  {line}"));
    Ok(())
}
