//! Rows that came into being since the last fold.

use super::{Died, Fold};
use crate::catalog::{Loc, Tracked};
use crate::counter;
use crate::journal::Born;
use crate::schema::Identity;
use crate::state::{self, Body, GroupState, Name, RowState, Runs, Stored};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Header, Rid, Stamp, Value};

/// A new row, as it is now.
struct New<'r> {
    t: &'r Tracked,
    loc: &'r Loc,
    row: Vec<Value>,
    /// When it was inserted.
    stamp: Stamp,
    /// Groups that were written since, and when last.
    written: BTreeMap<usize, Stamp>,
    /// Whether it lacks a parent.
    dangles: bool,
}

impl Fold<'_> {
    /// `died`: rows of the table that died in this window. `runs`: its new segments.
    pub(super) fn insert(
        &mut self,
        t: &Tracked,
        loc: &Loc,
        born: &Born,
        died: &Died,
        runs: &mut Runs,
    ) -> Result<()> {
        let Some(row) = t.read(self.conn, loc)? else { return Ok(()) };
        let stamp = self.stamps.at(born.at);
        let written = self.stamps.of_groups(t, &born.written);
        let dangles = self.dangles(t, loc, &row)?;
        let key = match t.table.identity {
            Identity::Birth => None,
            Identity::Key => self.lookup().key_rid(t, &row)?,
        };
        self.done.columns += t.table.groups.len() as u64;
        let new = New { t, loc, row, stamp, written, dangles };
        match key {
            None => self.insert_by_birth(new, runs),
            Some(key) => self.insert_by_key(new, key, died, runs),
        }
    }

    fn insert_by_birth(&mut self, new: New<'_>, runs: &mut Runs) -> Result<()> {
        let New { t, loc, stamp, mut written, dangles, .. } = new;
        // Nobody else can have changed it yet: a counter is as it was inserted.
        written.retain(|&g, _| !t.table.groups[g].counter);
        let birth = runs.next_births(self.conn, 1)?;
        let rid = Rid::Birth { site: self.meta.site, n: birth as u64 };
        let mut state = RowState::born(t, stamp);
        written.iter().for_each(|(&g, &stamp)| state.groups[g] = GroupState::shown(stamp));
        let born = Stored { entry: None, rid, loc: Some(loc.clone()), local_seq: 0, state };
        if dangles {
            self.wrote.touched.push((t.no, born.rid.clone()));
        }
        match written.is_empty() {
            true => self.share(t, &born, Name::Birth(birth), runs),
            false => self.put(t, &born),
        }
    }

    fn insert_by_key(
        &mut self,
        new: New<'_>,
        key: Vec<u8>,
        died: &Died,
        runs: &mut Runs,
    ) -> Result<()> {
        let New { t, loc, ref row, stamp, dangles, .. } = new;
        let mut stored = self.free_generation(t, key, loc, runs)?;
        let again = stored.state.header.cl > 0;
        let alive = stored.state.header.alive();
        let was = (alive && !self.given.adopts).then(|| stored.state.clone());
        // What a part of this fold deleted before the others showed all that it kept.
        let plainly = again && !alive && self.stamps.gave(stored.state.header.cl_stamp);
        let mut came = stamp;
        if !(self.given.adopts && alive) {
            came = self.stamps.after(self.meta, &stored.state.header, stamp);
            stored.state.header.insert(came);
        }
        let nothing = BTreeSet::new();
        let apart = died.get(&stored.rid).or(plainly.then_some(&nothing)).filter(|_| again);
        self.stamp_new(&new, &mut stored.state, came, again, apart)?;
        if let Some(was) = was {
            self.asked(t, &was);
            self.over_hidden(t, &was, &stored, row)?;
        }
        stored.loc = Some(loc.clone());
        if again {
            self.takes(t, &stored.rid);
        }
        if dangles {
            self.wrote.touched.push((t.no, stored.rid.clone()));
        }
        let plain = stored.entry.is_none() && stored.state.is_plain();
        match &stored.rid {
            Rid::Key { key, generation: 0 } if plain && state::names_itself(t, key) => {
                self.share(t, &stored, Name::Key(key), runs)
            }
            _ => self.put(t, &stored),
        }
    }

    /// Gives the groups of a row that came to have its key at `came` their stamps. `again`: whether there
    /// was a row with this identity. `apart`: if it died in this window, the groups that kept something
    /// else than it showed.
    fn stamp_new(
        &self,
        new: &New<'_>,
        state: &mut RowState,
        came: Stamp,
        again: bool,
        apart: Option<&BTreeSet<usize>>,
    ) -> Result<()> {
        let New { t, row, .. } = new;
        for (g, group) in state.groups.iter_mut().enumerate() {
            let stamp = new.written.get(&g).copied().unwrap_or(new.stamp);
            if counter::adds_up(t, g, group) && !self.given.adopts {
                let c = t.table.groups[g].columns[0];
                // Later than what became of the row before.
                counter::insert(t, g, group, again, &row[c], stamp.max(came));
            } else if apart.is_some_and(|apart| !apart.contains(&g))
                && Body::Stored(self.lookup().cell(t, g, row)?) == group.body
            {
                // A row deleted and inserted again since the last fold: only what differs is a write.
                group.body = Body::InTable;
            } else {
                *group = GroupState::shown(stamp);
            }
        }
        Ok(())
    }

    /// Saves a new row that is all that its name and stamp say: in a segment, if one can take it.
    fn share(
        &mut self,
        t: &Tracked,
        stored: &Stored,
        name: Name<'_>,
        runs: &mut Runs,
    ) -> Result<()> {
        if let Some(Loc::Row(rowid)) = stored.loc {
            let by = self.inserted(stored.state.header.inserted)?;
            if runs.add(self.conn, t, rowid, name, by)? {
                self.record(t, stored)?;
                return self.touch(t, &stored.rid);
            }
        }
        self.put(t, stored)
    }

    /// Remembers what a hidden row asked for, and to whom it referred: others may wait for the one, or be
    /// shown for the other.
    fn asked(&mut self, t: &Tracked, was: &RowState) {
        self.formerly(t, &was.kept_row(t), None);
        for (group, of) in was.groups.iter().zip(&t.table.groups).filter(|_| self.given.conflicts) {
            let Body::Stored(cell) = &group.body else { continue };
            for (&f, rid) in of.foreign_keys.iter().zip(&cell.refs) {
                let parent = self.catalog.position(&t.table.foreign_keys[f].parent);
                self.wrote.released.extend(parent.zip(rid.clone()));
            }
        }
    }

    /// R-ID-KEY: the smallest generation of a key that no visible row has; after a rename the old
    /// key is free for a new row. `loc`: where the row with the key is.
    fn free_generation(&self, t: &Tracked, key: Vec<u8>, loc: &Loc, runs: &Runs) -> Result<Stored> {
        let mut rid = Rid::Key { key, generation: 0 };
        loop {
            // No other row has the key, so only one that was at this place can be in a segment.
            let known = match runs.is_free(loc) {
                true => state::of_entry(self.conn, self.meta, t, &rid)?,
                false => state::of(self.conn, self.meta, t, &rid)?,
            };
            match known {
                Some(stored) if stored.loc.is_some() => {}
                Some(stored) => return Ok(stored),
                None => {
                    let mut state = RowState::born(t, Stamp::ZERO);
                    state.header = Header::NONE;
                    return Ok(Stored { entry: None, rid, loc: None, local_seq: 0, state });
                }
            }
            if let Rid::Key { generation, .. } = &mut rid {
                *generation = generation.checked_add(1).ok_or_else(|| {
                    let name = &t.table.name;
                    Error::Damaged(format!("table {name}: a key has too many generations"))
                })?;
            }
        }
    }
}
