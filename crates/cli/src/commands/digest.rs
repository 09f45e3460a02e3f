use super::open;
use crate::error::Result;
use crate::report::{Report, lines};
use std::path::PathBuf;
use synqlite_front::answer;

/// Prints a digest of every replicated row.
///
/// Equal on two replicas only if they show the same data, wherever and in whatever order the rows are
/// stored, and keep the same of tables and columns that they do not have. Then they are equal, with one
/// exception: where a column was added and dropped again on one of them with no command between, they may
/// differ though all rows are the same.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
}

pub fn run(args: &Args) -> Result<Report> {
    let found = open(&args.db)?.digest()?;
    let tables = found.tables.iter().map(|(table, digest)| format!("  {digest}  {table}"));
    let text = lines(std::iter::once(found.digest.clone()).chain(tables));
    Ok(Report::new(answer::digest(&found), text))
}
