//! What became of a row whose record closed, in a sentence.
//!
//! A record closes by itself when its reason goes. Whoever had it open wants to know what happened and who did it:
//! a site that never saw the question learns so that another answered it. Told from the states as they are in the
//! transaction that closes it; nothing is decided by it.

use crate::Result;
use crate::catalog::Tracked;
use crate::describe::{row_name, the_row};
use crate::known::{called, known_row};
use crate::meta::SiteNames;
use crate::refs::Lookup;
use crate::state::{self, RowState, Stored};
use synqlite_view::ConflictKind;
use synqlite_wire::{Header, SiteId, Value};

/// A record that was open.
pub struct Was<'w> {
    /// Its row's entry.
    pub entry: i64,
    /// Why it was open.
    pub kind: ConflictKind,
    /// The unique key or foreign key that would have broken, by what it says.
    pub constraint: &'w str,
    /// Since when, in milliseconds since 1970.
    pub opened_ms: i64,
    /// The row that had what it asked for, as it is in the file.
    pub winner: Option<&'w [u8]>,
}

/// What became of its row; nothing where that is not known.
pub fn ended(lookup: Lookup<'_>, names: &SiteNames, was: &Was<'_>) -> Result<Option<String>> {
    let Lookup { conn, meta, catalog } = lookup;
    let table = state::table_of_entry(conn, was.entry)?.and_then(|no| catalog.position_of_no(no));
    let Some(t) = table.map(|position| &catalog.tables[position]) else { return Ok(None) };
    let Some(stored) = state::entry_by_id(conn, meta, t, was.entry)? else { return Ok(None) };
    let (header, shown) = (&stored.state.header, stored.loc.is_some());
    let revived = was.kind == ConflictKind::RestrictRevived;
    let at = |what: &str, site: SiteId| format!("{what} at {}", names.spoken(site));
    let told = match (header.alive(), shown) {
        (false, true) => return Ok(None),
        (false, false) if revived => {
            "nothing refers to the row any more, so its delete holds".to_owned()
        }
        (false, false) => at("the row was deleted", header.left().site),
        (true, _) if revived => at("the row was brought back", header.cl_stamp.site),
        (true, _) if state::conflict(conn, was.entry)?.is_some() => {
            "it is open for another reason".to_owned()
        }
        (true, false) => "the row went with the one that it refers to".to_owned(),
        (true, true) => {
            let other = match was.winner {
                Some(winner) => rival(lookup, t, winner, was.opened_ms)?,
                None => parent(lookup, t, &stored, was)?,
            };
            let itself = || latest(t, &stored.state, was.opened_ms);
            let written = || itself().map(|site| ("the row was written".to_owned(), site));
            return Ok(other.or_else(written).map(|(what, site)| at(&what, site)));
        }
    };
    Ok(Some(told))
}

/// What happened to the row that had what another asked for, and where.
fn rival(lookup: Lookup<'_>, t: &Tracked, winner: &[u8], since_ms: i64) -> Result<What> {
    let rid = state::decode_rid(lookup.meta, winner)?;
    let Some(Stored { loc, state, .. }) = state::of(lookup.conn, lookup.meta, t, &rid)? else {
        return Ok(None);
    };
    let shown = loc.as_ref().map(|loc| t.read(lookup.conn, loc)).transpose()?.flatten();
    let name = row_name(t, shown.as_deref(), loc.as_ref(), &state, &rid);
    let known = known_row(&t.table, shown.as_deref(), &state, &[]);
    let other = the_row(&called(&name, known.as_deref()));
    let Header { yielded, .. } = state.header;
    Ok(match state.header.alive() {
        false => Some((format!("{other} was deleted"), state.header.left().site)),
        true if yielded.hlc.ms() >= since_ms => {
            Some((format!("the row was preferred to {other}"), yielded.site))
        }
        true => latest(t, &state, since_ms).map(|site| (format!("{other} was written"), site)),
    })
}

/// The same of a row that another refers to.
fn parent(lookup: Lookup<'_>, t: &Tracked, stored: &Stored, was: &Was<'_>) -> Result<What> {
    let Lookup { conn, meta, .. } = lookup;
    let f = t.key_names.iter().position(|name| *name == was.constraint);
    let (Some(f), Some(loc)) = (f, &stored.loc) else { return Ok(None) };
    let (fk, Some(row)) = (&t.table.foreign_keys[f], t.read(conn, loc)?) else { return Ok(None) };
    let values: Vec<Value> = fk.columns.iter().map(|&c| row[c].clone()).collect();
    let parent = lookup.parent(&fk.parent)?;
    for loc in parent.find_parents(conn, fk, &values)? {
        let Some(Stored { state, .. }) = state::at(conn, meta, parent, &loc)? else { continue };
        let (since, g) = (state.header.cl_stamp, t.table.columns[fk.columns[0]].group);
        // A reference that was written later was not answered by that.
        if since.hlc.ms() >= was.opened_ms && since >= stored.state.groups[g].stamp {
            return Ok(Some(("what it refers to was brought back".to_owned(), since.site)));
        }
    }
    Ok(None)
}

/// What happened, and at which site.
type What = Option<(String, SiteId)>;

/// Who wrote the columns of a row last, if since then.
fn latest(t: &Tracked, state: &RowState, since_ms: i64) -> Option<SiteId> {
    let groups = state.groups.iter().take(t.table.groups.len());
    let latest = groups.flat_map(|group| group.stamps()).max()?;
    (latest.hlc.ms() >= since_ms).then_some(latest.site)
}
