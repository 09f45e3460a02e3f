//! The same in a terminal: one record after another, a letter for each, from standard input.
//!
//! What is asked goes to standard error, as it is no result. At the end of the input nothing is written that was
//! not asked for.

use super::cells::name;
use super::desk::{Came, Decision, Desk, sum};
use super::words::{self, Choice};
use crate::error::Result;
use crate::progress;
use crate::record::Teller;
use crate::report::count;
use crate::terminal::{self, complain};
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use synqlite_core::{Conflict, Verb};

const HELP: &str = "\
1, 2   the choice of this number; so does the first letter of its name
1!     this choice, and the same for all later ones of this kind that have it
s      skips it, for now
u      takes the last decision back
w      writes all decisions, in one transaction
q      stops; what is decided and not written is forgotten
?      this help";

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Choose(Verb, bool),
    Skip,
    Undo,
    Write,
    Quit,
    Help,
    Unknown,
}

fn read(line: &str, choices: &[Choice]) -> Said {
    let line = line.trim().to_ascii_lowercase();
    let (word, all) = line.strip_suffix('!').map_or((&*line, false), |word| (word, true));
    let by_number = word.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
    let named = |c: &&Choice| !word.is_empty() && c.verb.name().starts_with(word);
    match (word, by_number.or_else(|| choices.iter().find(named))) {
        (_, Some(choice)) => Said::Choose(choice.verb, all),
        ("s" | "skip", _) => Said::Skip,
        ("u" | "undo", _) => Said::Undo,
        ("w" | "write", _) => Said::Write,
        ("q" | "quit", _) => Said::Quit,
        ("?" | "h" | "help", _) => Said::Help,
        _ => Said::Unknown,
    }
}

fn yes(line: &str) -> bool {
    line.trim_start().to_ascii_lowercase().starts_with('y')
}

/// One step, to be taken back: decisions, or a record that was skipped.
enum Step {
    Decided(Vec<Decision>),
    Skipped(String),
}

impl Step {
    fn decisions(&self) -> &[Decision] {
        match self {
            Step::Decided(decisions) => decisions,
            Step::Skipped(_) => &[],
        }
    }
}

/// A conversation.
struct Talk<'a, I> {
    desk: &'a mut Desk,
    input: I,
    steps: Vec<Step>,
}

/// Asks for each open record what to do, until the input ends. Returns how many were settled, and how many are
/// open.
pub fn talk(desk: &mut Desk, input: impl BufRead) -> Result<(u64, u64)> {
    Talk { desk, input, steps: Vec::new() }.run()
}

impl<I: BufRead> Talk<'_, I> {
    fn run(&mut self) -> Result<(u64, u64)> {
        complain(
            "One letter and Enter for each; ? tells the letters. Nothing is written before w.",
        );
        loop {
            let open = self.desk.replica.questions()?;
            self.forget_changed(&open);
            let passed = self.passed();
            let left: Vec<&Conflict> = open.iter().filter(|c| !passed.contains(&c.id)).collect();
            let choices = match left.first() {
                Some(conflict) => self.show(conflict, open.len())?,
                None if open.is_empty() => break,
                None => {
                    complain(&format!("\nThat was the last: {}.", self.sums(open.len())));
                    vec![]
                }
            };
            let Some(line) = self.ask("> ")? else { break };
            match (read(&line, &choices), left.first()) {
                (Said::Choose(verb, all), Some(conflict)) => {
                    self.choose(conflict, &left, verb, all)
                }
                (Said::Skip, Some(conflict)) => self.steps.push(Step::Skipped(conflict.id.clone())),
                (Said::Undo, _) => {
                    let told = match self.steps.pop() {
                        Some(_) => "taken back",
                        None => "there is nothing to take back",
                    };
                    complain(told);
                }
                (Said::Write, _) => self.write()?,
                (Said::Quit, _) => match self.leaves()? {
                    true => break,
                    false => complain("w writes them"),
                },
                (Said::Help, _) => complain(HELP),
                _ => complain("? tells the letters"),
            }
        }
        let forgotten = self.decisions().count();
        if forgotten > 0 {
            complain(&format!(
                "{} not written, and forgotten",
                count(forgotten as u64, "decision")
            ));
        }
        Ok((self.desk.settled, self.desk.replica.open_questions()?))
    }

    /// The next line; nothing at the end of the input.
    fn ask(&mut self, prompt: &str) -> Result<Option<String>> {
        progress::rest();
        terminal::prompt(prompt);
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line)?;
        Ok((read > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
    }

    /// Whether its user means to leave without what is decided.
    fn leaves(&mut self) -> Result<bool> {
        let n = self.decisions().count();
        if n == 0 {
            return Ok(true);
        }
        let n = count(n as u64, "decision");
        let line = self.ask(&format!("{n} not written: leave without them? y/n "))?;
        Ok(line.is_none_or(|line| yes(&line)))
    }

    fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.steps.iter().flat_map(Step::decisions)
    }

    /// Records that nothing is to be asked about.
    fn passed(&self) -> BTreeSet<String> {
        let of = |step: &Step| match step {
            Step::Decided(decisions) => decisions.iter().map(|d| d.id.clone()).collect(),
            Step::Skipped(id) => vec![id.clone()],
        };
        self.steps.iter().flat_map(of).collect()
    }

    /// What is decided of the open records, what is skipped, and what is left.
    fn sums(&self, open: usize) -> String {
        let decided = self.decisions().count();
        let left = open.saturating_sub(self.passed().len());
        match self.steps.iter().filter(|step| matches!(step, Step::Skipped(_))).count() {
            0 => format!("{decided} decided, {left} left"),
            skipped => format!("{decided} decided, {skipped} skipped, {left} left"),
        }
    }

    /// Takes back decisions on records that are others now, so that they are asked for again.
    fn forget_changed(&mut self, open: &[Conflict]) {
        let open: BTreeMap<&str, &Conflict> = open.iter().map(|c| (&*c.id, c)).collect();
        // One that is gone is told of when the decisions are written.
        let same = |d: &Decision| open.get(&*d.id).is_none_or(|c| sum(c) == d.seen);
        let mut changed = 0;
        for step in &mut self.steps {
            if let Step::Decided(decisions) = step {
                let before = decisions.len();
                decisions.retain(same);
                changed += before - decisions.len();
            }
        }
        self.steps.retain(|step| !matches!(step, Step::Decided(decisions) if decisions.is_empty()));
        if changed > 0 {
            complain(&format!("{} changed meanwhile: look again", count(changed as u64, "record")));
        }
    }

    /// Tells a record and what can be chosen.
    fn show(&self, conflict: &Conflict, open: usize) -> Result<Vec<Choice>> {
        let (here, sites) = (self.desk.replica.site(), self.desk.replica.site_names()?);
        let style = terminal::style();
        let teller = Teller { style, here, sites: &sites, whole: None };
        let mut text = format!("\n{}\n", self.sums(open));
        teller.tell(&mut text, conflict);
        let told = words::tell(conflict, &sites);
        for (n, choice) in (1..).zip(&told.choices) {
            let line = format!("  {n} {}: {}. {}", choice.verb.name(), choice.label, choice.does);
            crate::record::wrap(&mut text, style, &line);
        }
        if let Some(advice) = told.advice {
            crate::record::wrap(&mut text, style, &format!("  {advice}"));
        }
        terminal::lay_out(text.trim_end());
        Ok(told.choices)
    }

    fn choose(&mut self, conflict: &Conflict, left: &[&Conflict], verb: Verb, all: bool) {
        let alike = |c: &&&Conflict| {
            c.id == conflict.id
                || all
                    && c.kind == conflict.kind
                    && crate::record::verbs(c).iter().any(|(other, _)| *other == verb)
        };
        let decision = |c: &&Conflict| Decision { id: c.id.clone(), verb, seen: sum(c) };
        let decisions: Vec<Decision> = left.iter().filter(alike).map(decision).collect();
        complain(&format!("{}: {}", verb.name(), count(decisions.len() as u64, "record")));
        self.steps.push(Step::Decided(decisions));
    }

    /// Writes what is decided; asks before, if that is not as simple as it looks.
    fn write(&mut self) -> Result<()> {
        let decisions: Vec<Decision> = self.decisions().cloned().collect();
        if decisions.is_empty() {
            complain("nothing is decided yet");
            return Ok(());
        }
        let would = self.desk.decide(&decisions, true)?;
        if !would.refused.is_empty() || !would.opened.is_empty() || !would.deleted.is_empty() {
            tell(&would, true);
            let line = self.ask("write all the same? y/n ")?.unwrap_or_default();
            if !yes(&line) {
                complain("nothing was written");
                return Ok(());
            }
        }
        let came = self.desk.decide(&decisions, false)?;
        tell(&came, false);
        // What was skipped stays so.
        self.steps.retain(|step| matches!(step, Step::Skipped(_)));
        Ok(())
    }
}

/// What decisions came to, or would come to.
fn tell(came: &Came, dry_run: bool) {
    let records = |n: usize| count(n as u64, "record");
    let settled = records(came.settled.len());
    let short = |id: &str| id.chars().take(crate::record::DIGITS).collect::<String>();
    match dry_run {
        true => complain(&format!("this would settle {settled}")),
        false => complain(&format!("written: {settled}")),
    }
    for (id, why) in &came.gone {
        complain(&format!("  {} was settled meanwhile: {why}", short(id)));
    }
    for id in &came.changed {
        complain(&format!("  {} has changed meanwhile: look again", short(id)));
    }
    for (id, why) in &came.refused {
        complain(&format!("  {} is refused: {why}", short(id)));
    }
    for row in came.deleted.iter().filter(|_| dry_run) {
        complain(&format!("  would delete {row}, on all sites"));
    }
    if dry_run && !came.deleted.is_empty() {
        complain(&format!("  {}", words::REGRET));
    }
    for (conflict, by) in &came.opened {
        let row = words::row(conflict);
        let by = by.as_ref().map_or(String::new(), |id| format!(" (by {})", short(id)));
        let would = if dry_run { "would open" } else { "opened" };
        let (table, becomes) = (name(&conflict.table), words::aside(conflict));
        complain(&format!("  {would} another{by}: {row} of {table} {becomes}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_numbers_and_names_choose() {
        let choice = |verb| Choice { verb, label: String::new(), does: String::new() };
        let choices = [choice(Verb::Prefer), choice(Verb::Accept)];
        for line in ["1\n", "p", "prefer", " P \r\n"] {
            assert_eq!(read(line, &choices), Said::Choose(Verb::Prefer, false), "{line}");
        }
        assert_eq!(read("2!", &choices), Said::Choose(Verb::Accept, true));
        assert_eq!(read("a", &choices), Said::Choose(Verb::Accept, false));
        for line in ["0", "3", "99999999999999999999", "", "!", "x", "d"] {
            assert_eq!(read(line, &choices), Said::Unknown, "{line}");
        }
        for (line, said) in [("s", Said::Skip), ("u", Said::Undo), ("w", Said::Write)] {
            assert_eq!(read(line, &choices), said);
            assert_eq!(read(line, &[]), said);
        }
        assert_eq!((read("q", &[]), read("?", &[])), (Said::Quit, Said::Help));
    }
}
