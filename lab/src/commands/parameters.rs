//! `run parameters`: one parameter varied, all others held.

use super::measure_with;
use crate::Result;
use crate::cli::ParametersArgs;
use crate::compare;
use crate::study::{self, Study, VARIABLES};
use crate::table::Style;

pub fn run(args: &ParametersArgs) -> Result<()> {
    let all = || VARIABLES.map(str::to_owned).to_vec();
    let study = Study {
        vary: if args.vary.is_empty() { all() } else { args.vary.clone() },
        transactions: args.transactions,
        populate: args.populate,
        engines: args.engines.clone(),
        rounds: args.rounds,
        seed: args.seed,
    };
    study.check()?;
    let mut notes = Vec::new();
    let records = measure_with(&args.place, &std::env::temp_dir(), |dir| {
        let (plans, mounts, said) = study.plans(dir)?;
        notes = said;
        Ok((plans, mounts))
    })?;
    let style = if args.place.markdown { Style::Markdown } else { Style::Terminal };
    say!("{}\n", study::table(&records, style));
    let groups = compare::group(&records);
    let lines = groups.first().and_then(|g| g.parameters()).map(|p| p.lines());
    notes.iter().chain(lines.iter().flatten()).for_each(|line| say!("  {line}"));
    Ok(())
}
