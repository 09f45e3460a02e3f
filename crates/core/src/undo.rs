//! Taking back what this site wrote, by new writes (decision 033).
//!
//! What must hold: nothing is touched that anybody has written since. A register is given the value of the
//! latest write that is not taken back, with a new stamp; a row is deleted, or brought back as the row that
//! it was. They are written as [`crate::settle`] writes, into states, and the view derives what rows show; so
//! every constraint holds afterwards, foreign keys act as after a merge, and the application's triggers do
//! not fire: what they did is among the writes that are taken back.
//!
//! What would then not show as it was, because a constraint is in the way, is left and told: all is tried
//! again without it. Each round leaves out more, so it ends.

mod check;
mod follow;
mod past;
mod plan;
mod referred;

use crate::closed::{self, ClosedBy};
use crate::history::Change;
use crate::replica::Replica;
use crate::rewrite;
use crate::work::Work;
use crate::{Error, Result};
use plan::{Plan, Step};
use synqlite_wire::{SiteId, Value};

/// What of this site's changes is meant. Without times: the latest of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Changes from this time on, in milliseconds since 1970, as the log tells it.
    pub since_ms: Option<i64>,
    /// Changes up to this time, and in it.
    pub until_ms: Option<i64>,
    /// Only of this table.
    pub table: Option<String>,
    /// Only of the row with this primary key, written as in SQL; text with or without its quotes.
    pub row: Option<String>,
}

/// What became of a selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Undone {
    /// Changes that were taken back.
    pub taken: Vec<Taken>,
    /// Changes that were left.
    pub left: Vec<Left>,
}

/// A row of which changes were taken back.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The table.
    pub table: String,
    /// The row, by its primary key as it was; one that is here again as it is called now.
    pub row: String,
    /// What people know it by, where there is something beside its key.
    pub name: Option<String>,
    /// What was taken back. Of an insert: the row is gone; of a delete: it is here again.
    pub change: Change,
    /// Columns that were given their former values, and what they show.
    pub columns: Vec<(String, Value)>,
}

/// A change that was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The table.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// What people know it by, where there is something beside its key.
    pub name: Option<String>,
    /// The columns; none if it is about the whole row.
    pub columns: Vec<String>,
    /// Why.
    pub why: String,
    /// Who has written it since, and when in milliseconds since 1970, if that is why.
    pub by: Option<(SiteId, i64)>,
}

impl Replica {
    /// Takes back changes of this site, by writes that are ordinary changes of it: they synchronize, and can be
    /// taken back themselves. `dry_run`: only tells what it would do.
    ///
    /// Fails with [`Error::NotReplicated`] or [`Error::NoTable`] if the selection names a table that is not
    /// replicated, with [`Error::Refused`] if it names a row that there never was, or one of several.
    pub fn undo(&mut self, what: &Selection, dry_run: bool) -> Result<Undone> {
        let timed = what.since_ms.is_some() || what.until_ms.is_some();
        if !timed && (what.table.is_none() || what.row.is_none()) {
            let why = "say which changes: those since a time, or the latest of one row of a table";
            return Err(Error::Refused(why.to_owned()));
        }
        self.fold()?;
        self.write(|work| {
            work.fold()?;
            let mut plan = plan::make(work, what)?;
            let taken = take_back(work, &mut plan, dry_run)?;
            let mut left = plan.left;
            left.sort_by(|a, b| {
                (&a.table, &a.row, &a.columns).cmp(&(&b.table, &b.row, &b.columns))
            });
            Ok(Undone { taken, left })
        })
    }
}

/// Does what of a plan can be done; the rest it moves to what is left.
fn take_back(work: &mut Work<'_>, plan: &mut Plan, dry_run: bool) -> Result<Vec<Taken>> {
    let before = check::records(work)?;
    loop {
        referred::keep(work, plan)?;
        follow::again(work, plan)?;
        if plan.steps.is_empty() {
            return Ok(vec![]);
        }
        let meta = work.meta.clone();
        work.conn.execute_batch("SAVEPOINT synqlite_undo")?;
        rewrite::write(work, plan.steps.iter().map(Step::rewrite))?;
        let failed = check::failed(work, plan, &before)?;
        let taken = if failed.is_empty() { Some(check::taken(work, plan)?) } else { None };
        if taken.is_some() && !dry_run {
            work.conn.execute_batch("RELEASE synqlite_undo")?;
            let Work { conn, meta, catalog, now_ms, .. } = work;
            closed::update(conn, meta, catalog, *now_ms, ClosedBy::Write)?;
        } else {
            work.conn.execute_batch("ROLLBACK TO synqlite_undo; RELEASE synqlite_undo")?;
            work.meta = meta;
        }
        match taken {
            Some(taken) => return Ok(taken),
            None => plan.leave_out(&work.catalog, failed),
        }
    }
}
