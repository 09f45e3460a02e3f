//! R-UNIQ: who has a key of a unique index that several rows claim.
//!
//! The earliest claim wins. An update that lost shows what the columns were before it
//! (R-FALLBACK), if that fits; a row that lost otherwise is hidden, and comes back by itself when
//! the key is free (R-RETURN).

use super::round::Round;
use super::{Attempt, Fallback, Fallbacks};
use crate::Result;
use crate::cases::{Conflict, Wanted};
use crate::catalog::Relation;
use crate::conflict::ConflictKind;
use crate::facts::{Key, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::{Rid, Stamp};

/// The outcome for one table.
#[derive(Default)]
pub struct Outcome {
    /// Cases that have to be hidden.
    pub lost: BTreeMap<usize, Conflict>,
    /// Cases that show earlier values in some groups.
    pub fallbacks: Fallbacks,
    /// Keys that were asked for.
    pub wanted: Vec<Wanted>,
    /// Cases in the way of a fallback, by the case that could not fall back.
    pub blockers: BTreeMap<usize, Vec<usize>>,
    /// Keys that cases without their own asked for: (name of the constraint, key).
    pub claims: BTreeMap<usize, Vec<(String, Vec<u8>)>>,
}

/// A row's claim of the key of one index; in the order in which claims are heard.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    at: Stamp,
    rid: Rid,
    index: usize,
    case: usize,
}

/// Grants the keys of all unique indexes of a table to `rows`, the cases shown in this round.
pub fn grant(
    show: &Attempt<'_, '_>,
    round: &Round,
    table: usize,
    rows: &[usize],
) -> Result<Outcome> {
    let t = &show.cases.catalog().tables[table];
    let mut outcome = Outcome::default();
    if t.table.uniques.is_empty() {
        return Ok(outcome);
    }
    let mut verdicts = HashMap::new();
    for &case in rows {
        let row = show.asks(round, case)?;
        let verdict = show.cases.facts.verdict(table, &row)?;
        let own = show.cases.list[case].old.as_deref() == Some(&row);
        outcome.wanted.extend(Wanted::all(table, &verdict, own));
        verdicts.insert(case, verdict);
    }
    let (mut excluded, mut tried) = (BTreeMap::new(), HashMap::new());
    loop {
        let mut pass = Pass::empty(show, round, t, table, &verdicts);
        let late = pass.run(rows, &excluded, &mut outcome.wanted)?;
        tried.extend(pass.tried.drain());
        match late {
            Some((case, conflict)) => {
                outcome.blockers.append(&mut pass.blockers);
                excluded.insert(case, conflict);
            }
            None => {
                outcome.lost = excluded;
                outcome.lost.extend(pass.out);
                outcome.blockers.append(&mut pass.blockers);
                outcome.fallbacks = pass.fallbacks;
                // Who shows a former value has its keys.
                tried.retain(|case, _| !outcome.fallbacks.contains_key(case));
                for case in outcome.lost.keys().chain(outcome.fallbacks.keys()) {
                    let tried = tried.remove(case).unwrap_or_default();
                    let keys = verdicts[case].keys.iter().chain(&tried).enumerate();
                    let count = t.table.uniques.len();
                    let named = keys.filter_map(|(u, key)| {
                        let name = t.unique_names[u % count].clone();
                        Some((name, key.as_ref()?.canonical.clone()))
                    });
                    outcome.claims.insert(*case, named.collect());
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
    /// Which keys a case holds.
    held: HashMap<usize, BTreeMap<usize, Vec<u8>>>,
    fallbacks: Fallbacks,
    fallback_keys: HashMap<usize, Vec<Option<Key>>>,
    /// Who holds keys of fallbacks that were tried.
    blockers: BTreeMap<usize, Vec<usize>>,
    /// Keys of fallbacks that were tried.
    tried: HashMap<usize, Vec<Option<Key>>>,
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
        let mut claims = Vec::new();
        for &case in rows.iter().filter(|case| !excluded.contains_key(case)) {
            for (index, key) in self.verdicts[&case].keys.iter().enumerate() {
                if key.is_some() {
                    let rid = self.show.cases.list[case].stored.rid.clone();
                    claims.push(Claim { at: self.claim(case, index), rid, index, case });
                }
            }
        }
        claims.sort();
        let mut late: Option<(usize, Conflict)> = None;
        for claim in claims {
            let Claim { at, index, case, .. } = claim;
            if self.out.contains_key(&case) {
                continue;
            }
            let Some(key) = self.key(case, index) else { continue };
            let holder = self.grants.get(&(index, key.clone())).copied();
            let Some(winner) = holder.filter(|&h| h != case) else {
                self.hold(case, index, key);
                continue;
            };
            let name = self.t.unique_names[index].clone();
            let conflict =
                Conflict { kind: ConflictKind::Unique, constraint: name, winner: Some(winner) };
            let had = self.held.get(&case).is_some_and(|h| !h.is_empty());
            let mut earlier =
                had && self.held[&case].keys().any(|&other| self.claim(case, other) < at);
            let groups = self.offending(case, index);
            if !groups.is_empty() && !self.fallbacks.contains_key(&case) {
                if self.fall_back(case, index, groups, &conflict, wanted)? {
                    continue;
                }
                earlier = had;
            }
            if earlier && late.is_none() {
                late = Some((case, conflict.clone()));
            }
            self.release(case);
            if let Some((_, first)) = self.fallbacks.remove(&case) {
                // It would not have fallen back but for this one.
                self.blockers.entry(case).or_default().extend(first.winner);
            }
            self.fallback_keys.remove(&case);
            self.out.insert(case, conflict);
        }
        Ok(late)
    }

    fn key(&self, case: usize, index: usize) -> Option<Vec<u8>> {
        let keys = self.fallback_keys.get(&case).unwrap_or(&self.verdicts[&case].keys);
        keys[index].as_ref().map(|key| key.canonical.clone())
    }

    fn hold(&mut self, case: usize, index: usize, key: Vec<u8>) {
        self.grants.insert((index, key.clone()), case);
        self.held.entry(case).or_default().insert(index, key);
    }

    fn release(&mut self, case: usize) {
        for (index, key) in self.held.remove(&case).unwrap_or_default() {
            self.grants.remove(&(index, key));
        }
    }

    /// When a row claimed its key: the latest write of a column that the index depends on. A number that was
    /// pinned nobody wrote (R-PIN).
    fn claim(&self, case: usize, index: usize) -> Stamp {
        self.written(case, index).max(self.show.cases.list[case].header().yielded)
    }

    fn written(&self, case: usize, index: usize) -> Stamp {
        let case = &self.show.cases.list[case];
        let columns = self.t.table.uniques[index].columns.iter();
        let groups = &case.stored.state.groups;
        let pinned = |c: usize| groups[self.t.table.columns[c].group].pinned;
        let written = |&c: &usize| match self.t.table.renumbers() == Some(c) && pinned(c) {
            true => case.header().inserted,
            false => case.stamp(self.t, c),
        };
        columns.map(written).max().unwrap_or(Stamp::ZERO)
    }

    /// The groups whose last write made the claim, if it was an update.
    fn offending(&self, case: usize, index: usize) -> Fallback {
        let written = self.written(case, index);
        let state = &self.show.cases.list[case].stored.state;
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
        case: usize,
        index: usize,
        groups: Fallback,
        conflict: &Conflict,
        wanted: &mut Vec<Wanted>,
    ) -> Result<bool> {
        let row = self.show.row(self.round, case, &groups)?.row;
        let verdict = self.show.cases.facts.verdict(self.table, &row)?;
        wanted.extend(Wanted::all(self.table, &verdict, false));
        self.tried.insert(case, verdict.keys.clone());
        let mut asked: BTreeSet<usize> =
            self.held.get(&case).into_iter().flat_map(|h| h.keys().copied()).collect();
        asked.insert(index);
        // Of the others those for which it claims a key itself are heard when their turn comes.
        let own = &self.verdicts[&case].keys;
        asked.extend((0..own.len()).filter(|&u| own[u].is_none()));
        self.release(case);
        let canonical = |u: usize| verdict.keys[u].as_ref().map(|key| key.canonical.clone());
        let holder = |&u: &usize| self.grants.get(&(u, canonical(u)?)).copied();
        let blockers: Vec<usize> = asked.iter().filter_map(holder).collect();
        if !verdict.valid
            || !blockers.is_empty()
            || !self.show.fallback_refers(self.round, case, &groups, &row)?
        {
            self.blockers.insert(case, blockers);
            return Ok(false);
        }
        for u in asked {
            if let Some(key) = canonical(u) {
                self.hold(case, u, key);
            }
        }
        self.fallbacks.insert(case, (groups, conflict.clone()));
        self.fallback_keys.insert(case, verdict.keys);
        Ok(true)
    }
}
