//! References by value alone, and whether some row has the key.

use super::cases::dangling_index;
use super::view::{Hidden, Round, Show, conflict, enforced};
use crate::Result;
use crate::catalog::Tracked;
use crate::equal;
use crate::schema::{Affinity, ForeignKey, IndexTerm, quote};
use crate::state;
use std::collections::BTreeMap;
use synqlite_wire::key::encode_values;
use synqlite_wire::{Rid, Value};

impl Show<'_, '_> {
    /// Rows that show a reference, by value alone, which no visible row answers, or that cannot show the
    /// key of the row which theirs is to.
    pub(super) fn dangling(&mut self, round: &Round, live: &[usize]) -> Result<Hidden> {
        let (cases, mut news) = (self.cases, BTreeMap::new());
        for &at in live {
            let t = &cases.catalog().tables[cases.list[at].table];
            let row = &round.rows[&at];
            for (f, fk) in t.table.foreign_keys.iter().enumerate() {
                let key: Vec<Value> = fk.columns.iter().map(|&c| row[c].clone()).collect();
                if !enforced(self.cases, fk) || key.iter().any(Value::is_null) {
                    continue;
                }
                let meant = self.reference(at, f).filter(|rid| {
                    alone(t, f)
                        && self.visible(round, fk, rid) == Some(true)
                        && !round.nulled.contains_key(&at)
                });
                if let Some(rid) = meant {
                    if self.shows_key_of(round, fk, &rid, row)? {
                        continue;
                    }
                    // Whoever has the value that it shows is not the row that it is to.
                    news.insert(at, conflict("fk_dangling", &t.key_names[f], None));
                    break;
                }
                let claim = (dangling_index(&t.key_names[f]), equal::reference_bytes(fk, &key));
                self.number(fk, &key);
                self.asked(round, fk, &key);
                if self.anyone_shows(round, fk, &key)? {
                    self.answered.entry(at).or_default().insert(claim);
                    continue;
                }
                self.view.claims.entry(at).or_default().push(claim);
                news.insert(at, conflict("fk_dangling", &t.key_names[f], None));
                break;
            }
        }
        Ok(news)
    }

    /// Whether a row shows the key of the row that its reference is to: its columns may store that key as
    /// something else.
    pub(super) fn shows_key_of(
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
    pub(super) fn anyone_shows(
        &self,
        round: &Round,
        fk: &ForeignKey,
        key: &[Value],
    ) -> Result<bool> {
        let lookup = self.cases.lookup;
        let Some(parent) = lookup.catalog.position(&fk.parent) else { return Ok(false) };
        let pt = &lookup.catalog.tables[parent];
        let rows = round.rows.iter().filter(|(at, _)| !round.hidden.contains_key(at));
        let rows =
            rows.chain(&self.view.rows).filter(|(at, _)| self.cases.list[**at].table == parent);
        let wanted = equal::reference_bytes(fk, key);
        let same = |(_, row): (&usize, &Vec<Value>)| {
            equal::reference_bytes(fk, fk.parent_columns.iter().map(|&p| &row[p])) == wanted
        };
        if rows.into_iter().any(same) {
            return Ok(true);
        }
        for loc in pt.find_parents(lookup.conn, fk, key)? {
            let stored = state::at(lookup.conn, lookup.meta, pt, &loc)?;
            if stored.is_some_and(|s| self.cases.get(parent, &s.rid).is_none()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes a key that a case refers to by value, in a table of its own component. A row that asks for
    /// it and is hidden has it until the view hides that, and the case is there till then: both may
    /// keep a unique key from others meanwhile.
    fn asked(&mut self, round: &Round, fk: &ForeignKey, key: &[Value]) {
        let Some(parent) = self.cases.catalog().position(&fk.parent) else { return };
        if !self.cases.contested || !round.tables.contains(&parent) {
            return;
        }
        let t = &self.cases.catalog().tables[parent].table;
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

    /// Notes an integer key that a case refers to by value.
    fn number(&mut self, fk: &ForeignKey, key: &[Value]) {
        let Some(parent) = self.cases.catalog().position(&fk.parent) else { return };
        let alias = self.cases.catalog().tables[parent].table.rowid_alias();
        if alias == Some(fk.parent_columns[0])
            && let Value::Integer(id) = equal::stored(&key[0], Affinity::Integer)
        {
            self.view.numbers.insert((parent, id));
        }
    }
}

/// Whether no other foreign key has a column of this one. Where two share one, either may have got the
/// value of the other.
pub(super) fn alone(t: &Tracked, f: usize) -> bool {
    let own = &t.table.foreign_keys[f].columns;
    let mut others = t.table.foreign_keys.iter().enumerate().filter(|(o, _)| *o != f);
    !others.any(|(_, other)| other.columns.iter().any(|c| own.contains(c)))
}
