//! One round of the view: shows the rows of a component that are not hidden, and says who does not fit.

use super::unique::{self, Outcome};
use super::{Attempt, Fallback, Fallbacks, Hidden, conflict};
use crate::Result;
use crate::affected::Conflict;
use crate::affected::turn;
use crate::conflict::ConflictKind;
use crate::remap::{self, Wish};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use synqlite_wire::Value;

/// So often are the keys of tables that refer to each other heard at most while rows that fall back move
/// others. Former values that depend on each other need a time each; some swing for ever, and are hidden.
const PASSES: usize = 16;

/// One round of a component: who is hidden, who has which number, who shows an earlier value.
pub struct Round {
    pub tables: Range<usize>,
    pub hidden: Hidden,
    pub ids: BTreeMap<usize, i64>,
    pub rows: BTreeMap<usize, Vec<Value>>,
    /// Groups whose reference an action on the parent's delete set to NULL or its default.
    pub nulled: BTreeMap<usize, BTreeSet<usize>>,
    /// Affected rows among them whose reference is later than that delete.
    pub unexpected: BTreeSet<usize>,
    /// The same for a change of the parent's key, and groups that show a row standing for another.
    pub overridden: BTreeMap<usize, BTreeSet<usize>>,
    /// Numbers of hidden rows that references to these show, or would if no other row had them: keys as
    /// [`super::View::claims`] has them.
    pub lent: BTreeMap<usize, Vec<(String, Vec<u8>)>>,
    /// Who shows what it was before, as far as it is known.
    pub fallbacks: Fallbacks,
    /// Whether all that remains is who has which unique key.
    pub granted: bool,
}

impl Round {
    /// Nothing is known but who is hidden.
    fn with(tables: &Range<usize>, hidden: Hidden) -> Round {
        Round {
            tables: tables.clone(),
            hidden,
            ids: BTreeMap::new(),
            rows: BTreeMap::new(),
            nulled: BTreeMap::new(),
            unexpected: BTreeSet::new(),
            overridden: BTreeMap::new(),
            lent: BTreeMap::new(),
            fallbacks: BTreeMap::new(),
            granted: false,
        }
    }
}

impl Attempt<'_, '_> {
    /// Shows the candidates that are not hidden; returns those that turn out not to fit.
    ///
    /// A row that falls back moves the references to it in its component, and with them keys. So keys are
    /// heard again until the rows that fall back are those whose former values the others showed.
    pub fn round(
        &mut self,
        tables: &Range<usize>,
        mine: &[usize],
        hidden: Hidden,
    ) -> Result<(Round, Hidden)> {
        let mut round = Round::with(tables, hidden);
        self.close(&mut round, mine);
        let live: Vec<usize> =
            mine.iter().copied().filter(|at| !round.hidden.contains_key(at)).collect();
        round.ids = self.numbers(&round, &live)?;
        let circle = self.affected.catalog().refer_to_themselves(tables);
        let mut passes = if circle { PASSES } else { 1 };
        loop {
            self.display(&mut round, &live)?;
            let (mut news, claims) = self.dangling(&round, &live)?;
            self.unfit(&round, &live, &mut news)?;
            self.view.unheard |= circle && !self.check_keys && !news.is_empty();
            let mut heard = match self.check_keys && (circle || news.is_empty()) {
                true => self.grant(&round, &live, &news)?,
                false => Outcome::default(),
            };
            let moved = !same_groups(&heard.fallbacks, &round.fallbacks);
            passes -= 1;
            // Who falls back only as long as it does not is hidden.
            let swings = |(at, (groups, _)): (&usize, &(Fallback, Conflict))| {
                let before = round.fallbacks.get(at).map(|(groups, _)| groups);
                (circle && passes <= 1 && before != Some(groups)).then_some(*at)
            };
            let swinging: Vec<usize> = heard.fallbacks.iter().filter_map(swings).collect();
            if moved && passes > 0 && swinging.is_empty() {
                if circle {
                    self.passing(&round);
                }
                round.fallbacks = heard.fallbacks;
                continue;
            }
            // So is who falls back only as long as it does, and does not any more.
            let last = circle && passes == 0;
            for (at, (_, conflict)) in round.fallbacks.iter().filter(|_| last) {
                if !heard.fallbacks.contains_key(at) {
                    heard.lost.insert(*at, conflict.clone());
                }
            }
            for at in swinging {
                heard.lost.extend(heard.fallbacks.remove(&at).map(|(_, conflict)| (at, conflict)));
            }
            for (at, claims) in claims {
                self.view.claims.entry(at).or_default().extend(claims);
            }
            if news.is_empty() && self.check_keys {
                round.granted = true;
                if circle {
                    for at in self.moving(&round, mine, &heard.lost) {
                        heard.lost.remove(&at);
                        heard.claims.remove(&at);
                        heard.blockers.remove(&at);
                    }
                }
                round.fallbacks = heard.fallbacks;
                self.view.claims.extend(heard.claims);
                self.view.blockers.extend(heard.blockers);
                news = heard.lost;
            }
            if news.is_empty() && moved {
                self.display(&mut round, &live)?;
            }
            return Ok((round, news));
        }
    }

    /// R-REMAP and R-OWN for the tables of the component.
    fn numbers(&self, round: &Round, live: &[usize]) -> Result<BTreeMap<usize, i64>> {
        let mut ids = BTreeMap::new();
        for table in round.tables.clone() {
            let t = &self.affected.catalog().tables[table];
            let own = t.table.own_number();
            let Some(alias) = t.table.renumbers().or(own) else { continue };
            let mine = live.iter().copied().filter(|&at| self.affected.list[at].table == table);
            let wish = |at: usize| {
                let item = &self.affected.list[at];
                let (claim, rid) = turn(t, alias, &item.stored);
                let id = self.affected.wanted(t, alias, at)?;
                Some(Wish { claim, rid, item: at, id })
            };
            let numbers = || self.affected.known(table, |_| true);
            if own.is_none() {
                ids.extend(remap::grant(mine.filter_map(wish).collect(), numbers)?);
                continue;
            }
            let here = |at: usize| self.affected.list[at].old.as_ref()?[alias].as_integer();
            let (old, mut new): (Vec<usize>, Vec<usize>) = mine.partition(|&at| here(at).is_some());
            // Of two that had one number here, the later to be given it is who is known by it.
            new.sort_by_key(|&at| Reverse(turn(t, alias, &self.affected.list[at].stored)));
            let (mut taken, mut new_here) = (BTreeSet::new(), Vec::new());
            for at in old {
                ids.extend(here(at).map(|id| (at, id)));
                taken.extend(here(at));
            }
            let facts = self.affected.facts;
            for at in new {
                let had = facts.number_had(table, &self.affected.list[at].stored.rid)?;
                match had {
                    Some(id) if !taken.contains(&id) && self.affected.is_free(table, id)? => {
                        taken.insert(id);
                        ids.insert(at, id);
                    }
                    _ => new_here.push(at),
                }
            }
            let free = |id| Ok(self.affected.is_free(table, id)? && !facts.is_kept(table, id)?);
            let wishes = new_here.into_iter().filter_map(wish).collect();
            ids.extend(remap::give(taken, wishes, free, numbers)?);
        }
        Ok(ids)
    }

    /// Rows that lost a key with a reference in it, theirs or that of the winner, to a row that is about to
    /// be hidden itself: the reference shows something else then, as it does where that row was hidden
    /// before, and the key is heard again. None if this is so of all, as where each waits for another.
    fn moving(&self, round: &Round, mine: &[usize], lost: &Hidden) -> BTreeSet<usize> {
        let mut next = Round::with(&round.tables, round.hidden.clone());
        next.hidden.extend(lost.iter().map(|(at, conflict)| (*at, conflict.clone())));
        self.close(&mut next, mine);
        let hidden = |p: &usize| next.hidden.contains_key(p) && !round.hidden.contains_key(p);
        let moves = |at: usize, columns: &[usize]| {
            let t = &self.affected.catalog().tables[self.affected.list[at].table];
            t.table.foreign_keys.iter().enumerate().any(|(f, fk)| {
                let parent = self.affected.catalog().position(&fk.parent);
                let to = self.reference(at, f).zip(parent);
                let to = to.and_then(|(rid, parent)| self.meant(parent, &rid));
                fk.columns.iter().any(|c| columns.contains(c)) && to.is_some_and(|p| hidden(&p))
            })
        };
        let of_lost = |(&at, conflict): (&usize, &Conflict)| {
            let t = &self.affected.catalog().tables[self.affected.list[at].table];
            let index = t.unique_names.iter().position(|name| *name == conflict.constraint);
            let columns = index.map_or(&[][..], |u| &t.table.uniques[u].columns);
            let moved = [Some(at), conflict.winner].into_iter().flatten();
            moved.into_iter().any(|at| moves(at, columns)).then_some(at)
        };
        let moving: BTreeSet<usize> = lost.iter().filter_map(of_lost).collect();
        if moving.len() == lost.len() { BTreeSet::new() } else { moving }
    }

    /// Adds to `news` the rows that SQLite itself would refuse. What shows the key of one that is about to be
    /// hidden is hidden with that, whatever it shows till then.
    fn unfit(&self, round: &Round, live: &[usize], news: &mut Hidden) -> Result<()> {
        let mut found = Hidden::new();
        for &at in live {
            let (item, row) = (&self.affected.list[at], &round.rows[&at]);
            let t = &self.affected.catalog().tables[item.table];
            if news.contains_key(&at) {
                continue;
            }
            // SQLite would give a number of its own to a row whose integer key has become NULL.
            let numberless = t.table.rowid_alias().is_some_and(|c| row[c].is_null());
            let check_keys = self.check_keys && item.old.as_ref() != Some(row);
            if numberless || check_keys && !self.affected.facts.verdict(item.table, row)?.valid {
                found.insert(at, conflict(ConflictKind::RowConstraint, "", None));
            } else if self.affected.is_refused(at) {
                found.insert(at, conflict(ConflictKind::Refused, "", None));
            }
        }
        let below =
            |at: &usize| self.hangs_on(*at, |p| found.contains_key(&p) || news.contains_key(&p));
        let hanging: BTreeSet<usize> = found.keys().copied().filter(below).collect();
        if hanging.len() < found.len() || !news.is_empty() {
            found.retain(|at, _| !hanging.contains(at));
        }
        news.extend(found);
        Ok(())
    }

    /// Hears the claims of the rows that fit.
    fn grant(&mut self, round: &Round, live: &[usize], unfit: &Hidden) -> Result<Outcome> {
        let mut all = Outcome::default();
        for table in round.tables.clone() {
            let mine =
                |at: &usize| self.affected.list[*at].table == table && !unfit.contains_key(at);
            let rows: Vec<usize> = live.iter().copied().filter(mine).collect();
            let one = unique::grant(self, round, table, &rows)?;
            self.view.wanted.extend(one.wanted);
            all.claims.extend(one.claims);
            all.blockers.extend(one.blockers);
            all.lost.extend(one.lost);
            all.fallbacks.extend(one.fallbacks);
        }
        Ok(all)
    }
}

/// Whether the same rows show the same groups as they were before.
fn same_groups(one: &Fallbacks, other: &Fallbacks) -> bool {
    let groups = |(at, (groups, _)): (&usize, &(Fallback, Conflict))| (*at, groups.clone());
    one.iter().map(groups).eq(other.iter().map(groups))
}
