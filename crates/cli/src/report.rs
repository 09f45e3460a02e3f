//! What a command found, for programs and for people.

use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;
use synqlite_core::Aside;
pub use synqlite_core::units::{bytes, count, grouped};
use synqlite_remote::{Outcome, Traffic};

/// So many decisions of a merge are told to people.
const DECISIONS: usize = 20;

/// The result of a command, in both forms.
pub struct Report {
    /// For programs.
    pub json: Value,
    /// For people; lines, without a newline at the end.
    pub text: String,
    /// What the command was to look for and found, if it must not end with status 0.
    pub fault: Option<String>,
}

impl Report {
    /// A report.
    pub fn new(json: Value, text: impl Into<String>) -> Report {
        Report { json, text: text.into(), fault: None }
    }

    /// The report of a check that found `problems` in what `name` names.
    pub fn faulty(self, name: impl std::fmt::Display, problems: usize) -> Report {
        let fault = format!("{name} has {}", count(problems as u64, "problem"));
        Report { fault: (problems > 0).then_some(fault), ..self }
    }
}

/// A duration in seconds, to the microsecond.
pub fn seconds(time: Duration) -> Value {
    json!((time.as_secs_f64() * 1e6).round() / 1e6)
}

fn traffic(t: &Traffic) -> Value {
    json!({"rows": t.rows, "columns": t.columns, "bytes": t.bytes})
}

/// What a push, pull or sync did, and how many conflicts are open after it.
pub fn outcome(o: &Outcome, conflicts: u64, time: Duration) -> Value {
    let m = &o.merged;
    let decisions = m.decisions.iter();
    let decisions: Vec<_> =
        decisions.map(|d| json!({"table": d.table, "row": d.row, "what": d.what})).collect();
    let names: Vec<_> = o.waiting.iter().map(|w| w.name.as_str()).collect();
    json!({
        "sent": traffic(&o.sent),
        "received": traffic(&o.received),
        "merged": {"inserted": m.inserted, "updated": m.updated, "deleted": m.deleted},
        "conflicts": conflicts,
        "seconds": seconds(time),
        "decisions": decisions,
        "waiting": names,
        "set_aside": aside(&o.aside),
    })
}

/// What is set aside.
fn aside(aside: &[Aside]) -> Value {
    aside.iter().map(|a| json!({"name": a.name, "site": a.site, "table": a.table, "why": a.why, "hint": a.hint})).collect()
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
    for d in m.decisions.iter().take(DECISIONS) {
        let _ = writeln!(text, "  {} {}: {}", d.table, d.row, d.what);
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

/// A number of rows, in words.
pub fn rows(n: u64) -> String {
    count(n, "row")
}

/// Milliseconds since 1970 as UTC, such as `2026-11-20 12:18:45.007`.
pub fn time(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Years begin in March here, so that the leap day is the last.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, ms) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000");
        assert_eq!(time(951_827_696_789), "2000-02-29 12:34:56.789");
        assert_eq!(time(1_795_177_125_007), "2026-11-20 12:18:45.007");
        assert_eq!(time(-1), "1969-12-31 23:59:59.999");
    }
}
