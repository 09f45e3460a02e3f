use super::open;
use crate::error::{CommandError, Result};
use crate::pick::Pick;
use crate::record::{self, DIGITS, Teller};
use crate::report::{Report, count, lines, time};
use crate::terminal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use synqlite_core::{
    Advice, Closed, Conflict, Replica, Settling, SiteNames, called, line, the_row,
};
use synqlite_front::answer;

/// So many rows that step aside, or are refused, are told to people.
const TOLD: usize = 20;

const EXAMPLES: &str = "\
Many at once, tried first:
  synqlite conflicts app.db --groups
  synqlite conflicts app.db --advice
  synqlite conflicts app.db prefer --all --table customer --mine --dry-run
  synqlite conflicts app.db discard --all --table visit --where \"at < '2026-01-01'\"";

/// Lists what merges displaced, and settles it: rows that do not show what was written, because a
/// declared constraint would break.
///
/// Nothing is lost: the row is kept in full, and comes back by itself when its obstacle goes, for
/// example when the row that has its e-mail address is deleted or gets another one. All sites that
/// have seen the same changes list the same records, and a record settled on one is settled on all.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// What to do with records; without it, those that are open are listed.
    verb: Option<Verb>,
    /// Their ids, or the first digits of each.
    #[arg(value_name = "ID", conflicts_with = "all")]
    ids: Vec<String>,
    /// All records that are open, or those that the options below say.
    #[arg(long, requires = "verb")]
    all: bool,
    #[command(flatten)]
    pick: Pick,
    /// Tells what settling would come to, and changes nothing.
    #[arg(long, requires = "verb")]
    dry_run: bool,
    /// Lists or settles so many at most.
    #[arg(long, value_name = "N", conflicts_with = "ids")]
    limit: Option<usize>,
    /// Counts them by table, kind and constraint.
    #[arg(long, conflicts_with_all = ["verb", "limit", "closed"])]
    groups: bool,
    /// Says which policies would have left less to settle, and how much less.
    #[arg(long, conflicts_with_all = ["verb", "limit", "closed", "groups"])]
    advice: bool,
    /// Lists the records too that need no answer of their own, because they wait for that to another. With
    /// `--json` they are listed in any case, with the id of that one as `follows`.
    #[arg(long, conflicts_with_all = ["verb", "groups", "advice", "closed"])]
    every: bool,
    /// Lists the records that were open in this file and are closed, the latest first; 1,000 at most.
    #[arg(long, conflicts_with_all = ["verb", "limit"])]
    closed: bool,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Verb {
    /// Shows these records, with all columns and what can be done.
    Show,
    /// Gives the row what it asked for; the row that has it steps aside.
    Prefer,
    /// Deletes the hidden row.
    Discard,
    /// Brings back the deleted row that this one refers to, or lets it refer to the one inserted since.
    Restore,
    /// Takes what is shown for what was meant.
    Accept,
}

/// Settles one record, and says which others went with it.
fn settle_one(replica: &mut Replica, id: &str, verb: synqlite_core::Verb) -> Result<Report> {
    let mut with = replica.followers(id)?;
    let id = replica.settle_conflict(id, verb)?;
    if !with.is_empty() {
        let left = replica.conflicts()?;
        with.retain(|follower| *follower != id && !left.iter().any(|c| c.id == *follower));
    }
    let open = replica.open_questions()?;
    let more = match with.len() as u64 {
        0 => String::new(),
        n => format!(" and {} that waited for it", count(n, "conflict")),
    };
    let text = format!("settled {}{more}; open conflicts: {open}", &id[..DIGITS]);
    let mut json = json!({"settled": id, "open": open});
    if !with.is_empty() {
        json["with"] = json!(with);
    }
    Ok(Report::new(json, text))
}

pub fn run(args: &Args) -> Result<Report> {
    let mut replica = open(&args.db)?;
    if args.advice {
        return Ok(advice(&replica.advice()?, &args.db));
    }
    if args.closed {
        if !args.pick.is_all() {
            return Err(CommandError::usage("--closed lists all that is closed"));
        }
        return Ok(closed(&replica.closed_conflicts()?, &replica.site_names()?));
    }
    let verb = match args.verb {
        None | Some(Verb::Show) => None,
        Some(Verb::Prefer) => Some(synqlite_core::Verb::Prefer),
        Some(Verb::Discard) => Some(synqlite_core::Verb::Discard),
        Some(Verb::Restore) => Some(synqlite_core::Verb::Restore),
        Some(Verb::Accept) => Some(synqlite_core::Verb::Accept),
    };
    if args.verb.is_some() && args.ids.is_empty() && !args.all {
        return Err(CommandError::usage("say which: the ids of records, or --all"));
    }
    if !args.ids.is_empty() && !args.pick.is_all() {
        return Err(CommandError::usage(
            "ids say which records; the options that say it are for --all",
        ));
    }
    if let (Some(verb), false) = (verb, args.ids.is_empty()) {
        let choices: Vec<_> = args.ids.iter().map(|id| (id.clone(), verb)).collect();
        if let ([id], false) = (args.ids.as_slice(), args.dry_run) {
            return settle_one(&mut replica, id, verb);
        }
        return settle(&mut replica, &choices, args.dry_run);
    }
    if verb.is_some() && !args.dry_run {
        // What waits to be folded may settle some of them, or make others of them.
        replica.fold()?;
    }
    let sites = replica.site_names()?;
    // By its id a record is found that follows another, too.
    let every = args.every || !args.ids.is_empty();
    let mut conflicts = replica.conflicts()?;
    let asks = |c: &Conflict| every || c.follows.is_none();
    let open = conflicts.iter().filter(|c| asks(c)).count();
    let stands = |c: &&Conflict| !every && c.follows.as_ref() == Some(&c.id);
    let stood_for = conflicts.iter().filter(stands).count() as u64;
    args.pick.choose(&replica, &sites, &mut conflicts)?;
    let all = answer::conflicts(&conflicts, &sites);
    if let Some(verb) = verb.filter(|_| !args.pick.is_all()) {
        return settle_picked(&mut replica, conflicts, verb, args);
    }
    conflicts.retain(asks);
    if !args.ids.is_empty() {
        let missing =
            args.ids.iter().find(|id| !conflicts.iter().any(|c| c.id.starts_with(id.as_str())));
        if let Some(id) = missing {
            let what = format!("no open conflict has id {id}");
            return Err(synqlite_core::Error::Refused(what).into());
        }
        conflicts.retain(|c| args.ids.iter().any(|id| c.id.starts_with(id.as_str())));
    }
    if args.groups {
        return Ok(groups(&conflicts));
    }
    let found = conflicts.len();
    conflicts.truncate(args.limit.unwrap_or(found));
    if let Some(verb) = verb {
        let choices: Vec<_> = conflicts.into_iter().map(|c| (c.id, verb)).collect();
        return settle(&mut replica, &choices, args.dry_run);
    }
    let db = args.verb.map(|_| args.db.display().to_string());
    let mut report = list(&replica, &sites, &conflicts, db.as_deref());
    // A program gets those too that wait for the answer to another, unless it said which or how many.
    if args.ids.is_empty() && args.limit.is_none() {
        report.json = all;
    }
    let shown = (conflicts.len(), open, if args.ids.is_empty() { stood_for } else { 0 });
    also(&mut report.text, &replica, shown, args.ids.is_empty())?;
    Ok(report)
}

/// What else there is beside the records that are listed: of how many they are, what asks nothing, what was decided.
fn also(
    text: &mut String,
    replica: &Replica,
    (shown, open, stood_for): (usize, usize, u64),
    all: bool,
) -> Result<()> {
    match shown {
        0 if open > 0 => *text = format!("none of {}", count(open as u64, "open conflict")),
        shown if shown < open && all => {
            let _ = write!(text, "\n{shown} of {}", count(open as u64, "open conflict"));
        }
        0 => {
            let decided = super::decided(replica.decided_conflicts()?);
            text.extend(decided.map(|line| format!("\n{line}")));
        }
        _ => {}
    }
    if stood_for > 0 {
        let rows = count(stood_for, "hidden row");
        let why = "for each of which another of its key stands (on_unique=unify)";
        let _ = write!(text, "\nnot asked about: {rows}, {why}; see: synqlite conflicts --every");
    }
    Ok(())
}

/// Settles those that options say and no others: what waits for the answer to one of them may be of a row that
/// is not meant, and the other way round.
fn settle_picked(
    replica: &mut Replica,
    mut conflicts: Vec<Conflict>,
    verb: synqlite_core::Verb,
    args: &Args,
) -> Result<Report> {
    use synqlite_core::Verb::{Accept, Discard};
    // Another row stands for such a one.
    conflicts.retain(|c| c.follows.as_ref() != Some(&c.id));
    conflicts.truncate(args.limit.unwrap_or(conflicts.len()));
    let ids: BTreeSet<String> = conflicts.iter().map(|c| c.id.clone()).collect();
    let (mut choices, mut waiting) = (Vec::new(), Vec::new());
    for conflict in conflicts {
        match conflict.follows.filter(|_| !matches!(verb, Discard | Accept)) {
            None => choices.push((conflict.id, verb)),
            Some(other) if ids.contains(&other) => {}
            Some(other) => {
                let why = format!("it waits for the answer to {}", &other[..DIGITS]);
                waiting.push((conflict.id, why));
            }
        }
    }
    let mut done = replica.settle_alone(&choices, args.dry_run)?;
    done.refused.append(&mut waiting);
    told(replica, &done, args.dry_run)
}

/// Settles them in one transaction, or tells what that would come to.
fn settle(
    replica: &mut Replica,
    choices: &[(String, synqlite_core::Verb)],
    dry_run: bool,
) -> Result<Report> {
    let done = replica.settle_conflicts(choices, dry_run)?;
    told(replica, &done, dry_run)
}

/// What became of those that were to be settled.
fn told(replica: &Replica, done: &Settling, dry_run: bool) -> Result<Report> {
    let sites = replica.site_names()?;
    let Settling { settled, refused, opened, open } = done;
    let mut text = String::new();
    let would = if dry_run { "would be " } else { "" };
    let _ = write!(text, "{} {would}settled", count(settled.len() as u64, "conflict"));
    for row in opened.iter().take(TOLD) {
        let what = the_row(&called(&row.row, row.name.as_deref()));
        let then = match (row.kind.is_of_foreign_key(), dry_run) {
            (true, true) => "would ask",
            (true, false) => "asks now",
            (false, true) => "would step aside",
            (false, false) => "steps aside",
        };
        let opened = format!("{}, {what} {then}: {}", row.table, &row.id[..DIGITS]);
        let _ = write!(text, "\n  {}", line(&opened, usize::MAX));
    }
    more(&mut text, opened.len());
    for (id, why) in refused.iter().take(TOLD) {
        let refused = format!("not {}: {why}", id.get(..DIGITS).unwrap_or(id));
        let _ = write!(text, "\n  {}", line(&refused, usize::MAX));
    }
    more(&mut text, refused.len());
    let then = if dry_run { "open conflicts then" } else { "open conflicts" };
    let _ = write!(text, "\n{then}: {open}");
    let refused: Vec<Value> =
        refused.iter().map(|(id, why)| json!({"id": id, "why": why})).collect();
    let opened: Vec<Value> = opened.iter().map(|c| answer::conflict(c, &sites)).collect();
    let json = json!({"settled": settled, "refused": refused, "opened": opened, "open": open,
        "dry_run": dry_run});
    let mut report = Report::new(json, text);
    report.fault = match done.refused.len() as u64 {
        0 => None,
        n => Some(CommandError::new(format!("{} cannot be settled so", count(n, "conflict")))),
    };
    Ok(report)
}

fn more(text: &mut String, all: usize) {
    if let Some(more @ 1..) = all.checked_sub(TOLD) {
        let _ = write!(text, "\n  and {more} more; --json lists all");
    }
}

/// Policies that would have left less to settle, and the line that sets each.
fn advice(advice: &[Advice], db: &Path) -> Report {
    let told = |a: &Advice| {
        let what = match a.policy.value() {
            "unify" => "rows of one key mean the same",
            "last" => "the later of a delete and an update decides",
            _ => "what sites add to it adds up",
        };
        let mut spared = Vec::new();
        if a.open > 0 {
            spared.push(format!("{} fewer", count(a.open, "open conflict")));
        }
        if a.told > 0 {
            spared.push(format!("{} that gave way", count(a.told, "write")));
        }
        let (policy, spared) = (line(&a.policy.to_string(), usize::MAX), spared.join(", "));
        format!("{policy}: {what}\n  {spared}\n  synqlite policy {} {policy}", db.display())
    };
    let text = match advice.is_empty() {
        true => "no policy would have left less to settle".to_owned(),
        false => advice.iter().map(told).collect::<Vec<_>>().join("\n"),
    };
    Report::new(answer::advice(advice), text)
}

/// How many there are of each sort, most first.
fn groups(conflicts: &[Conflict]) -> Report {
    let mut counts: BTreeMap<(&str, &str, &str), (usize, &str)> = BTreeMap::new();
    for c in conflicts {
        let sort = (c.table.as_str(), c.kind.as_str(), c.declared.as_str());
        counts.entry(sort).or_insert((0, &c.id)).0 += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(sort, (n, _))| (std::cmp::Reverse(*n), *sort));
    let line = |((table, kind, declared), (n, id)): &((&str, &str, &str), (usize, &str))| {
        let declared = if declared.is_empty() { "" } else { &format!("  {declared}") };
        format!("{n:>6}  {table}  {kind}{declared}, such as {}", &id[..DIGITS])
    };
    let text = match counts.is_empty() {
        true => "no open conflicts".to_owned(),
        false => lines(counts.iter().map(line)),
    };
    let json = |((table, kind, declared), (n, id)): &((&str, &str, &str), (usize, &str))| json!({"table": table, "kind": kind, "declared": declared, "count": n, "first": id});
    Report::new(json!({"groups": counts.iter().map(json).collect::<Vec<_>>()}), text)
}

/// The records; `whole` is the replica's name where they are shown one by one, in full.
fn list(
    replica: &Replica,
    sites: &SiteNames,
    conflicts: &[Conflict],
    whole: Option<&str>,
) -> Report {
    let teller = Teller { style: terminal::style(), here: replica.site(), sites, whole };
    let texts = conflicts.iter().map(|conflict| {
        let mut text = String::new();
        teller.tell(&mut text, conflict);
        text
    });
    let text = match conflicts.is_empty() {
        true => "no open conflicts".to_owned(),
        false => texts.collect::<Vec<_>>().join("\n"),
    };
    Report::new(answer::conflicts(conflicts, sites), text.trim_end())
}

/// What is over, and how it ended.
fn closed(records: &[Closed], sites: &SiteNames) -> Report {
    let style = terminal::style();
    let mut text = String::new();
    for r in records {
        let id = r.id.as_ref().map_or(String::new(), |id| format!("{} ", &id[..DIGITS]));
        record::wrap(
            &mut text,
            style,
            &format!(
                "{id}{} in {}, {}",
                r.kind,
                r.table,
                the_row(&called(&r.row, r.name.as_deref()))
            ),
        );
        if !r.what.is_empty() {
            let asked = if r.was_open { "asked for " } else { "" };
            let of = r.wrote.filter(|_| r.renumbered().is_some());
            let of =
                of.map_or(String::new(), |site| format!("; the row is of {}", sites.spoken(site)));
            record::wrap(&mut text, style, &format!("  {asked}{}{of}", r.what));
        }
        let how = record::how(r);
        let when = match r.was_open {
            true => format!("opened {}, closed {} UTC {how}", time(r.opened_ms), time(r.closed_ms)),
            false => format!("decided {} UTC {how}", time(r.closed_ms)),
        };
        record::wrap(&mut text, style, &format!("  {when}"));
    }
    if records.is_empty() {
        text = "no closed conflicts".into();
    }
    Report::new(answer::closed(records, sites), text.trim_end())
}
