//! R-UNIQ: who has a key of a unique index that several rows claim.
//!
//! The earliest claim wins. An update that lost shows what the columns were before it
//! (R-FALLBACK), if that fits; a row that lost otherwise is hidden, and comes back by itself when
//! the key is free (R-RETURN).

use super::round::Round;
use super::{Attempt, Fallback, Fallbacks};
use crate::Result;
use crate::affected::{Conflict, Wanted};
use crate::catalog::Relation;
use crate::conflict::ConflictKind;
use crate::facts::{Key, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::{Rid, Stamp};

/// The outcome for one table.
#[derive(Default)]
pub struct Outcome {
    /// Affected rows that have to be hidden.
    pub lost: BTreeMap<usize, Conflict>,
    /// Affected rows that show earlier values in some groups.
    pub fallbacks: Fallbacks,
    /// Keys that were asked for.
    pub wanted: Vec<Wanted>,
    /// Affected rows in the way of a fallback, by the one that could not fall back.
    pub blockers: BTreeMap<usize, Vec<usize>>,
    /// Keys that affected rows without their own asked for: (name of the constraint, key).
    pub claims: BTreeMap<usize, Vec<(String, Vec<u8>)>>,
}

/// A row's claim of the key of one index; in the order in which claims are heard.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    at: Stamp,
    rid: Rid,
    /// Whether the key has a number of this site alone (R-OWN). Elsewhere nobody may ask for it, so the
    /// record, which all sites have alike, is of another key that was lost with it.
    own: bool,
    index: usize,
    item: usize,
}

/// Grants the keys of all unique indexes of a table to `rows`, the affected rows shown in this round.
pub fn grant(
    show: &Attempt<'_, '_>,
    round: &Round,
    table: usize,
    rows: &[usize],
) -> Result<Outcome> {
    let t = &show.affected.catalog().tables[table];
    let mut outcome = Outcome::default();
    if t.table.uniques.is_empty() {
        return Ok(outcome);
    }
    let mut verdicts = HashMap::new();
    for &item in rows {
        let row = show.asks(round, item)?;
        let verdict = show.affected.facts.verdict(table, &row)?;
        let own = show.affected.list[item].old.as_deref() == Some(&row);
        outcome.wanted.extend(Wanted::all(table, &verdict, own));
        verdicts.insert(item, verdict);
    }
    let (mut excluded, mut tried) = (BTreeMap::new(), HashMap::new());
    loop {
        let mut pass = Pass::empty(show, round, t, table, &verdicts);
        let late = pass.run(rows, &excluded, &mut outcome.wanted)?;
        tried.extend(pass.tried.drain());
        match late {
            Some((item, conflict)) => {
                outcome.blockers.append(&mut pass.blockers);
                excluded.insert(item, conflict);
            }
            None => {
                outcome.lost = excluded;
                outcome.lost.extend(pass.out);
                outcome.blockers.append(&mut pass.blockers);
                outcome.fallbacks = pass.fallbacks;
                // Who shows a former value has its keys.
                tried.retain(|item, _| !outcome.fallbacks.contains_key(item));
                // Who shows what was written, and fell back only while another was heard that is out since, waits
                // for nothing. The other does: where somebody has that key, the first of them may be out instead.
                let mut spared: BTreeMap<usize, Vec<Option<Key>>> = BTreeMap::new();
                for (item, (winner, keys)) in &tried {
                    if let Some(winner) = winner.filter(|_| !outcome.lost.contains_key(item)) {
                        spared.entry(winner).or_default().extend(keys.iter().cloned());
                    }
                }
                for item in outcome.lost.keys().chain(outcome.fallbacks.keys()) {
                    let (_, tried) = tried.remove(item).unwrap_or_default();
                    let spared = spared.remove(item).unwrap_or_default();
                    let keys = verdicts[item].keys.iter().chain(&tried).chain(&spared).enumerate();
                    let count = t.table.uniques.len();
                    let named = keys.filter_map(|(u, key)| {
                        let name = t.unique_names[u % count].clone();
                        Some((name, key.as_ref()?.canonical.clone()))
                    });
                    outcome.claims.insert(*item, named.collect());
                }
                return Ok(outcome);
            }
        }
    }
}

struct Pass<'p, 'c, 'a> {
    show: &'p Attempt<'c, 'a>,
    round: &'p Round,
    t: &'p Relation,
    table: usize,
    verdicts: &'p HashMap<usize, Verdict>,
    /// Who holds a key.
    grants: HashMap<(usize, Vec<u8>), usize>,
    /// Which keys an affected row holds.
    held: HashMap<usize, BTreeMap<usize, Vec<u8>>>,
    fallbacks: Fallbacks,
    fallback_keys: HashMap<usize, Vec<Option<Key>>>,
    /// Who holds keys of fallbacks that were tried.
    blockers: BTreeMap<usize, Vec<usize>>,
    /// Keys of fallbacks that were tried, and for which row.
    tried: HashMap<usize, (Option<usize>, Vec<Option<Key>>)>,
    out: BTreeMap<usize, Conflict>,
}

impl<'p, 'c, 'a> Pass<'p, 'c, 'a> {
    fn empty(
        show: &'p Attempt<'c, 'a>,
        round: &'p Round,
        t: &'p Relation,
        table: usize,
        verdicts: &'p HashMap<usize, Verdict>,
    ) -> Pass<'p, 'c, 'a> {
        Pass {
            show,
            round,
            t,
            table,
            verdicts,
            grants: HashMap::new(),
            held: HashMap::new(),
            fallbacks: BTreeMap::new(),
            fallback_keys: HashMap::new(),
            blockers: BTreeMap::new(),
            tried: HashMap::new(),
            out: BTreeMap::new(),
        }
    }

    /// Hears all claims in order. A row that lost after it had been granted another key must not
    /// have stood in anyone's way: it is returned, and all is heard again without it.
    fn run(
        &mut self,
        rows: &[usize],
        excluded: &BTreeMap<usize, Conflict>,
        wanted: &mut Vec<Wanted>,
    ) -> Result<Option<(usize, Conflict)>> {
        let uniques = self.t.table.uniques.iter();
        let own: Vec<bool> = uniques
            .map(|u| u.columns.iter().any(|c| self.t.site_numbers.contains_key(c)))
            .collect();
        let mut claims = Vec::new();
        for &item in rows.iter().filter(|item| !excluded.contains_key(item)) {
            for (index, key) in self.verdicts[&item].keys.iter().enumerate() {
                if key.is_some() {
                    let rid = self.show.affected.list[item].stored.rid.clone();
                    let at = self.claim(item, index);
                    claims.push(Claim { at, rid, own: own[index], index, item });
                }
            }
        }
        claims.sort();
        let mut late: Option<(usize, Conflict)> = None;
        for claim in claims {
            let Claim { at, index, item, .. } = claim;
            if self.out.contains_key(&item) {
                continue;
            }
            let Some(key) = self.key(item, index) else { continue };
            let holder = self.grants.get(&(index, key.clone())).copied();
            let Some(winner) = holder.filter(|&h| h != item) else {
                self.hold(item, index, key);
                continue;
            };
            let name = self.t.unique_names[index].clone();
            let conflict =
                Conflict { kind: ConflictKind::Unique, constraint: name, winner: Some(winner) };
            let had = self.held.get(&item).is_some_and(|h| !h.is_empty());
            let mut earlier =
                had && self.held[&item].keys().any(|&other| self.claim(item, other) < at);
            let groups = self.offending(item, index);
            if !groups.is_empty() && !self.fallbacks.contains_key(&item) {
                if self.fall_back(item, index, groups, &conflict, wanted)? {
                    continue;
                }
                earlier = had;
            }
            if earlier && late.is_none() {
                late = Some((item, conflict.clone()));
            }
            self.release(item);
            if let Some((_, first)) = self.fallbacks.remove(&item) {
                // It would not have fallen back but for this one.
                self.blockers.entry(item).or_default().extend(first.winner);
            }
            self.fallback_keys.remove(&item);
            self.out.insert(item, conflict);
        }
        Ok(late)
    }

    fn key(&self, item: usize, index: usize) -> Option<Vec<u8>> {
        let keys = self.fallback_keys.get(&item).unwrap_or(&self.verdicts[&item].keys);
        keys[index].as_ref().map(|key| key.canonical.clone())
    }

    fn hold(&mut self, item: usize, index: usize, key: Vec<u8>) {
        self.grants.insert((index, key.clone()), item);
        self.held.entry(item).or_default().insert(index, key);
    }

    fn release(&mut self, item: usize) {
        for (index, key) in self.held.remove(&item).unwrap_or_default() {
            self.grants.remove(&(index, key));
        }
    }

    /// When a row claimed its key: the latest write of a column that the index depends on. A number that was
    /// pinned nobody wrote (R-PIN).
    fn claim(&self, item: usize, index: usize) -> Stamp {
        self.written(item, index).max(self.show.affected.list[item].header().yielded)
    }

    fn written(&self, item: usize, index: usize) -> Stamp {
        let item = &self.show.affected.list[item];
        let columns = self.t.table.uniques[index].columns.iter();
        let groups = &item.stored.state.groups;
        let pinned = |c: usize| groups[self.t.table.columns[c].group].pinned;
        let written = |&c: &usize| match self.t.table.renumbers() == Some(c) && pinned(c) {
            true => item.header().inserted,
            false => item.stamp(self.t, c),
        };
        columns.map(written).max().unwrap_or(Stamp::ZERO)
    }

    /// The groups whose last write made the claim, if it was an update.
    fn offending(&self, item: usize, index: usize) -> Fallback {
        let written = self.written(item, index);
        let state = &self.show.affected.list[item].stored.state;
        let columns = self.t.table.uniques[index].columns.iter();
        let groups = columns.map(|&c| self.t.table.columns[c].group);
        let latest = |g: &usize| {
            let group = &state.groups[*g];
            group.stamp == written && group.previous.is_some() && !group.pinned
        };
        groups.filter(latest).collect()
    }

    /// Tries the values before the offending update. They must be valid, refer to visible rows and
    /// collide with nobody.
    fn fall_back(
        &mut self,
        item: usize,
        index: usize,
        groups: Fallback,
        conflict: &Conflict,
        wanted: &mut Vec<Wanted>,
    ) -> Result<bool> {
        let row = self.show.row(self.round, item, &groups)?.row;
        let verdict = self.show.affected.facts.verdict(self.table, &row)?;
        wanted.extend(Wanted::all(self.table, &verdict, false));
        self.tried.insert(item, (conflict.winner, verdict.keys.clone()));
        let mut asked: BTreeSet<usize> =
            self.held.get(&item).into_iter().flat_map(|h| h.keys().copied()).collect();
        asked.insert(index);
        // Of the others those for which it claims a key itself are heard when their turn comes.
        let own = &self.verdicts[&item].keys;
        asked.extend((0..own.len()).filter(|&u| own[u].is_none()));
        self.release(item);
        let canonical = |u: usize| verdict.keys[u].as_ref().map(|key| key.canonical.clone());
        let holder = |&u: &usize| self.grants.get(&(u, canonical(u)?)).copied();
        let blockers: Vec<usize> = asked.iter().filter_map(holder).collect();
        if !verdict.valid
            || !blockers.is_empty()
            || !self.show.fallback_refers(self.round, item, &groups, &row)?
        {
            self.blockers.insert(item, blockers);
            return Ok(false);
        }
        for u in asked {
            if let Some(key) = canonical(u) {
                self.hold(item, u, key);
            }
        }
        self.fallbacks.insert(item, (groups, conflict.clone()));
        self.fallback_keys.insert(item, verdict.keys);
        Ok(true)
    }
}
