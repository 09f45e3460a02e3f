//! Writes the difference between what the tables show and what they should (R-MAT).

use super::{Merged, MergedRows, Refused, triggers};
use crate::catalog::{Catalog, Loc, Tracked};
use crate::describe::{constraint as constraint_name, list};
use crate::meta::Meta;
use crate::policy::Policies;
use crate::referring::Referring;
use crate::refs::Lookup;
use crate::schema::{ForeignKey, TableKind};
use crate::state::{self, Inserted, Name, Runs, numbers, shown, sums};
use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::collections::HashSet;
use synqlite_view::affected::AffectedRow;
use synqlite_view::kept;
use synqlite_wire::{Rid, Value};

/// Applies what the items show and saves their states. Returns how many rows changed.
///
/// Fails at the first row that SQLite refuses; with `refused` it looks for all of them first.
pub(crate) fn apply(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    affected: &mut [AffectedRow],
    mut refused: Option<&mut Refused>,
) -> Result<Merged> {
    let (mut merged, mut refusals) = (Merged::default(), Refusals::default());
    affected.iter().for_each(|item| leave(meta, catalog, item));
    triggers::fire_only(conn, &triggers::firing(conn, policies)?, || {
        for (position, t) in catalog.tables.iter().enumerate() {
            let mut mine: Vec<&mut AffectedRow> =
                affected.iter_mut().filter(|c| c.table == position).collect();
            if !mine.is_empty() {
                rows(conn, meta, t, &mut mine, &mut merged, &mut refusals)?;
                refusals.end(refused.is_none())?;
            }
        }
        Ok(())
    })?;
    if policies.enforces_foreign_keys() {
        check_references(Lookup { conn, meta, catalog }, affected, &mut refusals)?;
    }
    if let Some(refused) = &mut refused {
        refused.append(&mut refusals.rows);
    }
    refusals.end(true)?;
    for (position, t) in catalog.tables.iter().enumerate() {
        let mine = affected.iter_mut().filter(|c| c.table == position);
        save(conn, meta, catalog, t, mine.collect())?;
    }
    Ok(merged)
}

/// R-LOCAL: remembers what a row showed before the transaction, if local tables may refer to it.
fn leave(meta: &mut Meta, catalog: &Catalog, item: &AffectedRow) {
    let Some(old) = &item.old else { return };
    let t = &catalog.tables[item.table];
    let another = |fk: &ForeignKey| {
        let new = item.new.as_deref().and_then(|new| fk.parent_key(new));
        fk.parent_key(old).is_some_and(|key| new.as_ref() != Some(&key))
    };
    let mut local = catalog.local_references_to(t);
    if local.any(|(child, f)| another(&catalog.local[child].table.foreign_keys[f])) {
        let before = meta.left.len();
        let name = (t.no, item.stored.rid.clone());
        meta.left.entry(name).or_insert_with(|| (before, old.clone()));
    }
}

/// Rows that SQLite refused, and the first reason.
#[derive(Default)]
struct Refusals {
    rows: Refused,
    first: Option<Error>,
}

impl Refusals {
    /// The outcome of a write of a row; `None` if SQLite refused it.
    fn note<T>(
        &mut self,
        t: &Tracked,
        item: &AffectedRow,
        outcome: Result<T>,
    ) -> Result<Option<T>> {
        match outcome.map_err(|e| constraint(t, e)) {
            Ok(done) => Ok(Some(done)),
            Err(error @ Error::Constraint { .. }) => {
                self.rows.insert((item.table, item.stored.rid.clone()));
                self.first.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Fails if there were any and this was all there is.
    fn end(&mut self, all: bool) -> Result<()> {
        match self.first.take_if(|_| all) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// SQLite's refusal of a row as an error that names the table.
pub(super) fn constraint(t: &Tracked, error: Error) -> Error {
    match error {
        Error::Sqlite(e) if refuses(&e) => {
            Error::Constraint { table: t.table.name.clone(), what: e.to_string() }
        }
        other => other,
    }
}

/// Whether it is the row that SQLite does not take: for a constraint, for a type, for its size, or
/// because an expression of the schema fails on it, such as a JSON function in an index on text that is
/// none.
pub(crate) fn refuses(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode as Code;
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return false };
    matches!(failure.code, Code::ConstraintViolation | Code::TypeMismatch | Code::TooBig)
        || failure.extended_code == rusqlite::ffi::SQLITE_ERROR
}

/// Deletes what disappears or takes part in an exchange of keys, then updates, then inserts.
fn rows(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    items: &mut [&mut AffectedRow],
    merged: &mut Merged,
    refusals: &mut Refusals,
) -> Result<()> {
    // A change of them goes by delete and insert, so that two rows can exchange their keys.
    let keys = t.table.key_columns();
    let mut inserts = Vec::new();
    let mut updates = Vec::new();
    let mut shown = MergedRows::default();
    let mut deletes = triggers::Deletes::of(conn, &t.table.name);
    for (at, item) in items.iter().enumerate() {
        let differs = match (&item.old, &item.new) {
            (Some(old), Some(new)) => (0..new.len()).filter(|&c| old[c] != new[c]).collect(),
            _ => vec![],
        };
        match (&item.old, &item.new) {
            (None, None) => {}
            (None, Some(_)) => {
                shown.inserted += 1;
                inserts.push(at);
            }
            (Some(_), None) => shown.deleted += 1,
            (Some(_), Some(_)) if differs.is_empty() => continue,
            (Some(_), Some(_)) => {
                shown.updated += 1;
                if !differs.iter().any(|c| keys.contains(c)) {
                    updates.push((at, differs));
                    continue;
                }
                inserts.push(at);
            }
        }
        if let (Some(_), Some(loc)) = (&item.old, &item.stored.loc) {
            deletes.delete(|| t.delete(conn, loc))?;
        }
    }
    merged.count(&t.table.name, shown);
    for (at, columns) in updates {
        if let (Some(new), Some(loc)) = (&items[at].new, &items[at].stored.loc) {
            let update = || t.update(conn, loc, &columns, new);
            refusals.note(t, items[at], triggers::despite_indexes(conn, update))?;
        }
    }
    // Rows that keep their rowid go first: SQLite would give a free one to a row that asks for none.
    inserts.sort_by_key(|&at| items[at].stored.loc.is_none());
    let mut placed = Vec::new();
    for at in inserts {
        let Some(new) = &items[at].new else { continue };
        let rowid = match &items[at].stored.loc {
            Some(Loc::Row(rowid)) if t.table.kind == TableKind::Rowid => Some(*rowid),
            _ => None,
        };
        let insert = || t.insert(conn, new, rowid);
        if let Some(loc) = refusals.note(t, items[at], triggers::despite_indexes(conn, insert))? {
            placed.push((at, loc));
        }
    }
    // An entry must leave its place before another can take it.
    let taken: HashSet<Loc> = placed.iter().map(|(_, loc)| loc.clone()).collect();
    for item in items.iter_mut() {
        if item.new.is_some() {
            continue;
        }
        sums::leave(meta, t, &item.stored);
        if let Some(loc) = item.stored.loc.take() {
            item.unsaved = true;
            if let Loc::Row(number) = loc {
                numbers::keep(conn, meta, t, &item.stored.rid, number)?;
            }
            if taken.contains(&loc) {
                state::unplace(conn, &item.stored)?;
            }
        }
    }
    for (at, loc) in placed {
        let item = &mut items[at];
        sums::leave(meta, t, &item.stored);
        state::unplace(conn, &item.stored)?;
        // One that shows another key is found by it in a segment no more.
        item.unsaved |= item.old.is_some() || item.stored.loc.as_ref() != Some(&loc);
        item.stored.loc = Some(loc);
    }
    if t.table.autoincrement {
        raise_sequence(conn, t, items)?;
    }
    Ok(())
}

/// AUTOINCREMENT must not give a number again that a merged row has had.
fn raise_sequence(conn: &Connection, t: &Tracked, items: &[&mut AffectedRow]) -> Result<()> {
    let Some(alias) = t.table.rowid_alias() else { return Ok(()) };
    let shown = |i: &&mut AffectedRow| i.new.as_ref().and_then(|row| row[alias].as_integer());
    let kept = |i: &&mut AffectedRow| i.stored.state.kept_id(t);
    let Some(highest) = items.iter().filter_map(|i| shown(i).max(kept(i))).max() else {
        return Ok(());
    };
    let name = &t.table.name;
    let sql = "UPDATE main.sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
    if conn.prepare_cached(sql)?.execute(params![name, highest])? == 0 {
        let sql = "INSERT INTO main.sqlite_sequence(name, seq) VALUES(?1, ?2)";
        conn.prepare_cached(sql)?.execute(params![name, highest])?;
    }
    Ok(())
}

/// Every reference of a row that changed must resolve, and no row may still refer to a key that
/// disappeared. Looks at changed rows only.
fn check_references(
    lookup: Lookup<'_>,
    affected: &[AffectedRow],
    refusals: &mut Refusals,
) -> Result<()> {
    let Lookup { conn, meta, catalog } = lookup;
    let referring = Referring::new(conn);
    for item in affected.iter().filter(|item| item.old != item.new) {
        let t = &catalog.tables[item.table];
        for fk in t.table.foreign_keys.iter().filter(|fk| fk.enforced) {
            let Some(new) = &item.new else { break };
            let Some(parent) = catalog.by_name(&fk.parent) else { continue };
            let Some(key) = fk.key_of(new) else { continue };
            if parent.find_parents(conn, fk, &key)?.is_empty() {
                refusals.note(t, item, Err::<(), _>(dangling(t, fk, &key)))?;
            }
        }
        let Some(old) = &item.old else { continue };
        for (child, f) in catalog.references_to(item.table) {
            let c = &catalog.tables[child];
            let fk = &c.table.foreign_keys[f];
            let Some(key) = fk.parent_key(old).filter(|_| fk.enforced) else { continue };
            if !t.find_parents(conn, fk, &key)?.is_empty() {
                continue;
            }
            for loc in referring.to(c, f, &key)? {
                // A row that nobody has noted yet is judged when it is taken in.
                let Some(stored) = state::at(conn, meta, c, &loc)? else { continue };
                refusals.first.get_or_insert(dangling(c, fk, &key));
                refusals.rows.insert((child, stored.rid));
            }
        }
    }
    Ok(())
}

fn dangling(t: &Tracked, fk: &ForeignKey, key: &[Value]) -> Error {
    let declared = constraint_name(t, &fk.full_name());
    let what = format!("{declared}: no row of {} has key {}", fk.parent, list(key));
    Error::Constraint { table: t.table.name.clone(), what }
}

/// Saves the states. A visible row keeps here only what its table does not show.
fn save(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    mut items: Vec<&mut AffectedRow>,
) -> Result<()> {
    for item in &mut items {
        item.unsaved |= kept::keep(catalog, item);
    }
    items.sort_by(|a, b| a.stored.loc.cmp(&b.stored.loc));
    let (mut runs, waited) = (Runs::default(), state::anyone_waits(conn)?);
    // What this site wrote is shown already.
    let differs =
        |item: &AffectedRow| item.news || item.unsaved || item.touched || item.old != item.new;
    let others: HashSet<Rid> = match items.iter().any(|item| item.winner.is_some()) {
        true => items.iter().filter(|i| differs(i)).map(|i| i.stored.rid.clone()).collect(),
        false => HashSet::new(),
    };
    let local_seq = meta.local_seq;
    for item in items {
        let fresh = item.news && item.old.is_none() && item.conflict.is_none();
        if fresh && place_in_run(conn, meta, catalog, t, item, &mut runs)? {
            continue;
        }
        let recorded = || match item.stored.entry {
            Some(entry) => Ok(state::conflict(conn, entry)?.is_some()),
            None => Ok::<_, Error>(false),
        };
        if item.news || item.unsaved || item.conflict.is_some() || recorded()? {
            let waits = kept::waits(catalog, item);
            // Of a row that lost to another most merges that decide on it anew change nothing.
            if let (Some(entry), Some(winner)) = (item.stored.entry, &item.winner)
                && !differs(item)
                && !others.contains(winner)
                && state::is_recorded(conn, meta, entry, &waits)?
            {
                continue;
            }
            let entry = state::put(conn, meta, t, &item.stored, item.news.then_some(local_seq))?;
            match item.stored.entry.filter(|_| waited) {
                Some(_) => state::record_waits(conn, meta, entry, &waits)?,
                None => state::record_first_waits(conn, meta, entry, &waits)?,
            }
        } else if let Some(entry) = item.stored.entry {
            // It may have had a conflict until now.
            state::record_conflict(conn, meta, entry, None, None)?;
        }
        if item.old != item.new && !item.news {
            shown::note(conn, meta, t.no, &item.stored.rid)?;
        }
        if let (Some(loc), true) = (&item.stored.loc, item.old != item.new) {
            sums::touch(meta, t, loc, item.stored.entry.unwrap_or_default());
        }
    }
    runs.finish(conn, t)
}

/// A row that arrived as it was born, and shows as it was born, can share a segment. One that is only
/// kept for the sake of another shows so too, but has a record, which needs an entry.
fn place_in_run(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    item: &AffectedRow,
    runs: &mut Runs,
) -> Result<bool> {
    let stored = &item.stored;
    let inserted = stored.state.header.inserted;
    let (Some(Loc::Row(rowid)), None) = (&stored.loc, stored.entry) else { return Ok(false) };
    let Some(row) = &item.new else { return Ok(false) };
    let name = match &stored.rid {
        Rid::Birth { site, n } if *site == inserted.site => match i64::try_from(*n) {
            Ok(n) => Name::Birth(n),
            Err(_) => return Ok(false),
        },
        Rid::Key { key, generation: 0 }
            if state::names_itself(t, key)
                && (Lookup { conn, meta, catalog }).key_rid(t, row)?.as_ref() == Some(key) =>
        {
            Name::Key(key)
        }
        _ => return Ok(false),
    };
    if !stored.state.is_plain() {
        return Ok(false);
    }
    let local_seq = meta.local_seq;
    runs.add(conn, t, *rowid, name, Inserted::at(conn, meta, inserted, local_seq)?)
}
