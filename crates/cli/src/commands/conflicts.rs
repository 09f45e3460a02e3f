use super::open;
use crate::error::Result;
use crate::record::{self, DIGITS, Teller};
use crate::report::{Report, time};
use crate::terminal;
use serde_json::json;
use std::path::PathBuf;
use synqlite_core::{Closed, ClosedBy, Conflict, Replica, the_row};
use synqlite_front::answer;

/// Lists what merges displaced, and settles it: rows that do not show what was written, because a
/// declared constraint would break.
///
/// Nothing is lost: the row is kept in full, and comes back by itself when its obstacle goes, for
/// example when the row that has its e-mail address is deleted or gets another one. All sites that
/// have seen the same changes list the same records, and a record settled on one is settled on all.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// What to do with one record; without it, all open records are listed.
    #[arg(requires = "id")]
    verb: Option<Verb>,
    /// Its id, or the first digits of it.
    id: Option<String>,
    /// Lists the records that were open in this file and are closed, the latest first; 1,000 at most.
    #[arg(long, conflicts_with = "verb")]
    closed: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Verb {
    /// Shows this record alone, with all columns and what can be done.
    Show,
    /// Gives the row what it asked for; the row that has it steps aside.
    Prefer,
    /// Deletes the hidden row.
    Discard,
    /// Brings back the deleted row that this one refers to.
    Restore,
    /// Takes what is shown for what was meant.
    Accept,
}

pub fn run(args: &Args) -> Result<Report> {
    let mut replica = open(&args.db)?;
    if args.closed {
        return Ok(closed(&replica.closed_conflicts()?));
    }
    let id = args.id.as_deref().unwrap_or_default();
    let verb = match args.verb {
        None => return Ok(list(&replica, &replica.conflicts()?, None)),
        Some(Verb::Show) => {
            let mut conflicts = replica.conflicts()?;
            conflicts.retain(|c| c.id.starts_with(id));
            if conflicts.is_empty() {
                let what = format!("no open conflict has id {id}");
                return Err(synqlite_core::Error::Refused(what).into());
            }
            let db = args.db.display().to_string();
            return Ok(list(&replica, &conflicts, Some(&db)));
        }
        Some(Verb::Prefer) => synqlite_core::Verb::Prefer,
        Some(Verb::Discard) => synqlite_core::Verb::Discard,
        Some(Verb::Restore) => synqlite_core::Verb::Restore,
        Some(Verb::Accept) => synqlite_core::Verb::Accept,
    };
    let id = replica.settle_conflict(id, verb)?;
    let open = replica.open_conflicts()?;
    let text = format!("settled {}; open conflicts: {open}", &id[..DIGITS]);
    Ok(Report::new(json!({"settled": id, "open": open}), text))
}

/// The records; `whole` is the replica's name where they are shown one by one, in full.
fn list(replica: &Replica, conflicts: &[Conflict], whole: Option<&str>) -> Report {
    let here = replica.site().to_string();
    let teller = Teller { style: terminal::style(), here: &here[..DIGITS], whole };
    let texts = conflicts.iter().map(|conflict| {
        let mut text = String::new();
        teller.tell(&mut text, conflict);
        text
    });
    let text = match conflicts.is_empty() {
        true => "no open conflicts".to_owned(),
        false => texts.collect::<Vec<_>>().join("\n"),
    };
    Report::new(answer::conflicts(conflicts), text.trim_end())
}

/// What is over, and how it ended.
fn closed(records: &[Closed]) -> Report {
    let style = terminal::style();
    let mut text = String::new();
    for r in records {
        let id = r.id.as_ref().map_or(String::new(), |id| format!("{} ", &id[..DIGITS]));
        record::wrap(
            &mut text,
            style,
            &format!("{id}{} in {}, {}", r.kind, r.table, the_row(&r.row)),
        );
        if !r.what.is_empty() {
            let asked = if r.was_open { "asked for " } else { "" };
            record::wrap(&mut text, style, &format!("  {asked}{}", r.what));
        }
        let how = match &r.how {
            ClosedBy::Merge => "by a merge".to_owned(),
            ClosedBy::Write => "by a write here".to_owned(),
            ClosedBy::Schema => "by a change of the schema".to_owned(),
            ClosedBy::Policy => "by a change of policy".to_owned(),
            how => format!("by {}", how.name()),
        };
        let when = match r.was_open {
            true => format!("opened {}, closed {} UTC {how}", time(r.opened_ms), time(r.closed_ms)),
            false => format!("decided {} UTC {how}", time(r.closed_ms)),
        };
        record::wrap(&mut text, style, &format!("  {when}"));
    }
    if records.is_empty() {
        text = "no closed conflicts".into();
    }
    Report::new(answer::closed(records), text.trim_end())
}
