use super::{open, row_key};
use crate::error::Result;
use crate::report::{Report, lines, time};
use std::path::PathBuf;
use synqlite_core::{Change, LogEntry, LogQuery, called};
use synqlite_front::answer;

/// Shows the history of changes, newest first: when, on which site, what.
///
/// Every change since `synqlite init --history`; without it the latest change of each cell. Changes that
/// are not folded yet come first, marked as pending. `synqlite undo --at` takes a time as it stands here.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// Only changes of this table.
    #[arg(long, value_name = "T")]
    table: Option<String>,
    /// Only changes of the row with this primary key, as SQL writes it, such as `7`, `'Oslo'` or `x'00ff'`, or
    /// the bare text; the parts of a composite key by commas.
    #[arg(long, value_name = "PK", allow_hyphen_values = true, value_parser = row_key)]
    row: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

pub fn run(args: &Args) -> Result<Report> {
    let (table, row) = (args.table.clone(), args.row.clone());
    let query = LogQuery { table, row, limit: Some(args.limit) };
    let replica = open(&args.db)?;
    let (entries, sites) = (replica.log(&query)?, replica.site_names()?);
    let line = |e: &LogEntry| {
        let (site, at) = (sites.short(e.site), time(e.at_ms));
        let columns: Vec<_> = e.columns.iter().map(|(c, v)| format!("{c}={v}")).collect();
        let kind = answer::change(e);
        // An insert says all that the row had.
        let name = e.name.as_deref().filter(|_| e.change != Change::Insert);
        let row = called(&e.row, name);
        let line = format!("{at}  {site}  {kind} {} {row} {}", e.table, columns.join(" "));
        line.trim_end().to_owned()
    };
    let text = match entries.is_empty() {
        true if args.limit == 0 => "none of the changes, as the limit is 0".to_owned(),
        true => "no changes".to_owned(),
        false => lines(entries.iter().map(line)),
    };
    Ok(Report::new(answer::log(&entries, &sites), text))
}
