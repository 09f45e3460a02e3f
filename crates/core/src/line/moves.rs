//! Other names for stretches of lines, in everything that names sites.

use super::tree::Stretch;
use std::collections::BTreeMap;
use synqlite_wire::{
    Cell, Delta, Header, Hlc, Register, Rid, SiteId, Stamp, Told, VersionVector, key, told,
};

/// Which stretches of which sites go by other ids.
#[derive(Clone, Debug, Default)]
pub struct Moves(BTreeMap<SiteId, Vec<Stretch>>);

impl Moves {
    /// The line of `site` consists of these stretches, in order.
    pub fn insert(&mut self, site: SiteId, stretches: Vec<Stretch>) {
        if stretches.iter().any(|stretch| stretch.site != site) {
            self.0.insert(site, stretches);
        }
    }

    /// Whether nothing goes by another id.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sites with their stretches.
    pub fn iter(&self) -> impl Iterator<Item = (SiteId, &[Stretch])> {
        self.0.iter().map(|(site, stretches)| (*site, &stretches[..]))
    }

    /// What a vector says under the new ids.
    pub fn vector(&self, vector: &VersionVector) -> VersionVector {
        let mut moved = VersionVector::default();
        for (&site, &clock) in &vector.0 {
            let Some(stretches) = self.0.get(&site) else {
                moved.raise(site, clock);
                continue;
            };
            let mut begin = Hlc::ZERO;
            for Stretch { end, site } in stretches {
                if begin < clock {
                    moved.raise(*site, clock.min(end.clock));
                }
                begin = end.clock;
            }
        }
        moved
    }

    /// Renames the site of a stamp.
    pub fn stamp(&self, stamp: &mut Stamp) {
        let Some(stretches) = self.0.get(&stamp.site) else { return };
        let found = stretches.iter().find(|stretch| stamp.hlc <= stretch.end.clock);
        stamp.site = found.or(stretches.last()).map_or(stamp.site, |stretch| stretch.site);
    }

    /// Renames the site of a birth, and those in a key.
    pub fn rid(&self, rid: &mut Rid) {
        rid.rename(&mut |site, n| self.birth(site, n));
    }

    /// Renames the sites in the bytes of a key.
    pub fn key(&self, bytes: &mut Vec<u8>) {
        key::rename(bytes, &mut |site, n| self.birth(site, n));
    }

    fn birth(&self, site: &mut SiteId, n: u64) {
        let Some(stretches) = self.0.get(site) else { return };
        let found = stretches.iter().find(|stretch| n < stretch.end.births);
        *site = found.or(stretches.last()).map_or(*site, |stretch| stretch.site);
    }

    /// Renames the sites of two writes of which one gave way, and in their id.
    pub fn pair(&self, id: &mut [u8; 16], lost: &mut Stamp, kept: &mut Stamp) {
        told::rename(id, lost, kept, |stamp| self.stamp(stamp));
    }

    /// Renames the sites in a header.
    pub fn header(&self, header: &mut Header) {
        let Header { cl: _, cl_stamp, inserted, deleted, reinserted, yielded } = header;
        for stamp in [cl_stamp, inserted, deleted, reinserted, yielded] {
            self.stamp(stamp);
        }
    }

    /// Renames the sites in a cell.
    pub fn cell(&self, cell: &mut Cell) {
        cell.refs.iter_mut().flatten().for_each(|rid| self.rid(rid));
    }

    /// Renames the sites in a register.
    pub fn register(&self, register: &mut Register) {
        self.stamp(&mut register.stamp);
        self.cell(&mut register.cell);
        register.previous.iter_mut().for_each(|cell| self.cell(cell));
        register.counts.iter_mut().for_each(|count| self.stamp(&mut count.stamp));
        register.counts.sort_by_key(|count| count.stamp.site);
    }

    /// Renames the sites in the rows and settings of a delta, and in what gave way.
    pub fn delta(&self, delta: &mut Delta) {
        if self.is_empty() {
            return;
        }
        for row in &mut delta.rows {
            self.rid(&mut row.rid);
            self.header(&mut row.header);
            row.registers.iter_mut().for_each(|register| self.register(register));
        }
        delta.settings.iter_mut().for_each(|setting| self.stamp(&mut setting.stamp));
        for Told { id, lost, kept, .. } in &mut delta.told {
            self.pair(id, lost, kept);
        }
    }
}
