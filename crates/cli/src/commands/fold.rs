use super::open;
use crate::error::Result;
use crate::report::{Report, rows, with_paused};
use crate::terminal::tell_paused;
use std::path::PathBuf;
use std::time::Instant;
use synqlite_front::answer;

/// Folds the journal: what was written since the last time gets its stamps.
///
/// Every command that synchronizes does so itself. Folding now and then keeps the journal short.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
}

pub fn run(args: &Args) -> Result<Report> {
    let since = Instant::now();
    let mut replica = open(&args.db)?;
    let folded = replica.fold()?;
    let (time, paused) = (since.elapsed(), replica.paused()?);
    tell_paused(&paused);
    let text = format!("folded {} in {:.3} s", rows(folded.rows), time.as_secs_f64());
    Ok(Report::new(with_paused(answer::folded(folded, time), &paused), text))
}
