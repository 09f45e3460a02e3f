//! A large merge or fold in slices: each a transaction of its own, short enough that no program has to wait long
//! for it, with as long a rest after it.
//!
//! Merging commutes and associates, so a slice is merged as if a merge of its own had brought it: after
//! each, every constraint holds. What a delta as a whole says holds after its last slice only: that this
//! replica has seen it.

use crate::fold::Folded;
use crate::fold::ahead::{self, Ahead};
use crate::gaps::{Gaps, Wanted};
use crate::inbox::{self, At, Front, Spool, Spooled, Staged};
use crate::merge::{self, Births, Merged};
use crate::progress::{Phase, Step};
use crate::replica::Replica;
use crate::work::Work;
use crate::{Error, Result, line, migrate, parts};
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
    pub fn take_in(&mut self, spooled: &Spooled, force: bool, lacking: &[Gaps]) -> Result<()> {
        self.check(spooled)?;
        let staged = self.stage()?;
        self.write(|work| {
            work.fold()?;
            let nothing = Wanted::default();
            lacking.iter().try_for_each(|gaps| work.receive(gaps, &nothing))?;
            take_in(work, spooled, staged, force)
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
        let begun =
            self.write(|work| ahead::begin(work.conn, &mut work.meta, &work.catalog, token))?;
        let Some(mut ahead) = begun else { return Ok(folded) };
        let fill = |ahead: &mut Ahead| -> Result<bool> {
            let tx = self.conn.unchecked_transaction()?;
            let more = ahead.queue.fill(&tx, &ahead.catalog, ENTRIES)?;
            tx.commit()?;
            Ok(more)
        };
        while fill(&mut ahead).map_err(|e| e.on(&self.path))? {}
        let mut rows = FIRST;
        loop {
            let since = self.env.now_ms();
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
            rows = pace(rows, took);
            self.env.rest(took.min(REST_MS));
        }
        ahead.queue.end(&self.conn).map_err(|e| e.on(&self.path))?;
        Ok(folded)
    }

    /// Merges all that was taken in, by whatever process, after a large journal was folded.
    pub fn work_off(&mut self) -> Result<Merged> {
        self.fold_ahead()?;
        let (mut merged, mut rows) = (Merged::default(), FIRST);
        let (mut births, mut arrival) = (Births::new(), None);
        let mut gone = 0;
        while let Some(mut front) = self.peek(|conn, _| inbox::front(conn))? {
            if arrival.replace(front.at.arrival) != Some(front.at.arrival) {
                births.clear();
            }
            loop {
                let since = self.env.now_ms();
                let taken = rows.min(front.delta.rows.len());
                let Some((done, at)) =
                    self.write(|work| slice(work, &mut front, taken, &mut births))?
                else {
                    break;
                };
                let took = (self.env.now_ms() - since).max(1);
                merged.add(done);
                rows = pace(rows, took);
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
        if !merged.decisions.is_empty() {
            self.write(|work| merge::standing(work.lookup(), &mut merged.decisions))?;
        }
        Ok(merged)
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
    work.fold()?;
    work.learn(&front.delta.lines)?;
    let base = line::resolve(conn, &work.meta, &front.delta.base)?;
    let upto = line::resolve(conn, &work.meta, &front.delta.upto)?;
    let Some(mut merge) = work.begin_merge(&base, &upto, true, front.again)? else {
        inbox::end(conn, at)?;
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
    Ok(Some((work.end_merge(merge)?, next)))
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

/// How many rows the next slice has, after one of `rows` that took so many milliseconds.
fn pace(rows: usize, took: i64) -> usize {
    let fitting = rows as i64 * SLICE_MS / took.max(1);
    usize::try_from(fitting).unwrap_or(LEAST).min(rows * 2).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_as_many_rows_as_fit_its_time() {
        let steady = |per_second: i64| {
            (0..20).fold(FIRST, |rows, _| pace(rows, rows as i64 * 1_000 / per_second))
        };
        if FIRST > 64 {
            assert!((1_000..1_300).contains(&steady(29_000)), "{}", steady(29_000));
            assert_eq!(steady(1_000_000), MOST);
            assert_eq!(steady(100), LEAST);
        }
        assert!(pace(MOST, 0) <= MOST && pace(LEAST, i64::MAX) == LEAST);
    }
}
