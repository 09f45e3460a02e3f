use crate::demo;
use crate::error::Result;
use crate::report::Report;
use std::path::PathBuf;

/// Shows what SynQLite does: three sites edit one database offline, disagree, and converge.
///
/// Tells what each site did, what the merge decided and why, and how long each step took.
#[derive(clap::Args)]
pub struct Args {
    /// Keeps the databases in this folder, to look at afterwards.
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Leaves what stepped aside as it is, to settle it by hand: in a terminal, or on the page of
    /// `synqlite review`.
    #[arg(long, requires = "dir")]
    unsettled: bool,
    /// Another seed makes another database.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub fn run(args: &Args) -> Result<Report> {
    demo::run(args.dir.as_deref(), args.seed, !args.unsettled, super::env())
}
