//! Leaves out of a history what its fault does not need.

use super::app::System;
use super::play::{Fault, play};
use super::schema::referenced;
use super::{Action, History};
use std::time::{Duration, Instant};

/// So long one history is worked on.
const MOST: Duration = Duration::from_secs(120);

struct Shrink<'a> {
    system: Option<&'a mut System>,
    small: History,
    fault: Fault,
    until: Instant,
}

/// The shortest history found in which the fault is still of the same kind, and that fault.
pub fn shrink(history: &History, fault: Fault, system: Option<&mut System>) -> (History, Fault) {
    let until = Instant::now() + MOST;
    let mut shrink = Shrink { system, small: history.clone(), fault, until };
    loop {
        let before = shrink.size();
        shrink.steps();
        shrink.rest();
        shrink.statements();
        if shrink.size() >= before || Instant::now() > shrink.until {
            return (shrink.small, shrink.fault);
        }
    }
}

impl Shrink<'_> {
    fn size(&self) -> usize {
        let History { steps, rows, migrations, setup, policies, pragmas, .. } = &self.small;
        let written = steps.iter().map(|step| match &step.action {
            Action::Write(script) => script.len(),
            _ => 1,
        });
        let set = pragmas.iter().map(Vec::len).sum::<usize>() + setup.len() + policies.len();
        let scripts = migrations.iter().map(|m| m.script.len()).sum::<usize>();
        let tables =
            self.small.schema.values().map(|t| t.columns.len() + t.rules.len()).sum::<usize>();
        written.sum::<usize>() + rows.len() + set + scripts + tables + self.small.sites
    }

    /// Keeps a smaller history if it has the fault too.
    fn attempt(&mut self, change: impl FnOnce(&mut History)) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        let mut less = self.small.clone();
        change(&mut less);
        match play(&less, self.system.as_deref_mut(), false) {
            Some(fault) if fault.kind == self.fault.kind => {
                (self.small, self.fault) = (less, fault);
                true
            }
            _ => false,
        }
    }

    fn steps(&mut self) {
        let mut width = self.small.steps.len().div_ceil(2);
        while width > 0 {
            let mut at = 0;
            while at < self.small.steps.len() {
                let end = (at + width).min(self.small.steps.len());
                if !self.attempt(|less| drop(less.steps.drain(at..end))) {
                    at += width;
                }
            }
            width /= 2;
        }
    }

    fn rest(&mut self) {
        for at in (0..self.small.rows.len()).rev() {
            self.attempt(|less| drop(less.rows.remove(at)));
        }
        for at in (0..self.small.migrations.len()).rev() {
            self.attempt(|less| without_migration(less, at));
        }
        for at in (0..self.small.setup.len()).rev() {
            self.attempt(|less| drop(less.setup.remove(at)));
        }
        for at in (0..self.small.policies.len()).rev() {
            self.attempt(|less| drop(less.policies.remove(at)));
        }
        for site in 0..self.small.sites {
            self.attempt(|less| less.system[site] = false);
            for at in (0..self.small.pragmas[site].len()).rev() {
                self.attempt(|less| drop(less.pragmas[site].remove(at)));
            }
        }
        if self.small.sites > 2 {
            self.attempt(|less| {
                less.sites -= 1;
                less.first = less.first.min(less.sites);
                let sites = less.sites;
                less.steps.retain(|step| step.site < sites && partner(&step.action) < sites);
            });
        }
        // Scripts of migrations name what is there.
        let fixed = |no: &usize| {
            let mut after = self.small.migrations.iter().flat_map(|m| &m.after);
            after.any(|(other, table)| other == no || table.iter().any(|t| t.refers_to(*no)))
        };
        let tables: Vec<usize> =
            self.small.schema.keys().copied().filter(|no| !fixed(no)).collect();
        for no in tables.into_iter().rev() {
            self.table(no);
        }
    }

    fn table(&mut self, no: usize) {
        if !referenced(&self.small.schema, no, None) {
            self.attempt(|less| drop(less.schema.remove(&no)));
        }
        let rules = self.small.schema.get(&no).map_or(0, |t| t.rules.len());
        for at in (0..rules).rev() {
            self.attempt(|less| {
                less.schema.entry(no).and_modify(|t| drop(t.rules.remove(at)));
            });
        }
        let columns = self.small.schema.get(&no).map_or(0, |t| t.columns.len());
        for at in (0..columns).rev() {
            self.attempt(|less| {
                less.schema.entry(no).and_modify(|t| drop(t.columns.remove(at)));
            });
        }
    }

    fn statements(&mut self) {
        for step in 0..self.small.steps.len() {
            let count = match &self.small.steps[step].action {
                Action::Write(script) => script.len(),
                _ => 0,
            };
            for at in (0..count).rev().filter(|_| count > 1) {
                self.attempt(|less| {
                    if let Action::Write(script) = &mut less.steps[step].action {
                        script.remove(at);
                    }
                });
            }
        }
    }
}

fn partner(action: &Action) -> usize {
    match action {
        Action::Pull(other) | Action::Push(other) | Action::Sync(other) => *other,
        Action::Clone(of, _) => *of,
        _ => 0,
    }
}

/// Takes a migration out; those after it move up.
fn without_migration(history: &mut History, at: usize) {
    history.migrations.remove(at);
    let moved = |n: usize| if n > at { n - 1 } else { n };
    for migration in &mut history.migrations {
        migration.needs.retain(|&need| need != at);
        migration.needs.iter_mut().for_each(|need| *need = moved(*need));
    }
    history.steps.retain(|step| step.action != Action::Migrate(at));
    for step in &mut history.steps {
        if let Action::Migrate(n) = &mut step.action {
            *n = moved(*n);
        }
    }
}
