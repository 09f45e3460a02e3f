//! A conflict record for people: what happened, both versions side by side, who wrote them and when,
//! and what can be done.

use crate::report::{count, time};
use crate::sides::{self, Line, Mark, Style};
use std::fmt::Write;
use synqlite_core::{
    Closed, ClosedBy, Conflict, ConflictKind, Rival, SiteId, SiteNames, Value, Verb, Writer,
    called, line, push_seen, the_row,
};

/// How to tell records.
pub struct Teller<'a> {
    /// How to write.
    pub style: Style,
    /// The site that tells.
    pub here: SiteId,
    /// What sites are called.
    pub sites: &'a SiteNames,
    /// The replica as its user names it, for the commands that settle a record; then all columns are
    /// told. Else only what differs, as of one record among others.
    pub whole: Option<&'a str>,
}

/// So many rows that wait for the same answer are told.
const FOLLOWERS: usize = 5;

/// So many digits of an id are told.
pub const DIGITS: usize = 8;

impl Teller<'_> {
    /// Appends a record.
    pub fn tell(&self, out: &mut String, conflict: &Conflict) {
        let Conflict { id, table, row, name, kind, .. } = conflict;
        let row = the_row(&called(row, name.as_deref()));
        let title = format!("{} {kind} in {table}, {row}", &id[..DIGITS]);
        wrap(out, self.style, &title);
        wrap(out, self.style, &format!("  {}", sentence(conflict)));
        let mut lines = lines(conflict);
        let marked: Vec<String> =
            lines.iter().filter(|l| l.mark != Mark::None).map(|l| l.name.clone()).collect();
        if self.whole.is_none() && !marked.is_empty() {
            lines.retain(|line| line.mark != Mark::None);
        }
        let headings = headings(conflict);
        if lines.iter().any(|line| line.mark == Mark::Claimed) {
            wrap(out, self.style, "  = both rows claim this, * differs");
        }
        sides::write(out, &headings, &lines, self.style);
        let told =
            |w: &&Writer| self.whole.is_some() || marked.is_empty() || marked.contains(&w.column);
        self.writers(out, "written", conflict.writers.iter().filter(told));
        if let (Some(winner), Some(Rival { writers, .. })) = (&conflict.winner, &conflict.rival) {
            let claimed =
                |w: &&Writer| self.whole.is_some() || conflict.contested.contains(&w.column);
            self.writers(out, &the_row(winner), writers.iter().filter(claimed));
        }
        if let Some((site, ms)) = conflict.put_behind {
            wrap(out, self.style, &format!("  another was preferred {}", self.when(site, ms)));
        }
        self.deleted(out, conflict);
        follow(out, self.style, conflict);
        if let Some(db) = self.whole {
            let verbs = verbs(conflict);
            let width = verbs.iter().map(|(verb, _)| verb.name().len()).max().unwrap_or(0);
            for (verb, does) in verbs {
                let verb = verb.name();
                let command = format!("synqlite conflicts {db} {verb:width$} {}", &id[..DIGITS]);
                let _ = writeln!(out, "  {command}");
                wrap(out, self.style, &format!("      {does}"));
            }
        }
    }

    /// The deleted row that the record is about, who deleted it, and what needs it.
    fn deleted(&self, out: &mut String, conflict: &Conflict) {
        let Some(gone) = &conflict.deleted else { return };
        let row = the_row(&called(&gone.row, gone.name.as_deref()));
        let by = gone.by.map_or(String::new(), |(site, ms)| format!(" {}", self.when(site, ms)));
        wrap(out, self.style, &format!("  deleted{by}: {row} of {}", gone.table));
        if let Some((site, ms)) = gone.again {
            wrap(out, self.style, &format!("  inserted again {}", self.when(site, ms)));
        }
        for by in &conflict.needed_by {
            let row = the_row(&called(&by.row, by.name.as_deref()));
            wrap(out, self.style, &format!("  needed by {row} of {}", by.table));
        }
        if let Some(more @ 1..) = conflict.needed.checked_sub(conflict.needed_by.len() as u64) {
            wrap(out, self.style, &format!("  and by {}", count(more, "more row")));
        }
    }

    /// Who wrote which columns and when, latest first.
    fn writers<'w>(&self, out: &mut String, what: &str, all: impl Iterator<Item = &'w Writer>) {
        let mut by_write: Vec<(i64, SiteId, Vec<&str>)> = Vec::new();
        for Writer { column, site, at_ms } in all {
            match by_write.iter_mut().find(|(ms, s, _)| (*ms, *s) == (*at_ms, *site)) {
                Some((_, _, columns)) => columns.push(column),
                None => by_write.push((*at_ms, *site, vec![column])),
            }
        }
        by_write.sort_by_key(|(ms, ..)| std::cmp::Reverse(*ms));
        for (ms, site, columns) in by_write {
            let text = format!("  {what} {}: {}", self.when(site, ms), columns.join(", "));
            wrap(out, self.style, &text);
        }
    }

    fn when(&self, site: SiteId, ms: i64) -> String {
        let here = if site == self.here { " (this one)" } else { "" };
        format!("{} UTC at {}{here}", time(ms), self.sites.spoken(site))
    }
}

/// What waits for the answer to this record, or for which answer this one waits.
fn follow(out: &mut String, style: Style, conflict: &Conflict) {
    if conflict.follows.as_ref() == Some(&conflict.id) {
        wrap(
            out,
            style,
            "  it needs no answer: by its policy the row that has the key stands for it",
        );
    } else if let Some(leader) = &conflict.follows {
        wrap(out, style, &format!("  it follows {}, which asks for both", &leader[..DIGITS]));
    }
    for follower in conflict.followers.iter().take(FOLLOWERS) {
        let row = the_row(&called(&follower.row, follower.name.as_deref()));
        wrap(out, style, &format!("  with it {} in {}, {row}", follower.kind, follower.table));
    }
    if let Some(more @ 1..) = conflict.followers.len().checked_sub(FOLLOWERS) {
        wrap(out, style, &format!("  and {more} more with it; --json lists all"));
    }
}

/// Appends a sentence in lines of the terminal's width, the others indented more than the first.
pub fn wrap(out: &mut String, style: Style, text: &str) {
    let text = &line(text, usize::MAX);
    let indent = " ".repeat(text.len() - text.trim_start().len());
    let (mut line, mut empty) = (indent.clone(), true);
    for word in text.split_whitespace() {
        let full = sides::columns(&line) + 1 + sides::columns(word) > style.width;
        if full && !empty {
            let _ = writeln!(out, "{line}");
            (line, empty) = (format!("{indent}    "), true);
        }
        line += if empty { "" } else { " " };
        line += word;
        empty = false;
    }
    let _ = writeln!(out, "{line}");
}

/// Whether the deleted row is there again, and the record is about a reference to its former life.
pub fn is_again(conflict: &Conflict) -> bool {
    conflict.deleted.as_ref().is_some_and(|gone| gone.again.is_some())
}

/// What is shown in place of what was written, and why.
fn sentence(conflict: &Conflict) -> String {
    let Conflict { constraint, declared, contested, winner, winner_name, row, .. } = conflict;
    let key = if contested.is_empty() { constraint.clone() } else { contested.join(", ") };
    let earlier = match winner {
        Some(winner) => {
            let another = if winner == row { "another " } else { "" };
            let is = if conflict.put_behind.is_some() { "counts as earlier" } else { "is earlier" };
            format!(
                "decided in favour of {another}{}, whose claim to {declared} {is}",
                the_row(&called(winner, winner_name.as_deref()))
            )
        }
        None => format!("another row has the earlier claim to {declared}"),
    };
    let hidden = "the row is hidden until its obstacle goes: ";
    let again = is_again(conflict);
    match &conflict.kind {
        ConflictKind::Unique => format!("{hidden}{earlier}"),
        ConflictKind::Fallback => format!("the row shows what it held before: {earlier}"),
        ConflictKind::FkCascade if again => {
            format!("{hidden}{key} leads to an earlier life of a row that was inserted again since")
        }
        ConflictKind::FkCascade => format!("{hidden}the row that {key} refers to was deleted"),
        ConflictKind::FkParentHidden => {
            format!("{hidden}the row that {key} refers to is hidden itself")
        }
        ConflictKind::FkDangling => format!("{hidden}no row has the key that {key} names"),
        ConflictKind::RowConstraint if conflict.deleted.is_some() => format!(
            "{hidden}the row that it refers to was deleted{}, and its table refuses what would stand there instead",
            if again { " and inserted again" } else { "" }
        ),
        ConflictKind::RowConstraint => format!(
            "{hidden}a CHECK, NOT NULL, type or index of its table here refuses it; other sites may \
             show it. Alter the table, write the row anew, or discard it"
        ),
        ConflictKind::Refused => format!(
            "{hidden}SQLite refuses it here, for a trigger that fire_on_merge names or for a reason \
             that `synqlite verify --full` may tell"
        ),
        ConflictKind::SetNull => {
            let other = |(column, value): &&(String, Value)| {
                conflict.shown.iter().any(|(c, shown)| c == column && shown != value)
            };
            let columns: Vec<&str> =
                conflict.displaced.iter().filter(other).map(|(c, _)| &**c).collect();
            let what = if columns.is_empty() { "the reference".into() } else { columns.join(", ") };
            format!("{what} is not shown as it was written: the row that it refers to is not there")
        }
        ConflictKind::RestrictRevived => {
            "the row was deleted and is kept: another refers to it".to_owned()
        }
        other => format!("the row does not show what was written: {other}"),
    }
}

fn headings(conflict: &Conflict) -> Vec<String> {
    let mut headings = vec!["written".to_owned()];
    if !conflict.shown.is_empty() {
        headings.push("shown".to_owned());
    }
    if let (Some(winner), Some(_)) = (&conflict.winner, &conflict.rival) {
        headings.push(line(&the_row(winner), usize::MAX));
    }
    headings
}

/// One line a column: what was written, what is shown, what the winner shows.
fn lines(conflict: &Conflict) -> Vec<Line> {
    let Conflict { shown, displaced, contested, rival, .. } = conflict;
    let of = |values: &[(String, Value)], column: &String| {
        values.iter().find(|(c, _)| c == column).map(|(_, value)| value.clone())
    };
    let line = |(column, written): &(String, Value)| {
        let shown = of(shown, column);
        let rival = rival.as_ref().and_then(|rival| of(&rival.shown, column));
        let other = shown.as_ref().or(rival.as_ref());
        let mark = match other {
            Some(other) if other != written => Mark::Differs,
            Some(_) if rival.as_ref() == Some(written) && contested.contains(column) => {
                Mark::Claimed
            }
            _ => Mark::None,
        };
        let values = [Some(written), shown.as_ref(), rival.as_ref()];
        let values = values.into_iter().flatten().map(text).collect();
        Line { name: printable(column), values, mark }
    };
    displaced.iter().map(line).collect()
}

/// The verbs that settle a record of this kind, and what each does.
pub fn verbs(conflict: &Conflict) -> Vec<(Verb, &'static str)> {
    let prefer = (Verb::Prefer, "gives the row what it asked for; the other steps aside");
    let discard = (Verb::Discard, "deletes the hidden row");
    let accept = (Verb::Accept, "takes what is shown for what was meant");
    let restore = match is_again(conflict) {
        false => "brings back the row that this one refers to",
        true => "lets the reference be to the row that is there now",
    };
    let restore = (Verb::Restore, restore);
    match &conflict.kind {
        ConflictKind::Unique => vec![prefer, discard],
        ConflictKind::Fallback => vec![prefer, accept],
        // What is hidden for a conflict of its own cannot be brought back by this one.
        ConflictKind::FkCascade | ConflictKind::FkDangling | ConflictKind::RowConstraint
            if conflict.deleted.is_some() =>
        {
            vec![restore, discard]
        }
        ConflictKind::SetNull if conflict.deleted.is_some() => vec![restore, accept],
        ConflictKind::SetNull => vec![accept],
        ConflictKind::RestrictRevived => vec![(Verb::Restore, "undoes the delete")],
        _ => vec![discard],
    }
}

/// What closed a record, as part of a sentence, and what became of its row.
pub fn how(closed: &Closed) -> String {
    let became = closed.became.as_ref().map_or(String::new(), |became| format!(": {became}"));
    format!("{}{became}", by(&closed.how))
}

fn by(how: &ClosedBy) -> String {
    match how {
        ClosedBy::Merge => "by a merge".to_owned(),
        ClosedBy::Write => "by a write here".to_owned(),
        ClosedBy::Schema => "by a change of the schema".to_owned(),
        ClosedBy::Policy => "by a change of policy".to_owned(),
        by => format!("by {}", by.name()),
    }
}

/// A value as people read it, on one line and with nothing that moves the cursor.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Text(t) => format!("\"{}\"", printable(&String::from_utf8_lossy(t))),
        Value::Blob(b) => {
            format!("x'{}'", b.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}

fn printable(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' | '\t' => out.extend(c.escape_default()),
            _ => push_seen(&mut out, c),
        }
    }
    out
}
