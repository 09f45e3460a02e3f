//! `run`: a workload on some engines.

use super::{measure, parameters, show};
use crate::Result;
use crate::cli::{Common, Workloads};
use crate::run::Plan;
use crate::workload::Workload;

pub fn run(workload: Workloads) -> Result<()> {
    match workload {
        Workloads::Micro(args) => {
            let all = args.all()?;
            run_all(&args.common, &|| boxed(&all))
        }
        Workloads::Mobibench(args) => {
            let all = args.all()?;
            run_all(&args.common, &|| boxed(&all))
        }
        Workloads::Sync(args) => {
            let all = args.all()?;
            run_all(&args.common, &|| boxed(&all))
        }
        Workloads::Bystander(args) => run_all(&args.common, &|| boxed(&args.all())),
        Workloads::Brief(args) => {
            let all = args.all()?;
            run_all(&args.common, &|| boxed(&all))
        }
        Workloads::Notice(args) => run_all(&args.common, &|| boxed(&args.all())),
        Workloads::Hub(args) => run_all(&args.common, &|| boxed(&[args.workload()])),
        // Nothing of it grows warm: each turn takes minutes, with files and a hub of its own.
        Workloads::Sites(args) => {
            let common = Common { warm_up: 0, ..args.common.clone() };
            run_all(&common, &|| boxed(&[args.workload()]))
        }
        Workloads::Parameters(args) => parameters::run(&args),
        Workloads::Kv(args) => run_all(&args.common, &|| boxed(&[args.workload()])),
        Workloads::Tpcc(args) => {
            let tpcc = args.workload()?;
            run_all(&args.common, &|| boxed(std::slice::from_ref(&tpcc)))
        }
    }
}

fn boxed<W: Workload + Clone + 'static>(all: &[W]) -> Vec<Box<dyn Workload>> {
    all.iter().map(|workload| Box::new(workload.clone()) as Box<dyn Workload>).collect()
}

fn run_all(common: &Common, workloads: &dyn Fn() -> Vec<Box<dyn Workload>>) -> Result<()> {
    let mut plans = Vec::new();
    for settings in common.settings()? {
        for workload in workloads() {
            plans.push(Plan {
                workload,
                engines: common.engines.clone(),
                settings: settings.clone(),
                rounds: common.rounds,
                warm_up: common.warm_up,
                seed: common.seed,
                name: common.place.name.clone(),
                dir: None,
            });
        }
    }
    let records = measure(&common.place, plans)?;
    show::print(&records, common.place.markdown);
    Ok(())
}
