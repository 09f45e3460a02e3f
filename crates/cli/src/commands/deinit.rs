use super::env;
use crate::error::Result;
use crate::report::{Report, count};
use crate::terminal;
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
    let done = Replica::deinit(&args.db, env().as_ref())?;
    let (db, removed) = (args.db.display(), done.removed);
    if !done.cleared {
        terminal::complain(&format!(
            "note: other programs use {db}, so what was removed stays in {db}-wal until the last of \
             them has closed it"
        ));
    }
    let n = removed.len() as i64;
    let text = format!(
        "{db} is an ordinary database again; removed {}",
        count(n.unsigned_abs(), "object")
    );
    Ok(Report::new(json!({"removed": removed}), text))
}
