//! What applications write while a command is at work, between two slices of a large fold or merge.
//!
//! Histories are small, so only feature `small-parts` makes slices in them. A write of a history that is
//! followed by a command at its site waits for that command, and runs between two of its slices if it has
//! any. So histories are the same with and without.

use super::app;
use super::marks::{self, Shown};
use super::play::{Played, Player, harness};
use super::{Action, Step};
use crate::world::{Result, julian_day};
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};

/// A write that waits: its statements, and when it is.
pub type Waiting = (Vec<String>, i64);

/// What writes between slices changed, each as it was shown before and after.
type Changed = Arc<Mutex<Vec<std::result::Result<(Shown, Shown), String>>>>;

impl Player<'_> {
    /// Whether a step waits for the next command at its site.
    pub(super) fn waits(&self, step: &Step) -> bool {
        let n = step.site;
        cfg!(feature = "small-parts")
            && step.ms % 2 == 0
            && !self.sites[n].system
            && matches!(step.action, Action::Write(_))
    }

    /// Runs what waits at a site, or at all.
    pub(super) fn write_waiting(&mut self, only: Option<usize>) -> Played {
        for n in 0..self.sites.len() {
            if only.is_none_or(|only| only == n) {
                for (script, ms) in std::mem::take(&mut self.sites[n].waiting) {
                    self.write(n, &script, ms)?;
                }
            }
        }
        Ok(())
    }

    /// Runs a command at a site, and between its slices what waits there; what is left of it afterwards.
    pub(super) fn meanwhile(
        &mut self,
        n: usize,
        command: impl FnOnce(&mut Self) -> Played,
    ) -> Played {
        let waiting = std::mem::take(&mut self.sites[n].waiting);
        if waiting.is_empty() {
            return command(self);
        }
        let (changed, shown) = (Changed::default(), self.shown_by(n));
        let mut pragmas = self.history.pragmas.get(n).cloned().unwrap_or_default();
        let keys = self.texts(n, "PRAGMA foreign_keys")?;
        pragmas.push(format!("PRAGMA foreign_keys = {}", keys.concat()));
        for (script, ms) in waiting.clone() {
            // What came meanwhile may be later.
            self.marks.unnoted(&script);
            let (path, changed) = (self.sites[n].path.clone(), changed.clone());
            let (pragmas, shown) = (pragmas.clone(), shown.clone());
            self.sites[n].env.between(move || {
                let written = write(&path, &pragmas, &shown, &script, julian_day(ms));
                let written = written.map_err(|e| e.to_string());
                changed.lock().unwrap_or_else(PoisonError::into_inner).push(written);
            });
        }
        let done = command(self);
        self.sites[n].env.forget();
        let changed = std::mem::take(&mut *changed.lock().unwrap_or_else(PoisonError::into_inner));
        self.sites[n].waiting = waiting.into_iter().skip(changed.len()).collect();
        for written in changed {
            let (before, after) = written.map_err(harness)?;
            self.marks.local(n, &before, &after);
        }
        done?;
        self.write_waiting(Some(n))
    }
}

fn write(
    path: &std::path::Path,
    pragmas: &[String],
    shown: &str,
    script: &[String],
    at: f64,
) -> Result<(Shown, Shown)> {
    let conn = Connection::open(path)?;
    for pragma in pragmas {
        conn.execute_batch(pragma)?;
    }
    let look = || -> Result<Shown> {
        match shown {
            "" => Ok(Shown::new()),
            shown => Ok(marks::count(&app::texts(&conn, shown)?)),
        }
    };
    let before = look()?;
    app::run(&conn, script, true, at)?;
    Ok((before, look()?))
}
