use crate::error::Result;
use crate::report::{Report, count};
use serde_json::json;
use std::path::PathBuf;
use synqlite_core::Replica;

/// Makes a replica an ordinary database again.
///
/// Removes every trace of replication. The application's schema and rows stay, exactly as
/// `sqlite3 DB .dump` shows them.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
}

pub fn run(args: &Args) -> Result<Report> {
    let removed = Replica::deinit(&args.db)?;
    let (db, n) = (args.db.display(), removed.len() as i64);
    let text = format!("{db} is an ordinary database again; removed {}", count(n, "object"));
    Ok(Report::new(json!({"removed": removed}), text))
}
