//! Rows of a table that was rebuilt under its name, back where they were.
//!
//! A rebuild may renumber rowids that no column shows. Which row is which is told, in this order, by a
//! key that never changed, by the number that was its rowid, by what the row shows
//! ([`crate::state::sums`]), and by the order of the rows, which a copy keeps: the copy of the nth row
//! has rowid n.

use super::seam::{self, After, Before, Entry};
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::equal;
use crate::merge;
use crate::refs::Lookup;
use crate::schema::{Affinity, Identity, TableKind, quote};
use crate::sqlvalue::At;
use crate::state::sums::{Compared, Sums};
use crate::state::{self, Stored};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Value};

/// So many rows, beside those that the journal names, say whether a guess fits.
const SAMPLE: usize = 64;

/// So many rows and entries are looked at in search of the seam, and of each rebuild before.
const EFFORT: usize = 4_000_000;

/// So many rebuilds before the last one are looked for.
const MOST: usize = 4;

/// Gives the rows of a rebuilt table the rowids that they had, and those that came since others, in
/// the journal too. Only where no column shows the rowid: else it cannot have changed unnoticed.
/// `noted`: whether the journal may tell of them.
pub(super) fn put_back(lookup: Lookup<'_>, t: &Tracked, sums: &Sums, noted: bool) -> Result<()> {
    let (TableKind::Rowid, Some(rowid)) = (t.table.kind, &t.table.rowid_name) else {
        return Ok(());
    };
    let conn = lookup.conn;
    let now = rowids(t.all_places(conn)?);
    let entries = seam::entries(conn, t)?;
    let known = rowids(state::places(conn, lookup.meta, t)?);
    let mut found = Found { conn, t, sums, now: &now, known: &known, entries };
    let mut guess = found.guess(noted)?;
    found.undo_copies(&guess)?;
    guess.copies.clear();
    if noted {
        guess.seam -= found.forget_doubtful(&guess)?;
    }
    let (before, after) = found.split(&guess);
    let mut taken: BTreeSet<i64> = known.iter().chain(before.rows.keys()).copied().collect();
    let (were, are) = (before.rows.clone(), after.rows.clone());
    let mut pairing = Pairing { found: &found, before, after, were, are, moves: BTreeMap::new() };
    pairing.by_key(lookup)?;
    pairing.by_number()?;
    pairing.by_order()?;
    let Pairing { moves, .. } = pairing.rest();
    if moves.iter().all(|(at, was)| at == was) {
        return Ok(());
    }
    taken.extend(moves.values());
    let places = seam::translate(conn, &found.entries[guess.seam..], moves, &now, &taken)?;
    move_rows(conn, t, rowid, &places)
}

fn rowids(locs: BTreeSet<Loc>) -> BTreeSet<i64> {
    let rowid = |loc| match loc {
        Loc::Row(rowid) => Some(rowid),
        Loc::Key(_) => None,
    };
    locs.into_iter().filter_map(rowid).collect()
}

/// Which entries were made before which rebuild of a table.
#[derive(Clone, Debug)]
struct Guess {
    /// So many before each but the last: its triggers were made again, and the copy of the nth row had
    /// rowid n.
    copies: Vec<usize>,
    /// So many before the last one.
    seam: usize,
    /// Whether rows of which entries say that they may give way did so.
    gives_way: bool,
}

impl Guess {
    /// All before one rebuild.
    fn after(seam: usize) -> Guess {
        Guess { copies: vec![], seam, gives_way: false }
    }
}

/// What is known of a rebuilt table.
struct Found<'a> {
    conn: &'a Connection,
    t: &'a Tracked,
    sums: &'a Sums,
    /// Rowids now.
    now: &'a BTreeSet<i64>,
    /// Rowids that may have had rows at the last fold: states name some together with gaps between.
    known: &'a BTreeSet<i64>,
    entries: Vec<Entry>,
}

impl Found<'_> {
    /// The rows just before the last rebuild.
    fn before(&self, guess: &Guess) -> Before {
        let earlier = &self.entries[..guess.seam];
        let first = guess.copies.first().copied().unwrap_or(guess.seam);
        let there = seam::there_before(&earlier[..first]);
        let told = |at: &i64| !self.sums.are_of_rowids() && there.contains(at);
        let was = |at: &&i64| self.sums.has(&Loc::Row(**at)) || told(at);
        let known = self.known.iter().filter(was).copied().collect();
        let mut before = Before::replay(&known, &earlier[..first], guess.gives_way);
        let ends = guess.copies.iter().skip(1).copied().chain([guess.seam]);
        for (from, to) in guess.copies.iter().copied().zip(ends) {
            before.copy();
            before.go_on(&earlier[from..to]);
        }
        let cuts = guess.copies.iter().chain([&guess.seam]);
        before.strange += cuts.filter(|cut| seam::tears(&self.entries, **cut)).count();
        before
    }

    /// The rows just before and just after the last rebuild.
    fn split(&self, guess: &Guess) -> (Before, After) {
        let mut before = self.before(guess);
        let after = After::undo(self.now, &self.entries[guess.seam..]);
        before.add_unnoted(after.rows.len().saturating_sub(before.rows.len()));
        (before, after)
    }

    /// Which entries were made before which rebuild: whatever contradicts itself least. Where the last rebuild
    /// lost the triggers, as it did unless it is `noted`, all were made before it.
    fn guess(&self, noted: bool) -> Result<Guess> {
        let (count, rows) = (self.entries.len(), self.now.len() + self.known.len());
        let (mut best, mut least) = (Guess::after(count), usize::MAX);
        for copies in 0..=MOST {
            let found = least;
            let former = best.copies.clone();
            let tries = if copies == 0 { 1 } else { count };
            let step = (tries.saturating_mul(count * (count + rows)) / EFFORT).max(1);
            let froms: Vec<Option<usize>> = match copies {
                0 => vec![None],
                _ => (0..count).rev().step_by(step).map(Some).collect(),
            };
            for from in froms {
                let mut copies = former.clone();
                copies.extend(from);
                copies.sort_unstable();
                let last = copies.last().copied().unwrap_or(0);
                let seams = (last..=count).rev().step_by(if noted { step } else { count + 1 });
                for seam in seams.chain(noted.then_some(last)) {
                    for gives_way in [false, true] {
                        let guess = Guess { copies: copies.clone(), seam, gives_way };
                        let misfits = match noted {
                            true => self.misfits(&guess, least)?,
                            false => self.strange(&self.before(&guess))?,
                        };
                        if misfits < least {
                            (best, least) = (guess, misfits);
                        }
                        if least == 0 {
                            return Ok(best);
                        }
                    }
                }
            }
            if least == found {
                break;
            }
        }
        Ok(best)
    }

    /// Gives entries after each rebuild but the last the rowids that they would have without it.
    fn undo_copies(&mut self, guess: &Guess) -> Result<()> {
        for (at, &from) in guess.copies.iter().enumerate() {
            let to = guess.copies.get(at + 1).copied().unwrap_or(guess.seam);
            let before = self.before(&Guess { copies: vec![], seam: from, ..guess.clone() });
            let taken = self.known.iter().chain(before.rows.keys()).copied().collect();
            let were = (1..).zip(before.rows.into_keys()).collect();
            let entries = &self.entries[from..to];
            seam::translate(self.conn, entries, were, self.now, &taken)?;
            self.entries = seam::entries(self.conn, self.t)?;
        }
        Ok(())
    }

    /// How many entries contradict others, or what rows showed at the last fold.
    fn strange(&self, before: &Before) -> Result<usize> {
        let mut strange = before.strange;
        for (from, image) in before.deleted() {
            let row = crate::journal::image(self.conn, self.t, image)?.unwrap_or_default();
            strange += usize::from(self.shows(before, from, &row, BTreeSet::new())? == Some(false));
        }
        Ok(strange)
    }

    /// Forgets updates that may be of before the last rebuild or since, where they would be of a row that came
    /// since the last fold: it may be another's, and nothing would tell. Such a row has what it shows from its
    /// beginning; of any other, sums tell that it was written. Returns how many there are.
    fn forget_doubtful(&mut self, guess: &Guess) -> Result<usize> {
        let before = self.before(guess);
        if before.of_new().is_empty() || before.in_order() {
            return Ok(0);
        }
        let (mut first, least) = (guess.seam, self.misfits(guess, usize::MAX)?);
        for seam in (0..guess.seam).rev().take(SAMPLE) {
            let earlier = Guess { seam, ..guess.clone() };
            if self.misfits(&earlier, least.saturating_add(1))? > least {
                break;
            }
            first = if self.before(&earlier).in_order() { first } else { seam };
        }
        let range = self.entries[first..guess.seam].iter();
        let doubtful: Vec<&Entry> = range.filter(|e| e.is_among(before.of_new())).collect();
        doubtful.iter().try_for_each(|entry| seam::forget(self.conn, entry))?;
        let count = doubtful.len();
        self.entries = seam::entries(self.conn, self.t)?;
        Ok(count)
    }

    /// How much contradicts a guess; at least `enough` if no less.
    fn misfits(&self, guess: &Guess, enough: usize) -> Result<usize> {
        let (before, after) = self.split(guess);
        let apart = before.rows.len().abs_diff(after.rows.len());
        let strange = before.strange + after.strange;
        if strange + apart >= enough {
            return Ok(enough);
        }
        let strange = self.strange(&before)? + after.strange;
        let every = after.rows.len() / SAMPLE + 1;
        let mut sample: BTreeSet<i64> = after.rows.iter().copied().step_by(every).collect();
        sample.extend(after.named());
        let of_guess = |guess: BTreeMap<i64, i64>| -> Result<usize> {
            let missing = guess.keys().filter(|at| !after.rows.contains(at)).count();
            let mut misfits = missing + after.rows.len() - (guess.len() - missing);
            for (at, was) in sample.iter().filter_map(|at| Some((*at, *guess.get(at)?))) {
                misfits += usize::from(self.fits((&before, &after), at, was)? == Some(false));
            }
            Ok(misfits)
        };
        let stayed = of_guess(before.rows.keys().map(|&at| (at, at)).collect())?;
        let copied = of_guess((1..).zip(before.rows.keys().copied()).collect())?;
        Ok(strange + stayed.min(copied))
    }

    /// Whether the row at `at` just after the rebuild shows what the one that was at `was` did just
    /// before, as far as it is known.
    fn fits(&self, (before, after): (&Before, &After), at: i64, was: i64) -> Result<Option<bool>> {
        let compared = self.compare((before, after), at, was)?;
        Ok(compared.map(|compared| compared.touched.is_empty()))
    }

    fn compare(
        &self,
        (before, after): (&Before, &After),
        at: i64,
        was: i64,
    ) -> Result<Option<Compared>> {
        let Some(&Some(from)) = before.rows.get(&was) else { return Ok(None) };
        let Some((row, unknown)) = after.read(self.conn, self.t, at)? else { return Ok(None) };
        self.compared(before, from, &row, unknown)
    }

    /// Whether `row`, but for columns that are `unknown`, shows just before the rebuild what the row
    /// at `from` did at the last fold.
    fn shows(
        &self,
        before: &Before,
        from: i64,
        row: &[Value],
        unknown: BTreeSet<usize>,
    ) -> Result<Option<bool>> {
        let compared = self.compared(before, from, row, unknown)?;
        Ok(compared.map(|compared| compared.touched.is_empty()))
    }

    fn compared(
        &self,
        before: &Before,
        from: i64,
        row: &[Value],
        mut unknown: BTreeSet<usize>,
    ) -> Result<Option<Compared>> {
        unknown.extend(before.written(self.t, from));
        self.sums.compare(self.conn, self.t, &Loc::Row(from), row, &unknown)
    }
}

struct Pairing<'a> {
    found: &'a Found<'a>,
    before: Before,
    after: After,
    /// Rowids of which it is not known yet where their rows are, each with that at the last fold.
    were: BTreeMap<i64, Option<i64>>,
    /// Rowids whose rows are not known yet.
    are: BTreeSet<i64>,
    /// Where rows are, and where they were.
    moves: BTreeMap<i64, i64>,
}

impl Pairing<'_> {
    fn pair(&mut self, at: i64, was: i64) {
        self.were.remove(&was);
        self.are.remove(&at);
        self.moves.insert(at, was);
    }

    /// Pairs rows that have a key which never changed.
    fn by_key(&mut self, lookup: Lookup<'_>) -> Result<()> {
        let t = self.found.t;
        if t.table.identity != Identity::Key {
            return Ok(());
        }
        for at in self.are.clone() {
            let Some((row, unknown)) = self.after.read(lookup.conn, t, at)? else { continue };
            if t.table.primary_key.iter().any(|c| unknown.contains(c)) {
                continue;
            }
            let Some(key) = lookup.key_rid(t, &row)? else { continue };
            let rid = Rid::Key { key, generation: 0 };
            let Some(known) = state::of(lookup.conn, lookup.meta, t, &rid)? else { continue };
            let Some(Loc::Row(was)) = known.loc else { continue };
            if !state::keeps_its_key(t, &known) && !self.had_key(lookup.conn, was, &row)? {
                continue;
            }
            // Its key may have become another's since, as entries tell.
            let written = self.before.written(t, was);
            let stayed = !t.table.primary_key.iter().any(|c| written.contains(c));
            if stayed && self.were.get(&was) == Some(&Some(was)) {
                self.pair(at, was);
            }
        }
        Ok(())
    }

    /// Whether the row that was there showed the primary key of this one, as far as its sum tells: of a row that was
    /// inserted again all columns were written since it got its name.
    fn had_key(&self, conn: &Connection, was: i64, row: &[Value]) -> Result<bool> {
        let Found { t, sums, .. } = *self.found;
        let compared = sums.compare(conn, t, &Loc::Row(was), row, &BTreeSet::new())?;
        let another = |c: &usize| compared.as_ref().is_none_or(|found| found.touched.contains(c));
        Ok(!t.table.primary_key.iter().any(another))
    }

    /// Pairs rows with those whose rowids they still show, in a column that was the rowid.
    fn by_number(&mut self) -> Result<()> {
        let Found { conn, t, sums, .. } = *self.found;
        let Some(c) = sums.was_rowid else { return Ok(()) };
        for at in self.are.clone() {
            let Some((row, unknown)) = self.after.read(conn, t, at)? else { continue };
            let Value::Integer(was) = equal::stored(&row[c], Affinity::Integer) else { continue };
            if !unknown.contains(&c) && self.were.contains_key(&was) {
                self.pair(at, was);
            }
        }
        Ok(())
    }

    /// Pairs rows by their order, if that was kept, else by their rowids, whichever fits what more of
    /// them show; of those that it does not fit others that show the same.
    fn by_order(&mut self) -> Result<()> {
        let same = self.are.iter().filter(|at| self.were.contains_key(at));
        let same: Vec<(i64, i64)> = same.map(|at| (*at, *at)).collect();
        let copies = (1..).zip(self.before.rows.keys().copied());
        let copies: Vec<(i64, i64)> = copies
            .filter(|(at, was)| self.are.contains(at) && self.were.contains_key(was))
            .collect();
        let (stayed, copied) = (self.fitting(&same)?, self.fitting(&copies)?);
        let by_number = (copied.len(), copies.len()) > (stayed.len(), same.len());
        let (fit, all) = if by_number { (copied, copies) } else { (stayed, same) };
        fit.into_iter().for_each(|(at, was)| self.pair(at, was));
        self.alike()?;
        for (at, was) in all {
            if self.are.contains(&at) && self.were.contains_key(&was) && self.akin(at, was)? {
                self.pair(at, was);
            }
        }
        Ok(())
    }

    /// Whether a row may be the one that was there, written since. Of one that its key names either the
    /// key is the same or all else is: else a table that was dropped and filled anew would give its
    /// rows the identities of others, on each site those of the same. Of any other row something is.
    fn akin(&self, at: i64, was: i64) -> Result<bool> {
        let compared = self.found.compare((&self.before, &self.after), at, was)?;
        // Without a sum it came since the last fold. If a column is touched, all that show the same are
        // said to be unsure.
        let Some(Compared { touched, unsure, .. }) = compared else { return Ok(true) };
        let t = self.found.t;
        let is_key = |c: &usize| t.table.primary_key.contains(c);
        Ok(match t.table.identity {
            _ if touched.is_empty() => true,
            Identity::Key if !touched.iter().any(is_key) => true,
            Identity::Key => touched.iter().all(is_key) && !unsure.is_empty(),
            Identity::Birth => touched.len() == 1 || !unsure.is_empty(),
        })
    }

    fn fitting(&self, pairs: &[(i64, i64)]) -> Result<Vec<(i64, i64)>> {
        let mut fitting = Vec::new();
        for &(at, was) in pairs {
            if self.found.fits((&self.before, &self.after), at, was)? == Some(true) {
                fitting.push((at, was));
            }
        }
        Ok(fitting)
    }

    /// Pairs rows that show the same.
    fn alike(&mut self) -> Result<()> {
        let Found { conn, t, sums, .. } = *self.found;
        let from: BTreeMap<Loc, i64> =
            self.were.iter().filter_map(|(was, from)| Some((Loc::Row((*from)?), *was))).collect();
        let mut alike = sums.alike(t, from.keys());
        for at in self.are.clone() {
            let Some((row, unknown)) = self.after.read(conn, t, at)? else { continue };
            let found = if unknown.is_empty() { alike.take(t, &row) } else { None };
            if let Some(was) = found.and_then(|found| from.get(&found)) {
                self.pair(at, *was);
            }
        }
        Ok(())
    }

    /// Rows that are new come last, past all others, unless they stand in the way of none, also of none
    /// that is gone.
    fn rest(mut self) -> Self {
        let places = self.moves.iter().flat_map(|(at, was)| [at, was]);
        let places = places.chain(&self.are).chain(self.before.rows.keys());
        let all: BTreeSet<i64> = places.copied().collect();
        let after = all.last().map_or(0, |last| (*last).max(0));
        let taken: BTreeSet<i64> = self.moves.values().chain(self.were.keys()).copied().collect();
        let further = (1..).map_while(|i| after.checked_add(i));
        let below = (i64::MIN..0).rev().filter(|rowid| !all.contains(rowid));
        let mut further = further.chain(below);
        for at in std::mem::take(&mut self.are) {
            let was = if taken.contains(&at) { further.next() } else { Some(at) };
            self.moves.extend(was.map(|was| (at, was)));
        }
        self
    }
}

/// Whether the key of `row` is the one that names the row.
pub(super) fn is_named(
    lookup: Lookup<'_>,
    t: &Tracked,
    stored: &Stored,
    row: &[Value],
) -> Result<bool> {
    let Rid::Key { key, generation: 0 } = &stored.rid else { return Ok(false) };
    Ok(!row.is_empty() && lookup.key_rid(t, row)?.as_ref() == Some(key))
}

fn move_rows(conn: &Connection, t: &Tracked, rowid: &str, moves: &[(Loc, Loc)]) -> Result<()> {
    let moves: Vec<_> = moves.iter().filter(|(from, to)| from != to).collect();
    if moves.is_empty() {
        return Ok(());
    }
    let name = quote(rowid);
    let mut taken: BTreeSet<Loc> = t.all_places(conn)?;
    taken.extend(moves.iter().map(|(_, to)| to.clone()));
    // Places on the way are nobody's, before or after.
    let free = (i64::MIN..0).rev().map(Loc::Row).filter(|loc| !taken.contains(loc));
    let moves: Vec<_> = moves.into_iter().zip(free).collect();
    let sql = format!("UPDATE {} SET {name} = ?2 WHERE {name} = ?1", t.target());
    merge::with_places(conn, &t.table.name, || {
        let mut statement = conn.prepare(&sql)?;
        for ((from, _), between) in &moves {
            statement.execute(params![At(from), At(between)])?;
        }
        for ((_, to), between) in &moves {
            statement.execute(params![At(between), At(to)])?;
        }
        Ok(())
    })
}
