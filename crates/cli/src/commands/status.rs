use super::open;
use crate::error::Result;
use crate::report::{Report, lines, not_here, rows, time};
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
    let mut told =
        vec![format!("site {}{called}, database {}", replica.site(), replica.database())];
    for (table, p) in &status.pending {
        let (i, u, d) = (p.inserted, p.updated, p.deleted);
        told.push(format!("not folded: {table}: {i} inserted, {u} updated, {d} deleted"));
    }
    for table in &status.uncaptured {
        told.push(format!(
            "may have been written unnoticed: {table}; the next fold compares all rows with what they showed"
        ));
    }
    for s in &status.paused {
        told.push(format!("not replicated any more: {}: {}", s.name, s.why));
    }
    let names: Vec<&str> =
        status.skipped.iter().filter(|s| !status.paused.contains(s)).map(|s| &*s.name).collect();
    if !names.is_empty() {
        told.push(format!("not replicated: {}; synqlite init says why", names.join(", ")));
    }
    told.extend(status.kept.iter().map(not_here));
    for (r, unpushed) in remotes {
        let when = |ms: Option<i64>| ms.map_or("never".to_owned(), time);
        told.push(format!(
            "remote {} {}: pushed {}, pulled {}, not pushed: {}",
            r.name,
            r.url,
            when(r.pushed),
            when(r.pulled),
            rows(unpushed.unsigned_abs())
        ));
    }
    if status.arriving > 0 {
        let left = rows(status.arriving);
        told.push(format!("not merged yet: {left} that arrived; sync goes on with them"));
    }
    for (url, a) in aside {
        let of = if a.table.is_empty() { String::new() } else { format!(", table {}", a.table) };
        let (name, site) = (&a.name, &a.site);
        told.push(format!(
            "set aside: `{name}` of site {site}{of}, in {url}: {}. {}",
            a.why, a.hint
        ));
    }
    told.push(match questions {
        0 => "no open conflicts".to_owned(),
        n => format!("open conflicts: {n}; see: synqlite conflicts"),
    });
    told.extend(super::decided(*decided));
    Ok(Report::new(found.json(&replica), lines(told)))
}
