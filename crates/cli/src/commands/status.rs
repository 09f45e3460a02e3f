use super::open;
use crate::error::Result;
use crate::report::{Report, rows, time};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Shows what is not folded yet, what was not pushed yet, which tables are not replicated, and the
/// last exchange with each remote, and what was set aside there because it cannot be merged.
///
/// Changes nothing, so what it says of folding is what the next fold would do.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
}

pub fn run(args: &Args) -> Result<Report> {
    let replica = open(&args.db)?;
    let status = replica.status()?;
    let mut text = format!("site {}, database {}", replica.site(), replica.database());
    let mut pending = Map::new();
    for (table, p) in status.pending {
        let (i, u, d) = (p.inserted, p.updated, p.deleted);
        let _ = write!(text, "\nnot folded: {table}: {i} inserted, {u} updated, {d} deleted");
        pending.insert(table, json!({"inserted": i, "updated": u, "deleted": d}));
    }
    if !status.skipped.is_empty() {
        let names: Vec<&str> = status.skipped.iter().map(|s| &*s.name).collect();
        let _ = write!(text, "\nnot replicated: {}; synqlite init says why", names.join(", "));
    }
    let skipped = status.skipped.iter().map(|s| json!({"name": s.name, "why": s.why}));
    let skipped: Vec<Value> = skipped.collect();
    let mut remotes: Vec<Value> = Vec::new();
    for r in replica.remotes()? {
        let unpushed = replica.changed_since(r.sent.map_or(0, |sent| sent.local_seq))?;
        let when = |ms: Option<i64>| ms.map_or("never".to_owned(), time);
        let _ = write!(
            text,
            "\nremote {} {}: pushed {}, pulled {}, not pushed: {}",
            r.name,
            r.url,
            when(r.pushed),
            when(r.pulled),
            rows(unpushed.unsigned_abs())
        );
        remotes.push(json!({
            "name": r.name, "url": r.url, "pushed": r.pushed.map(time), "pulled": r.pulled.map(time),
            "unpushed": unpushed,
        }));
    }
    if status.arriving > 0 {
        let left = rows(status.arriving);
        let _ = write!(text, "\nnot merged yet: {left} that arrived; sync goes on with them");
    }
    let mut aside: Vec<Value> = Vec::new();
    for (url, a) in replica.aside()? {
        let of = if a.table.is_empty() { String::new() } else { format!(", table {}", a.table) };
        let _ = write!(
            text,
            "\nset aside: `{}` of site {}{of}, in {url}: {}. {}",
            a.name, a.site, a.why, a.hint
        );
        aside.push(json!({
            "remote": url, "name": a.name, "site": a.site, "table": a.table, "why": a.why, "hint": a.hint,
        }));
    }
    let conflicts = replica.open_conflicts()?;
    let _ = match conflicts {
        0 => write!(text, "\nno open conflicts"),
        n => write!(text, "\nopen conflicts: {n}; see: synqlite conflicts"),
    };
    let json = json!({
        "site": replica.site().to_string(),
        "database": replica.database().to_string(),
        "pending": pending,
        "unfolded": status.unfolded,
        "arriving": status.arriving,
        "skipped": skipped,
        "remotes": remotes,
        "set_aside": aside,
        "conflicts": conflicts,
    });
    Ok(Report::new(json, text))
}
