//! What foreign keys do to a row within an update of that row.
//!
//! When a row gets another place, foreign keys act before its own entry says so. A reference of the row
//! to itself is then set under the new place, where another row may have been that gives way. It is
//! written with the key: what follows from a change of its own key no other site would derive.

use super::window::Millis;
use crate::catalog::Loc;

/// Updates of one table's rows that have begun and not ended.
#[derive(Default)]
pub(super) struct Updates {
    /// When; all of one statement happens in one millisecond.
    at: Millis,
    /// Where each row was, and the entry with its before-image.
    open: Vec<(Loc, i64)>,
    /// Updates within these.
    acts: Vec<Act>,
}

/// An update of the row at `loc`, whose before-image is of entry `image`.
pub(super) struct Act {
    pub loc: Loc,
    pub image: i64,
    pub columns: Vec<u32>,
}

impl Updates {
    /// The row at `loc` is about to be updated; entry `seq` has its before-image.
    pub fn begin(&mut self, loc: Loc, seq: i64, at: Millis) {
        if self.at != at {
            // An update that was ignored has no entry of its own.
            *self = Updates { at, ..Updates::default() };
        }
        self.open.push((loc, seq));
    }

    /// The entry that says that the row at `loc` is about to be updated.
    pub fn began(&self, loc: &Loc, at: Millis) -> Option<i64> {
        let open = if self.at == at { &self.open[..] } else { &[] };
        open.iter().rfind(|(of, _)| of == loc).map(|(_, seq)| *seq)
    }

    /// The entry that says which update began last of those that have not ended.
    pub fn begun_last(&self, at: Millis) -> Option<i64> {
        self.open.last().filter(|_| self.at == at).map(|(_, seq)| *seq)
    }

    /// The row that was at `from` was updated. Returns what foreign keys have done to it since that
    /// began, if it is at another place now.
    pub fn end(&mut self, from: &Loc, to: Option<&Loc>, columns: &[u32]) -> Vec<Act> {
        let Some(begun) = self.open.iter().rposition(|(loc, _)| loc == from) else { return vec![] };
        let (_, image) = self.open[begun];
        self.open.truncate(begun);
        let own = |act: &mut Act| Some(&act.loc) == to && act.image > image;
        let own = self.acts.extract_if(.., own).collect();
        if self.open.is_empty() {
            self.acts.clear();
        } else if to.is_none() {
            self.acts.push(Act { loc: from.clone(), image, columns: columns.to_vec() });
        }
        own
    }
}
