//! A record in words for people who have never read a manual: which row, what happened, what each choice does.
//!
//! The page and the terminal say the same. Every word about a row is about what [`Conflict`] says of it; nothing
//! is decided here.

use super::cells::{name, said};
use crate::record;
use crate::report::{count, time};
use synqlite_core::{
    Conflict, ConflictKind, Deleted, Follower, Needing, SiteId, SiteNames, Value, Verb, Writer,
    called, the_row,
};

/// What helps if rows were deleted by mistake.
pub const REGRET: &str = "If that was wrong, `synqlite undo` brings them back, once nothing else has what they \
    asked for.";

/// A record in words.
pub struct Told {
    /// The row: by its key, and by a word of its own where it has one.
    pub row: String,
    /// What it is about, in a line.
    pub headline: String,
    /// What happened, and what is shown now.
    pub story: String,
    /// What else could be done, outside of this page.
    pub advice: Option<&'static str>,
    /// What can be chosen, in the order of the keys.
    pub choices: Vec<Choice>,
}

/// Something to choose.
pub struct Choice {
    /// What it is to the engine.
    pub verb: Verb,
    /// What it does, in a line.
    pub label: String,
    /// The same, to the end.
    pub does: String,
}

/// One state of the row, or of the row that has what it asks for.
pub struct Version<'a> {
    /// What it is.
    pub title: String,
    /// Whose it is.
    pub role: Role,
    /// What else is to be said of it.
    pub note: &'static str,
    /// Values by column.
    pub values: &'a [(String, Value)],
    /// Who wrote them, as far as it concerns the conflict.
    pub writers: Vec<&'a Writer>,
}

/// Whose a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What stood there before, and what the row shows now.
    Before,
    /// Written at this site.
    Mine,
    /// Written elsewhere.
    Theirs,
}

impl Role {
    /// Its name for the page.
    pub fn name(self) -> &'static str {
        match self {
            Role::Before => "before",
            Role::Mine => "mine",
            Role::Theirs => "theirs",
        }
    }
}

/// A row by its key, and by what people know it by.
fn call(row: &str, known: Option<&str>) -> String {
    called(&name(&the_row(row)), known)
}

/// The value of a column.
pub fn of<'a>(values: &'a [(String, Value)], column: &str) -> Option<&'a Value> {
    values.iter().find(|(c, _)| c == column).map(|(_, value)| value)
}

/// What a row has in the columns that are contested, in a sentence.
fn contest(values: &[(String, Value)], contested: &[String]) -> String {
    let found = contested.iter().filter_map(|column| of(values, column)).map(said);
    found.collect::<Vec<_>>().join(", ")
}

/// The columns that it is about: those of the constraint, or else those that show something else than was
/// written.
pub fn contested(conflict: &Conflict) -> Vec<String> {
    let Conflict { contested, displaced, shown, .. } = conflict;
    if !contested.is_empty() {
        return contested.clone();
    }
    let other = |(column, value): &&(String, Value)| of(shown, column).is_some_and(|s| s != value);
    displaced.iter().filter(other).map(|(column, _)| column.clone()).collect()
}

/// What becomes of a row that steps aside.
pub fn aside(conflict: &Conflict) -> String {
    let contested = contested(conflict);
    let (asked, now) =
        (contest(&conflict.displaced, &contested), contest(&conflict.shown, &contested));
    match (conflict.shown.is_empty(), &conflict.kind) {
        (true, _) => "is hidden".to_owned(),
        (_, ConflictKind::RestrictRevived) => "is kept, though it was deleted".to_owned(),
        _ if asked.is_empty() => "shows something else than was written".to_owned(),
        _ => format!("shows {now} in place of {asked}"),
    }
}

/// The record in words.
#[expect(clippy::too_many_lines, reason = "an arm for each kind of record, and what they share")]
pub fn tell(conflict: &Conflict, sites: &SiteNames) -> Told {
    let Conflict { displaced, shown, kind, .. } = conflict;
    let contested = &contested(conflict);
    let (row, table) = (row(conflict), name(&conflict.table));
    let columns: Vec<String> = contested.iter().map(|c| name(c)).collect();
    let key = match columns.is_empty() {
        true => name(&conflict.declared),
        false => columns.join(" and "),
    };
    let asked = contest(displaced, contested);
    let refers = match asked.is_empty() {
        true => format!("{row} of {table} refers to another row. That row"),
        false => format!("{row} of {table} refers to a row by its {key}, {asked}. That row"),
    };
    let lost = |unnamed: &str| match &conflict.deleted {
        Some(gone) => format!(
            "{row} of {table} refers to {}, which was deleted{}{}",
            deleted_row(gone),
            by(gone, sites),
            again(gone, sites)
        ),
        None => format!("{refers} {unnamed}"),
    };
    let held = conflict.deleted.as_ref().map_or(String::new(), held);
    let hidden = "so it is hidden: it is in no table, and all of it is kept";
    let other = other(conflict);
    let (headline, story, advice) = match kind {
        ConflictKind::Unique | ConflictKind::Fallback => {
            let at = if asked.is_empty() { String::new() } else { format!(": {asked}") };
            let has = match conflict.put_behind {
                None => "has the earlier claim to it".to_owned(),
                Some((site, ms)) => {
                    let (site, at) = (sites.spoken(site), time(ms));
                    format!("has it since it was chosen so at {site} on {at} UTC")
                }
            };
            let claim = format!(
                "In {table} no two rows may have the same {key}. {} {has}. {} asked for it too",
                capital(&other),
                capital(&row)
            );
            let story = match kind {
                ConflictKind::Unique => format!("{claim}, {hidden}."),
                _ => format!("{claim}, so it shows what it held before."),
            };
            (format!("Two rows claim the same {key}{at}"), story, None)
        }
        ConflictKind::FkCascade if record::is_again(conflict) => (
            "The row that it belongs to was deleted and inserted again".to_owned(),
            format!("{}. It went with the earlier one, {hidden}.", lost("was deleted")),
            None,
        ),
        ConflictKind::FkCascade => (
            "The row that it belongs to was deleted".to_owned(),
            format!(
                "{} by somebody who had not seen this one, {hidden}.{held}",
                lost("was deleted")
            ),
            None,
        ),
        ConflictKind::FkParentHidden => (
            "The row that it belongs to is hidden itself".to_owned(),
            format!("{refers} is hidden for a conflict of its own, {hidden}."),
            Some("Settle the conflict of that row first: when it shows again, this one does too."),
        ),
        ConflictKind::FkDangling => (
            "It refers to a row that is not there".to_owned(),
            format!("{}, {hidden}.{held}", lost("is not there")),
            Some("Insert a row with that key, and this one comes back by itself."),
        ),
        ConflictKind::SetNull => {
            let now = contest(shown, contested);
            let now = if now.is_empty() { "nothing".to_owned() } else { now };
            match conflict.deleted {
                Some(_) => (
                    "A reference leads to a row that is gone".to_owned(),
                    format!("{}, so {now} is shown in its place.{held}", lost("is gone")),
                    Some(
                        "Or give it another reference with your program: then this is over by itself.",
                    ),
                ),
                None => (
                    "A reference leads to a row that is not shown".to_owned(),
                    format!("{refers} is hidden, or not there, so {now} is shown in its place."),
                    Some(
                        "If that row is hidden for a conflict, settle that one first: when the row shows \
                         again, so does the reference.",
                    ),
                ),
            }
        }
        ConflictKind::RestrictRevived => (
            "A deleted row is still needed".to_owned(),
            format!(
                "{} of {table} was deleted{}, while {} to it. So it is kept.",
                capital(&row),
                conflict.deleted.as_ref().map_or(" at one site".into(), |gone| by(gone, sites)),
                refer(conflict)
            ),
            Some(
                "To have it deleted all the same, delete or change the rows that refer to it: then it \
                 goes by itself.",
            ),
        ),
        ConflictKind::RowConstraint if conflict.deleted.is_some() => (
            "It refers to a row that was deleted".to_owned(),
            format!(
                "{}. {table} refuses what would stand there instead, {hidden}.{held}",
                lost("was deleted")
            ),
            None,
        ),
        ConflictKind::RowConstraint => (
            "The table here cannot hold this row".to_owned(),
            format!(
                "A CHECK, NOT NULL, type or index of {table} refuses {row}, {hidden}. Other sites may \
                 show it."
            ),
            Some("Change the table or write the row anew, and it comes back by itself."),
        ),
        ConflictKind::Refused => (
            "SQLite refuses this row here".to_owned(),
            format!("A trigger of {table} or SQLite itself refuses {row}, {hidden}."),
            Some("`synqlite verify --full` may tell the reason."),
        ),
        other => (
            format!("The row does not show what was written: {other}"),
            format!("{} of {table} does not show what was written.", capital(&row)),
            None,
        ),
    };
    let choices = record::verbs(conflict).into_iter();
    let choices = choices.map(|(verb, _)| choice(conflict, verb, &row)).collect();
    let with = match &conflict.followers[..] {
        [] => String::new(),
        waiting => {
            let are = if waiting.len() == 1 { "is" } else { "are" };
            let rows = rows(waiting);
            format!(" For its sake {rows} {are} hidden too, and what is chosen here goes for all.")
        }
    };
    Told { headline, story: capital(&story) + &with, advice, choices, row }
}

/// The row that a record is about.
pub fn row(conflict: &Conflict) -> String {
    call(&conflict.row, conflict.name.as_deref())
}

/// The rows that go with it, if it is given up, and itself.
pub fn goes(conflict: &Conflict) -> impl Iterator<Item = String> {
    let itself = format!("{} of {}", row(conflict), name(&conflict.table));
    std::iter::once(itself).chain(conflict.followers.iter().map(follower))
}

fn follower(f: &Follower) -> String {
    format!("{} of {}", call(&f.row, f.name.as_deref()), name(&f.table))
}

/// A row that was deleted.
fn deleted_row(gone: &Deleted) -> String {
    format!("{} of {}", call(&gone.row, gone.name.as_deref()), name(&gone.table))
}

/// Who deleted it, and when.
fn by(gone: &Deleted, sites: &SiteNames) -> String {
    gone.by.map_or(String::new(), |(site, at_ms)| {
        format!(" at {} on {} UTC", sites.spoken(site), time(at_ms))
    })
}

/// Who inserted it again, and when.
fn again(gone: &Deleted, sites: &SiteNames) -> String {
    gone.again.map_or(String::new(), |(site, at_ms)| {
        format!(", and inserted again at {} on {} UTC", sites.spoken(site), time(at_ms))
    })
}

/// What it held, as far as it fits in a sentence.
fn held(gone: &Deleted) -> String {
    const COLUMNS: usize = 5;
    let told = gone.values.iter().filter(|(_, value)| *value != Value::Null);
    let mut told: Vec<String> =
        told.map(|(column, value)| format!("{} {}", name(column), said(value))).collect();
    if told.len() > COLUMNS {
        let more = told.len() - COLUMNS;
        told.truncate(COLUMNS);
        told.push(count(more as u64, "more column"));
    }
    if told.is_empty() { String::new() } else { format!(" It held {}.", told.join(", ")) }
}

/// The rows for which a deleted one is kept, and that they refer to it.
fn refer(conflict: &Conflict) -> String {
    let Conflict { needed, needed_by, .. } = conflict;
    let of = |n: &Needing| format!("{} of {}", call(&n.row, n.name.as_deref()), name(&n.table));
    match (needed_by.is_empty(), *needed) {
        (true, _) => "another site wrote a row that refers".to_owned(),
        (_, 1) => format!("{} refers", of(&needed_by[0])),
        (_, all) => format!("{} refer", several(needed_by.iter().map(of).collect(), all)),
    }
}

/// The rows that wait for the same answer, the first of them by name.
fn rows(waiting: &[Follower]) -> String {
    const NAMED: usize = 3;
    several(waiting.iter().take(NAMED).map(follower).collect(), waiting.len() as u64)
}

/// The first rows of so many, in a sentence.
fn several(mut named: Vec<String>, all: u64) -> String {
    if let Some(more @ 1..) = all.checked_sub(named.len() as u64) {
        named.push(count(more, "more row"));
    }
    let last = named.pop().unwrap_or_default();
    if named.is_empty() { last } else { format!("{} and {last}", named.join(", ")) }
}

/// What becomes of a row that is given up, and of those that wait for it.
fn deleted(conflict: &Conflict, row: &str) -> String {
    match &conflict.followers[..] {
        [] => format!("{row} is deleted, on all sites. Nothing else changes."),
        waiting => format!("{row} is deleted, on all sites, and with it {}.", rows(waiting)),
    }
}

/// The row that has what this one asks for.
fn other(conflict: &Conflict) -> String {
    let Conflict { winner, winner_name, row, .. } = conflict;
    match winner {
        // Two rows may claim the key by which rows are called.
        Some(winner) if winner != row => call(winner, winner_name.as_deref()),
        Some(_) => called("another row", winner_name.as_deref()),
        None => "another row".into(),
    }
}

fn choice(conflict: &Conflict, verb: Verb, row: &str) -> Choice {
    let Conflict { kind, displaced, shown, .. } = conflict;
    let (other, contested) = (other(conflict), contested(conflict));
    let (asked, now) = (contest(displaced, &contested), contest(shown, &contested));
    let it = if asked.is_empty() { "what it asked for".to_owned() } else { asked };
    let hidden = shown.is_empty();
    let (label, does) = match verb {
        Verb::Prefer => {
            let comes = if hidden { "comes into the table with" } else { "gets" };
            let does = format!(
                "{row} {comes} {it}. {} steps aside: it shows what it held before, or is hidden, and is \
                 listed here in its turn.",
                capital(&other)
            );
            (format!("Give it to {row}"), does)
        }
        Verb::Discard if matches!(kind, ConflictKind::Unique) => {
            (format!("Leave it with {other}, and delete {row}"), deleted(conflict, row))
        }
        Verb::Discard => (format!("Delete {row}"), deleted(conflict, row)),
        Verb::Restore if matches!(kind, ConflictKind::RestrictRevived) => {
            (format!("Keep {row}"), format!("The delete is undone: {row} stays, on all sites."))
        }
        Verb::Restore if record::is_again(conflict) => {
            let it = conflict.deleted.as_ref().map_or("that row".to_owned(), deleted_row);
            let does = format!("It refers to {it} as it is there now, and is there again.");
            (format!("Bring {row} back"), does)
        }
        Verb::Restore => {
            let back =
                if hidden { "and so is this one" } else { "and this one refers to it again" };
            let does = format!("It is there again, with all that was deleted with it, {back}.");
            let it = conflict.deleted.as_ref().map_or("the deleted row".to_owned(), deleted_row);
            (format!("Bring {it} back"), does)
        }
        Verb::Accept if matches!(kind, ConflictKind::Fallback) => {
            let does = format!(
                "{row} stays as it is now{}. Nothing changes in the table, and the conflict is over.",
                if now.is_empty() { String::new() } else { format!(", with {now}") }
            );
            (format!("Leave it with {other}"), does)
        }
        Verb::Accept => (
            "Leave it as it shows now".to_owned(),
            "Nothing changes in the table, and the conflict is over.".to_owned(),
        ),
    };
    Choice { verb, label, does: capital(&does) }
}

/// The versions of the row, what it held before first, then what was written here, then what others wrote.
/// `here` is this site.
pub fn versions(conflict: &Conflict, here: SiteId) -> Vec<Version<'_>> {
    let Conflict { displaced, shown, rival, .. } = conflict;
    let contested = &contested(conflict);
    let mut out = Vec::new();
    let kept = matches!(conflict.kind, ConflictKind::RestrictRevived);
    if !shown.is_empty() {
        let note = match conflict.kind {
            ConflictKind::Fallback => "what the row held before",
            ConflictKind::RestrictRevived => "deleted, and kept",
            _ => "what programs see",
        };
        let (title, role) = ("Now in the table".to_owned(), Role::Before);
        out.push(Version { title, role, note, values: shown, writers: vec![] });
    }
    // A row that is kept shows what was written: there is nothing to compare.
    if shown.is_empty() || !kept || shown != displaced {
        let row = capital(&name(&the_row(&conflict.row)));
        let (title, note) = match (shown.is_empty(), &conflict.kind) {
            (true, _) => (row, "hidden: in no table"),
            (false, ConflictKind::Fallback) => (format!("{row} asked for"), ""),
            (false, _) => (format!("{row} as it was written"), ""),
        };
        let (writers, role) = concerned(&conflict.writers, contested, here);
        out.push(Version { title, role, note, values: displaced, writers });
    }
    if let Some(rival) = rival {
        let title = match &conflict.winner {
            Some(winner) if *winner != conflict.row => {
                format!("{} has", capital(&name(&the_row(winner))))
            }
            _ => "The other row has".to_owned(),
        };
        let (writers, role) = concerned(&rival.writers, contested, here);
        out.push(Version { title, role, note: "", values: &rival.shown, writers });
    }
    out.sort_by_key(|version| version.role as u8);
    out
}

/// Who wrote what is contested, and whose the latest of it is.
fn concerned<'c>(
    writers: &'c [Writer],
    contested: &[String],
    here: SiteId,
) -> (Vec<&'c Writer>, Role) {
    let concerns = |w: &&Writer| contested.is_empty() || contested.contains(&w.column);
    let writers: Vec<&Writer> = writers.iter().filter(concerns).collect();
    let latest = writers.iter().max_by_key(|w| w.at_ms);
    let role = match latest {
        Some(w) if w.site == here => Role::Mine,
        _ => Role::Theirs,
    };
    (writers, role)
}

/// A sentence begins with a capital.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use synqlite_core::Rival;
    use synqlite_wire::Id;

    const HERE: SiteId = Id([1; 16]);
    const THERE: SiteId = Id([2; 16]);

    fn row(id: i64, name: &str, email: &str) -> Vec<(String, Value)> {
        let text = |t: &str| Value::Text(t.into());
        let values = [Value::Integer(id), text(name), text(email)];
        ["id", "name", "email"].map(str::to_owned).into_iter().zip(values).collect()
    }

    fn written(site: SiteId, at_ms: i64) -> Vec<Writer> {
        let writer = |column: &str| Writer { column: column.to_owned(), site, at_ms };
        vec![writer("id"), writer("name"), writer("email")]
    }

    fn conflict(kind: ConflictKind) -> Conflict {
        let hidden = !matches!(kind, ConflictKind::Fallback | ConflictKind::SetNull);
        Conflict {
            id: "0123456789abcdef".repeat(2),
            table: "person".into(),
            row: "2".into(),
            name: Some("Bob".into()),
            kind,
            constraint: "email".into(),
            declared: "UNIQUE (email)".into(),
            shown: if hidden { vec![] } else { row(2, "Bob", "bob@x") },
            displaced: row(2, "Bob", "info@x"),
            winner: Some("1".into()),
            winner_name: Some("Ann".into()),
            sites: vec![],
            writers: written(HERE, 7),
            contested: vec!["email".into()],
            rival: Some(Rival { shown: row(1, "Ann", "info@x"), writers: written(THERE, 5) }),
            follows: None,
            put_behind: None,
            deleted: None,
            needed_by: vec![],
            needed: 0,
            followers: vec![],
        }
    }

    #[test]
    fn rows_are_called_by_key_and_name_and_sides_by_whose_they_are() {
        let told = tell(&conflict(ConflictKind::Fallback), &SiteNames::default());
        assert_eq!(told.row, "row 2 (“Bob”)");
        assert_eq!(told.headline, "Two rows claim the same email: “info@x”");
        assert!(
            told.story.contains("Row 1 (“Ann”) has the earlier claim to it. Row 2 (“Bob”)"),
            "{}",
            told.story
        );
        let mut chosen = conflict(ConflictKind::Fallback);
        chosen.put_behind = Some((THERE, 1_700_000_000_000));
        let story = tell(&chosen, &SiteNames::default()).story;
        let has = "Row 1 (“Ann”) has it since it was chosen so at site 02020202 on 2023-11-14 22:13:20.000 UTC.";
        assert!(story.contains(has), "{story}");
        let of = |here| -> Vec<(String, Role)> {
            let conflict = conflict(ConflictKind::Fallback);
            versions(&conflict, here).into_iter().map(|v| (v.title, v.role)).collect()
        };
        let now = ("Now in the table".to_owned(), Role::Before);
        let bob = |role| ("Row 2 asked for".to_owned(), role);
        let ann = |role| ("Row 1 has".to_owned(), role);
        assert_eq!(of(HERE), [now.clone(), bob(Role::Mine), ann(Role::Theirs)]);
        assert_eq!(of(THERE), [now.clone(), ann(Role::Mine), bob(Role::Theirs)]);
        assert_eq!(of(Id([3; 16])), [now, bob(Role::Theirs), ann(Role::Theirs)]);
    }

    #[test]
    fn who_deletes_a_row_is_told_what_goes_with_it() {
        let mut conflict = conflict(ConflictKind::Unique);
        let does =
            |conflict: &Conflict| tell(conflict, &SiteNames::default()).choices[1].does.clone();
        assert_eq!(
            does(&conflict),
            "Row 2 (“Bob”) is deleted, on all sites. Nothing else changes."
        );
        let follower = |row: u64| Follower {
            id: row.to_string(),
            table: "invoice".into(),
            row: row.to_string(),
            name: None,
            kind: ConflictKind::FkParentHidden,
        };
        conflict.followers = vec![follower(7)];
        assert_eq!(
            does(&conflict),
            "Row 2 (“Bob”) is deleted, on all sites, and with it row 7 of invoice."
        );
        assert!(
            tell(&conflict, &SiteNames::default())
                .story
                .contains("For its sake row 7 of invoice is hidden too")
        );
        conflict.followers.extend((8..12).map(follower));
        let many = "with it row 7 of invoice, row 8 of invoice, row 9 of invoice and 2 more rows.";
        assert!(does(&conflict).ends_with(many));
    }

    fn list() -> Deleted {
        let values =
            vec![("name".into(), Value::Text("food".into())), ("note".into(), Value::Null)];
        let (table, row, by) = ("list".into(), "'food'".into(), Some((THERE, 1_700_000_000_000)));
        Deleted { table, row, name: None, by, again: None, values }
    }

    fn needing(row: u64) -> Needing {
        Needing { table: "note".into(), row: row.to_string(), name: Some("milk".into()) }
    }

    #[test]
    fn a_deleted_row_is_told_with_who_deleted_it_and_who_needs_it() {
        let told = |kind, needed: u64| {
            let mut conflict = conflict(kind);
            conflict.deleted = Some(list());
            (conflict.needed, conflict.needed_by) =
                (needed, (7..).map(needing).take(needed.min(3) as usize).collect());
            let told = tell(&conflict, &SiteNames::default());
            (told.story, told.choices[0].label.clone())
        };
        let (story, label) = told(ConflictKind::FkCascade, 0);
        let by = "which was deleted at site 02020202 on 2023-11-14 22:13:20.000 UTC";
        assert!(story.contains(&format!("refers to row 'food' of list, {by}")), "{story}");
        assert!(story.ends_with(" It held name “food”."), "{story}");
        assert_eq!(label, "Bring row 'food' of list back");
        let refer = |needed| told(ConflictKind::RestrictRevived, needed).0;
        assert!(refer(1).contains(", while row 7 (“milk”) of note refers to it."), "{}", refer(1));
        let three = "row 7 (“milk”) of note, row 8 (“milk”) of note, row 9 (“milk”) of note";
        assert!(
            refer(9).contains(&format!(", while {three} and 6 more rows refer to it.")),
            "{}",
            refer(9)
        );
        assert!(refer(0).contains(", while another site wrote a row that refers to it."));
    }

    #[test]
    fn a_row_of_a_former_life_is_told_so() {
        let mut conflict = conflict(ConflictKind::FkCascade);
        let again = Some((THERE, 1_700_000_001_000));
        conflict.deleted = Some(Deleted { again, values: vec![], ..list() });
        let told = tell(&conflict, &SiteNames::default());
        let by = "and inserted again at site 02020202 on 2023-11-14 22:13:21.000 UTC. It went";
        assert!(told.story.contains(by), "{}", told.story);
        let does = &told.choices[0].does;
        assert!(does.contains("refers to row 'food' of list as it is there now"), "{does}");
    }

    #[test]
    fn every_kind_has_words_and_a_choice() {
        let kinds = [
            ConflictKind::Unique,
            ConflictKind::Fallback,
            ConflictKind::FkCascade,
            ConflictKind::FkParentHidden,
            ConflictKind::FkDangling,
            ConflictKind::RowConstraint,
            ConflictKind::Refused,
            ConflictKind::SetNull,
            ConflictKind::RestrictRevived,
            ConflictKind::Other("new".into()),
        ];
        for kind in kinds {
            for bare in [false, true] {
                let mut conflict = conflict(kind.clone());
                if !bare {
                    conflict.deleted = Some(list());
                    conflict.needed_by = vec![needing(7), needing(8)];
                    conflict.needed = 5;
                }
                if bare {
                    (conflict.winner, conflict.rival, conflict.contested) = (None, None, vec![]);
                }
                let Told { headline, story, choices, .. } = tell(&conflict, &SiteNames::default());
                assert!(!headline.is_empty() && story.ends_with('.'), "{kind}: {story}");
                assert!(!choices.is_empty() && !versions(&conflict, HERE).is_empty(), "{kind}");
                let all = choices.iter().map(|c| format!("{} {}", c.label, c.does));
                for text in all.chain([headline, story, aside(&conflict)]) {
                    assert!(!text.contains("  ") && !text.contains("by its ,"), "{kind}: {text}");
                }
            }
        }
    }

    #[test]
    fn two_rows_that_claim_one_primary_key_are_told_apart() {
        let mut conflict = conflict(ConflictKind::Unique);
        conflict.winner = Some(conflict.row.clone());
        let told = tell(&conflict, &SiteNames::default());
        assert!(told.story.contains("Another row (“Ann”) has the earlier claim"), "{}", told.story);
        assert!(told.choices[1].label.contains("another row (“Ann”)"), "{}", told.choices[1].label);
        let titles: Vec<_> = versions(&conflict, HERE).into_iter().map(|v| v.title).collect();
        assert_eq!(titles, ["Row 2", "The other row has"]);
    }

    #[test]
    fn nothing_said_is_long() {
        let mut conflict = conflict(ConflictKind::Unique);
        let long = "x".repeat(1_000_000);
        (conflict.table, conflict.row) = (long.clone(), long.clone());
        conflict.contested = vec![long.clone()];
        conflict.displaced = vec![(long.clone(), Value::Text(long.clone().into()))];
        conflict.declared = long;
        let Told { row, headline, story, choices, .. } = tell(&conflict, &SiteNames::default());
        let all = choices.into_iter().flat_map(|c| [c.label, c.does]);
        assert!(all.chain([row, headline, story]).all(|text| text.len() < 1_000));
    }
}
