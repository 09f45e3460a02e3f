//! The commands, one file each.

mod compare;
mod parameters;
mod quick;
mod report;
mod reproduce;
mod run;
mod show;
mod triggers;

use crate::cli::{Cli, Command, Place};
use crate::record::{Record, Sink};
use crate::run::{Bench, Plan};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Does what the command line says.
pub fn execute(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Run { workload } => run::run(workload),
        Command::Quick(args) => quick::run(&args),
        Command::Table(args) => show::table(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Report(args) => report::page(&args),
        Command::Plot(args) => report::plots(&args),
        Command::Compare(args) => compare::run(&args),
        Command::ServeHub { store } => crate::workload::hub::serve(&store),
        Command::Beat { db, commits } => crate::workload::notice::beat(&db, commits),
        Command::Triggers { db } => triggers::run(&db),
    }
}

/// Runs the plans where `place` says, by default in a temporary folder, and keeps the results there.
fn measure(place: &Place, plans: Vec<Plan>) -> Result<Vec<Record>> {
    measure_in(place, &std::env::temp_dir(), plans)
}

/// A folder in memory if the system has one, and the one for temporary files if not: for runs whose
/// result is processor time, which a disk only blurs.
fn memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

fn measure_in(place: &Place, base: &Path, plans: Vec<Plan>) -> Result<Vec<Record>> {
    measure_with(place, base, |_| Ok((plans, ())))
}

/// Runs the plans that are made once there is a folder. What they hold on to, such as mounts, is let
/// go before the folder is removed.
fn measure_with<Held>(
    place: &Place,
    base: &Path,
    plans: impl FnOnce(&Path) -> Result<(Vec<Plan>, Held)>,
) -> Result<Vec<Record>> {
    if cfg!(debug_assertions) {
        eprintln!("note: this is a debug build; its figures compare with nothing else");
    }
    let stop = Arc::new(AtomicBool::new(false));
    // The second interrupt ends the program at once.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let arm = signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        arm.map_err(|e| Error::Bad(format!("signals cannot be caught: {e}")))?;
    }
    let bench = Bench::new(place.dir.as_deref(), base, stop, place.quiet)?;
    let sink = place.out.as_deref().map(Sink::create).transpose()?;
    let (plans, held) = plans(bench.dir())?;
    let records = bench.run(&plans, sink);
    drop(held);
    records
}
