//! Updates and deletes whose entry may spell the row's key otherwise than the row does.
//!
//! Where a foreign key's column has another affinity than the key that it is to, and an index, SQLite
//! converts the key that it looks for in place: in triggers AFTER the update or delete, OLD shows what
//! the key became, `1` of the text `'01'`. What ran BEFORE it has the key as it was. While references
//! are open that are checked later, it converts NEW too, which no entry tells otherwise ([`astray`]).

use super::window::Millis;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::equal;
use crate::schema::{Affinity, Collation};
use std::collections::{BTreeSet, HashMap};
use synqlite_wire::key::encode_values;

/// What began and has not ended: where each row was, and the entry with its image if it is a delete.
#[derive(Default)]
pub(super) struct Begun {
    /// When; all of one statement happens in one millisecond.
    at: Millis,
    open: Vec<(Loc, Option<i64>)>,
}

impl Begun {
    /// The row at `loc` is about to be updated or deleted.
    pub fn begin(&mut self, t: &Tracked, loc: &Loc, image: Option<i64>, at: Millis) {
        if !t.converts_old {
            return;
        }
        if self.at != at {
            // What was ignored has no entry of its own.
            *self = Begun { at, ..Begun::default() };
        }
        self.open.push((loc.clone(), image));
    }

    /// Where the row was that was updated and where it went, by an entry that says that it was at `loc`.
    /// One that says nothing of a new place may be of a key that was written in another type, if
    /// the row `came` there by this update.
    pub fn update(
        &mut self,
        t: &Tracked,
        loc: &Loc,
        to: Option<Loc>,
        came: impl Fn(&Loc) -> Result<bool>,
    ) -> Result<(Loc, Option<Loc>)> {
        let left = |was: &Loc| Ok(to.is_some() || came(was)?);
        let was = self.end(t, loc, false, left)?.map(|(was, _)| was);
        Ok(match (was, to) {
            (Some(was), to) if was != *loc => (was, to.or(Some(loc.clone()))),
            // Nothing was about to change the key, so it is the same, as it was written.
            (None, Some(to)) if t.converts_old && same_loosely(t, loc, &to)? => (to, None),
            (_, to) => (loc.clone(), to),
        })
    }

    /// The same of a row that was deleted, and the entry with its image.
    pub fn delete(&mut self, t: &Tracked, loc: Loc) -> Result<(Loc, Option<i64>)> {
        Ok(self.end(t, &loc, true, |_| Ok(true))?.unwrap_or((loc, None)))
    }

    fn end(
        &mut self,
        t: &Tracked,
        loc: &Loc,
        deletes: bool,
        left: impl Fn(&Loc) -> Result<bool>,
    ) -> Result<Option<(Loc, Option<i64>)>> {
        let fits = |(_, image): &&(Loc, Option<i64>)| image.is_some() == deletes;
        let mut at = None;
        for (i, open) in self.open.iter().enumerate().filter(|(_, open)| fits(open)) {
            if open.0 == *loc {
                at = Some(i);
            }
        }
        if at.is_none() && !self.open.is_empty() && matches!(loc, Loc::Key(_)) {
            let key = loosely(t, loc)?;
            for (i, open) in self.open.iter().enumerate().filter(|(_, open)| fits(open)) {
                if loosely(t, &open.0)? == key && left(&open.0)? {
                    at = Some(i);
                }
            }
        }
        let Some(at) = at else { return Ok(None) };
        let found = self.open[at].clone();
        self.open.truncate(at);
        Ok(Some(found))
    }
}

/// Of rows that entries name by what their keys became, and of which there are none, where they are: of
/// `unnamed` ones, the first whose key may have become that.
pub(super) fn astray(
    t: &Tracked,
    named: Vec<Loc>,
    unnamed: &mut BTreeSet<Loc>,
) -> Result<Vec<(Loc, Option<Loc>)>> {
    let mut by_key: HashMap<Vec<u8>, Vec<Loc>> = HashMap::new();
    for loc in unnamed.iter().rev() {
        by_key.entry(loosely(t, loc)?).or_default().push(loc.clone());
    }
    let mut found = Vec::new();
    for loc in named {
        let is = by_key.get_mut(&loosely(t, &loc)?).and_then(Vec::pop);
        if let Some(is) = &is {
            unnamed.remove(is);
        }
        found.push((loc, is));
    }
    Ok(found)
}

/// Whether one key may have become the other.
pub(super) fn same_loosely(t: &Tracked, a: &Loc, b: &Loc) -> Result<bool> {
    let keys = matches!((a, b), (Loc::Key(_), Loc::Key(_)));
    Ok(keys && loosely(t, a)? == loosely(t, b)?)
}

/// A key, the same for all that SQLite may make of it.
fn loosely(t: &Tracked, loc: &Loc) -> Result<Vec<u8>> {
    let mut key = t.loc_values(loc)?;
    for value in &mut key {
        if let Some(number) = equal::converted(value, Affinity::Numeric) {
            *value = number;
        }
    }
    Ok(encode_values(key.iter().map(|value| (value, &Collation::Binary))))
}
