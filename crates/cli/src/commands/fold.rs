use super::open;
use crate::error::Result;
use crate::report::{Report, rows, seconds};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

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
    let folded = open(&args.db)?.fold()?;
    let time = since.elapsed();
    let text = format!("folded {} in {:.3} s", rows(folded.rows), time.as_secs_f64());
    let json = json!({"rows": folded.rows, "columns": folded.columns, "seconds": seconds(time)});
    Ok(Report::new(json, text))
}
