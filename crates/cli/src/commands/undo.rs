use super::{open, row_key};
use crate::error::{CommandError, Result};
use crate::report::{Report, count, grouped, time};
use std::fmt::Write;
use std::path::PathBuf;
use synqlite_core::{Change, Left, SiteNames, Taken, Undone, called, line, the_row, value_text};
use synqlite_front::answer;
use synqlite_front::undo::Said;

/// Takes back changes that were made on this site, as far as nobody has written since.
///
/// Each cell gets the value that it would have without them, rows that were inserted go, and deleted ones
/// come back with what they held. Changes of other sites are never touched: what anybody has written over,
/// and rows to which others refer, are left and listed, with the reason. All of it happens in one transaction
/// that keeps every constraint. The application's triggers do not fire: what they wrote is taken back with
/// the rest.
///
/// An undo is a change like any other: it goes to the other sites with the next sync, and can be taken back
/// itself.
///
/// Former values come from the history, so from `synqlite init --history` on, with which a replica is made or run again.
/// Without it only inserts and deletes are taken back, and the latest change of a key or a reference. What a
/// table held when the replica was made is no change. Of several writes of one cell between two commands
/// only the last is known.
///
/// Conflicts settled with `discard` or `accept` are changes too. They can be taken back once what made the
/// conflict is over: no other row has the value or the number that the row asked for, and the row that it refers
/// to is there. One settled with `prefer` is not taken back: prefer the row that stepped aside, which is listed
/// in its place.
///
/// Ends with status 1 if it left anything.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// All changes since then: `10m`, `2h` or `3d` ago, or a time (UTC) such as `2026-11-20 12:18:45.007`, as
    /// `synqlite log` shows it.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// None after then.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The changes of just this millisecond; a short transaction is in one or two.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["since", "until"])]
    at: Option<String>,
    /// Only changes of this table.
    #[arg(long, value_name = "T")]
    table: Option<String>,
    /// Only changes of the row with this primary key, as SQL writes it, such as `7`, `'Oslo'` or `x'00ff'`, or
    /// the bare text; the parts of a composite key by commas. Without a time, its latest.
    #[arg(long, value_name = "PK", requires = "table", allow_hyphen_values = true,
          value_parser = row_key)]
    row: Option<String>,
    /// Only says what it would do.
    #[arg(long)]
    dry_run: bool,
}

/// So many rows that were taken back, and as many changes that were left, are told to people.
const TOLD: usize = 20;

const EXAMPLE: &str = "\
Examples:
  synqlite undo notes.db --since 10m --dry-run        what the last ten minutes would lose
  synqlite undo notes.db --table note --row 7         the latest change of note 7
  synqlite undo notes.db --at '2026-11-20 12:18:45.007'";

pub fn run(args: &Args) -> Result<Report> {
    let said = Said {
        since: args.since.as_deref(),
        until: args.until.as_deref(),
        at: args.at.as_deref(),
        table: args.table.as_deref(),
        row: args.row.as_deref(),
    };
    let mut replica = open(&args.db)?;
    let what = said.selection()?;
    let undone = replica.undo(&what, args.dry_run)?;
    let sites = replica.site_names()?;
    let json = answer::undone(&undone, args.dry_run, &sites);
    let fault = format!("{} left", count(undone.left.len() as u64, "change"));
    let fault = (!undone.left.is_empty()).then(|| CommandError::new(fault));
    Ok(Report { fault, ..Report::new(json, text(&undone, args.dry_run, &sites)) })
}

fn text(undone: &Undone, dry_run: bool, sites: &SiteNames) -> String {
    let mut text = String::new();
    if undone.taken.is_empty() {
        text.push_str("nothing to take back\n");
    } else {
        let rows = count(undone.taken.len() as u64, "row");
        let took = if dry_run { "would take back" } else { "took back" };
        let _ = writeln!(text, "{took} changes of {rows}:");
    }
    for Taken { table, row, name, change, columns } in undone.taken.iter().take(TOLD) {
        let columns: Vec<String> =
            columns.iter().map(|(c, value)| format!("{c} = {}", value_text(value))).collect();
        let what = match change {
            Change::Insert => "was inserted, is gone",
            Change::Delete if columns.is_empty() => "was deleted, is here again",
            Change::Delete => "was deleted, is here again with ",
            _ => "",
        };
        let row = the_row(&called(row, name.as_deref()));
        let taken = format!("{table}, {row}: {what}{}", columns.join(", "));
        let _ = writeln!(text, "  {}", line(&taken, usize::MAX));
    }
    more(&mut text, undone.taken.len());
    if !undone.left.is_empty() {
        let _ = writeln!(text, "left:");
    }
    for Left { table, row, name, columns, why, by } in undone.left.iter().take(TOLD) {
        let row = the_row(&called(row, name.as_deref()));
        let _ = write!(text, "  {}", line(&format!("{table}, {row}: "), usize::MAX));
        if !columns.is_empty() {
            let _ = write!(text, "{}: ", line(&columns.join(", "), usize::MAX));
        }
        text.push_str(&line(why, usize::MAX));
        if let Some((site, at_ms)) = by {
            let _ = write!(text, " by {} at {} UTC", sites.spoken(*site), time(*at_ms));
        }
        text.push('\n');
    }
    more(&mut text, undone.left.len());
    text.trim_end().to_owned()
}

/// Says how many are not told.
fn more(text: &mut String, all: usize) {
    if let Some(more @ 1..) = all.checked_sub(TOLD) {
        let _ = writeln!(text, "  and {} more; --json lists all", grouped(more as u64));
    }
}
