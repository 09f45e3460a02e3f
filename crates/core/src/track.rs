//! Keeps the catalog in step with the application's schema.
//!
//! Tables and columns get their numbers here, and the canonical names by which other sites know
//! them: the first that they had (R-MIG-RENAME). When a table no longer looks as it did when its
//! triggers were made, they are made anew, after the journal that the old ones wrote was folded.
//!
//! The triggers themselves tell what was renamed: SQLite rewrites the names in them. So a rename
//! needs no log, and two sites that make it apart from each other mean the same.

pub mod outside;

use crate::capture;
use crate::catalog::{self, Catalog, Relation, Tracked};
use crate::policy::Policies;
use crate::registry;
use crate::schema::{self, Selection, Skipped, Table, near};
use crate::settings::{self, renamed::TableNames};
use crate::{Error, Result, meta, renames};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::Hlc;

/// The replicated tables as they are now.
pub struct Loaded {
    /// All tables that are tracked and still there.
    pub catalog: Catalog,
    /// Tables, by number, whose triggers no longer fit.
    pub stale: BTreeMap<u32, Stale>,
    /// Numbers of tables that were replicated and are not any more: dropped, or out of bounds by policy.
    pub gone: Vec<u32>,
    /// Those of them that still have triggers.
    pub left: Vec<u32>,
}

/// How a table differs from the one that its triggers were made for.
#[derive(Default)]
pub struct Stale {
    /// Numbers of columns that are new since.
    pub fresh: Vec<u32>,
    /// Those of them that a former command saw to be gone, and when.
    pub again: BTreeMap<u32, Hlc>,
    /// Numbers of columns that may have been dropped and added again since.
    pub anew: BTreeSet<u32>,
    /// Whether what was written since may not have been noted: the table was made anew, has no triggers, or one that
    /// misled ours.
    pub gap: bool,
    /// Whether the table was made anew, so that its rows may be elsewhere.
    pub rebuilt: bool,
    /// Whether the triggers are there all the same, so that the journal tells what was written.
    pub noted: bool,
    /// Whether the primary key is another.
    pub rekeyed: bool,
    /// Whether the foreign keys are others.
    pub referring_anew: bool,
    /// Whether the unique keys are others, so that REPLACE may have displaced rows through one that
    /// no trigger knows.
    pub unique_anew: bool,
    /// The column that was the rowid, if it is another key now.
    pub was_rowid: Option<usize>,
}

impl Stale {
    /// How a table differs from its shape, as that was noted.
    fn by_shape(table: &Table, shape: &str) -> Stale {
        Stale {
            rekeyed: !schema::has_key_of(table, shape),
            referring_anew: !schema::has_references_of(table, shape),
            unique_anew: !schema::has_uniques_of(table, shape),
            was_rowid: schema::had_rowid_alias(table, shape),
            ..Stale::default()
        }
    }
}

/// Triggers and other objects of ours: the table they are on, and their SQL, by name.
type Objects = BTreeMap<String, (String, String)>;

/// Reads the schema and matches it with the numbers given so far. Writes nothing; columns without
/// a number get the next ones, as [`renew`] will record them.
pub fn load(conn: &Connection, policies: &Policies) -> Result<Loaded> {
    let present = objects(conn)?;
    let mut statement =
        conn.prepare_cached("SELECT no, name, canonical, shape FROM synqlite_table")?;
    let mut rows = statement.query([])?;
    let mut known: Vec<(u32, String, String, String)> = Vec::new();
    let mut gone = Vec::new();
    while let Some(row) = rows.next()? {
        let (no, shape): (u32, String) = (row.get(0)?, row.get(3)?);
        let moved = present.get(&capture::own_name("delete", no)).map(|(table, _)| table.clone());
        let found = if moved.is_some() { &mut known } else { &mut gone };
        let name = moved.map_or_else(|| row.get(1), Ok)?;
        if !shape.is_empty() {
            found.push((no, name, row.get(2)?, shape));
        }
    }
    // One that lost its triggers may have been rebuilt, unless another has its name now.
    known.append(&mut gone);
    let only = known.iter().map(|(_, name, ..)| name.clone()).collect();
    let selection = Selection { only, ..Selection::default() };
    let schema = schema::read(conn, policies, &selection)?;
    let (anew, before_ours) = (later_than_journal(conn)?, triggers_before_ours(conn)?);
    let (mut tables, mut stale) = (Vec::new(), BTreeMap::new());
    let (missed, elsewhere) = (missed(conn)?, elsewhere(conn)?);
    let now = meta::get(conn, "position")?.unwrap_or(0);
    for table in schema.tables {
        let same = |k: &&(u32, String, String, String)| table.name.eq_ignore_ascii_case(&k.1);
        let Some((no, _, canonical, shape)) = known.iter().find(same) else { continue };
        let (mut tracked, fresh, again) = number(conn, *no, canonical, table, &present)?;
        tracked.converts_old |= schema::converted_old(shape);
        if missed.get(no).is_some_and(Option::is_none) {
            // What states do not say of rows is with what was kept of them.
            tracked.since.fill(now);
        }
        // Dropping a table takes its triggers along, and rebuilding one under its name too, unless
        // they are made again.
        let moved = elsewhere.contains(no);
        let noted = !moved && is_noted(&present, *no);
        let rebuilt = moved || anew.contains(&tracked.table.name.to_ascii_lowercase());
        let lower = tracked.table.name.to_ascii_lowercase();
        let before = before_ours.get(&lower);
        let misleads = |sql: &String| schema::misleads(sql, &tracked.table);
        let misled = before.is_some_and(|triggers| triggers.iter().any(misleads));
        let mut fit = before.is_none();
        let gap = !noted || rebuilt || misled;
        for (name, sql) in capture::objects(&tracked) {
            fit &= match present.get(&name) {
                Some((_, is)) => *is == sql,
                None => capture::may_lack(conn, &tracked, &name)?,
            };
        }
        if *shape != schema::shape(&tracked.table) || !fit || gap {
            let differs = Stale::by_shape(&tracked.table, shape);
            stale.insert(*no, Stale { fresh, again, gap, rebuilt, noted, ..differs });
        }
        tables.push(tracked);
    }
    catalog::name_keys(&mut tables);
    for t in tables.iter_mut().filter(|t| stale.contains_key(&t.no)) {
        let was = registry::groups(conn, t.no)?;
        let known = |name: &String| was.iter().any(|(_, keys)| keys.contains(name));
        t.new_keys = (0..t.key_names.len()).filter(|&f| !known(&t.key_names[f])).collect();
    }
    // Only tracked tables were read, so positions in the schema are positions in the catalog.
    let components = if tables.is_empty() { vec![] } else { schema.components };
    let mut catalog = Catalog::new(tables, components, policies.enforces_foreign_keys());
    let local = schema.local.into_iter();
    catalog.local = local.map(|t| Relation::unnumbered(0, &t.name.clone(), t).into()).collect();
    let gone = known.iter().map(|(no, ..)| *no);
    let gone: Vec<u32> = gone.filter(|no| catalog.position_of_no(*no).is_none()).collect();
    let captured = |no: &u32| present.contains_key(&capture::own_name("delete", *no));
    let left = gone.iter().copied().filter(captured).collect();
    Ok(Loaded { catalog, stale, gone, left })
}

/// Tables that were gone when a command last looked, by number. Of those that were out of sight by policy alone,
/// and have stayed in the file since: up to which position states say all of rows.
pub type Missed = BTreeMap<u32, Option<i64>>;

/// Tables that are gone since a command last looked.
#[derive(Default)]
pub struct Gone {
    /// Out of sight, for whatever reason.
    pub unseen: Vec<u32>,
    /// With all that they held.
    pub lost: Vec<u32>,
}

/// Takes note of the tables that are gone, of states up to `position`.
pub fn note_gone(conn: &Connection, gone: &[u32], position: i64) -> Result<Gone> {
    let was = missed(conn)?;
    let sql = "SELECT 1 FROM synqlite_table AS t JOIN main.sqlite_master AS m \
               ON m.type = 'table' AND m.name = t.name COLLATE NOCASE WHERE t.no = ?1";
    let mut there = conn.prepare_cached(sql)?;
    let (mut now, mut news) = (Missed::new(), Gone::default());
    for no in gone {
        let whole = was.get(no).copied().unwrap_or(Some(position));
        let whole = if there.exists([no])? { whole } else { None };
        if !was.contains_key(no) {
            news.unseen.push(*no);
        }
        if whole.is_none() && was.get(no) != Some(&None) {
            news.lost.push(*no);
        }
        now.insert(*no, whole);
    }
    if now != was {
        let line = |(no, whole): (&u32, &Option<i64>)| match whole {
            Some(position) => format!("{no} {position}"),
            None => no.to_string(),
        };
        meta::set(conn, "gone", now.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(news)
}

/// The tables that were gone when a command last looked.
pub fn missed(conn: &Connection) -> Result<Missed> {
    let gone: String = meta::get(conn, "gone")?.unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let no = words.next()?.parse().ok()?;
        Some((no, words.next().and_then(|position| position.parse().ok())))
    };
    Ok(gone.lines().filter_map(line).collect())
}

/// Tables that are here and not replicated for now, by policy, with all that they held.
pub fn out_of_sight(conn: &Connection) -> Result<BTreeSet<u32>> {
    let missed = missed(conn)?;
    Ok(missed.into_iter().filter(|(_, whole)| whole.is_some()).map(|(no, _)| no).collect())
}

/// Tables that are gone with their triggers since a command last looked: number and canonical name.
pub fn lost(conn: &Connection) -> Result<Vec<(u32, String)>> {
    let missed = missed(conn)?;
    let names = |sql: &str| -> Result<BTreeSet<String>> {
        let mut statement = conn.prepare_cached(sql)?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok(names.map(|name| Ok(name?.to_ascii_lowercase())).collect::<rusqlite::Result<_>>()?)
    };
    let tables = names("SELECT name FROM main.sqlite_master WHERE type = 'table'")?;
    let mut statement =
        conn.prepare_cached("SELECT no, name, canonical FROM synqlite_table WHERE shape <> ''")?;
    let known = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    let known: Vec<_> = known.collect::<rusqlite::Result<_>>()?;
    let is_lost = |no: u32, name: &str| {
        !missed.contains_key(&no) && !tables.contains(&name.to_ascii_lowercase())
    };
    let mut lost: Vec<_> = known.into_iter().filter(|(no, name, _)| is_lost(*no, name)).collect();
    if !lost.is_empty() {
        // One that has its triggers was renamed.
        let there = names("SELECT name FROM main.sqlite_master WHERE type = 'trigger'")?;
        lost.retain(|(no, ..)| !there.contains(&capture::own_name("delete", *no)));
    }
    Ok(lost.into_iter().map(|(no, _, canonical)| (no, canonical)).collect())
}

/// Tables of the application that were made after the journal was and are not known.
pub fn made_since(conn: &Connection) -> Result<Vec<String>> {
    let mut known =
        conn.prepare_cached("SELECT 1 FROM synqlite_table WHERE name = ?1 COLLATE NOCASE")?;
    let mut made = Vec::new();
    for name in later_than_journal(conn)? {
        if !name.starts_with("sqlite_")
            && !name.starts_with("synqlite_")
            && !known.exists([&name])?
        {
            made.push(name);
        }
    }
    Ok(made)
}

/// A table that is known: number, canonical name and name.
pub type Known = (u32, String, String);

/// Tables that were made anew under their names since the journal was.
pub fn rebuilt(conn: &Connection) -> Result<Vec<Known>> {
    let anew = later_than_journal(conn)?;
    let mut known = known(conn)?;
    known.retain(|(_, _, name)| anew.contains(&name.to_ascii_lowercase()));
    Ok(known)
}

/// The tables with these numbers.
pub fn known_of(conn: &Connection, numbers: &BTreeSet<u32>) -> Result<Vec<Known>> {
    if numbers.is_empty() {
        return Ok(vec![]);
    }
    let mut known = known(conn)?;
    known.retain(|(no, ..)| numbers.contains(no));
    Ok(known)
}

fn known(conn: &Connection) -> Result<Vec<Known>> {
    let mut statement =
        conn.prepare_cached("SELECT no, canonical, name FROM synqlite_table WHERE shape <> ''")?;
    let known = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(known.collect::<rusqlite::Result<_>>()?)
}

/// A table as if it were the one with this number, and the columns which that does not have.
pub fn as_another(
    conn: &Connection,
    no: u32,
    canonical: &str,
    table: Table,
) -> Result<(Relation, Vec<u32>)> {
    let (relation, fresh, _) = number(conn, no, canonical, table, &Objects::new())?;
    Ok((relation, fresh))
}

/// The entry of the metadata that lists tables whose rows have other rowids since the last command, by number.
pub const ELSEWHERE: &str = "elsewhere";

/// Those tables.
pub fn elsewhere(conn: &Connection) -> Result<BTreeSet<u32>> {
    let listed: String = meta::get(conn, ELSEWHERE)?.unwrap_or_default();
    Ok(listed.lines().filter_map(|no| no.parse().ok()).collect())
}

/// Whether a table has the triggers that note what is written to it.
fn is_noted(present: &Objects, no: u32) -> bool {
    let mut kinds = ["insert", "update", "delete"].iter();
    kinds.all(|kind| present.contains_key(&capture::own_name(kind, no)))
}

/// Tables, in lower case, that were made after the journal was. SQLite puts a new table behind all
/// others in its schema, where it stays: renamed, altered, after VACUUM and in a dump. So once the
/// journal stands behind all tables, one behind the journal was made since.
fn later_than_journal(conn: &Connection) -> Result<BTreeSet<String>> {
    let sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND rowid > \
               (SELECT rowid FROM main.sqlite_master WHERE name = 'synqlite_journal')";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    Ok(names.map(|name| Ok(name?.to_ascii_lowercase())).collect::<rusqlite::Result<_>>()?)
}

/// The application's triggers on tables, in lower case, that have one which was made after one of ours. SQLite runs the
/// latest first; what such a one writes would be noted before what fired it.
fn triggers_before_ours(conn: &Connection) -> Result<BTreeMap<String, Vec<String>>> {
    let sql = "SELECT lower(tbl_name) FROM main.sqlite_master WHERE type = 'trigger' GROUP BY 1 \
               HAVING max(rowid) FILTER (WHERE substr(name, 1, 9) <> 'synqlite_') > \
                      min(rowid) FILTER (WHERE substr(name, 1, 9) = 'synqlite_')";
    let mut statement = conn.prepare_cached(sql)?;
    let tables = statement.query_map([], |row| Ok((row.get(0)?, vec![])))?;
    let mut found: BTreeMap<String, Vec<String>> = tables.collect::<rusqlite::Result<_>>()?;
    if !found.is_empty() {
        for (_, table, sql) in schema::application_triggers(conn)? {
            found.entry(table.to_ascii_lowercase()).and_modify(|triggers| triggers.push(sql));
        }
    }
    Ok(found)
}

/// Puts the journal, which must be empty, behind all tables in SQLite's schema.
pub fn close(conn: &Connection, catalog: &Catalog) -> Result<()> {
    let anew = later_than_journal(conn)?;
    let tracked = |t: &Tracked| anew.contains(&t.table.name.to_ascii_lowercase());
    let written = "SELECT 1 FROM synqlite_journal";
    if !catalog.tables.iter().any(tracked) || conn.prepare(written)?.exists([])? {
        return Ok(());
    }
    conn.execute_batch("DROP TABLE main.synqlite_journal")?;
    Ok(conn.execute_batch(meta::JOURNAL_DDL)?)
}

/// Tables of the application that are to be replicated and are not yet.
///
/// A replica made of chosen tables takes no others in by itself.
pub fn unknown(conn: &Connection, policies: &Policies, catalog: &Catalog) -> Result<Vec<Table>> {
    let sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' \
               AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'synqlite\\_%' ESCAPE '\\'";
    let mut statement = conn.prepare_cached(sql)?;
    let mut names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let all_known = names
        .try_fold(true, |all, name| Ok::<_, Error>(all && catalog.by_name(&name?).is_some()))?;
    let chosen = chosen(conn)?;
    if all_known || !chosen.only.is_empty() {
        return Ok(vec![]);
    }
    let tables = schema::read(conn, policies, &chosen)?.tables;
    Ok(tables.into_iter().filter(|t| catalog.by_name(&t.name).is_none()).collect())
}

/// Which tables `init` was told to take, and which to leave out.
pub fn chosen(conn: &Connection) -> Result<Selection> {
    let remembered = |key: &str| -> Result<Vec<String>> {
        let names: String = meta::get(conn, key)?.unwrap_or_default();
        Ok(names.lines().map(str::to_owned).collect())
    };
    Ok(Selection { only: remembered("only")?, exclude: remembered("exclude")?, strict: false })
}

/// The tables that are not replicated, each with the reason.
pub fn skipped(conn: &Connection, catalog: &Catalog) -> Result<Vec<Skipped>> {
    let mut skipped = schema::read(conn, &settings::load(conn)?, &chosen(conn)?)?.skipped;
    skipped.retain(|s| catalog.by_name(&s.name).is_none());
    Ok(skipped)
}

/// Tables that were replicated until they were altered, each with the reason. What is written to them stays here,
/// and what others wrote is kept, until they can be replicated again.
pub fn paused(conn: &Connection, catalog: &Catalog) -> Result<Vec<Skipped>> {
    let sql = "SELECT name FROM synqlite_table WHERE shape <> ''";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    let mut names: Vec<String> = names.collect::<std::result::Result<_, _>>()?;
    names.retain(|name| catalog.by_name(name).is_none());
    if names.is_empty() {
        return Ok(vec![]);
    }
    let mut skipped = skipped(conn, catalog)?;
    skipped.retain(|s| s.unfit && names.iter().any(|name| name.eq_ignore_ascii_case(&s.name)));
    Ok(skipped)
}

/// The replicated table called `name`. [`Error::NotReplicated`] of one that is only here, else
/// [`Error::NoTable`], which tells which names are like it.
pub fn named<'c>(conn: &Connection, catalog: &'c Catalog, name: &str) -> Result<&'c Tracked> {
    if let Some(t) = catalog.by_name(name) {
        return Ok(t);
    }
    let skipped = skipped(conn, catalog)?;
    let known = catalog.tables.iter().map(|t| t.table.name.as_str());
    Err(match skipped.into_iter().find(|s| s.name.eq_ignore_ascii_case(name)) {
        Some(Skipped { name, why, .. }) => Error::NotReplicated { name, why },
        None => Error::NoTable { name: name.to_owned(), near: near(name, known) },
    })
}

/// Remembers which schema the metadata has caught up with, as far as SQLite's number for it tells: it
/// changes with the schema, and by other things too.
pub fn note_schema(conn: &Connection, policies: &Policies) -> Result<()> {
    let version = schema_version(conn)?;
    if meta::get(conn, "caught_up")? != Some(version) {
        outside::note(conn, policies)?;
        meta::set(conn, "caught_up", version)?;
    }
    Ok(())
}

/// Whether the schema is certainly the one that the metadata has caught up with.
pub fn is_caught_up(conn: &Connection) -> Result<bool> {
    Ok(meta::get(conn, "caught_up")? == Some(schema_version(conn)?))
}

fn schema_version(conn: &Connection) -> Result<i64> {
    let mut statement = conn.prepare_cached("PRAGMA main.schema_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The table with its numbers, those of its columns that are new, and those of them that are there again.
fn number(
    conn: &Connection,
    no: u32,
    canonical: &str,
    table: Table,
    present: &Objects,
) -> Result<(Relation, Vec<u32>, BTreeMap<u32, Hlc>)> {
    let witness = present.get(&capture::own_name("delete", no));
    let renamed = witness.map(|(_, sql)| capture::columns_of(sql)).unwrap_or_default();
    let mut statement = conn
        .prepare_cached("SELECT no, name, canonical, since FROM synqlite_column WHERE tbl = ?1")?;
    let mut rows = statement.query([no])?;
    let mut known: Vec<(u32, Option<String>, String, i64)> = Vec::new();
    let mut others = Vec::new();
    while let Some(row) = rows.next()? {
        let was: Option<String> = row.get(1)?;
        let name = renamed.get(&row.get(0)?).cloned().or_else(|| was.clone());
        let found = if name == was { &mut others } else { &mut known };
        found.push((row.get(0)?, name, row.get(2)?, row.get(3)?));
    }
    // One that got another name stands first: who had that name before is gone.
    known.append(&mut others);
    let now: i64 = meta::get(conn, "position")?.unwrap_or(0);
    let canonicals: Vec<String> =
        known.iter().map(|(_, _, canonical, _)| canonical.clone()).collect();
    let mut next = known.iter().map(|(no, ..)| no + 1).max().unwrap_or(0);
    let mut t = Relation::unnumbered(no, canonical, table);
    let (mut fresh, mut again) = (Vec::new(), BTreeMap::new());
    let told = renames::first_names(conn, canonical)?;
    let names: Vec<String> = t.table.columns.iter().map(|c| c.name.clone()).collect();
    for column in &t.table.columns {
        let is = |name: &str| name.eq_ignore_ascii_case(&column.name);
        let by_name = known.iter().position(|(_, name, ..)| name.as_deref().is_some_and(is));
        // A name that other sites use already, or that a dropped column had.
        let away = || {
            let away = known.iter().enumerate().filter(|(_, (_, name, ..))| name.is_none());
            let nth = away.filter_map(|(i, (_, _, first, _))| Some((nth(first, &column.name)?, i)));
            nth.min().map(|(_, i)| i)
        };
        // Others told that the column which is missing has this name since, so it was renamed here too.
        let later = |(_, name, canonical, _): &(u32, Option<String>, String, i64)| {
            let missing =
                name.as_ref().is_some_and(|n| !names.iter().any(|c| c.eq_ignore_ascii_case(n)));
            missing
                && told.get(&column.name).is_some_and(|first| first.eq_ignore_ascii_case(canonical))
        };
        let at = by_name.or_else(|| known.iter().position(later));
        let (number, canonical, since) = match at.or_else(away) {
            Some(i) => {
                let (number, name, canonical, since) = known.remove(i);
                if name.is_none() && since >= 0 {
                    again.insert(number, Hlc(since));
                }
                (number, canonical, name.map(|_| since))
            }
            None => {
                next += 1;
                let taken = |name: &str| canonicals.iter().any(|c| c.eq_ignore_ascii_case(name));
                (next - 1, untaken(&column.name, taken), None)
            }
        };
        if since.is_none() {
            fresh.push(number);
        }
        t.column_nos.push(number);
        t.column_names.push(canonical);
        t.since.push(since.unwrap_or(now));
    }
    name_uniques(&mut t);
    Ok((t, fresh, again))
}

/// Names unique indexes by what they say, and puts them in the order of their names; of those that say
/// the same one is left.
fn name_uniques(t: &mut Relation) {
    let uniques = std::mem::take(&mut t.table.uniques).into_iter();
    let named = uniques.map(|mut u| {
        u.terms.sort_by_cached_key(|term| schema::term_name(&t.table, &t.column_names, term));
        (schema::unique_name(&t.table, &t.column_names, &u), u)
    });
    let mut named: Vec<_> = named.collect();
    named.sort_by(|(a, u), (b, v)| (a, !u.primary).cmp(&(b, !v.primary)));
    named.dedup_by(|(next, _), (name, _)| next == name);
    (t.unique_names, t.table.uniques) = named.into_iter().unzip();
}

/// The place of a thing among those whose first name was `name`, or `None` if it had another: see
/// [`untaken`].
fn nth(first: &str, name: &str) -> Option<u32> {
    if first.eq_ignore_ascii_case(name) {
        return Some(1);
    }
    let (of, number) = first.rsplit_once('#')?;
    number.parse().ok().filter(|_| of.eq_ignore_ascii_case(name))
}

/// `name`, or if another thing had it first, `name` with a number.
fn untaken(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|n| format!("{name}#{n}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_default()
}

/// Takes a table in: numbers, triggers, no rows yet. One that other sites told of gets the numbers
/// that it had. Its foreign keys get their canonical names once all tables are known, by
/// [`record_units`].
pub fn track(conn: &Connection, table: &Table) -> Result<()> {
    let sql = "SELECT no, canonical, name, shape = '' FROM synqlite_table";
    let mut statement = conn.prepare_cached(sql)?;
    let known = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<Vec<(u32, String, String, bool)>, _>>()?;
    let own = |first: &str| known.iter().any(|k| k.1.eq_ignore_ascii_case(first) && !k.3);
    let names = TableNames::load(conn)?;
    // Others told that the table which is called so had another name first, or that the first of this name is
    // called otherwise now, as another table here is.
    let name = Some(names.first(&table.name)).filter(|first| !own(first)).unwrap_or(&table.name);
    let mut is_here = false;
    let sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    for later in names.all(name).filter(|later| !later.eq_ignore_ascii_case(&table.name)) {
        is_here |= conn.prepare_cached(sql)?.exists([later])?;
    }
    let canonical = untaken(name, |first| own(first) || is_here && first == name);
    let away = known.iter().find(|k| k.1.eq_ignore_ascii_case(&canonical));
    let (no, canonical) = match away {
        Some((no, canonical, ..)) => {
            let sql = "UPDATE synqlite_table SET name = ?2 WHERE no = ?1";
            conn.execute(sql, params![no, table.name])?;
            (*no, canonical.clone())
        }
        None => (registry::add_table(conn, &table.name, &canonical)?, canonical),
    };
    let (mut tracked, ..) = number(conn, no, &canonical, table.clone(), &Objects::new())?;
    if away.is_none() {
        tracked.since.fill(-1);
    }
    tracked.key_names = tracked.table.foreign_keys.iter().map(|fk| fk.full_name()).collect();
    renew(conn, &tracked)
}

/// Takes note of the columns that the table has lost since its triggers were made, and that they are gone
/// since `now`. Returns their numbers.
pub fn lose_columns(conn: &Connection, t: &Tracked, now: Hlc) -> Result<Vec<u32>> {
    let lost: Vec<u32> = registry::lost_columns(conn, t)?.into_keys().collect();
    let sql = "UPDATE synqlite_column SET name = NULL, since = ?3 WHERE tbl = ?1 AND no = ?2";
    for no in &lost {
        conn.prepare_cached(sql)?.execute(params![t.no, no, now.0])?;
    }
    Ok(lost)
}

/// Makes the triggers of a table anew and records how its schema is now. Its part of the journal
/// must be empty.
pub fn renew(conn: &Connection, t: &Relation) -> Result<()> {
    drop_objects(conn, t.no)?;
    conn.execute("UPDATE synqlite_column SET name = NULL WHERE tbl = ?1", [t.no])?;
    let sql = "INSERT OR REPLACE INTO synqlite_column(tbl, no, name, canonical, since) \
               VALUES(?1, ?2, ?3, ?4, ?5)";
    let mut statement = conn.prepare_cached(sql)?;
    for (c, column) in t.table.columns.iter().enumerate() {
        let (no, canonical) = (t.column_nos[c], &t.column_names[c]);
        statement.execute(params![t.no, no, column.name, canonical, t.since[c]])?;
    }
    registry::record_units(conn, t)?;
    capture::install(conn, t)?;
    let sql = "UPDATE synqlite_table SET name = ?2, shape = ?3 WHERE no = ?1";
    conn.execute(sql, params![t.no, t.table.name, schema::shape(&t.table)])?;
    Ok(())
}

/// Removes the triggers of a table.
pub fn drop_objects(conn: &Connection, no: u32) -> Result<()> {
    let suffix = format!("_{no}");
    for (kind, name) in own_objects(conn)? {
        if name.ends_with(&suffix) && capture::is_own(&name, no) {
            conn.execute_batch(&format!("DROP {kind} main.{}", schema::quote(&name)))?;
        }
    }
    Ok(())
}

fn objects(conn: &Connection) -> Result<Objects> {
    let sql = "SELECT name, tbl_name, sql FROM main.sqlite_master \
               WHERE name LIKE 'synqlite\\_%' ESCAPE '\\' AND sql IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Tables of the application that have a trigger of ours.
pub fn captured(conn: &Connection) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT tbl_name FROM main.sqlite_master WHERE type = 'trigger' \
               AND name LIKE 'synqlite\\_%' ESCAPE '\\' ORDER BY 1";
    let mut statement = conn.prepare(sql)?;
    let tables = statement.query_map([], |row| row.get(0))?;
    Ok(tables.collect::<Result<_, _>>()?)
}

/// Everything of ours in the database, as (TABLE, INDEX or TRIGGER; name), triggers first and
/// indexes before tables, so that each can be dropped.
pub fn own_objects(conn: &Connection) -> Result<Vec<(String, String)>> {
    let sql = "SELECT upper(type), name FROM main.sqlite_master \
               WHERE name LIKE 'synqlite\\_%' ESCAPE '\\' AND sql IS NOT NULL \
               ORDER BY type = 'table', type = 'index', name";
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
