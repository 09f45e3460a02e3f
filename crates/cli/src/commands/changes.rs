use super::open;
use crate::error::Result;
use crate::report::{Report, lines, time};
use std::path::PathBuf;
use synqlite_core::ChangedRow;
use synqlite_front::answer;

/// Shows the rows that changed since an earlier answer, whoever changed them: programs here, or a merge.
///
/// Each answer ends with a token, to be given the next time. Without one all rows are shown. A row that changed
/// several times is shown once, as it is now; one that went and is here again may be shown as updated, so keep
/// rows by inserting or replacing them. After a change of the schema all rows come anew. A row whose number a merge
/// changed is shown with the one that it had (`former`), as long as `conflicts --closed` tells of it.
///
/// With `--json` a blob among the `values` is a text like x'00ff', infinity is null, and text that is no UTF-8 has
/// marks in place of what cannot be read. A row with such a value has `exact` too: the literal in SQL of each.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// Token of the answer before.
    #[arg(long, value_name = "TOKEN")]
    since: Option<String>,
    /// Stops after about so many rows, but shows what came together whole, as the rows of a table when it became
    /// part of the replica; the next answer goes on there.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
}

pub fn run(args: &Args) -> Result<Report> {
    let mut replica = open(&args.db)?;
    let found = replica.changes(args.since.as_deref(), args.limit)?;
    let sites = replica.site_names()?;
    let line = |r: &ChangedRow| {
        let by = r.written.map_or("because of other rows".to_owned(), |(site, at_ms)| {
            format!("{}  {}", time(at_ms), sites.short(site))
        });
        let former = r.former.map_or(String::new(), |number| format!(" (was {number})"));
        let (change, columns) = (r.change.name(), r.columns.join(","));
        format!("{change} {} {}{former} {columns}  {by}", r.table, r.row)
    };
    let mut told: Vec<String> = found.rows.iter().map(line).collect();
    if found.more {
        told.push("more rows have changed; go on with the token".to_owned());
    }
    told.push(format!("token {}", found.token));
    Ok(Report::new(answer::changes(&found, &sites), lines(told)))
}
