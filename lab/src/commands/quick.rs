//! `quick`: the project's headline ratios.

use super::{measure, show};
use crate::Result;
use crate::cli::Quick;
use crate::engine::{Engine, Fold, Keys};
use crate::params::Settings;
use crate::run::Plan;
use crate::workload::Workload;
use crate::workload::micro::Micro;

pub fn run(args: &Quick) -> Result<()> {
    let engines = vec![
        Engine::Plain,
        Engine::Replica(Fold::Never),
        Engine::Improved(Fold::Never),
        Engine::Original(Keys::Typed),
        Engine::Again,
    ];
    let mut plans = Vec::new();
    for (mode, synchronous) in [("wal", "normal"), ("delete", "full")] {
        let settings = Settings::default()
            .with("foreign_keys", "off")
            .with("synchronous", synchronous)
            .with("journal_mode", mode);
        let single =
            Micro { rows: vec![500], transaction: 1, populate: 10_000, ..Micro::default() };
        let bulk = Micro { rows: vec![10_000], ..Micro::default() };
        for (name, micro) in [("bulk", bulk), ("single", single)] {
            plans.push(Plan {
                workload: Box::new(micro) as Box<dyn Workload>,
                engines: engines.clone(),
                settings: settings.clone(),
                rounds: args.rounds,
                warm_up: 1,
                seed: 1,
                name: name.to_owned(),
                dir: None,
            });
        }
    }
    let records = measure(&args.place, &plans)?;
    show::print(&records, args.place.markdown);
    Ok(())
}
