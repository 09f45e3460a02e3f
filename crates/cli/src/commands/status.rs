use super::open;
use crate::error::Result;
use crate::report::{Report, rows, time};
use std::fmt::Write;
use std::path::PathBuf;
use synqlite_front::answer::State;

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
    let found = State::of(&replica)?;
    let State { status, remotes, aside, questions, decided, sites, .. } = &found;
    let called = sites.name(replica.site()).map_or(String::new(), |name| format!(" ({name})"));
    let mut text = format!("site {}{called}, database {}", replica.site(), replica.database());
    for (table, p) in &status.pending {
        let (i, u, d) = (p.inserted, p.updated, p.deleted);
        let _ = write!(text, "\nnot folded: {table}: {i} inserted, {u} updated, {d} deleted");
    }
    if !status.skipped.is_empty() {
        let names: Vec<&str> = status.skipped.iter().map(|s| &*s.name).collect();
        let _ = write!(text, "\nnot replicated: {}; synqlite init says why", names.join(", "));
    }
    for k in &status.kept {
        let what = match &k.column {
            Some(column) => format!("column {column} of {}", k.table),
            None => format!("table {}", k.table),
        };
        let _ =
            write!(text, "\nnot here: {what}, kept for {}; shown once it is made", rows(k.rows));
    }
    for (r, unpushed) in remotes {
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
    }
    if status.arriving > 0 {
        let left = rows(status.arriving);
        let _ = write!(text, "\nnot merged yet: {left} that arrived; sync goes on with them");
    }
    for (url, a) in aside {
        let of = if a.table.is_empty() { String::new() } else { format!(", table {}", a.table) };
        let _ = write!(
            text,
            "\nset aside: `{}` of site {}{of}, in {url}: {}. {}",
            a.name, a.site, a.why, a.hint
        );
    }
    let _ = match questions {
        0 => write!(text, "\nno open conflicts"),
        n => write!(text, "\nopen conflicts: {n}; see: synqlite conflicts"),
    };
    text.extend(super::decided(*decided).map(|line| format!("\n{line}")));
    Ok(Report::new(found.json(&replica), text))
}
