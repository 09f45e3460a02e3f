//! Rows that came into being since the last fold.

use super::{Died, Fold};
use crate::catalog::{Loc, Tracked};
use crate::counter;
use crate::history;
use crate::journal::{Millis, Written};
use crate::schema::Identity;
use crate::state::{self, Body, GroupState, Name, RowState, Runs, Stored};
use crate::{Error, Result};
use synqlite_wire::{Header, Rid, Stamp};

impl Fold<'_> {
    pub(super) fn insert(
        &mut self,
        t: &Tracked,
        loc: &Loc,
        at: Millis,
        written: &Written,
        died: &Died,
        runs: &mut Runs,
    ) -> Result<()> {
        let Some(row) = t.read(self.conn, loc)? else { return Ok(()) };
        let (stamp, mut written) = (self.at(at), self.groups_written(t, written));
        let dangling = self.dangles(t, loc, &row)?;
        let key = match t.table.identity {
            Identity::Birth => None,
            Identity::Key => self.lookup().key_rid(t, &row)?,
        };
        self.done.columns += t.table.groups.len() as u64;
        let Some(key) = key else {
            // Nobody else can have changed it yet: a counter is as it was inserted.
            written.retain(|&g, _| !t.table.groups[g].counter);
            let birth = runs.next_births(self.conn, 1)?;
            let n = birth as u64;
            if let (Loc::Row(rowid), true) = (loc, written.is_empty()) {
                let site = self.meta.number(self.conn, self.meta.site)?;
                let name = Name::Birth(birth);
                if runs.add(self.conn, t, *rowid, site, name, stamp.hlc, self.position)? {
                    self.done.rows += 1;
                    if self.conflicts || dangling {
                        self.touched.push((t.no, Rid::Birth { site: self.meta.site, n }));
                    }
                    if self.history {
                        let rid = Rid::Birth { site: self.meta.site, n };
                        let (loc, state) = (Some(loc.clone()), RowState::born(t, stamp));
                        let born = Stored { entry: None, rid, loc, position: 0, state };
                        history::record(self.conn, self.meta, t, &born)?;
                    }
                    return Ok(());
                }
            }
            let rid = Rid::Birth { site: self.meta.site, n };
            let mut state = RowState::born(t, stamp);
            written.iter().for_each(|(&g, &stamp)| state.groups[g] = GroupState::shown(stamp));
            if dangling {
                self.touched.push((t.no, rid.clone()));
            }
            let loc = Some(loc.clone());
            let born = Stored { entry: None, rid, loc, position: 0, state };
            return self.put(t, &born);
        };
        let mut stored = self.free_generation(t, key, loc, runs)?;
        let again = stored.state.header.cl > 0;
        let apart = died.get(&stored.rid);
        let hidden = stored.state.header.alive() && !self.adopts;
        let was = hidden.then(|| stored.state.clone());
        let mut came = stamp;
        if !(self.adopts && stored.state.header.alive()) {
            came = self.after(&stored.state.header, stamp);
            stored.state.header.insert(came);
        }
        for g in 0..stored.state.groups.len() {
            let (c, group) = (t.table.groups[g].columns[0], &mut stored.state.groups[g]);
            if counter::adds_up(t, g, group) && !self.adopts {
                // Later than what became of the row before.
                let stamp = written.get(&g).copied().unwrap_or(stamp).max(came);
                counter::insert(t, g, group, again, &row[c], stamp);
                continue;
            }
            // A row deleted and inserted again since the last fold: only what differs is a write.
            if again
                && apart.is_some_and(|apart| !apart.contains(&g))
                && Body::Stored(self.lookup().cell(t, g, &row)?) == stored.state.groups[g].body
            {
                stored.state.groups[g].body = Body::InTable;
                continue;
            }
            let stamp = written.get(&g).copied().unwrap_or(stamp);
            stored.state.groups[g] = GroupState::shown(stamp);
        }
        if let Some(was) = was {
            self.asked(t, &was);
            self.over_hidden(t, &was, &stored, &row)?;
        }
        stored.loc = Some(loc.clone());
        if again {
            self.takes(t, &stored.rid);
        }
        if dangling {
            self.touched.push((t.no, stored.rid.clone()));
        }
        if let (Loc::Row(rowid), Rid::Key { key, generation: 0 }) = (loc, &stored.rid)
            && stored.entry.is_none()
            && stored.state.is_plain()
            && state::names_itself(t, key)
        {
            let site = self.meta.number(self.conn, self.meta.site)?;
            let name = Name::Key(key);
            if runs.add(self.conn, t, *rowid, site, name, stamp.hlc, self.position)? {
                return self.shared(t, &stored);
            }
        }
        self.put(t, &stored)
    }

    /// Remembers what a hidden row asked for, and to whom it referred: others may wait for the one, or be
    /// shown for the other.
    fn asked(&mut self, t: &Tracked, was: &RowState) {
        self.formerly(t, &was.kept_row(t), None);
        for (group, of) in was.groups.iter().zip(&t.table.groups).filter(|_| self.conflicts) {
            let Body::Stored(cell) = &group.body else { continue };
            for (&f, rid) in of.foreign_keys.iter().zip(&cell.refs) {
                let parent = self.catalog.position(&t.table.foreign_keys[f].parent);
                self.released.extend(parent.zip(rid.clone()));
            }
        }
    }

    /// When a row came to have a key: it may have been inserted under another before the row that had
    /// this one went, whose end is not the end of this life.
    fn after(&mut self, former: &Header, stamp: Stamp) -> Stamp {
        if former.alive() || stamp.hlc > former.deleted.hlc {
            return stamp;
        }
        let hlc = former.deleted.hlc.after(0);
        self.meta.observe(hlc);
        self.last = self.last.max(hlc);
        Stamp { hlc, site: stamp.site }
    }

    /// What there is to do besides for a row that a segment has taken.
    fn shared(&mut self, t: &Tracked, stored: &Stored) -> Result<()> {
        self.done.rows += 1;
        if self.history {
            history::record(self.conn, self.meta, t, stored)?;
        }
        if self.conflicts || self.waits && state::awaited(self.conn, self.meta, t, &stored.rid)? {
            self.touched.push((t.no, stored.rid.clone()));
        }
        Ok(())
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
                    state.header = synqlite_wire::Header::NONE;
                    return Ok(Stored { entry: None, rid, loc: None, position: 0, state });
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
