//! Whether rows show what was taken back, and what keeps them from it.

use super::Taken;
use super::plan::{Failed, Plan, Step};
use crate::Result;
use crate::catalog::Tracked;
use crate::describe::{row_name, the_row};
use crate::equal;
use crate::history::Change;
use crate::known::known_by;
use crate::records::{self, Conflict};
use crate::refs::Lookup;
use crate::rewrite::{Fate, Put};
use crate::state::{self, Stored};
use crate::work::Work;
use rusqlite::Connection;
use std::collections::{BTreeSet, HashMap};
use synqlite_view::ConflictKind;
use synqlite_wire::{Rid, Value};

/// Entries of rows whose records are open.
pub(super) fn records(work: &Work<'_>) -> Result<BTreeSet<i64>> {
    let mut statement =
        work.conn.prepare_cached("SELECT id FROM synqlite_row WHERE kind IS NOT NULL")?;
    let entries = statement.query_map([], |row| row.get(0))?;
    Ok(entries.collect::<Result<_, _>>()?)
}

/// A row that is written, with what it shows now.
fn now(work: &Work<'_>, step: &Step) -> Result<Option<(Stored, Option<Vec<Value>>)>> {
    let Work { conn, meta, catalog, .. } = work;
    let t = &catalog.tables[step.table];
    let Some(stored) = state::of(conn, meta, t, &step.stored.rid)? else { return Ok(None) };
    let row = stored.loc.as_ref().map(|loc| t.read(conn, loc)).transpose()?.flatten();
    Ok(Some((stored, row)))
}

/// What of a plan, which was written, does not show. `before`: entries with records before it.
pub(super) fn failed(work: &Work<'_>, plan: &Plan, before: &BTreeSet<i64>) -> Result<Failed> {
    let (mut failed, mut known) = (Failed::new(), BTreeSet::new());
    for (at, step) in plan.steps.iter().enumerate() {
        let Some((stored, row)) = now(work, step)? else { continue };
        known.extend(stored.entry);
        let t = &work.catalog.tables[step.table];
        let record = match stored.entry {
            Some(entry) => records::of_entry(work.lookup(), t, entry)?,
            None => None,
        };
        if step.fate == Fate::Goes {
            if row.is_some() {
                failed.push((at, None, "another row refers to it".to_owned()));
            }
            continue;
        }
        if let Some(record) = record {
            failed.push((at, contested(t, step, &record), why(&record)));
        } else if row.is_none() && (step.fate == Fate::Returns || step.shown.is_some()) {
            failed.push((at, None, "a row that it refers to is not there".to_owned()));
        } else if let Some(row) = row {
            let others: BTreeSet<usize> = shows_others(t, step, &row);
            let number = t.table.rowid_alias().filter(|_| step.fate == Fate::Returns);
            let given = |c: &usize| step.puts.contains_key(&t.table.columns[*c].group);
            let kept = number.filter(|c| !given(c)).zip(step.stored.state.kept_id(t));
            let renumbered = kept.is_some_and(|(c, id)| row[c] != Value::Integer(id));
            if !others.is_empty() || renumbered {
                let own = t.table.own_number().map(|c| t.table.columns[c].group);
                let why = match own.is_some_and(|g| others.contains(&g)) {
                    true => "with ids=local only an UPDATE gives a row another number",
                    false => "another row has its number",
                };
                let groups = (!renumbered).then_some(others);
                failed.push((at, groups, why.to_owned()));
            }
        }
    }
    let new = records(work)?.into_iter().filter(|e| !before.contains(e) && !known.contains(e));
    let new: Vec<i64> = new.collect();
    if failed.is_empty() && !new.is_empty() {
        failed = in_the_way(work, plan, &new)?;
    }
    Ok(failed)
}

/// Groups that show something else than their former values. What a reference shows is the key that its row
/// has now.
fn shows_others(t: &Tracked, step: &Step, row: &[Value]) -> BTreeSet<usize> {
    let refers: BTreeSet<usize> =
        t.table.foreign_keys.iter().flat_map(|fk| &fk.columns).copied().collect();
    let shows_another = |(g, put): (&usize, &Put)| {
        let Put::Cell { new, .. } = put else { return None };
        let mut values = t.table.groups[*g].columns.iter().zip(&new.values);
        let another = values.any(|(&c, value)| {
            !refers.contains(&c) && row[c] != equal::stored(value, t.table.columns[c].affinity)
        });
        another.then_some(*g)
    };
    step.puts.iter().filter_map(shows_another).collect()
}

/// The groups of a step that its record is about; none if it is about all of it.
fn contested(t: &Tracked, step: &Step, record: &Conflict) -> Option<BTreeSet<usize>> {
    let contested = |c: &usize| record.contested.contains(&t.table.columns[*c].name);
    let groups = t.table.groups.iter().enumerate();
    let groups = groups.filter(|(_, group)| group.columns.iter().any(contested));
    let groups: BTreeSet<usize> =
        groups.map(|(g, _)| g).filter(|g| step.puts.contains_key(g)).collect();
    (step.fate == Fate::Stays && !groups.is_empty()).then_some(groups)
}

fn why(record: &Conflict) -> String {
    let Conflict { kind, declared, winner, .. } = record;
    let by = winner.as_ref().map_or("another row".to_owned(), |winner| the_row(winner));
    match kind {
        ConflictKind::Unique | ConflictKind::Fallback => format!("{by} has its {declared} now"),
        ConflictKind::RowConstraint => "its table cannot hold it any more".to_owned(),
        ConflictKind::Refused => "SQLite refuses it".to_owned(),
        _ => "a row that it refers to is not there".to_owned(),
    }
}

/// Steps for which other rows, those of these entries, would have to step aside.
fn in_the_way(work: &Work<'_>, plan: &Plan, entries: &[i64]) -> Result<Failed> {
    let steps: HashMap<(usize, &Rid), usize> =
        plan.steps.iter().enumerate().map(|(at, s)| ((s.table, &s.stored.rid), at)).collect();
    let mut failed = Failed::new();
    for &entry in entries {
        let Some((table, winner)) = winner(work.lookup(), entry)? else { continue };
        if let Some(&at) = winner.as_ref().and_then(|winner| steps.get(&(table, winner))) {
            failed.push((at, None, "another row would have to step aside for it".to_owned()));
        }
    }
    if failed.is_empty() {
        let why = "other rows would have to step aside for it";
        failed = (0..plan.steps.len()).map(|at| (at, None, why.to_owned())).collect();
    }
    Ok(failed)
}

/// The table of an entry, and who won over its row.
fn winner(lookup: Lookup<'_>, entry: i64) -> Result<Option<(usize, Option<Rid>)>> {
    let Lookup { conn, meta, catalog } = lookup;
    let read = |conn: &Connection| -> Result<(u32, Option<Vec<u8>>)> {
        let sql = "SELECT tbl, winner FROM synqlite_row WHERE id = ?1";
        Ok(conn.query_row(sql, [entry], |row| Ok((row.get(0)?, row.get(1)?)))?)
    };
    let (no, winner) = read(conn)?;
    let winner = winner.map(|bytes| state::decode_rid(meta, &bytes)).transpose()?;
    Ok(catalog.position_of_no(no).map(|table| (table, winner)))
}

/// What a plan did that was written.
pub(super) fn taken(work: &Work<'_>, plan: &Plan) -> Result<Vec<Taken>> {
    let mut taken = Vec::new();
    for step in &plan.steps {
        let t = &work.catalog.tables[step.table];
        let (mut name, mut row) = (step.name.clone(), None);
        if let Some((stored, shown)) = now(work, step)? {
            if step.fate == Fate::Returns {
                // One without a primary key has a rowid again.
                let (loc, state) = (stored.loc.as_ref(), &stored.state);
                name = row_name(t, shown.as_deref(), loc, state, &stored.rid);
            }
            row = shown;
        }
        let change = match step.fate {
            Fate::Stays => Change::Update,
            Fate::Goes => Change::Insert,
            Fate::Returns => Change::Delete,
        };
        let mut columns = Vec::new();
        for (&g, put) in &step.puts {
            for (i, &c) in t.table.groups[g].columns.iter().enumerate() {
                let value = match (&row, put) {
                    (Some(row), _) => row[c].clone(),
                    (None, Put::Cell { new, .. }) => new.values[i].clone(),
                    (None, Put::Sum(_)) => continue,
                };
                let before = step.shown.as_ref().map(|shown| &shown[c]);
                if before != Some(&value) {
                    columns.push((t.table.columns[c].name.clone(), value));
                }
            }
        }
        let (table, known) = (t.table.name.clone(), step.known(t));
        let known = row.and_then(|row| known_by(&t.table, &row, &[])).or(known);
        taken.push(Taken { table, row: name, name: known, change, columns });
    }
    Ok(taken)
}
