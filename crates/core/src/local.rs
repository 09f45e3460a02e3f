//! Rows of tables that are not replicated and refer to rows of such that are (R-LOCAL).
//!
//! A merge that deletes a row, or shows it under another key, does to them what their foreign keys
//! declare, as SQLite would have done if the application had. What must hold: before a row that they may
//! refer to is written, what it shows is remembered ([`Meta::left`]); at the end of the transaction they follow
//! from there to what it shows then ([`follow`]), so that keys which rows exchange, and rows that go and
//! come back, leave them where they belong.

use crate::catalog::{Catalog, Loc, Tracked};
use crate::equal;
use crate::merge;
use crate::meta::Meta;
use crate::policy::Policies;
use crate::referring::Referring;
use crate::schema::{Action, ForeignKey};
use crate::{Error, Result, state};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::Value;

/// What became of a row to which others may refer.
struct Change<'c> {
    t: &'c Tracked,
    old: Vec<Value>,
    new: Option<Vec<Value>>,
}

/// A row of a local table, and what it is to show; `None` if it is to go.
struct Child {
    loc: Loc,
    old: Vec<Value>,
    new: Option<Vec<Value>>,
}

/// Lets local rows follow what became of those that were noted.
pub(crate) fn follow(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
) -> Result<()> {
    let mut left: Vec<_> = std::mem::take(&mut meta.left).into_iter().collect();
    left.sort_by_key(|(_, (before, _))| *before);
    let mut changes = Vec::new();
    for ((no, rid), (_, old)) in left {
        let Some(position) = catalog.position_of_no(no) else { continue };
        let t = &catalog.tables[position];
        let loc = state::of(conn, meta, t, &rid)?.and_then(|stored| stored.loc);
        let new = loc.map(|loc| t.read(conn, &loc)).transpose()?.flatten();
        changes.push(Change { t, old, new });
    }
    let mut done = BTreeSet::new();
    let mut found = children(conn, catalog, &changes, &mut done)?;
    if found.is_empty() {
        return Ok(());
    }
    merge::with_indexes(conn, policies, || {
        while !found.is_empty() {
            changes.clear();
            for (child, rows) in std::mem::take(&mut found) {
                let c = &catalog.local[child];
                for row in write(conn, c, rows)? {
                    let Child { loc, old, new } = row;
                    // It may be elsewhere now.
                    if let Some(new) = &new {
                        let key: Vec<Value> =
                            c.table.primary_key.iter().map(|&k| new[k].clone()).collect();
                        let now = c.find_key(conn, &key)?;
                        for column in 0..new.len() {
                            if done.contains(&(child, loc.clone(), column)) {
                                done.extend(now.iter().map(|now| (child, now.clone(), column)));
                            }
                        }
                    }
                    changes.push(Change { t: c, old, new });
                }
            }
            found = children(conn, catalog, &changes, &mut done)?;
        }
        Ok(())
    })
}

/// Rows that refer to those that changed, as they are to be: found before any is written, since keys may
/// be exchanged. Of two rows that had one key the first had it when the transaction began. `done`: columns of
/// rows that have followed, and do not once more.
fn children(
    conn: &Connection,
    catalog: &Catalog,
    changes: &[Change<'_>],
    done: &mut BTreeSet<(usize, Loc, usize)>,
) -> Result<BTreeMap<usize, Vec<Child>>> {
    let mut found: BTreeMap<(usize, Loc), Child> = BTreeMap::new();
    let referring = Referring::new(conn);
    for Change { t, old, new } in changes {
        for (child, f) in catalog.local_references_to(t) {
            let c = &catalog.local[child];
            let fk = &c.table.foreign_keys[f];
            let Some(key) = fk.parent_key(old) else { continue };
            let to = new.as_deref().and_then(|new| fk.parent_key(new));
            if to.as_ref() == Some(&key) {
                continue;
            }
            for loc in referring.to(c, f, &key)? {
                let columns = fk.columns.iter().map(|&column| (child, loc.clone(), column));
                let columns: Vec<_> = columns.collect();
                if columns.iter().any(|column| done.contains(column)) {
                    continue;
                }
                done.extend(columns);
                let Some(row) = c.read(conn, &loc)? else { continue };
                let fresh = || Child { loc: loc.clone(), old: row.clone(), new: Some(row) };
                let child = found.entry((child, loc.clone())).or_insert_with(fresh);
                // A column that stores the key as another value could only refer to nobody.
                let shows = fk.on_update.sets() || to.as_ref().is_none_or(|to| can_show(c, fk, to));
                match new {
                    Some(_) if shows => rekey(c, fk, fk.on_update, to.as_deref(), &mut child.new),
                    _ => bereave(c, fk, &mut child.new),
                }
            }
        }
    }
    let mut children: BTreeMap<usize, Vec<Child>> = BTreeMap::new();
    for ((child, _), row) in found {
        children.entry(child).or_default().push(row);
    }
    Ok(children)
}

/// Whether the columns of a foreign key store this key of its parent as what means it (R-SPELL).
fn can_show(c: &Tracked, fk: &ForeignKey, key: &[Value]) -> bool {
    let columns = fk.columns.iter().map(|&column| c.table.columns[column].affinity);
    let shown: Vec<Value> =
        key.iter().zip(columns).map(|(value, affinity)| equal::stored(value, affinity)).collect();
    equal::reference_bytes(fk, &shown) == equal::reference_bytes(fk, key)
}

/// What a child shows whose parent has another key; without one, which NULL says, it refers to none.
fn rekey(
    c: &Tracked,
    fk: &ForeignKey,
    action: Action,
    to: Option<&[Value]>,
    row: &mut Option<Vec<Value>>,
) {
    let Some(row) = row else { return };
    for (i, &column) in fk.columns.iter().enumerate() {
        row[column] = match (action, to) {
            (Action::SetDefault, _) => c.default_of(column),
            (Action::SetNull, _) | (_, None) => Value::Null,
            (_, Some(key)) => key[i].clone(),
        };
    }
}

/// What a child shows whose parent is gone. One that the schema would have protected it with stays as it
/// is: the merge cannot wait for it, and to whom it referred only the row itself still knows.
fn bereave(c: &Tracked, fk: &ForeignKey, row: &mut Option<Vec<Value>>) {
    match fk.on_delete {
        Action::Cascade => *row = None,
        Action::NoAction | Action::Restrict => {}
        action @ (Action::SetNull | Action::SetDefault) => rekey(c, fk, action, None, row),
    }
}

/// Writes rows of a local table. Returns those that are as they were to be: what its own constraints
/// refuse stays as it is, and `verify` tells of it.
fn write(conn: &Connection, c: &Tracked, rows: Vec<Child>) -> Result<Vec<Child>> {
    let (mut written, mut waiting) = (Vec::new(), Vec::new());
    for row in rows.into_iter().filter(|row| row.new.as_ref() != Some(&row.old)) {
        match row.new {
            None => {
                c.delete(conn, &row.loc)?;
                written.push(row);
            }
            Some(_) => waiting.push(row),
        }
    }
    // One may wait for a key that another leaves.
    loop {
        let before = waiting.len();
        for row in std::mem::take(&mut waiting) {
            let done = row.update(conn, c)?;
            if done { &mut written } else { &mut waiting }.push(row);
        }
        if waiting.is_empty() || waiting.len() == before {
            break;
        }
    }
    if exchange(conn, c, &waiting)? {
        written.append(&mut waiting);
    }
    Ok(written)
}

/// Writes rows each of which waits for a key of another; all or none.
fn exchange(conn: &Connection, c: &Tracked, rows: &[Child]) -> Result<bool> {
    if rows.is_empty() {
        return Ok(false);
    }
    conn.execute_batch("SAVEPOINT synqlite_exchange")?;
    rows.iter().try_for_each(|row| c.delete(conn, &row.loc))?;
    let mut all = true;
    for row in rows {
        all &= row.insert(conn, c)?;
    }
    let end = if all { "RELEASE" } else { "ROLLBACK TO synqlite_exchange; RELEASE" };
    conn.execute_batch(&format!("{end} synqlite_exchange"))?;
    Ok(all)
}

impl Child {
    fn update(&self, conn: &Connection, c: &Tracked) -> Result<bool> {
        let Some(new) = &self.new else { return Ok(true) };
        let differs: Vec<usize> = (0..new.len()).filter(|&i| new[i] != self.old[i]).collect();
        accepted(c.update(conn, &self.loc, &differs, new))
    }

    fn insert(&self, conn: &Connection, c: &Tracked) -> Result<bool> {
        let rowid = match self.loc {
            Loc::Row(rowid) => Some(rowid),
            Loc::Key(_) => None,
        };
        accepted(self.new.as_ref().map_or(Ok(()), |new| c.insert(conn, new, rowid).map(drop)))
    }
}

/// Whether SQLite took a row.
fn accepted(outcome: Result<()>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(Error::Sqlite(e)) if merge::refuses(&e) => Ok(false),
        Err(error) => Err(error),
    }
}
