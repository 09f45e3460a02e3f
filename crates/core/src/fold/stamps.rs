//! Which stamps a fold gives.
//!
//! Times of writes become clock values: `h := max(h + 1, ms << 16)` for the first, and from there the
//! larger of `h` and each later millisecond, so that writes of one millisecond share a stamp and no
//! stamp ever repeats one of an earlier fold (R-HLC).

use crate::catalog::Tracked;
use crate::journal::{Millis, Written};
use crate::meta::Meta;
use std::collections::BTreeMap;
use synqlite_wire::{Header, Hlc, SiteId, Stamp};

pub(super) struct Stamps {
    site: SiteId,
    /// Position of what is written.
    pub local_seq: i64,
    /// Clock value of the earliest write, once a stamp was given.
    first: Option<Hlc>,
    /// That of the latest write; what this fold stamps on its own account is later.
    last: Hlc,
}

impl Stamps {
    /// The stamps of the next fold, or of one that began with a stamp of clock `first`.
    pub fn new(meta: &Meta, first: Option<Hlc>) -> Stamps {
        Stamps { site: meta.site, local_seq: meta.local_seq + 1, first, last: meta.clock }
    }

    /// One stamp for all writes of a transaction that is under way.
    pub fn all_at(meta: &Meta, hlc: Hlc) -> Stamps {
        Stamps { site: meta.site, local_seq: meta.local_seq, first: Some(hlc), last: hlc }
    }

    /// Gives the first stamp of this fold, if that was not done, and raises the clock to the last.
    /// Gives none if nothing was written: then the latest time is before the earliest.
    pub fn span(&mut self, meta: &mut Meta, earliest: Millis, latest: Millis) {
        if latest < earliest {
            return;
        }
        if self.first.is_none() {
            self.first = Some(meta.tick(earliest).hlc);
        }
        if Hlc::at_ms(latest) > meta.clock {
            meta.tick(latest);
        }
        self.last = meta.clock;
    }

    /// The stamp of a write of this fold.
    pub fn at(&self, ms: Millis) -> Stamp {
        let first = self.first.unwrap_or(self.last);
        Stamp { hlc: first.max(Hlc::at_ms(ms)), site: self.site }
    }

    /// Groups that hold the written columns, with the stamp of the latest write of each.
    pub fn of_groups(&self, t: &Tracked, written: &Written) -> BTreeMap<usize, Stamp> {
        let mut groups = BTreeMap::new();
        for (no, &ms) in written {
            let Some(c) = t.column_nos.iter().position(|n| n == no) else { continue };
            let entry = groups.entry(t.table.columns[c].group).or_insert(Stamp::ZERO);
            *entry = self.at(ms).max(*entry);
        }
        groups
    }

    /// When a row came to have a key: it may have been inserted under another before the row that had
    /// this one went, whose end is not the end of this life.
    pub fn after(&mut self, meta: &mut Meta, former: &Header, stamp: Stamp) -> Stamp {
        if former.alive() || stamp.hlc > former.deleted.hlc {
            return stamp;
        }
        let hlc = former.deleted.hlc.after(0);
        meta.observe(hlc);
        self.last = self.last.max(hlc);
        Stamp { hlc, site: stamp.site }
    }

    /// Whether this fold gave a stamp.
    pub fn gave(&self, stamp: Stamp) -> bool {
        let written = |first| first <= stamp.hlc && stamp.hlc <= self.last;
        stamp.site == self.site && self.first.is_some_and(written)
    }
}
