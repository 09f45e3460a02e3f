//! A large merge or fold in slices: each a transaction of its own, short enough that no program has to wait long
//! for it, with as long a rest after it.
//!
//! Merging commutes and associates, so a slice is merged as if a merge of its own had brought it: after
//! each, every constraint holds. What a delta as a whole says holds after its last slice only: that this
//! replica has seen it.

use crate::closed;
use crate::fold::Folded;
use crate::fold::ahead::{self, Ahead};
use crate::gaps::{Gaps, Wanted};
use crate::inbox::{self, At, Front, Spool, Spooled, Staged};
use crate::journal;
use crate::merge::{self, Births, Merged, Merging};
use crate::meta::Meta;
use crate::progress::{Phase, Step};
use crate::refs::Lookup;
use crate::replica::Replica;
use crate::track::Loaded;
use crate::twins::Twins;
use crate::work::Work;
use crate::{Error, Result, line, migrate, parts};
use rusqlite::Connection;
use synqlite_wire::Delta;

/// A slice takes about so many milliseconds, of its transaction's 100.
const SLICE_MS: i64 = 40;

/// Rows of the first slice: of those that take longest, what takes about so long.
const FIRST: usize = parts::of(1_024);

/// Rows of a slice at least, and at most.
const LEAST: usize = parts::of(64);
const MOST: usize = parts::of(8_192);

/// So many entries of the journal are looked at in one transaction.
const ENTRIES: i64 = parts::of(20_000) as i64;

/// So long is the longest rest, in milliseconds.
const REST_MS: i64 = 100;

impl Replica {
    /// Where deltas wait that are to be taken in.
    pub fn spool(&mut self) -> Result<Spool<'_>> {
        Spool::new(&self.conn).map_err(|e| e.on(&self.path))
    }

    /// Takes in what was spooled, all or nothing: from now on it is here. `lacking`: what replicas lack whose
    /// changes are among it.
    pub fn take_in(&mut self, spooled: &Spooled, how: Merging, lacking: &[Gaps]) -> Result<()> {
        self.check(spooled)?;
        let staged = self.stage()?;
        self.write(|work| {
            work.fold_to_merge(how.more)?;
            let nothing = Wanted::default();
            lacking.iter().try_for_each(|gaps| work.receive(gaps, &nothing))?;
            take_in(work, spooled, staged, how.force)
        })
    }

    /// Puts the bodies that were spooled into the inbox, where they are nobody's yet.
    pub(crate) fn stage(&mut self) -> Result<Staged> {
        let [a, b, c, d, ..] = self.env.random();
        let random = u32::from_be_bytes([a, b, c, d]);
        let mut staged = self.write(|work| Staged::begin(work.conn, random))?;
        loop {
            let since = self.env.now_ms();
            if !self.write(|work| staged.bodies(work.conn))? {
                return Ok(staged);
            }
            self.env.rest((self.env.now_ms() - since).clamp(1, REST_MS));
        }
    }

    /// Refuses what was spooled if a slice of it would be refused: once it has been taken in that is too late.
    pub(crate) fn check(&mut self, spooled: &Spooled) -> Result<()> {
        self.write(|work| {
            spooled.deltas().try_for_each(|(header, _)| work.learn(&header.lines).map(drop))
        })?;
        // Each in a transaction of its own: with a rollback journal, whoever reads keeps others from committing.
        let mut after = 0;
        let next =
            |after| inbox::next_spooled(&self.conn, spooled, after).map_err(|e| e.on(&self.path));
        while let Some((body, mut delta)) = next(after)? {
            self.peek(|conn, meta| {
                let mut covered = meta.seen.clone();
                covered.join(&line::resolve(conn, meta, &delta.upto)?);
                line::moves(conn, meta, &delta)?.delta(&mut delta);
                delta.check_writes(&covered)?;
                line::check_births(conn, meta, &delta)
            })?;
            after = body;
        }
        Ok(())
    }

    /// Folds most of a large journal slice by slice: the rows whose entries concern nobody else. The rest is for
    /// the fold of all.
    pub(crate) fn fold_ahead(&mut self) -> Result<Folded> {
        let (mut folded, token) = (Folded::default(), self.env.random());
        let little = self.peek(|conn, _| ahead::is_little(conn))?;
        if little {
            return Ok(folded);
        }
        let (begun, caught_up) = self.write(|work| {
            let begun = ahead::begin(work.conn, &mut work.meta, &work.catalog, token)?;
            Ok((begun, work.folded))
        })?;
        folded.add(caught_up);
        let Some(mut ahead) = begun else { return Ok(folded) };
        let fill = |ahead: &mut Ahead| -> Result<bool> {
            let tx = self.conn.unchecked_transaction()?;
            let more = ahead.queue.fill(&tx, &ahead.catalog, ENTRIES)?;
            tx.commit()?;
            Ok(more)
        };
        while fill(&mut ahead).map_err(|e| e.on(&self.path))? {}
        let mut pace = Pace::new();
        loop {
            let (since, rows) = (self.env.now_ms(), pace.rows);
            let slice = self.write(|work| {
                let Work { conn, meta, catalog, policies, env, .. } = work;
                ahead::slice(conn, meta, catalog, (policies, *env), &mut ahead, rows)
            })?;
            let Some((done, more)) = slice else { break };
            folded.add(done);
            if !more {
                break;
            }
            let took = (self.env.now_ms() - since).max(1);
            pace.took(rows, took);
            self.env.rest(took.min(REST_MS));
        }
        ahead.queue.end(&self.conn).map_err(|e| e.on(&self.path))?;
        Ok(folded)
    }

    /// Merges all that was taken in, by whatever process, after a large journal was folded.
    pub fn work_off(&mut self) -> Result<Merged> {
        self.fold_ahead()?;
        let (mut merged, mut pace) = (Merged::default(), Pace::new());
        let (mut births, mut arrival) = (Births::new(), None);
        let mut gone = 0;
        while let Some(mut front) = self.peek(|conn, _| inbox::front(conn))? {
            if arrival.replace(front.at.arrival) != Some(front.at.arrival) {
                births.clear();
            }
            loop {
                let since = self.env.now_ms();
                let taken = pace.rows.min(front.delta.rows.len());
                let Some((done, at)) =
                    self.write(|work| slice(work, &mut front, taken, &mut births))?
                else {
                    break;
                };
                let took = (self.env.now_ms() - since).max(1);
                merged.add(done);
                pace.took(taken, took);
                let (more, of_it) =
                    self.peek(|conn, _| Ok((inbox::rows(conn)?, inbox::at(conn)? == Some(at))))?;
                gone += taken as u64;
                self.env.step(Step { phase: Phase::Merge, done: gone, total: Some(gone + more) });
                if more > 0 {
                    self.env.rest(took.min(REST_MS));
                }
                front.at = at;
                if !of_it {
                    break;
                }
            }
        }
        if arrival.is_some() {
            self.unite_twins(&mut merged)?;
        }
        if !merged.decisions.is_empty() {
            self.write(|work| merge::standing(work.lookup(), &mut merged.decisions))?;
        }
        Ok(merged)
    }

    /// Unites what other slices have brought with what it is the same as (R-TWIN).
    fn unite_twins(&mut self, merged: &mut Merged) -> Result<()> {
        let find = |conn: &Connection, meta: &Meta, loaded: &Loaded| {
            Twins::find(Lookup { conn, meta, catalog: &loaded.catalog })
        };
        let Some(mut twins) = self.read(find)? else { return Ok(()) };
        let mut pace = Pace::new();
        loop {
            let (since, many) = (self.env.now_ms(), pace.rows.min(twins.len()));
            if self.write(|work| twins.unite(work, many, merged))? {
                return Ok(());
            }
            let took = (self.env.now_ms() - since).max(1);
            pace.took(many, took);
            self.env.rest(took.min(REST_MS));
        }
    }
}

/// Puts into the inbox what was spooled, if it can be merged here.
pub(crate) fn take_in(
    work: &mut Work<'_>,
    spooled: &Spooled,
    staged: Staged,
    force: bool,
) -> Result<()> {
    let mut seen = work.meta.seen.clone();
    seen.join(&inbox::covers(work.conn)?);
    for (header, upto) in spooled.deltas() {
        work.learn(&header.lines)?;
        let Work { conn, meta, now_ms, .. } = &*work;
        let upto = line::resolve(conn, meta, upto)?;
        if !seen.dominates(&line::resolve(conn, meta, &header.base)?) {
            return Err(Error::MissingBase);
        }
        if !force {
            merge::check_skew(meta, &upto, *now_ms)?;
        }
        line::check_led(conn, meta, &upto)?;
        seen.join(&upto);
    }
    inbox::put(work.conn, spooled, staged)
}

/// Merges the first rows of what is at the front, if it still is there; returns where the front is then.
/// `births`: of which births other slices have brought rows.
fn slice(
    work: &mut Work<'_>,
    front: &mut Front,
    rows: usize,
    births: &mut Births,
) -> Result<Option<(Merged, At)>> {
    let (conn, at) = (work.conn, front.at);
    if inbox::at(conn)? != Some(at) {
        return Ok(None);
    }
    closed::begin_slices(conn)?;
    // A number that a row has only until the rest has come is not pinned (R-PIN), unless a program saw it and wrote.
    if journal::any(conn)? {
        work.fold()?;
    }
    work.learn(&front.delta.lines)?;
    let base = line::resolve(conn, &work.meta, &front.delta.base)?;
    let upto = line::resolve(conn, &work.meta, &front.delta.upto)?;
    let Some(mut merge) = work.begin_merge(&base, &upto, true, front.again)? else {
        inbox::end(conn, at)?;
        closed::end_slices(conn, &work.meta, &work.catalog, work.now_ms)?;
        return Ok(Some((Merged::default(), at)));
    };
    let mut delta = front.part(rows);
    let all = front.delta.rows.is_empty();
    if !front.held {
        line::moves(conn, &work.meta, &delta)?.delta(&mut delta);
    }
    (delta.base, delta.upto) = (base, upto);
    merge.go_on(births);
    if !delta.settings.is_empty() {
        // What comes with them is read as they say.
        migrate::take_settings(work, &delta.settings)?;
    }
    let last = all && inbox::is_last(conn, at)?;
    match front.held {
        true => merge.join_now(&mut work.site(), delta)?,
        false => merge.part(&mut work.site(), delta)?,
    }
    if !last && let Some(held) = merge.take_held() {
        inbox::put_off(conn, at, &held)?;
    }
    *births = merge.births();
    let next = inbox::leave(conn, at, rows, all)?;
    if !last {
        return Ok(Some((work.end_slice(merge)?, next)));
    }
    inbox::end(conn, at)?;
    // Twins are united in slices of their own.
    let merged = work.end_merge(merge, |_, _| Ok(()))?;
    closed::end_slices(conn, &work.meta, &work.catalog, work.now_ms)?;
    Ok(Some((merged, next)))
}

impl Front {
    /// Takes the first rows. Settings go with the first of all, and what gave way with the last.
    fn part(&mut self, rows: usize) -> Delta {
        let whole = &mut self.delta;
        let (base, upto) = (whole.base.clone(), whole.upto.clone());
        let (lines, tips) = (whole.lines.clone(), whole.tips.clone());
        let rows: Vec<_> = whole.rows.drain(..rows.min(whole.rows.len())).collect();
        let (tables, settings) = (whole.tables.clone(), std::mem::take(&mut whole.settings));
        let mut told = vec![];
        if whole.rows.is_empty() {
            told.append(&mut whole.told);
        }
        Delta { base, upto, lines, tips, tables, rows, settings, told }
    }
}

/// How many rows a slice has.
struct Pace {
    rows: usize,
    /// Rows of the latest slice that had others than the one before, by half, and the milliseconds that it took.
    last: Option<(usize, i64)>,
    /// So many milliseconds a slice takes however few rows it has: what is decided anew with any row, as all that
    /// is hidden in a circle of tables.
    fixed: i64,
}

impl Pace {
    fn new() -> Pace {
        Pace { rows: FIRST, last: None, fixed: 0 }
    }

    /// A slice of so many rows took so many milliseconds. The next is to take its time, or as long for its rows
    /// as for what it takes in any case: else the fewer rows a slice had, the longer all of them would take.
    fn took(&mut self, rows: usize, ms: i64) {
        let (rows, ms) = (rows.max(1), ms.clamp(1, 1_000_000));
        let count = rows as i64;
        let (before, took) = *self.last.get_or_insert((rows, ms));
        if rows * 2 <= before || before * 2 <= rows {
            let of_rows = (took - ms).saturating_mul(count) / (before as i64 - count);
            self.fixed = (ms - of_rows).clamp(0, ms);
            self.last = Some((rows, ms));
        } else {
            // It may have been something else that took long once: so slices shrink till they show it again.
            self.fixed -= self.fixed / 8;
        }
        let time = SLICE_MS.max(2 * self.fixed) - self.fixed;
        let fitting = count * time / (ms - self.fixed).max(1);
        let fitting = usize::try_from(fitting).unwrap_or(LEAST);
        // A slice that is a little shorter tells as well whether it is the rows that take long.
        self.rows = fitting.clamp(rows / 8, rows * 4).clamp(LEAST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a slice has in the end of which each row takes `per_row` microseconds, and each slice `fixed`
    /// milliseconds.
    fn steady(per_row: i64, fixed: i64) -> usize {
        let mut pace = Pace::new();
        for _ in 0..20 {
            pace.took(pace.rows, fixed + pace.rows as i64 * per_row / 1_000);
        }
        pace.rows
    }

    #[test]
    fn a_slice_has_as_many_rows_as_fit_its_time() {
        if FIRST > 64 {
            assert!((1_000..1_300).contains(&steady(34, 0)), "{}", steady(34, 0));
            assert_eq!((steady(1, 0), steady(10_000, 0)), (MOST, LEAST));
        }
        let (mut quick, mut slow) = (Pace::new(), Pace::new());
        (0..5).for_each(|_| quick.took(quick.rows, 0));
        (0..2).for_each(|_| slow.took(slow.rows, slow.rows as i64 * 900));
        assert_eq!((quick.rows, slow.rows), (MOST, LEAST));
    }

    /// Where a slice takes long in any case, a good part of its time is for its rows, also while slices shrink
    /// to show whether it still does.
    #[test]
    fn a_slice_that_takes_long_in_any_case_has_more_rows() {
        if FIRST > 64 {
            for fixed in [50, 400, 1_000] {
                let rows = steady(300, fixed) as i64;
                assert!((fixed * 1_000 / 3_000..fixed * 1_000 / 150).contains(&rows), "{rows}");
            }
        }
    }

    /// What took long once does not make all slices long.
    #[test]
    fn a_pause_is_forgotten() {
        let mut pace = Pace::new();
        [500, 400].into_iter().for_each(|ms| pace.took(pace.rows, ms));
        (0..40).for_each(|_| pace.took(pace.rows, pace.rows as i64 / 25));
        assert!(FIRST <= 64 || (900..1_100).contains(&pace.rows), "{}", pace.rows);
    }
}
