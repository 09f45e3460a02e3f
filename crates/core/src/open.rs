//! The open records as an ordinary table, `synqlite_open_conflicts`, so that any program reads them with
//! nothing loaded; and which of them wait for the answer to another.
//!
//! The records themselves are in the states, in bytes that SQL cannot read. So whoever opens or closes one writes
//! its row here, in the same transaction, and looks at no other. Nothing is decided by this table, and it does
//! not travel: it says what this file has, with what is of this site as `mine`. A file without it, of an earlier
//! release or that has just become a site of its own, gets it with the next transaction that writes.
//!
//! R-ONE-ANSWER: a row that is hidden for want of another hidden row, or of the same deleted row as others, asks
//! no question of its own. Which record it follows is worked out from the states alone, so it is the same
//! on every site.

use crate::catalog::{Catalog, Tracked};
use crate::meta::{self, SiteNames};
use crate::needs::is_former;
use crate::records::{self, Conflict, Rival, Writer};
use crate::refs::Lookup;
use crate::schema::ForeignKey;
use crate::state::{self, Stored};
use crate::{Result, inbox, settings};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use synqlite_view::ConflictKind;
use synqlite_wire::{Rid, SiteId, Stamp, Value};

/// The table's columns: `docs/formats/metadata.md`.
const DDL: &str = "CREATE TABLE synqlite_open_conflicts(id TEXT NOT NULL, tbl TEXT NOT NULL, \
     row TEXT NOT NULL, name TEXT, kind TEXT NOT NULL, declared TEXT, since TEXT NOT NULL, base TEXT, \
     mine TEXT, mine_site TEXT, theirs TEXT, theirs_site TEXT, follows TEXT, entry INTEGER PRIMARY KEY)";

/// Characters of a text, and bytes of a blob, that are written out at most: whoever needs all asks the command.
const LONGEST: usize = 1_000;

/// The entry of the metadata that says for which site the table was written.
const KEY: &str = "listed";

/// The entry that says that it was not worked out yet which records follow others.
const OWED: &str = "unled";

/// Whether the file has the table.
pub fn exists(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM main.sqlite_master WHERE name = 'synqlite_open_conflicts'";
    Ok(conn.prepare_cached(sql)?.exists([])?)
}

/// Whether it is there, and says what is of this site.
pub fn is_current(lookup: Lookup<'_>) -> Result<bool> {
    Ok(meta::get(lookup.conn, KEY)? == Some(lookup.meta.site.0) && exists(lookup.conn)?)
}

/// Writes all of it anew.
pub fn rewrite(lookup: Lookup<'_>) -> Result<()> {
    match exists(lookup.conn)? {
        true => lookup.conn.execute_batch("DELETE FROM main.synqlite_open_conflicts")?,
        false => lookup.conn.execute_batch(DDL)?,
    }
    meta::set(lookup.conn, KEY, lookup.meta.site.0)?;
    let names = SiteNames::load(lookup.conn, lookup.meta.site)?;
    for t in &lookup.catalog.tables {
        for (entry, conflict) in &records::of_table(lookup, t)? {
            insert(lookup, &names, t, *entry, conflict)?;
        }
    }
    follow(lookup)
}

/// Writes what the records of these entries are now.
pub fn update<'e>(lookup: Lookup<'_>, entries: impl IntoIterator<Item = &'e i64>) -> Result<()> {
    let Lookup { conn, catalog, meta } = lookup;
    let (mut names, mut changed) = (None, 0);
    let owed = meta::get(conn, OWED)?.unwrap_or(false);
    // To work it out looks at all records of foreign keys: a merge in slices does so once, at its end.
    let later = inbox::any(conn)?;
    let other = said_otherwise(lookup, owed)?;
    let at_once = if later { vec![] } else { entries_of(conn, &other)? };
    let mut delete = conn.prepare_cached("DELETE FROM synqlite_open_conflicts WHERE entry = ?1")?;
    for entry in entries.into_iter().copied().chain(at_once) {
        changed += delete.execute([entry])?;
        let Some(no) = state::table_of_entry(conn, entry)? else { continue };
        let Some(position) = catalog.position_of_no(no) else { continue };
        let t = &catalog.tables[position];
        if let Some(conflict) = records::of_entry(lookup, t, entry)? {
            let known = match names.take() {
                Some(known) => known,
                None => SiteNames::load(conn, meta.site)?,
            };
            insert(lookup, names.insert(known), t, entry, &conflict)?;
            changed += 1;
        }
    }
    match (changed > 0 || later && !other.is_empty() || owed, later) {
        (false, _) => Ok(()),
        (true, true) if owed => Ok(()),
        (true, true) => meta::set(conn, OWED, true),
        (true, false) => {
            meta::unset(conn, OWED)?;
            follow(lookup)
        }
    }
}

/// Tables with rows whose records may say another key than before, though nothing about them is decided anew: what a
/// deleted row that they refer to has in its key is a reference, to a row that was written now, or if it is `owed`
/// in a slice before.
fn said_otherwise<'c>(lookup: Lookup<'c>, owed: bool) -> Result<Vec<&'c Tracked>> {
    let Lookup { conn, meta, catalog } = lookup;
    let mut found = Vec::new();
    let mut written = None;
    for t in &catalog.tables {
        let above = further_up(catalog, t);
        if above.is_empty() {
            continue;
        }
        let written = match &mut written {
            Some(written) => written,
            none => none.insert(state::tables_since(conn, meta.local_seq)?),
        };
        if owed || !above.is_disjoint(written) {
            found.push(t);
        }
    }
    Ok(found)
}

/// Entries of the rows of these tables that have records.
fn entries_of(conn: &Connection, tables: &[&Tracked]) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for t in tables {
        let sql = "SELECT entry FROM synqlite_open_conflicts WHERE tbl = ?1";
        let mut statement = conn.prepare_cached(sql)?;
        let entries = statement.query_map([&t.table.name], |row| row.get(0))?;
        found.extend(entries.collect::<Result<Vec<i64>, _>>()?);
    }
    Ok(found)
}

/// Tables, by their numbers, whose keys have part in the keys of those to which a table refers.
fn further_up(catalog: &Catalog, t: &Tracked) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    let mut ask: Vec<&ForeignKey> = t.table.foreign_keys.iter().collect();
    while let Some(fk) = ask.pop() {
        let Some(parent) = catalog.by_name(&fk.parent) else { continue };
        let shared = |up: &&ForeignKey| up.columns.iter().any(|c| fk.parent_columns.contains(c));
        for up in parent.table.foreign_keys.iter().filter(shared) {
            let Some(above) = catalog.by_name(&up.parent) else { continue };
            if seen.insert((above.no, &up.parent_columns)) {
                ask.push(up);
            }
        }
    }
    seen.into_iter().map(|(no, _)| no).collect()
}

fn insert(
    lookup: Lookup<'_>,
    names: &SiteNames,
    t: &Tracked,
    entry: i64,
    conflict: &Conflict,
) -> Result<()> {
    let Lookup { conn, meta, .. } = lookup;
    let sides = Sides::of(conflict, meta.site);
    let name = |site: Option<SiteId>| site.map(|site| names.short(site));
    let json = |values: Option<&[(String, Value)]>| values.map(json);
    let sql = "INSERT INTO synqlite_open_conflicts(id, tbl, row, name, kind, declared, since, base, mine, \
               mine_site, theirs, theirs_site, entry) \
               SELECT ?1, ?2, ?3, ?4, ?5, ?6, strftime('%Y-%m-%dT%H:%M:%S', opened / 1000, 'unixepoch') \
               || printf('.%03dZ', opened % 1000), ?7, ?8, ?9, ?10, ?11, ?12 \
               FROM synqlite_closed WHERE entry = ?12 AND closed IS NULL";
    conn.prepare_cached(sql)?.execute(params![
        conflict.id,
        conflict.table,
        key(t, conflict),
        conflict.name,
        conflict.kind.as_str(),
        Some(&conflict.declared).filter(|declared| !declared.is_empty()),
        json(Some(&conflict.shown[..]).filter(|shown| !shown.is_empty())),
        json(sides.mine.map(|side| side.values)),
        name(sides.mine.and_then(|side| side.site)),
        json(sides.theirs.map(|side| side.values)),
        name(sides.theirs.and_then(|side| side.site)),
        entry,
    ])?;
    Ok(())
}

/// What two sites wanted.
struct Sides<'c> {
    mine: Option<Side<'c>>,
    theirs: Option<Side<'c>>,
}

#[derive(Clone, Copy)]
struct Side<'c> {
    values: &'c [(String, Value)],
    /// Who wrote last what is contested.
    site: Option<SiteId>,
}

impl<'c> Sides<'c> {
    /// What was written here is mine; where neither was, the row that stepped aside is.
    fn of(conflict: &'c Conflict, here: SiteId) -> Sides<'c> {
        let Conflict { displaced, writers, rival, shown, kind, contested, .. } = conflict;
        let side = |values: &'c [(String, Value)], writers: &[Writer]| {
            let concerns = |w: &&Writer| contested.is_empty() || contested.contains(&w.column);
            let latest = writers.iter().filter(concerns).max_by_key(|w| w.at_ms);
            Side { values, site: latest.map(|w| w.site) }
        };
        let own = side(displaced, writers);
        let rival = rival.as_ref().map(|Rival { shown, writers }| side(shown, writers));
        // A row that is kept shows what was written: there are no two sides.
        if *kind == ConflictKind::RestrictRevived && shown == displaced {
            return Sides { mine: None, theirs: None };
        }
        match rival {
            Some(rival) if rival.site == Some(here) && own.site != Some(here) => {
                Sides { mine: Some(rival), theirs: Some(own) }
            }
            None if own.site != Some(here) => Sides { mine: None, theirs: Some(own) },
            rival => Sides { mine: Some(own), theirs: rival },
        }
    }
}

/// The row's primary key, else what people call it.
fn key(t: &Tracked, conflict: &Conflict) -> String {
    let values = if conflict.shown.is_empty() { &conflict.displaced } else { &conflict.shown };
    let in_key = |(name, _): &&(String, Value)| {
        t.table.primary_key.iter().any(|&c| t.table.columns[c].name == *name)
    };
    let key: Vec<_> = values.iter().filter(in_key).cloned().collect();
    match key.is_empty() {
        true => json(&[("row".to_owned(), Value::Text(conflict.row.clone().into()))]),
        false => json(&key),
    }
}

/// Values by column as JSON; a blob as the text `x'…'`.
fn json(values: &[(String, Value)]) -> String {
    let member = |(name, value): &(String, Value)| {
        let value = match value {
            Value::Null => "null".to_owned(),
            Value::Integer(i) => i.to_string(),
            Value::Real(r) if r.is_finite() => format!("{:?}", r + 0.0),
            Value::Real(_) => "null".to_owned(),
            Value::Text(t) => {
                let text = String::from_utf8_lossy(&t[..t.len().min(4 * (LONGEST + 1))]);
                let cut = text.chars().nth(LONGEST).is_some();
                let text: String = text.chars().take(LONGEST).collect();
                quoted(&(text + if cut { "…" } else { "" }))
            }
            Value::Blob(b) => {
                let cut = if b.len() > LONGEST { "…" } else { "" };
                format!("\"x'{}{cut}'\"", crate::sqlvalue::hex(&b[..b.len().min(LONGEST)]))
            }
        };
        format!("{}:{value}", quoted(name))
    };
    format!("{{{}}}", values.iter().map(member).collect::<Vec<_>>().join(","))
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// What hides a row that has a record of a foreign key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A row, by its entry, which has a record that decides: of another kind, or of a reference to a former life.
    Record(i64),
    /// A deleted row; or one without a record that refers to a former life of another.
    Lost(u32, Rid),
}

/// Works out which records follow others (R-ONE-ANSWER).
fn follow(lookup: Lookup<'_>) -> Result<()> {
    let Lookup { conn, meta, catalog } = lookup;
    let policies = settings::load(conn)?;
    let sql = "SELECT entry, id, follows FROM synqlite_open_conflicts \
               WHERE kind IN (?1, ?2) OR kind = ?3 AND (?4 OR follows IS NOT NULL)";
    let kinds = [ConflictKind::FkCascade, ConflictKind::FkParentHidden, ConflictKind::Unique];
    let [cascade, hidden, unique] = kinds.each_ref().map(ConflictKind::as_str);
    let unified = catalog.tables.iter().any(|t| policies.unifies(&t.table.name));
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![cascade, hidden, unique, unified], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let records: Vec<(i64, String, Option<String>)> = rows.collect::<Result<_, _>>()?;
    let mut follows: BTreeMap<i64, String> = BTreeMap::new();
    let mut known = Known::new();
    let mut by_cause: BTreeMap<Cause, Vec<(usize, Stamp, &String, i64)>> = BTreeMap::new();
    for (entry, id, _) in &records {
        let Some(no) = state::table_of_entry(conn, *entry)? else { continue };
        let Some(table) = catalog.position_of_no(no) else { continue };
        let t = &catalog.tables[table];
        let Some(stored) = state::entry_by_id(conn, meta, t, *entry)? else { continue };
        let Some((kind, constraint)) = state::conflict(conn, *entry)? else { continue };
        if kind == ConflictKind::Unique {
            // Its winner stands for it, so nobody has to choose (R-UNIFY).
            if policies.unifies(&t.table.name) {
                follows.insert(*entry, id.clone());
            }
            continue;
        }
        let since = stored.state.header.inserted;
        if let Some((cause, steps)) = cause(lookup, &mut known, table, stored, constraint)? {
            by_cause.entry(cause).or_default().push((steps, since, id, *entry));
        }
    }
    for (cause, mut rows) in by_cause {
        rows.sort();
        let leader = match cause {
            Cause::Record(entry) => id_of(conn, entry)?,
            // The nearest to it asks for all, the one that was there first.
            Cause::Lost(..) => rows.first().map(|(_, _, id, _)| (*id).clone()),
        };
        let Some(leader) = leader else { continue };
        let others = rows.into_iter().filter(|(_, _, id, _)| **id != leader);
        follows.extend(others.map(|(_, _, _, entry)| (entry, leader.clone())));
    }
    let sql = "UPDATE synqlite_open_conflicts SET follows = ?2 WHERE entry = ?1";
    let mut write = conn.prepare_cached(sql)?;
    for (entry, _, before) in &records {
        let now = follows.get(entry);
        if now != before.as_ref() {
            write.execute(params![entry, now])?;
        }
    }
    Ok(())
}

fn id_of(conn: &Connection, entry: i64) -> Result<Option<String>> {
    let sql = "SELECT id FROM synqlite_open_conflicts WHERE entry = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([entry], |row| row.get(0)).optional()?)
}

/// What hides rows in the end, and how many references away it is: by the position of the table and the row.
type Known = HashMap<(usize, Rid), Option<(Cause, usize)>>;

/// What hides a row in the end, and how many references away it is: the nearest. Each row of a chain is looked
/// at once, whichever of them is asked for.
fn cause(
    lookup: Lookup<'_>,
    known: &mut Known,
    table: usize,
    stored: Stored,
    constraint: String,
) -> Result<Option<(Cause, usize)>> {
    let mut chain = Vec::new();
    let found = nearest(lookup, known, &mut chain, (table, stored, constraint))?;
    for (above, row) in chain.into_iter().enumerate() {
        known.insert(row, found.clone().map(|(cause, steps)| (cause, steps - above)));
    }
    Ok(found)
}

/// The same. `chain`: the rows that all ways pass on which it has looked, in this order.
fn nearest(
    lookup: Lookup<'_>,
    known: &Known,
    chain: &mut Vec<(usize, Rid)>,
    (table, stored, constraint): (usize, Stored, String),
) -> Result<Option<(Cause, usize)>> {
    let Lookup { conn, meta, catalog } = lookup;
    let (mut asked, mut alone) = (BTreeSet::new(), true);
    let mut ask = VecDeque::from([(table, stored, constraint, 1)]);
    while let Some((table, stored, constraint, steps)) = ask.pop_front() {
        alone &= ask.is_empty();
        if alone {
            let row = (table, stored.rid.clone());
            if let Some(found) = known.get(&row) {
                return Ok(found.clone().map(|(cause, more)| (cause, steps - 1 + more)));
            }
            chain.push(row);
        }
        let t = &catalog.tables[table];
        let keys = t.table.foreign_keys.iter().enumerate();
        for (f, fk) in keys.filter(|(f, _)| constraint.is_empty() || t.key_names[*f] == constraint)
        {
            let Some(rid) = stored.state.kept_reference(t, f) else { continue };
            let Some(above) = catalog.position(&fk.parent) else { continue };
            let parent = &catalog.tables[above];
            let Some(found) = state::of(conn, meta, parent, rid)? else { continue };
            if !found.state.header.alive() && found.loc.is_none() {
                return Ok(Some((Cause::Lost(parent.no, rid.clone()), steps)));
            }
            if found.loc.is_some() {
                if !is_former(t, f, &stored.state, &found.state) {
                    continue;
                }
                let record = match stored.entry {
                    Some(entry) => state::conflict(conn, entry)?.map(|_| Cause::Record(entry)),
                    None => None,
                };
                let cause = record.unwrap_or_else(|| Cause::Lost(t.no, stored.rid.clone()));
                return Ok(Some((cause, steps - 1)));
            }
            if !asked.insert((above, rid.clone())) {
                continue;
            }
            let record = match found.entry {
                Some(entry) => state::conflict(conn, entry)?.map(|record| (entry, record)),
                None => None,
            };
            match record {
                Some((_, (ConflictKind::FkCascade | ConflictKind::FkParentHidden, constraint))) => {
                    ask.push_back((above, found, constraint, steps + 1));
                }
                Some((entry, _)) => return Ok(Some((Cause::Record(entry), steps))),
                // It went with its own parent, which nobody disagreed about.
                None => ask.push_back((above, found, String::new(), steps + 1)),
            }
        }
    }
    Ok(None)
}

/// By the id of each record that others follow, theirs. One that needs no answer follows itself.
pub fn followers(conn: &Connection) -> Result<BTreeMap<String, Vec<String>>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if !exists(conn)? {
        return Ok(found);
    }
    let any = "SELECT 1 FROM synqlite_open_conflicts WHERE follows IS NOT NULL";
    if !conn.prepare_cached(any)?.exists([])? {
        return Ok(found);
    }
    // Only what is still so: a program may have written since.
    let sql = "SELECT c.id, c.follows FROM synqlite_open_conflicts c JOIN synqlite_row r ON r.id = c.entry \
               WHERE r.kind = c.kind ORDER BY 1";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let open: BTreeMap<String, Option<String>> = rows.collect::<Result<_, _>>()?;
    for (id, leader) in &open {
        if let Some(leader) = leader.as_ref().filter(|leader| open.contains_key(*leader)) {
            found.entry(leader.clone()).or_default().push(id.clone());
        }
    }
    Ok(found)
}

/// What is wrong with the table, if anything is: it lists the entries that have a record, and no others.
pub fn contradiction(lookup: Lookup<'_>) -> Result<Option<String>> {
    let Lookup { conn, catalog, .. } = lookup;
    if !exists(conn)? {
        return Ok(None);
    }
    let sql = "SELECT id, tbl FROM (SELECT r.id, r.tbl FROM synqlite_row r \
               LEFT JOIN synqlite_open_conflicts c ON c.entry = r.id \
               WHERE r.kind IS NOT NULL AND c.kind IS NOT r.kind \
               UNION ALL SELECT c.entry, NULL FROM synqlite_open_conflicts c \
               LEFT JOIN synqlite_row r ON c.entry = r.id WHERE r.kind IS NULL)";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (entry, no): (i64, Option<u32>) = (row.get(0)?, row.get(1)?);
        let missing = match no {
            None => true,
            // Nobody can settle the records of a table that is not here; nor is one listed whose row the user has
            // deleted or moved since.
            Some(no) => match catalog.position_of_no(no) {
                None => false,
                Some(at) => records::of_entry(lookup, &catalog.tables[at], entry)?.is_some(),
            },
        };
        if missing {
            return Ok(Some(format!(
                "synqlite_open_conflicts is wrong about entry {entry}: drop it, and the next command makes it anew"
            )));
        }
    }
    Ok(None)
}
