//! Renamed tables and columns, as all sites are told (R-MIG-RENAME).
//!
//! A column is known by the first name that it had. Who renames it by ALTER TABLE knows that, for the
//! triggers tell. Who renames it and then rebuilds the table before any command of ours cannot know:
//! there the new name seems to be a new column. So the first tell the others, by a replicated
//! setting: from then on both names are one column everywhere. The same goes for a table that is
//! renamed before a command has seen it.
//!
//! Unless a replica has a column under either name: one was renamed back, say, and another made under
//! the name between. Then both are told to be two, for ever.

use crate::catalog::{Catalog, Fresh, Tracked};
use crate::meta::Meta;
use crate::registry;
use crate::settings::renamed::{TableNames, pairs};
use crate::settings::{self, APART, RENAMED};
use crate::state::stash;
use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use synqlite_wire::Setting;

/// Tells the others which tables and columns have another name than their first, and which of the columns
/// that were told are two.
pub fn tell(conn: &Connection, meta: &mut Meta, catalog: &Catalog, now_ms: i64) -> Result<()> {
    let mut tell = |key: String| say(conn, meta, key, now_ms);
    tell_tables(conn, catalog, &mut tell)?;
    for t in &catalog.tables {
        let told = told(conn, RENAMED, &t.canonical)?;
        let firsts = registry::own_columns(conn, t.no)?;
        for (column, first) in t.table.columns.iter().zip(&t.column_names) {
            let same = column.name.eq_ignore_ascii_case(first);
            // The first name of another column, also of a dropped one, means that one to all others.
            let taken = firsts.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
            if !(same || taken || told.contains_key(&column.name)) {
                tell(format!("{RENAMED}{}\n{first}\n{}", t.canonical, column.name))?;
            }
        }
        let apart = self::told(conn, APART, &t.canonical)?;
        let here = |name: &str| t.column_names.iter().any(|own| own.eq_ignore_ascii_case(name));
        for (later, first) in told.iter().filter(|(later, _)| !apart.contains_key(*later)) {
            if here(later) && here(first) {
                tell(format!("{APART}{}\n{first}\n{later}", t.canonical))?;
            }
        }
    }
    Ok(())
}

/// Tells the others which tables have another name than their first.
fn tell_tables(
    conn: &Connection,
    catalog: &Catalog,
    tell: &mut dyn FnMut(String) -> Result<()>,
) -> Result<()> {
    let mut own = conn.prepare_cached(
        "SELECT 1 FROM synqlite_table WHERE canonical = ?1 COLLATE NOCASE AND shape <> ''",
    )?;
    let told: BTreeSet<_> = pairs(conn, &format!("{RENAMED}\n"))?.into_iter().collect();
    for t in &catalog.tables {
        let (first, name) = (&t.canonical, &t.table.name);
        // The first name of another table, also of a dropped one, means that one to all others.
        let unfit = name.eq_ignore_ascii_case(first) || own.exists([name])?;
        if !unfit && !told.contains(&(first.clone(), name.clone())) {
            tell(format!("{RENAMED}\n{first}\n{name}"))?;
        }
    }
    Ok(())
}

/// Tells the others which names that were told are of two tables here.
pub fn tell_apart(
    conn: &Connection,
    catalog: &Catalog,
    tell: &mut dyn FnMut(String) -> Result<()>,
) -> Result<()> {
    let told: BTreeSet<_> = pairs(conn, &format!("{APART}\n"))?.into_iter().collect();
    let here = |name: &str| catalog.tables.iter().any(|t| t.canonical.eq_ignore_ascii_case(name));
    for (first, later) in pairs(conn, &format!("{RENAMED}\n"))? {
        if here(&first) && here(&later) && !told.contains(&(first.clone(), later.clone())) {
            tell(format!("{APART}\n{first}\n{later}"))?;
        }
    }
    Ok(())
}

/// Tells the others what a key says.
pub fn say(conn: &Connection, meta: &mut Meta, key: String, now_ms: i64) -> Result<()> {
    let (stamp, value) = (meta.tick(now_ms), String::new());
    settings::store(conn, meta, &Setting { key, value, stamp })?;
    meta.local_seq += 1;
    Ok(())
}

/// The first names of renamed columns of a table, by the names that they got later.
pub fn first_names(conn: &Connection, table: &str) -> Result<BTreeMap<String, String>> {
    let mut names = told(conn, RENAMED, table)?;
    if !names.is_empty() {
        let apart = told(conn, APART, table)?;
        names.retain(|later, _| !apart.contains_key(later));
    }
    Ok(names)
}

/// What settings whose keys begin so tell of a table, under any of its names: first names by later ones.
fn told(conn: &Connection, begin: &str, table: &str) -> Result<BTreeMap<String, String>> {
    let mut names = pairs(conn, &format!("{begin}{table}\n"))?;
    for also in TableNames::load(conn)?.all(table) {
        names.append(&mut pairs(conn, &format!("{begin}{also}\n"))?);
    }
    Ok(names.into_iter().map(|(first, later)| (later, first)).collect())
}

/// Names that other sites have for columns of a table, each with its first name here.
pub type Said = Vec<(String, String)>;

/// What names of columns of a table mean here. The first name of a column stays its own, whatever another
/// is called later, unless it is gone, and so the two are one ([`unite`]); a column made here under the
/// name that another was given elsewhere is the same one.
pub fn said(conn: &Connection, t: &Tracked) -> Result<Said> {
    let firsts = registry::own_columns(conn, t.no)?;
    let later = first_names(conn, &t.canonical)?;
    let here = |name: &str| t.column_names.iter().any(|own| own.eq_ignore_ascii_case(name));
    let is_one = |name: &String| {
        let first = later.iter().find(|(later, _)| later.eq_ignore_ascii_case(name));
        !here(name) && first.is_some_and(|(_, first)| here(first))
    };
    let own = |name: &String| firsts.iter().any(|first| first.eq_ignore_ascii_case(name));
    let keeps = |name: &String| own(name) && !is_one(name);
    let apart = told(conn, APART, &t.canonical)?;
    let called = t.table.columns.iter().map(|c| c.name.clone()).zip(t.column_names.clone());
    let called = called.filter(|(name, _)| !apart.keys().any(|two| two.eq_ignore_ascii_case(name)));
    let others = later.clone().into_iter().chain(called).filter(|(name, _)| !keeps(name));
    let own = firsts.iter().filter(|name| keeps(name)).map(|name| (name.clone(), name.clone()));
    Ok(own.chain(others).collect())
}

/// The name of a foreign key by the first names of columns here: `columns` of its table, `parents` of the
/// one that it refers to.
pub fn key_name(key: &str, columns: &Said, parents: &Said) -> String {
    let Some((columns, parent)) = listed(key, '>', columns) else { return key.to_owned() };
    let listed = parent.split_once('(').and_then(|(name, list)| {
        let (list, rest) = listed(list, ')', parents)?;
        Some(format!("{name}({list}){rest}"))
    });
    format!("{columns}>{}", listed.as_deref().unwrap_or(parent))
}

/// The same for a foreign key of a table some of whose columns mean `columns`, to any table.
pub fn key_here(conn: &Connection, catalog: &Catalog, key: &str, columns: &Said) -> Result<String> {
    let to = |name: &str| {
        let (name, of) = (name.to_ascii_lowercase(), key.rfind('>'));
        of.filter(|at| key[at + 1..].starts_with(&format!("{name}(")))
    };
    let here = catalog.tables.iter().find(|t| to(&t.canonical).is_some());
    let (mut key, mut parent) = (key.to_owned(), here);
    if here.is_none() {
        let names = TableNames::load(conn)?;
        for t in &catalog.tables {
            let later = names.all(&t.canonical).find_map(|name| Some((name, to(name)?)));
            let Some((later, at)) = later else { continue };
            let first = t.canonical.to_ascii_lowercase();
            key.replace_range(at + 1..at + 1 + later.len(), &first);
            parent = Some(t);
            break;
        }
    }
    let parents = parent.map(|parent| said(conn, parent)).transpose()?;
    Ok(key_name(&key, columns, &parents.unwrap_or_default()))
}

/// A list of names up to `end` in other words, and what is behind that. A name may have any characters, commas
/// too, so a list may be read in several ways; what could not be read from one place on is not tried again.
fn listed<'k>(list: &'k str, end: char, names: &Said) -> Option<(String, &'k str)> {
    // Each way so far: names read, and which of them comes next.
    let (mut way, mut failed) = (vec![(list, 0)], HashSet::new());
    while let Some((rest, next)) = way.pop() {
        let known = names.iter().enumerate().skip(next);
        let fits = |(at, (name, _)): (usize, &(String, String))| {
            let after = rest.strip_prefix(name.as_str())?;
            let goes_on = after.strip_prefix(',').filter(|more| !failed.contains(&more.len()));
            (after.starts_with(end) || goes_on.is_some()).then_some((at, after, goes_on))
        };
        let Some((at, after, goes_on)) = known.map(fits).find_map(|fit| fit) else {
            failed.insert(rest.len());
            continue;
        };
        way.push((rest, at + 1));
        if let Some(behind) = after.strip_prefix(end) {
            let read = way.iter().filter_map(|(_, next)| names.get(next.checked_sub(1)?));
            let firsts: Vec<&str> = read.map(|(_, first)| &**first).collect();
            return Some((firsts.join(","), behind));
        }
        way.extend(goes_on.map(|more| (more, 0)));
    }
    None
}

/// Columns that go by several names here.
#[derive(Default)]
pub struct United {
    /// Those of which registers were kept for another name, by the numbers of their tables.
    pub kept: Fresh,
    /// Each with the columns that were taken for others: numbers of the table, of these, of the column.
    pub columns: Vec<(u32, Vec<u32>, u32)>,
}

/// Makes one column of those that go by several names here.
pub fn unite(conn: &Connection, meta: &mut Meta, catalog: &Catalog) -> Result<United> {
    let mut united = United::default();
    for t in &catalog.tables {
        for (later, first) in first_names(conn, &t.canonical)? {
            let here =
                |name: &str| t.column_names.iter().position(|n| n.eq_ignore_ascii_case(name));
            let (of_first, of_later) = (here(&first), here(&later));
            let (Some(column), None) = (of_first.or(of_later), of_first.and(of_later)) else {
                continue;
            };
            let no = t.column_nos[column];
            let names = registry::column_names(conn, t.no)?;
            let is_other = |(other, name): &(&u32, &String)| {
                **other != no
                    && (name.eq_ignore_ascii_case(&first) || name.eq_ignore_ascii_case(&later))
            };
            let others: Vec<u32> = names.iter().filter(is_other).map(|(no, _)| *no).collect();
            let name = "UPDATE synqlite_column SET canonical = ?3 WHERE tbl = ?1 AND no = ?2";
            if of_first.is_none() {
                for other in &others {
                    conn.execute(name, params![t.no, other, later])?;
                }
                conn.execute(name, params![t.no, no, first])?;
            }
            if renumber(conn, meta, t.no, &others, no)? || of_first.is_none() {
                united.kept.entry(t.no).or_default().push(no);
            }
            if !others.is_empty() {
                united.columns.push((t.no, others, no));
            }
        }
    }
    Ok(united)
}

/// Brings the names of foreign keys that are stored in step with the first names of their columns, as
/// these are known now. Adds tables to `united` of which registers were kept for a foreign key under
/// another name.
pub fn rename_keys(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    united: &mut Fresh,
) -> Result<()> {
    for t in &catalog.tables {
        let columns = said(conn, t)?;
        for (_, keys) in registry::groups(conn, t.no)? {
            for key in keys {
                let name = key_here(conn, catalog, &key, &columns)?;
                if name != key {
                    registry::rename_key(conn, t, &key, &name)?;
                }
            }
        }
        if !stash::any(conn, t.no)? {
            continue;
        }
        for rid in stash::rows(conn, meta, t.no, -1)? {
            for mut piece in stash::of(conn, meta, t.no, &rid)? {
                let keys = piece.keys.iter().map(|key| key_here(conn, catalog, key, &columns));
                let keys = keys.collect::<Result<Vec<String>>>()?;
                if keys != piece.keys {
                    stash::remove(conn, meta, t.no, &rid, &piece)?;
                    piece.keys = keys;
                    let local_seq = meta.local_seq;
                    stash::put(conn, meta, t.no, &rid, &piece, local_seq)?;
                    united.entry(t.no).or_default();
                }
            }
        }
    }
    Ok(())
}

/// Registers kept for the columns `others` are kept for column `no`.
fn renumber(
    conn: &Connection,
    meta: &mut Meta,
    table: u32,
    others: &[u32],
    no: u32,
) -> Result<bool> {
    let mut any = false;
    if others.is_empty() {
        return Ok(any);
    }
    for rid in stash::rows(conn, meta, table, -1)? {
        for piece in stash::of(conn, meta, table, &rid)? {
            if piece.columns.iter().any(|column| others.contains(column)) {
                stash::remove(conn, meta, table, &rid, &piece)?;
                let mut piece = piece;
                for column in piece.columns.iter_mut().filter(|c| others.contains(c)) {
                    *column = no;
                }
                let local_seq = meta.local_seq;
                stash::put(conn, meta, table, &rid, &piece, local_seq)?;
                any = true;
            }
        }
    }
    Ok::<_, Error>(any)
}
