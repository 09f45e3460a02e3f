//! Tables and columns that are there again under another name (R-MIG-RENAME).
//!
//! The triggers of a table tell what was renamed. A table that was rebuilt before any command of ours has none: a
//! column that the rebuild gave another name seems to be dropped and another added, and if the table was renamed
//! too, it seems that one was dropped and another made. Other sites, where a command ran between, know the two
//! for one. So a table that is gone is looked for among those that were made since: it is the one that has its rows, as
//! sums of what rows showed tell; or its columns, if it had no rows. A column that is gone is looked for in the same
//! way.

use crate::Result;
use crate::capture::Event;
use crate::catalog::{Loc, Tracked};
use crate::registry;
use crate::renames;
use crate::schema::{self, Selection, Table};
use crate::state;
use crate::state::sums::Sums;
use crate::track;
use crate::work::Work;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::collections::BTreeSet;

/// So many rows of each are looked at.
const LOOKED_AT: usize = 10_000;

/// Numbers of columns and the names that they have now.
type Names = Vec<(u32, String)>;

/// Takes note of the names that tables and columns have now which are gone, and are there again under another name.
/// Whether there are any.
pub(super) fn find(work: &Work<'_>) -> Result<bool> {
    let same = track::is_caught_up(work.conn)?;
    let any = !same && find_tables(work)?;
    // A table that was not replicated for a time has no triggers either.
    let mut anew = track::known_of(work.conn, &track::out_of_sight(work.conn)?)?;
    let local = work.policies.list("local_tables");
    anew.retain(|(_, _, name)| !local.iter().any(|local| local.eq_ignore_ascii_case(name)));
    if !same {
        anew.extend(track::rebuilt(work.conn)?);
    }
    Ok(find_columns(work, &anew)? || any)
}

fn find_tables(work: &Work<'_>) -> Result<bool> {
    let (lost, only) = (track::lost(work.conn)?, track::made_since(work.conn)?);
    if lost.is_empty() || only.is_empty() {
        return Ok(false);
    }
    let selection = Selection { only, ..Selection::default() };
    let mut made = schema::read(work.conn, &work.policies, &selection)?.tables;
    let mut any = false;
    for (no, canonical) in &lost {
        let holds = |table: &Table| holds(work, (*no, canonical), table, lost.len() == 1);
        let found: Vec<Option<Names>> = made.iter().map(holds).collect::<Result<_>>()?;
        let mut found = found.into_iter().enumerate().filter_map(|(at, is)| Some((at, is?)));
        // Of two that have its rows it cannot be told.
        if let (Some((at, columns)), None) = (found.next(), found.next()) {
            registry::call_table(work.conn, *no, &made.remove(at).name)?;
            call(work.conn, *no, &columns)?;
            any = true;
        }
    }
    Ok(any)
}

/// The same of columns of tables that were rebuilt under their names.
fn find_columns(work: &Work<'_>, anew: &[track::Known]) -> Result<bool> {
    if anew.is_empty() {
        return Ok(false);
    }
    let only = anew.iter().map(|(_, _, name)| name.clone()).collect();
    let selection = Selection { only, ..Selection::default() };
    let mut any = false;
    for table in schema::read(work.conn, &work.policies, &selection)?.tables {
        let is = |known: &&track::Known| known.2.eq_ignore_ascii_case(&table.name);
        let Some((no, canonical, _)) = anew.iter().find(is) else { continue };
        let (relation, fresh) = track::as_another(work.conn, *no, canonical, table)?;
        if fresh.is_empty() || registry::lost_columns(work.conn, &relation)?.is_empty() {
            continue;
        }
        let t = Tracked::from(relation.clone());
        let columns = columns(work.conn, &t, &fresh, &Sums::load(work.conn, &t)?)?;
        if !columns.is_empty() {
            call(work.conn, *no, &columns)?;
            // Triggers that were made again as they were would tell the old names.
            track::drop_objects(work.conn, *no)?;
            any = true;
        }
    }
    Ok(any)
}

fn call(conn: &Connection, table: u32, columns: &Names) -> Result<()> {
    columns.iter().try_for_each(|(no, name)| registry::call_column(conn, table, *no, name))
}

/// Columns that are gone and have another name now. What is of a key stays out, for it says which row is which; and so
/// does what cannot be told to others: a site without rows could not know it.
fn columns(conn: &Connection, t: &Tracked, fresh: &[u32], sums: &Sums) -> Result<Names> {
    let (firsts, told) =
        (registry::own_columns(conn, t.no)?, renames::first_names(conn, &t.canonical)?);
    let is_fresh = |c: &usize| {
        let name = &t.table.columns[*c].name;
        let meant = firsts.iter().any(|first| first.eq_ignore_ascii_case(name));
        fresh.contains(&t.column_nos[*c])
            && !t.table.primary_key.contains(c)
            && !(meant || told.contains_key(name))
    };
    let fresh: Vec<usize> = (0..t.column_nos.len()).filter(is_fresh).collect();
    let lost = registry::lost_columns(conn, t)?.into_keys();
    let renamed = sums.renamed(conn, t, lost, &fresh, written(conn, t.no)?)?;
    Ok(renamed.into_iter().map(|(no, c)| (no, t.table.columns[c].name.clone())).collect())
}

/// Rows that triggers saw written or deleted: what they showed says nothing of the table that is there now.
fn touched(conn: &Connection, no: u32) -> Result<BTreeSet<Loc>> {
    let mut statement = conn.prepare_cached("SELECT ev, a FROM synqlite_journal")?;
    let mut rows = statement.query([])?;
    let mut touched = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let (of, event) = Event::read(row.get(0)?)?;
        if of == no
            && !matches!(event, Event::Insert | Event::More)
            && let ValueRef::Integer(rowid) = row.get_ref(1)?
        {
            touched.insert(Loc::Row(rowid));
        }
    }
    Ok(touched)
}

/// How many entries the journal has for a table.
fn written(conn: &Connection, no: u32) -> Result<usize> {
    let mut statement =
        conn.prepare_cached("SELECT ev, count(*) FROM synqlite_journal GROUP BY ev")?;
    let mut rows = statement.query([])?;
    let mut written = 0;
    while let Some(row) = rows.next()? {
        if Event::read(row.get(0)?)?.0 == no {
            written += usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
        }
    }
    Ok(written)
}

/// The columns that have another name in a table which has the rows that the one with this number had, if it does.
/// `alone`: no other table is gone.
fn holds(
    work: &Work<'_>,
    (no, canonical): (u32, &str),
    table: &Table,
    alone: bool,
) -> Result<Option<Names>> {
    let conn = work.conn;
    let (mut relation, mut fresh) = track::as_another(conn, no, canonical, table.clone())?;
    let t = Tracked::from(relation.clone());
    let sums = Sums::load(conn, &t)?;
    let names = columns(conn, &t, &fresh, &sums)?;
    for (no, name) in &names {
        if let Some(c) = relation.table.columns.iter().position(|c| c.name == *name) {
            fresh.retain(|new| *new != relation.column_nos[c]);
            relation.column_nos[c] = *no;
        }
    }
    let t = Tracked::from(relation);
    let lost = registry::lost_columns(conn, &t)?.len();
    // What says which row it is says nothing else of it.
    let alias = t.table.rowid_alias().map(|c| t.column_nos[c]);
    let is_common = |no: &&u32| !fresh.contains(no) && Some(**no) != alias;
    let common = t.column_nos.iter().filter(is_common).count();
    // Sums outlast rows that went, until others lie there.
    let (places, touched) = (state::places(conn, &work.meta, &t)?, touched(conn, no)?);
    let mut had = sums.locs();
    had.retain(|loc| places.contains(loc) && !touched.contains(loc));
    if had.is_empty() {
        return Ok((alone && fresh.is_empty() && lost == 0).then_some(names));
    }
    if common == 0 || common < fresh.len() + lost {
        return Ok(None);
    }
    // What was inserted since says nothing against it.
    let looked_at: Vec<&Loc> = had.iter().take(LOOKED_AT).collect();
    let mut same = 0;
    for loc in &looked_at {
        let Some(row) = t.read(conn, loc)? else { continue };
        let compared = sums.compare(conn, &t, loc, &row, &BTreeSet::new())?;
        same += usize::from(compared.is_some_and(|c| c.touched.is_empty() && !c.one_of_them));
    }
    if 2 * same < looked_at.len() {
        let mut alike = sums.alike(&t, looked_at.iter().copied());
        same = 0;
        for loc in t.all_places(conn)?.iter().take(LOOKED_AT) {
            let row = t.read(conn, loc)?;
            same += usize::from(row.is_some_and(|row| alike.take(&t, &row).is_some()));
        }
    }
    Ok((2 * same >= looked_at.len()).then_some(names))
}
