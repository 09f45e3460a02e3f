//! Rows whose references the application left behind: the row to which they were has another key, is
//! gone, or began another life.

use super::Fold;
use super::references::Register;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::referring::Referring;
use crate::schema::Action;
use crate::state::{self, Body, GroupState, Stored};
use synqlite_view::local_wins::Acted;
use synqlite_wire::{Cell, Rid, Stamp, Value};

/// A reference that still shows the key which its row has left.
struct DanglingRef<'a> {
    /// Position of the table of the row that left.
    parent: usize,
    left: &'a Rid,
    /// Table and foreign key of the reference, and its group.
    c: &'a Tracked,
    f: usize,
    g: usize,
    /// Which of the references of its group it is.
    at: usize,
    loc: &'a Loc,
    row: Vec<Value>,
    /// The row to which its values are now.
    now: Option<Rid>,
    /// Its group, as [`super::references::References::orphaned`] names it.
    register: Register,
}

impl Fold<'_> {
    /// Rows that still show a key which their parent has left.
    ///
    /// If another row has that key now, the reference is to it (R-REBIND). If none has, foreign keys
    /// were off when it left, or merges do not keep this one. The reference stays to the row that
    /// left, and the view decides; but where nothing keeps it, one to a row that got another key is
    /// no reference any more, unless that is a number of this site alone.
    pub(super) fn dangling_refs(&mut self) -> Result<()> {
        // Of two rows that left one key, a reference from before was to the one that had it then.
        let (left, passed) =
            (std::mem::take(&mut self.refs.left), std::mem::take(&mut self.refs.passed));
        let (catalog, referring) = (self.catalog, Referring::new(self.conn));
        for (parent, rid, old) in left.into_iter().chain(passed) {
            for (child, f) in self.refs.to(parent) {
                let c = &catalog.tables[child];
                let fk = &c.table.foreign_keys[f];
                let key: Option<Vec<Value>> =
                    fk.parent_columns.iter().map(|&p| old[p].clone()).collect();
                let Some(key) = key else { continue };
                if key.iter().any(Value::is_null) {
                    self.emptied_before(parent, &rid, &key, child, f)?;
                    continue;
                }
                for loc in referring.to(c, f, &key)? {
                    self.dangling(parent, &rid, child, f, &loc)?;
                }
            }
        }
        Ok(())
    }

    /// Rows that show the key of a row with a NULL in it, to which CASCADE brought them: to SQLite they
    /// refer to nobody, so they do not follow when that row gets another key or goes (R-COMP).
    fn emptied_before(
        &mut self,
        parent: usize,
        left: &Rid,
        key: &[Value],
        child: usize,
        f: usize,
    ) -> Result<()> {
        let (p, c) = (&self.catalog.tables[parent], &self.catalog.tables[child]);
        let fk = &c.table.foreign_keys[f];
        if !(self.given.keeps(fk) && fk.on_update == Action::Cascade) {
            return Ok(());
        }
        let g = c.table.columns[fk.columns[0]].group;
        for (no, entry) in state::waiting_for_row(self.conn, self.meta, p, left)? {
            if no != c.no {
                continue;
            }
            let Some(stored) = state::entry_by_id(self.conn, self.meta, c, entry)? else {
                continue;
            };
            let Some(loc) = &stored.loc else { continue };
            let Some(row) = c.read(self.conn, loc)? else { continue };
            let refers = stored.state.kept_reference(c, f) == Some(left);
            let mut pairs = fk.columns.iter().zip(key);
            if refers && pairs.all(|(&c, key)| row[c].is_null() == key.is_null()) {
                self.wrote.acted.push((no, stored.rid, Acted::Set(g)));
            }
        }
        Ok(())
    }

    fn dangling(
        &mut self,
        parent: usize,
        left: &Rid,
        child: usize,
        f: usize,
        loc: &Loc,
    ) -> Result<()> {
        let c = &self.catalog.tables[child];
        let Some(row) = c.read(self.conn, loc)? else { return Ok(()) };
        let Some(stored) = state::at(self.conn, self.meta, c, loc)? else { return Ok(()) };
        let Some((g, at)) = c.table.place_of_key(f) else { return Ok(()) };
        let now = self.lookup().reference(c, f, &row)?;
        let register = (c.no, stored.rid.clone(), g);
        let dangling = DanglingRef { parent, left, c, f, g, at, loc, row, now, register };
        let fk = &c.table.foreign_keys[f];
        let kept = self.given.keeps(fk);
        if self.is_to_another(&dangling, &stored) {
            // It was shown because some row had the key, whichever that was; now none has.
            if kept && dangling.now.is_none() {
                self.wrote.touched.push((c.no, stored.rid));
            }
            return Ok(());
        }
        if dangling.now.as_ref() == Some(left) {
            let ends = kept && fk.on_delete.acts();
            return if ends { self.reborn(&dangling, stored) } else { Ok(()) };
        }
        let of_this_fold = self.stamps.gave(stored.state.groups[g].stamp);
        let orphaned = self.refs.orphaned.contains(&dangling.register);
        if self.refs.followed.contains(&dangling.register) || of_this_fold && !orphaned {
            return Ok(());
        }
        let cell = match &stored.state.groups[g].body {
            Body::Stored(cell) => cell.clone(),
            Body::InTable => self.lookup().cell(c, g, &dangling.row)?,
        };
        let moved = || -> Result<bool> {
            let left = state::of(self.conn, self.meta, &self.catalog.tables[parent], left)?;
            Ok(left.is_some_and(|left| left.state.header.alive()))
        };
        // A key that nobody keeps and that the user took from under the reference is a value; but a number
        // of this site alone is none to others (R-OWN).
        let own = &self.catalog.tables[parent].site_numbers;
        let ends = !kept && !fk.parent_columns.iter().any(|p| own.contains_key(p));
        match dangling.now.is_some() || ends && moved()? {
            true => self.rebound(dangling, stored, cell),
            false => self.left_behind(dangling, stored, cell),
        }
    }

    /// Whether the reference is to another row than the one that left, which had the same key.
    fn is_to_another(&self, dangling: &DanglingRef<'_>, stored: &Stored) -> bool {
        // What a sibling in its group left behind made kept says nothing of it yet.
        let unsaid = |rid: &Option<Rid>| {
            *rid == dangling.now && self.refs.orphaned.contains(&dangling.register)
        };
        let Body::Stored(cell) = &stored.state.groups[dangling.g].body else { return false };
        let rid = &cell.refs[dangling.at];
        rid.as_ref() != Some(dangling.left) && !unsaid(rid)
    }

    /// Its row began another life and took nothing along, foreign keys being off: so the reference is to
    /// the present one (R-INC, R-COMP).
    fn reborn(&mut self, dangling: &DanglingRef<'_>, mut stored: Stored) -> Result<()> {
        let p = &self.catalog.tables[dangling.parent];
        let left = state::of(self.conn, self.meta, p, dangling.left)?;
        let stamp = self.own_stamp();
        let group = &mut stored.state.groups[dangling.g];
        let before = left.is_some_and(|left| group.stamp < left.state.header.reinserted);
        if group.body != Body::InTable || !before {
            return Ok(());
        }
        *group = GroupState { stamp, column_stamps: vec![], ..group.clone() };
        self.done.columns += 1;
        self.put(dangling.c, &stored)
    }

    /// The reference is to the row that has its values now, or to nobody.
    fn rebound(
        &mut self,
        dangling: DanglingRef<'_>,
        mut stored: Stored,
        mut cell: Cell,
    ) -> Result<()> {
        let DanglingRef { c, f, g, at, loc, row, now, register, .. } = dangling;
        cell.refs[at].clone_from(&now);
        // Another reference of the group may be to a row that left as well.
        let given = |f: usize| c.table.foreign_keys[f].columns.iter().all(|&x| !row[x].is_null());
        let keys = c.table.groups[g].foreign_keys.iter().zip(&cell.refs);
        let mut others = keys.filter(|(other, _)| **other != f);
        let with_others = others.any(|(&f, rid)| rid.is_none() && given(f));
        stored.state.groups[g] = GroupState::shown(self.own_stamp());
        if with_others || self.refs.orphaned.contains(&register) {
            stored.state.groups[g].body = Body::Stored(cell);
            self.refs.orphaned.insert(register);
            self.wrote.touched.push((c.no, stored.rid.clone()));
        } else if now.is_none() {
            self.refs.names_nobody(c, loc.clone());
        }
        self.done.columns += 1;
        self.put(c, &stored)
    }

    /// The reference stays to the row that left, and the view decides.
    fn left_behind(
        &mut self,
        dangling: DanglingRef<'_>,
        mut stored: Stored,
        mut cell: Cell,
    ) -> Result<()> {
        let DanglingRef { parent, left, c, g, at, register, .. } = dangling;
        // What is kept says so already, and to whom the other references are that it does not show.
        if stored.state.groups[g].body == Body::InTable {
            self.refs.orphaned.insert(register.clone());
        }
        if self.refs.orphaned.contains(&register) {
            cell.refs[at] = Some(left.clone());
        }
        stored.state.groups[g].body = Body::Stored(cell);
        let entry = state::put(self.conn, self.meta, c, &stored, None)?;
        let references = state::kept_references(self.catalog, c, &stored, false);
        let waits = state::Waits { references, claims: vec![], conflict: None, winner: None };
        state::record_waits(self.conn, self.meta, entry, &waits)?;
        self.wrote.touched.push((c.no, stored.rid));
        self.wrote.touched.push((self.catalog.tables[parent].no, left.clone()));
        Ok(())
    }

    /// The latest stamp that this site has given.
    fn own_stamp(&self) -> Stamp {
        Stamp { hlc: self.meta.clock, site: self.meta.site }
    }
}
