//! Standard output and standard error.

use crate::error::Result;
use crate::progress;
use crate::sides::Style;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use synqlite_core::{Aside, Skipped, push_seen};
use synqlite_remote::{Restored, Waiting};

/// Something stands on standard output.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether a report was printed.
pub fn has_printed() -> bool {
    PRINTED.load(Ordering::Relaxed)
}

/// Writes a line to standard output.
pub fn print(text: &str) -> Result<()> {
    PRINTED.store(true, Ordering::Relaxed);
    progress::beside(|| {
        let mut out = std::io::stdout().lock();
        Ok(writeln!(out, "{text}").and_then(|()| out.flush())?)
    })
}

/// Writes a line to standard error, for what is not the result; between objects in JSON it is one too. Nothing in
/// it moves the cursor, whoever made the names in it.
pub fn complain(text: &str) {
    let mut seen = String::with_capacity(text.len());
    text.chars().for_each(|c| push_seen(&mut seen, c));
    tell(text, &seen);
}

/// The same of what is laid out, with colours of our own.
pub fn lay_out(text: &str) {
    tell(text, text);
}

fn tell(text: &str, to_people: &str) {
    if text.is_empty() {
        return;
    }
    let line = match progress::is_json() {
        true => json!({"note": text.strip_prefix("note: ").unwrap_or(text)}).to_string(),
        false => to_people.to_owned(),
    };
    // There is no third place to complain to.
    let _ = progress::beside(|| writeln!(std::io::stderr(), "{line}"));
}

/// Asks on standard error, on a line that is not ended.
pub fn prompt(text: &str) {
    let _ = progress::beside(|| {
        let mut out = std::io::stderr();
        write!(out, "{text}").and_then(|()| out.flush())
    });
}

/// Tells of batches that wait.
pub fn tell_waiting(waiting: &[Waiting]) {
    for w in waiting {
        complain(&format!("waiting for `{}`: {}", w.name, w.why));
    }
}

/// Tells of what is set aside.
pub fn tell_aside(aside: &[Aside]) {
    for Aside { name, site, table, why, hint } in aside {
        let of = if table.is_empty() { String::new() } else { format!(", table {table}") };
        complain(&format!("set aside `{name}` of site {site}{of}: {why}. {hint}"));
    }
}

/// Tells of tables that are not replicated any more.
pub fn tell_paused(paused: &[Skipped]) {
    for Skipped { name, why, .. } in paused {
        complain(&format!(
            "table {name} is not replicated any more: {why}. What is written to it here reaches nobody, and what \
             others write is kept, until that is undone"
        ));
    }
}

/// Tells of the same of what a clone was made of.
pub fn tell_paused_at_origin(paused: &[Skipped]) {
    tell_paused(paused);
    for Skipped { name, .. } in paused {
        complain(&format!(
            "what was written to table {name} since then is in this clone too, and would count as written here as \
             well: clone again once that is undone"
        ));
    }
}

/// Tells of replicas that go on under a new site id.
pub fn tell_restored(restored: &[Restored]) {
    for Restored { path, former, site } in restored {
        complain(&format!(
            "{} was restored from an older copy: it goes on as site {site}, was {former}, and keeps \
             what was written to it since",
            path.display()
        ));
    }
}

/// How to write what is laid out for people: as wide as the terminal, or as `COLUMNS` says, or 100;
/// in colour only on a terminal that is not told otherwise by `NO_COLOR` or `TERM=dumb`.
pub fn style() -> Style {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let told = set("COLUMNS").and_then(|columns| columns.parse().ok());
    let terminal = std::io::stdout().is_terminal();
    let size = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = told.or_else(|| if terminal { size() } else { None }).unwrap_or(100);
    let dumb = set("TERM").is_some_and(|term| term == "dumb");
    Style { width: width.max(20), colour: terminal && !dumb && set("NO_COLOR").is_none() }
}
