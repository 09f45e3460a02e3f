use super::open;
use crate::error::Result;
use crate::report::{Report, count, lines};
use std::path::PathBuf;
use synqlite_front::answer;

/// Checks the metadata against the tables, the constraints, and the database itself.
///
/// Exits with status 1 if there are problems, which standard output lists.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// Also works out anew what every row shows, which takes the time and memory of all rows; not while writes
    /// wait to be folded
    #[arg(long)]
    full: bool,
}

pub fn run(args: &Args) -> Result<Report> {
    let replica = open(&args.db)?;
    let problems = if args.full { replica.verify_full() } else { replica.verify() }?;
    let text = match problems.as_slice() {
        [] => format!("{}: no problems", args.db.display()),
        some => {
            // What SQLite says of a damaged file may have several lines.
            let told = some.iter().map(|problem| lines(problem.lines()).replace('\n', "\n    "));
            let told: Vec<String> = told.collect();
            format!("{}\n{}", count(some.len() as u64, "problem"), told.join("\n"))
        }
    };
    let report = Report::new(answer::problems(&problems), text);
    Ok(report.faulty(args.db.display(), problems.len()))
}
