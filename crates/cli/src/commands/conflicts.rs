use super::open;
use crate::error::Result;
use crate::report::Report;
use serde_json::{Map, Value as Json, json};
use std::fmt::Write;
use std::path::PathBuf;
use synqlite_core::Value;
use synqlite_core::conflicts::Conflict;

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
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Verb {
    /// Shows this record alone.
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
    let id = args.id.as_deref().unwrap_or_default();
    let verb = match args.verb {
        None => return Ok(list(&replica.conflicts()?)),
        Some(Verb::Show) => {
            let mut conflicts = replica.conflicts()?;
            conflicts.retain(|c| c.id.starts_with(id));
            if conflicts.is_empty() {
                let what = format!("no open conflict has id {id}");
                return Err(synqlite_core::Error::Refused(what).into());
            }
            return Ok(list(&conflicts));
        }
        Some(Verb::Prefer) => synqlite_core::Verb::Prefer,
        Some(Verb::Discard) => synqlite_core::Verb::Discard,
        Some(Verb::Restore) => synqlite_core::Verb::Restore,
        Some(Verb::Accept) => synqlite_core::Verb::Accept,
    };
    let id = replica.settle_conflict(id, verb)?;
    let open = replica.open_conflicts()?;
    let text = format!("settled {}; open conflicts: {open}", &id[..8]);
    Ok(Report::new(json!({"settled": id, "open": open}), text))
}

fn list(conflicts: &[Conflict]) -> Report {
    let records: Vec<Json> = conflicts.iter().map(record).collect();
    let mut text = String::new();
    for conflict in conflicts {
        describe(&mut text, conflict);
    }
    if conflicts.is_empty() {
        text = "no open conflicts".into();
    }
    Report::new(json!({ "conflicts": records }), text.trim_end())
}

fn record(conflict: &Conflict) -> Json {
    let sites: Vec<Json> = conflict
        .sites
        .iter()
        .map(|(site, at_ms)| json!({"site": site.to_string(), "at_ms": at_ms}))
        .collect();
    json!({
        "id": conflict.id,
        "table": conflict.table,
        "row": conflict.row,
        "kind": conflict.kind,
        "constraint": conflict.constraint,
        "shown": columns(&conflict.shown),
        "displaced": columns(&conflict.displaced),
        "winner": conflict.winner,
        "sites": sites,
    })
}

/// Values by column; `null` if there are none.
fn columns(values: &[(String, Value)]) -> Json {
    if values.is_empty() {
        return Json::Null;
    }
    let object: Map<String, Json> = values.iter().map(|(c, v)| (c.clone(), value(v))).collect();
    Json::Object(object)
}

/// Blobs as `x'…'`; integers and text as themselves.
fn value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(i) => json!(i),
        Value::Real(r) => json!(r),
        Value::Text(t) => json!(String::from_utf8_lossy(t)),
        Value::Blob(b) => {
            let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
            json!(format!("x'{hex}'"))
        }
    }
}

fn describe(out: &mut String, conflict: &Conflict) {
    let Conflict { id, table, row, kind, shown, displaced, winner, .. } = conflict;
    let _ = writeln!(out, "{} {kind} in {table}, row {row}", &id[..8]);
    if let Some(winner) = winner {
        let _ = writeln!(out, "  in favour of row {winner}");
    }
    for (column, written) in displaced {
        let mark = match shown.iter().find(|(c, _)| c == column) {
            Some((_, shown)) if shown == written => continue,
            Some((_, shown)) => format!("shown {}, ", value(shown)),
            None => String::new(),
        };
        let _ = writeln!(out, "  {column}: {mark}written {}", value(written));
    }
    if shown.is_empty() {
        let _ = writeln!(out, "  the row is hidden until its obstacle goes");
    }
}
