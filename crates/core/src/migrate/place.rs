//! Rows of a table that was rebuilt under its name, back where they were.
//!
//! A rebuild may renumber rowids that no column shows. Which row is which is told, in this order, by a
//! key that never changed, by what the row shows ([`crate::state::sums`]), and by the order of the
//! rows, which a copy keeps: the copy of the nth row has rowid n.

use crate::Result;
use crate::catalog::{Loc, Tracked, loc_sql};
use crate::journal::{self, Window};
use crate::refs::Lookup;
use crate::schema::{Identity, TableKind, quote};
use crate::state::sums::Sums;
use crate::state::{self, Stored};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Value};

/// Gives the rows of a rebuilt table the rowids that they had. Only where no column shows the rowid:
/// else it cannot have changed unnoticed.
pub(super) fn put_back(lookup: Lookup<'_>, t: &Tracked, sums: &Sums) -> Result<()> {
    let (TableKind::Rowid, Some(rowid)) = (t.table.kind, &t.table.rowid_name) else {
        return Ok(());
    };
    let conn = lookup.conn;
    let windows = journal::read(conn, lookup.catalog)?.into_iter().map(Window::expanded);
    let position = lookup.catalog.position_of_no(t.no);
    let Some(window) = position.and_then(|i| windows.into_iter().nth(i)) else { return Ok(()) };
    let known = state::places(conn, lookup.meta, t)?;
    let known = known.into_iter().filter(|at| sums.has(at) || window.changed.contains_key(at));
    // Where rows were when the table was rebuilt, and at the last fold.
    let mut were: BTreeMap<Loc, Option<Loc>> = BTreeMap::new();
    for at in known.filter(|at| !window.gone.contains_key(at)) {
        let now = window.changed.get(&at).map_or(&at, |changed| &changed.now).clone();
        were.insert(now, Some(at));
    }
    were.extend(window.born.keys().map(|at| (at.clone(), None)));
    let are = locs(conn, t)?;
    let mut pairing = Pairing { t, sums, window: &window, were, are, moves: Vec::new() };
    pairing.by_key(lookup)?;
    pairing.by_order(conn)?;
    pairing.rest();
    move_rows(conn, t, rowid, &pairing.moves)
}

struct Pairing<'a> {
    t: &'a Tracked,
    sums: &'a Sums,
    window: &'a Window,
    /// Places of which it is not known yet where their rows are, each with that at the last fold.
    were: BTreeMap<Loc, Option<Loc>>,
    /// Places whose rows are not known yet.
    are: BTreeSet<Loc>,
    /// Where rows are, and where they were.
    moves: Vec<(Loc, Loc)>,
}

impl Pairing<'_> {
    fn pair(&mut self, at: &Loc, was: &Loc) {
        self.were.remove(was);
        self.are.remove(at);
        self.moves.push((at.clone(), was.clone()));
    }

    /// Pairs rows that have a key which never changed.
    fn by_key(&mut self, lookup: Lookup<'_>) -> Result<()> {
        if self.t.table.identity != Identity::Key {
            return Ok(());
        }
        for at in self.are.clone() {
            let Some(row) = self.t.read(lookup.conn, &at)? else { continue };
            let Some(key) = lookup.key_rid(self.t, &row)? else { continue };
            let rid = Rid::Key { key, generation: 0 };
            let known = state::of(lookup.conn, lookup.meta, self.t, &rid)?;
            let was =
                known.filter(|known| keeps_its_key(self.t, known)).and_then(|known| known.loc);
            if let Some(was) = was.filter(|was| self.were.get(was) == Some(&Some(was.clone()))) {
                self.pair(&at, &was);
            }
        }
        Ok(())
    }

    /// Pairs rows by their order, if that was kept, else by their rowids, whichever fits what more of
    /// them show; of those that it does not fit others that show the same.
    fn by_order(&mut self, conn: &Connection) -> Result<()> {
        let same = self.are.iter().filter(|at| self.were.contains_key(at));
        let same: Vec<(Loc, Loc)> = same.map(|at| (at.clone(), at.clone())).collect();
        let copies = (1..).map(Loc::Row).zip(self.order());
        let copies: Vec<(Loc, Loc)> = copies
            .filter(|(at, was)| self.are.contains(at) && self.were.contains_key(was))
            .collect();
        let fitting = |pairs: &[(Loc, Loc)]| -> Result<Vec<(Loc, Loc)>> {
            let mut fitting = Vec::new();
            for (at, was) in pairs {
                if self.fits(conn, at, was)? {
                    fitting.push((at.clone(), was.clone()));
                }
            }
            Ok(fitting)
        };
        let (stayed, copied) = (fitting(&same)?, fitting(&copies)?);
        let by_number = (copied.len(), copies.len()) > (stayed.len(), same.len());
        let (fit, all) = if by_number { (copied, copies) } else { (stayed, same) };
        fit.iter().for_each(|(at, was)| self.pair(at, was));
        let mut alike = self.sums.alike(self.t, self.were.values().flatten());
        for at in self.are.clone() {
            let Some(row) = self.t.read(conn, &at)? else { continue };
            let Some(was) = alike.take(self.t, &row) else { continue };
            let was = self.window.changed.get(&was).map_or(was, |changed| changed.now.clone());
            if self.were.contains_key(&was) {
                self.pair(&at, &was);
            }
        }
        for (at, was) in all {
            if self.are.contains(&at) && self.were.contains_key(&was) {
                self.pair(&at, &was);
            }
        }
        Ok(())
    }

    /// All places where rows were when the table was rebuilt, in order.
    fn order(&self) -> Vec<Loc> {
        let mut order: BTreeSet<Loc> = self.moves.iter().map(|(_, was)| was.clone()).collect();
        order.extend(self.were.keys().cloned());
        order.into_iter().collect()
    }

    /// Whether the row at `at` shows what the one that was at `was` did, as far as it is known.
    fn fits(&self, conn: &Connection, at: &Loc, was: &Loc) -> Result<bool> {
        let Some(Some(from)) = self.were.get(was) else { return Ok(false) };
        let Some(row) = self.t.read(conn, at)? else { return Ok(false) };
        let written = self.window.changed.get(from).map(|changed| &changed.written);
        let written = written.into_iter().flat_map(|written| written.keys());
        let known = written.filter_map(|no| self.t.column_nos.iter().position(|n| n == no));
        let compared = self.sums.compare(conn, self.t, from, &row, &known.collect())?;
        Ok(compared.is_some_and(|compared| compared.touched.is_empty()))
    }

    /// Rows that are new come last, past all others.
    fn rest(&mut self) {
        let places = self.moves.iter().flat_map(|(at, was)| [at, was]);
        let places = places.chain(&self.are).chain(self.were.keys());
        let after = places.filter_map(|at| match at {
            Loc::Row(rowid) => Some(*rowid),
            Loc::Key(_) => None,
        });
        let after = after.max().unwrap_or(0);
        let new = self.are.iter().filter(|at| self.moves.iter().any(|(_, was)| was == *at));
        let new: Vec<Loc> = new.cloned().collect();
        let further = (1..).map_while(|i| after.checked_add(i).map(Loc::Row));
        self.moves.extend(new.into_iter().zip(further));
    }
}

/// Whether nobody has ever given a row another key than the one that names it.
pub(super) fn keeps_its_key(t: &Tracked, stored: &Stored) -> bool {
    let written = |&c: &usize| {
        let group = t.table.columns[c].group;
        stored.state.groups[group].stamp == stored.state.header.inserted
    };
    t.table.identity == Identity::Key && t.table.primary_key.iter().all(written)
}

/// Whether the key of `row` is the one that names the row.
pub(super) fn is_named(
    lookup: Lookup<'_>,
    t: &Tracked,
    stored: &Stored,
    row: &[Value],
) -> Result<bool> {
    let Rid::Key { key, generation: 0 } = &stored.rid else { return Ok(false) };
    Ok(!row.is_empty() && lookup.key_rid(t, row)?.as_ref() == Some(key))
}

fn move_rows(conn: &Connection, t: &Tracked, rowid: &str, moves: &[(Loc, Loc)]) -> Result<()> {
    if moves.iter().all(|(from, to)| from == to) {
        return Ok(());
    }
    let name = quote(rowid);
    let below = format!("SELECT min(0, min({name})) FROM {}", t.target());
    let below: i64 = conn.query_row(&below, [], |row| row.get(0))?;
    let sql = format!("UPDATE {} SET {name} = ?2 WHERE {name} = ?1", t.target());
    let mut statement = conn.prepare(&sql)?;
    let moves = || moves.iter().filter(|(from, to)| from != to).zip(1i64..);
    for ((from, _), i) in moves() {
        statement.execute(params![from, below.checked_sub(i)])?;
    }
    for ((_, to), i) in moves() {
        statement.execute(params![below.checked_sub(i), to])?;
    }
    Ok(())
}

pub(super) fn locs(conn: &Connection, t: &Tracked) -> Result<BTreeSet<Loc>> {
    let sql = format!("SELECT {} FROM {} AS o", loc_sql(&t.table, "o."), t.target());
    let mut statement = conn.prepare(&sql)?;
    Ok(t.places(&mut statement, [])?.into_iter().collect())
}
