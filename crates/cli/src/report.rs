//! What a command found, for programs and for people.

use crate::error::CommandError;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;
pub use synqlite_core::units::{bytes, count, grouped};
use synqlite_core::{Decision, Kept, called, line};
pub use synqlite_front::answer::{outcome, seconds, time, with_paused};
use synqlite_remote::{Outcome, Traffic};

/// So many decisions of a merge are told to people.
const DECISIONS: usize = 20;

/// What is kept for a table or column that is not here.
pub fn not_here(kept: &Kept) -> String {
    let what = match &kept.column {
        Some(column) => format!("column {column} of {}", kept.table),
        None => format!("table {}", kept.table),
    };
    format!("not here: {what}, kept for {}; shown once it is made", rows(kept.rows))
}

/// The result of a command, in both forms.
pub struct Report {
    /// For programs.
    pub json: Value,
    /// For people; lines, without a newline at the end.
    pub text: String,
    /// What the command was to look for and found, if it must not end with status 0.
    pub fault: Option<CommandError>,
}

impl Report {
    /// A report.
    pub fn new(json: Value, text: impl Into<String>) -> Report {
        Report { json, text: text.into(), fault: None }
    }

    /// The report of a check that found `problems` in what `name` names.
    pub fn faulty(self, name: impl std::fmt::Display, problems: usize) -> Report {
        let fault = format!("{name} has {}", count(problems as u64, "problem"));
        Report { fault: (problems > 0).then(|| CommandError::new(fault)), ..self }
    }
}

/// What a push, pull or sync did, in words.
pub fn outcome_text(o: &Outcome, time: Duration) -> String {
    let mut text = String::new();
    let mut crossed = |verb: &str, t: &Traffic| {
        if t.rows > 0 || t.bytes > 0 {
            let _ = writeln!(text, "{verb} {} ({})", rows(t.rows), bytes(t.bytes));
        }
    };
    crossed("sent", &o.sent);
    crossed("received", &o.received);
    let m = &o.merged;
    if m.inserted + m.updated + m.deleted > 0 {
        let [i, u, d] = [m.inserted, m.updated, m.deleted].map(grouped);
        let _ = writeln!(text, "merged: {i} inserted, {u} updated, {d} deleted");
    }
    if m.kept > 0 {
        let kept = count(m.kept, "value");
        let _ = writeln!(
            text,
            "kept: {kept} for tables or columns that are not here; see: synqlite status"
        );
    }
    for d in m.decisions.iter().take(DECISIONS) {
        let _ = writeln!(text, "  {}", decision(d));
    }
    if let Some(more @ 1..) = m.decisions.len().checked_sub(DECISIONS) {
        let more = count(more as u64, "more decision");
        let _ = writeln!(text, "  and {more}; --json lists all");
    }
    if text.is_empty() {
        text.push_str("nothing new\n");
    }
    let _ = write!(text, "done in {:.3} s", time.as_secs_f64());
    text
}

/// Texts, a line each: what other sites call things neither begins a line of its own nor moves the cursor.
pub fn lines<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> String {
    let lines: Vec<String> =
        texts.into_iter().map(|text| line(text.as_ref(), usize::MAX)).collect();
    lines.join("\n")
}

/// What a merge decided, in a line.
pub fn decision(d: &Decision) -> String {
    let row = called(&d.row, d.name.as_deref());
    line(&format!("{} {row}: {}", d.table, d.words), usize::MAX)
}

/// A number of rows, in words.
pub fn rows(n: u64) -> String {
    count(n, "row")
}
