//! From journal entries to the net change of each row since the last fold.
//!
//! Entries are replayed in order, so chains of moved keys, deleted and reused rowids and replaced
//! rows come out right; what a row looks like now is read from its table afterwards. Nothing here
//! writes.
//!
//! Inserts may share an entry: see [`Marks`].

mod answers;
mod begun;
mod entry;
mod independent;
mod nested;
mod queue;
mod replay;
mod window;

pub use entry::{
    any, clear, columns_of_mask, forget, forget_misplaced, forget_table, image, last, waiting,
};
pub use independent::{Survey, survey};
pub use queue::{Queue, more_than};
pub use window::{Born, Changed, Gone, Millis, Run, Set, Window, Written};

use crate::Result;
use crate::capture::Event;
use crate::catalog::Catalog;
use entry::millis;
use replay::{Entry, Replay, settle};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// Reads the whole journal: the net change of each table, by position in the catalog.
///
/// Entries of tables that are no longer replicated are passed over.
pub fn read(conn: &Connection, catalog: &Catalog) -> Result<Vec<Window>> {
    read_rest(conn, catalog, None)
}

/// [`read`] without what was replayed apart.
pub fn read_rest(
    conn: &Connection,
    catalog: &Catalog,
    survey: Option<&Survey>,
) -> Result<Vec<Window>> {
    let mut replays: Vec<Replay> = catalog.tables.iter().map(Replay::new).collect();
    let sql = "SELECT seq, ev, a, b, m, at FROM synqlite_journal ORDER BY seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    // A clock that jumps back must not make a later write look earlier (R-SKEW c).
    let mut ms: Millis = 0;
    while let Some(row) = rows.next()? {
        let (seq, (no, event)): (i64, _) = (row.get(0)?, Event::read(row.get(1)?)?);
        let Some(position) = catalog.position_of_no(no) else { continue };
        let t = &catalog.tables[position];
        let (replay, loc) = (&mut replays[position], t.place(row.get(2)?)?);
        ms = ms.max(millis(row.get(5)?));
        let may_be_apart = matches!(event, Event::Update | Event::Delete);
        if may_be_apart && survey.is_some_and(|survey| survey.replayed(position, &loc)) {
            continue;
        }
        let entry = Entry { seq, event, loc, at: ms };
        replay.step(conn, t, entry, row)?;
    }
    let tables = catalog.tables.iter().zip(replays);
    tables.map(|(t, replay)| settle(conn, t, replay)).collect()
}

/// [`read`] after some tables got columns that their triggers did not know, `fresh` by number of the
/// table: an update since may have written them, and did if they do not show their default.
pub fn read_altered(
    conn: &Connection,
    catalog: &Catalog,
    fresh: &BTreeMap<u32, Vec<u32>>,
) -> Result<Vec<Window>> {
    let mut windows = read(conn, catalog)?;
    for (t, window) in catalog.tables.iter().zip(&mut windows) {
        let is_fresh = |no: &u32| fresh.get(&t.no).is_some_and(|fresh| fresh.contains(no));
        let fresh: Vec<usize> =
            (0..t.column_nos.len()).filter(|&c| is_fresh(&t.column_nos[c])).collect();
        let updated = window.changed.values_mut().filter(|changed| changed.last > 0);
        for changed in updated.filter(|_| !fresh.is_empty()) {
            let Some(row) = t.read(conn, &changed.now)? else { continue };
            let written = fresh.iter().filter(|&&c| row[c] != t.default_of(c));
            changed.written.extend(written.map(|&c| (t.column_nos[c], changed.last)));
        }
    }
    Ok(windows)
}
