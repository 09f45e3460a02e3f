//! References by value alone, and whether some row has the key.

use super::round::Round;
use super::row::refers_to_own_key;
use super::{Attempt, Claims, Hidden, conflict};
use crate::Result;
use crate::affected::{Conflict, dangling_index};
use crate::catalog::Relation;
use crate::conflict::ConflictKind;
use crate::equal;
use crate::facts::Reference;
use crate::schema::{Affinity, ForeignKey, IndexTerm, quote};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::key::encode_values;
use synqlite_wire::{Rid, Value};

/// What becomes of a reference.
enum Answer {
    /// It is NULL, not enforced, or to a row whose key is shown.
    Given,
    /// By value, to a key that some row shows.
    Shown(Claim),
    /// To nobody; by value it waits for that key.
    Missing(Option<Claim>),
}

/// A key that a row waits for: the name of its index, and its bytes.
type Claim = (String, Vec<u8>);

impl Attempt<'_, '_> {
    /// Rows that show a reference, by value alone, which no visible row answers, or that cannot show the
    /// key of the row which theirs is to.
    /// And the keys that they wait for.
    pub fn dangling(&mut self, round: &Round, live: &[usize]) -> Result<(Hidden, Claims)> {
        let (mut news, mut claims) = (BTreeMap::new(), Claims::new());
        for &at in live {
            for f in 0..self.keys_of(at) {
                match self.answer(round, at, f, &round.rows[&at])? {
                    Answer::Given => {}
                    Answer::Shown(claim) => {
                        self.answered.entry(at).or_default().insert(claim);
                    }
                    Answer::Missing(claim) => {
                        claims.entry(at).or_default().extend(claim);
                        news.insert(at, self.dangles(at, f));
                        break;
                    }
                }
            }
        }
        Ok((news, claims))
    }

    /// Lets records of rows that are hidden name the first of the references that nobody answers in the
    /// end, whichever was found first, before any to a row that is hidden itself; and the rows wait for
    /// all of them, and for those that are answered, until who answers has another key. What its table cannot hold
    /// either is hidden for that, for an optimistic attempt does not ask.
    pub fn name_dangling(&mut self, round: &mut Round) -> Result<()> {
        let named = |(at, c): (&usize, &Conflict)| {
            let with_parent = c.kind == ConflictKind::FkParentHidden;
            (with_parent || c.kind == ConflictKind::FkDangling).then_some((*at, with_parent))
        };
        let hidden: Vec<(usize, bool)> = round.hidden.iter().filter_map(named).collect();
        for (at, with_parent) in hidden {
            let (mut row, mut first) = (None, None);
            for f in 0..self.keys_of(at) {
                if with_parent && self.reference(at, f).is_some() {
                    continue;
                }
                let row = match &row {
                    Some(row) => row,
                    None => &*row.insert(self.row(round, at, &BTreeSet::new())?.row),
                };
                let (claim, missing) = match self.answer(round, at, f, row)? {
                    Answer::Given => continue,
                    Answer::Missing(_) if self.refers_to_itself(at, f, row) => continue,
                    Answer::Shown(claim) => (Some(claim), false),
                    Answer::Missing(claim) => (claim, true),
                };
                let claims = self.view.claims.entry(at).or_default();
                claims.extend(claim.filter(|claim| !claims.contains(claim)));
                if missing {
                    first = first.or(Some(f));
                }
            }
            if let (Some(f), Some(row)) = (first, row) {
                let fits = self.affected.facts.verdict(self.affected.list[at].table, &row)?.valid;
                let unfit = || conflict(ConflictKind::RowConstraint, "", None);
                round.hidden.insert(at, if fits { self.dangles(at, f) } else { unfit() });
            }
        }
        Ok(())
    }

    fn keys_of(&self, at: usize) -> usize {
        self.affected.catalog().tables[self.affected.list[at].table].table.foreign_keys.len()
    }

    fn dangles(&self, at: usize, f: usize) -> Conflict {
        let t = &self.affected.catalog().tables[self.affected.list[at].table];
        conflict(ConflictKind::FkDangling, &t.key_names[f], None)
    }

    /// Whether a reference is to the row that has it, or to its key. While the row is hidden it may keep of the
    /// reference another key than it would show.
    fn refers_to_itself(&self, at: usize, f: usize, row: &[Value]) -> bool {
        let t = &self.affected.catalog().tables[self.affected.list[at].table];
        let fk = &t.table.foreign_keys[f];
        if self.reference(at, f).is_some_and(|rid| self.is_itself(at, fk, &rid)) {
            return true;
        }
        fk.parent == t.table.name && refers_to_own_key(fk, row)
    }

    /// Whether foreign key `f` of an affected row, which shows `row`, is answered.
    fn answer(&mut self, round: &Round, at: usize, f: usize, row: &[Value]) -> Result<Answer> {
        let t = &self.affected.catalog().tables[self.affected.list[at].table];
        let fk = &t.table.foreign_keys[f];
        // What a row falls back to is to visible rows (R-FALLBACK).
        let group = t.table.columns[fk.columns[0]].group;
        let former = round.fallbacks.get(&at).is_some_and(|(groups, _)| groups.contains(&group));
        let Some(key) = fk.key_of(row).filter(|_| self.affected.enforces(fk) && !former) else {
            return Ok(Answer::Given);
        };
        let meant = self.reference(at, f).filter(|rid| {
            alone(t, f)
                && self.visible(round, fk, rid) == Some(true)
                && !round.nulled.contains_key(&at)
        });
        if let Some(rid) = meant {
            // Whoever has the value that it shows is not the row that it is to.
            return Ok(match self.shows_key_of(round, fk, &rid, row)? {
                true => Answer::Given,
                false => Answer::Missing(None),
            });
        }
        let claim = (dangling_index(&t.key_names[f]), equal::reference_bytes(fk, &key));
        if self.is_of_one_site(fk) {
            let meant = self.reference(at, f);
            let meant = meant.filter(|rid| self.visible(round, fk, rid) == Some(true));
            return Ok(match meant {
                Some(rid) if self.shows_key_of(round, fk, &rid, row)? => Answer::Given,
                _ => Answer::Missing(Some(claim)),
            });
        }
        self.number(fk, &key);
        self.asked(round, fk, &key);
        Ok(match self.anyone_shows(round, (self.affected.list[at].table, f), &key)? {
            true => Answer::Shown(claim),
            false => Answer::Missing(Some(claim)),
        })
    }

    /// Whether a row shows the key of the row that its reference is to: its columns may store that key as
    /// something else.
    pub fn shows_key_of(
        &self,
        round: &Round,
        fk: &ForeignKey,
        rid: &Rid,
        row: &[Value],
    ) -> Result<bool> {
        let own = equal::reference_bytes(fk, fk.columns.iter().map(|&c| &row[c]));
        let mut same = true;
        self.with_parent(round, fk, rid, |parent| {
            let key = fk.parent_columns.iter().map(|&p| &parent[p]);
            same = equal::reference_bytes(fk, key) == own;
        })?;
        Ok(same)
    }

    /// Whether some visible row of the parent table shows a key.
    pub fn anyone_shows(&self, round: &Round, reference: Reference, key: &[Value]) -> Result<bool> {
        let catalog = self.affected.catalog();
        let fk = &catalog.tables[reference.0].table.foreign_keys[reference.1];
        let Some(parent) = catalog.position(&fk.parent) else { return Ok(false) };
        let rows = round.rows.iter().filter(|(at, _)| !round.hidden.contains_key(at));
        let rows =
            rows.chain(&self.view.rows).filter(|(at, _)| self.affected.list[**at].table == parent);
        let wanted = equal::reference_bytes(fk, key);
        let same = |(_, row): (&usize, &Vec<Value>)| {
            equal::reference_bytes(fk, fk.parent_columns.iter().map(|&p| &row[p])) == wanted
        };
        if rows.into_iter().any(same) {
            return Ok(true);
        }
        for loc in self.affected.facts.answering(reference, key)? {
            let stored = self.affected.facts.at(parent, &loc)?;
            if stored.is_some_and(|s| self.affected.get(parent, &s.rid).is_none()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes a key that a row refers to by value, in a table of its own component. A row that asks for it and
    /// is hidden has it until the view hides that, and the row that refers to it is there till then: both may
    /// keep a unique key from others meanwhile.
    fn asked(&mut self, round: &Round, fk: &ForeignKey, key: &[Value]) {
        let Some(parent) = self.affected.catalog().position(&fk.parent) else { return };
        if !self.affected.contested || !round.tables.contains(&parent) {
            return;
        }
        let t = &self.affected.catalog().tables[parent].table;
        for (u, index) in t.uniques.iter().enumerate() {
            let place = |term: &IndexTerm| {
                let named = |&p: &usize| quote(&t.columns[p].name) == term.sql;
                fk.parent_columns.iter().position(named)
            };
            let places: Option<Vec<usize>> = index.terms.iter().map(place).collect();
            let Some(places) = places.filter(|places| places.len() == key.len()) else { continue };
            let value = |&i: &usize| equal::stored(&key[i], fk.parent_keys[i].0);
            let values: Vec<Value> = places.iter().map(value).collect();
            let collations = index.terms.iter().map(|term| &term.collation);
            self.view.asked.insert((parent, u, encode_values(values.iter().zip(collations))));
        }
    }

    /// Whether a foreign key is to a number that each site gives for itself (R-OWN): by value alone it means a
    /// row of the site that wrote it, and none elsewhere.
    pub fn is_of_one_site(&self, fk: &ForeignKey) -> bool {
        self.columns_of_one_site(fk).next().is_some()
    }

    /// The columns of a foreign key that hold such a number.
    pub fn columns_of_one_site<'k>(
        &self,
        fk: &'k ForeignKey,
    ) -> impl Iterator<Item = usize> + use<'k, '_> {
        let catalog = self.affected.catalog();
        let parent = catalog.position(&fk.parent).map(|p| &catalog.tables[p]);
        let pairs = fk.columns.iter().zip(&fk.parent_columns);
        let holds = move |p: &usize| parent.is_some_and(|t| t.site_numbers.contains_key(p));
        pairs.filter(move |(_, p)| holds(p)).map(|(&c, _)| c)
    }

    /// Notes an integer key that an affected row refers to by value.
    fn number(&mut self, fk: &ForeignKey, key: &[Value]) {
        let Some(parent) = self.affected.catalog().position(&fk.parent) else { return };
        let alias = self.affected.catalog().tables[parent].table.rowid_alias();
        if alias == Some(fk.parent_columns[0])
            && let Value::Integer(id) = equal::stored(&key[0], Affinity::Integer)
        {
            self.view.numbers.insert((parent, id));
        }
    }
}

/// Whether no other foreign key has a column of this one. Where two share one, either may have got the
/// value of the other.
pub fn alone(t: &Relation, f: usize) -> bool {
    let own = &t.table.foreign_keys[f].columns;
    let mut others = t.table.foreign_keys.iter().enumerate().filter(|(o, _)| *o != f);
    !others.any(|(_, other)| other.columns.iter().any(|c| own.contains(c)))
}
