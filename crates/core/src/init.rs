//! Makes a database a replica.

mod large;

use crate::catalog::Catalog;
use crate::connection::{connect, to_write};
use crate::env::Environment;
use crate::meta::{self, Meta};
use crate::policy::{Policies, Policy};
use crate::replica::{Replica, check_format, new_site, refuse_copy};
use crate::schema::{self, Affinity, ForeignKey, Identity, Schema, Selection, Skipped, Table};
use crate::work::Work;
use crate::{Error, Result, capture, equal, history, migrate, settings, state, track, verify};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use synqlite_wire::{DatabaseId, Id, SiteId};

/// What `init` is to do.
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// Replicate only these tables; all if empty.
    pub tables: Vec<String>,
    /// Do not replicate these tables.
    pub exclude: Vec<String>,
    /// Policies to set.
    pub policies: Vec<Policy>,
    /// Keep every change for `log` and `undo`; in a replica that did not, from now on.
    pub history: bool,
    /// The file was copied from a replica: give it a site id of its own.
    pub new_site: bool,
}

/// What `init` did.
#[derive(Clone, Debug)]
pub struct InitReport {
    /// The replica's site.
    pub site: SiteId,
    /// Replicated tables.
    pub tables: Vec<TableReport>,
    /// What is not replicated, and why.
    pub skipped: Vec<Skipped>,
    /// Warnings.
    pub notes: Vec<String>,
}

/// A replicated table.
#[derive(Clone, Debug)]
pub struct TableReport {
    /// Its name.
    pub name: String,
    /// What makes two rows of it the same.
    pub identity: Identity,
    /// Rows it has.
    pub rows: i64,
}

impl Replica {
    /// Makes the database at `path` a replica, or takes new tables into one that is.
    pub fn init(
        path: &Path,
        options: &InitOptions,
        env: Arc<dyn Environment>,
    ) -> Result<InitReport> {
        let conn = connect(path, true, env.as_ref())?;
        init(&conn, path, options, env.as_ref()).map_err(|e| e.on(path))
    }
}

fn init(
    conn: &Connection,
    path: &Path,
    options: &InitOptions,
    env: &dyn Environment,
) -> Result<InitReport> {
    let now = env.now_ms();
    let tx = to_write(conn, path, env)?;
    let again = !track::own_objects(&tx)?.is_empty();
    if again {
        state::upgrade(&tx)?;
        check_format(&tx, path)?;
        if options.new_site {
            new_site(&tx, Id(env.random()), path, env)?;
        }
        refuse_copy(&tx, path, env, Meta::load(&tx)?.site)?;
    }
    if !again && options.new_site {
        return Err(Error::NotAReplica(path.display().to_string()));
    }
    if !again {
        create(&tx, path, Id(env.random()), options.history, env)?;
    }
    let mut work = Work::begin(&tx, env)?;
    if again {
        if options.new_site {
            refuse_unlike(&mut work, path)?;
        } else {
            migrate::catch_up(&mut work)?;
        }
        refuse_to_exclude(&work, &options.exclude, path)?;
        work.fold()?;
    }
    let begins = again && options.history && !history::enabled(&tx)?;
    if begins {
        history::begin(&tx, &mut work.meta, &work.catalog)?;
    }
    migrate::set_policies(&mut work, &options.policies, now)?;
    let schema = select(&tx, &work.policies, options)?;
    let unknown = |t: &&Table| work.catalog.by_name(&t.name).is_none();
    let fresh: Vec<Table> = schema.tables.iter().filter(unknown).cloned().collect();
    let mut notes = schema.notes;
    notes.extend(begins.then(|| BEGINS.to_owned()));
    notes.extend(schema::kept_sums(&tx, &schema.tables)?);
    notes.extend(schema::feed_notes(&tx, &schema.tables)?);
    notes.extend(numbered(&fresh));
    let large = !again && !fresh.is_empty() && large::is(&tx)?;
    let mut tables = Vec::new();
    if large {
        migrate::begin(&mut work, &fresh)?;
    } else {
        // Folds take care of what a replica shows already, unless foreign keys begin to hold just now.
        let unsure = if again && options.policies.is_empty() { &fresh } else { &schema.tables };
        refuse_dangling(&tx, unsure, &work.policies)?;
        if !fresh.is_empty() {
            migrate::take_in(&mut work, &fresh)?;
        }
        tables = table_reports(&tx, &work.catalog)?;
    }
    let site = work.meta.site;
    capture::guard(&tx, &work.catalog)?;
    settings::announce(&tx, &mut work.meta, now)?;
    work.save()?;
    drop(work);
    tx.commit()?;
    if large {
        tables = large::take_in(conn, path, &fresh, env)?;
    }
    Ok(InitReport { site, tables, skipped: schema.skipped, notes })
}

/// A table that is replicated has rows elsewhere: to leave it out is for all sites to know.
fn refuse_to_exclude(work: &Work<'_>, names: &[String], path: &Path) -> Result<()> {
    let Some(t) = names.iter().find_map(|name| work.catalog.by_name(name)) else { return Ok(()) };
    let mut local = work.policies.list("local_tables");
    local.push(&t.table.name);
    Err(Error::Refused(format!(
        "table {} is replicated already, and --exclude leaves out only what is not. To take it out on all \
         sites: synqlite policy {} local_tables={}",
        t.table.name,
        path.display(),
        local.join(",")
    )))
}

/// What is said where a replica keeps a history only from now on.
const BEGINS: &str = "every change is kept from now on. Of what was before, the history has only what is known \
                      still: the latest write of each cell";

/// So many tables are named where a sentence is of all.
const NAMED: usize = 10;

/// R-REMAP, said before anybody is surprised by it.
fn numbered(tables: &[Table]) -> Option<String> {
    let numbered = |t: &&Table| t.renumbers().is_some();
    let names: Vec<&str> = tables.iter().filter(numbered).map(|t| t.name.as_str()).collect();
    let first = names.first()?;
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "SQLite numbers the rows of {}{more}: where two sites give one number to two rows, the later row \
         gets another when they meet. Declared references follow; a number kept elsewhere, in memory, \
         a URL or on paper, does not. With policy {first}.ids=local no number changes on the site that \
         shows it, and sites may number a row otherwise (docs/guides/ids.md)",
        names[..names.len().min(NAMED)].join(", ")
    ))
}

/// A new site of a database, which knows nothing yet.
pub(crate) fn create(
    conn: &Connection,
    path: &Path,
    database: DatabaseId,
    history: bool,
    env: &dyn Environment,
) -> Result<()> {
    Meta::create(conn, database, Id(env.random()))?;
    meta::set(conn, "instance", env.instance(path))?;
    meta::set(conn, "name", env.site_name().unwrap_or_default())?;
    meta::set(conn, "history", history)
}

/// The replicated tables with the rows that they show.
pub(crate) fn table_reports(conn: &Connection, catalog: &Catalog) -> Result<Vec<TableReport>> {
    let tables = catalog.tables.iter().map(|t| {
        let sql = format!("SELECT count(*) FROM {}", t.target());
        let rows = conn.query_row(&sql, [], |row| row.get(0))?;
        Ok(TableReport { name: t.table.name.clone(), identity: t.table.identity, rows })
    });
    tables.collect()
}

/// The tables to replicate: those asked for, remembered so that `init` run again means the same. One that is
/// asked for is no longer left out.
pub(crate) fn select(
    conn: &Connection,
    policies: &Policies,
    options: &InitOptions,
) -> Result<Schema> {
    let Selection { mut only, mut exclude, .. } = track::chosen(conn)?;
    let among = |names: &[String], name: &str| names.iter().any(|n| n.eq_ignore_ascii_case(name));
    // A replica of all tables but some stays one when it takes in one of these.
    let takes = |t: &&String| !among(&only, t) && (!only.is_empty() || !among(&exclude, t));
    let taken: Vec<String> = options.tables.iter().filter(takes).cloned().collect();
    only.extend(taken);
    exclude.retain(|name| !among(&options.tables, name));
    let left_out: Vec<String> =
        options.exclude.iter().filter(|name| !among(&exclude, name)).cloned().collect();
    exclude.extend(left_out);
    meta::set(conn, "only", only.join("\n"))?;
    meta::set(conn, "exclude", exclude.join("\n"))?;
    let (asked, left_out) = (options.tables.clone(), options.exclude.clone());
    if !asked.is_empty() || !left_out.is_empty() {
        // What was asked for before may have been dropped since.
        let asked = Selection { only: asked, exclude: left_out, strict: true };
        schema::read(conn, &Policies::default(), &asked)?;
    }
    schema::read(conn, policies, &Selection { only, exclude, strict: false })
}

/// R-FK-MODE: tables that already have dangling references cannot promise that none ever dangle.
fn refuse_dangling(conn: &Connection, tables: &[Table], policies: &Policies) -> Result<()> {
    if !policies.enforces_foreign_keys() {
        return Ok(());
    }
    for table in tables.iter().filter(|t| t.foreign_keys.iter().any(|fk| fk.enforced)) {
        let sql = format!("PRAGMA main.foreign_key_check({})", schema::quote(&table.name));
        let checked = conn.prepare(&sql).and_then(|mut statement| {
            let rows: Vec<()> = statement.query_map([], |_| Ok(()))?.collect::<Result<_, _>>()?;
            Ok(rows.len())
        });
        match checked {
            Ok(0) => {}
            Ok(rows) => return Err(Error::Dangling { table: table.name.clone(), rows }),
            // Beside one that can be kept the table declares one that cannot.
            Err(e) if e.to_string().contains("mismatch") => {
                return Err(Error::Refused(format!(
                    "{e}: SQLite writes nothing to such a table while foreign keys are on. Repair the declaration, \
                 or use --policy fk=ignore"
                )));
            }
            Err(e) => return Err(e.into()),
        }
        for fk in table.foreign_keys.iter().filter(|fk| fk.enforced) {
            refuse_doubles(conn, table, fk)?;
        }
    }
    Ok(())
}

/// Floating-point numbers that refer to texts, of which SQLite's versions differ.
fn refuse_doubles(conn: &Connection, table: &Table, fk: &ForeignKey) -> Result<()> {
    for (&c, (parent, _)) in fk.columns.iter().zip(&fk.parent_keys) {
        if *parent != Affinity::Text {
            continue;
        }
        let column = schema::quote(&table.columns[c].name);
        let (target, none) = (schema::quote(&table.name), equal::means_none_sql(&column));
        let known = |&c: &usize| format!("{} NOT NULL", schema::quote(&table.columns[c].name));
        let all = fk.columns.iter().map(known).collect::<Vec<_>>().join(" AND ");
        let sql = format!("SELECT count(*) FROM main.{target} WHERE {none} AND {all}");
        let rows: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
        if rows > 0 {
            let (table, column) = (table.name.clone(), table.columns[c].name.clone());
            return Err(Error::Doubles { table, column, rows: rows.unsigned_abs() });
        }
    }
    Ok(())
}

/// Catches up with the schema of a copy. One made row by row, as from a dump, may have placed rows
/// elsewhere than its metadata says.
fn refuse_unlike(work: &mut Work<'_>, path: &Path) -> Result<()> {
    let mut found = || {
        migrate::catch_up(work)?;
        capture::guard(work.conn, &work.catalog)?;
        work.save()?;
        verify::unsound(work.conn, work.env)
    };
    let problem = match found() {
        Ok(problems) => problems.into_iter().next(),
        Err(Error::Damaged(why)) => Some(why),
        Err(e) => return Err(e),
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(Error::Refused(format!(
            "{} is no faithful copy: {problem}. Make it with synqlite clone",
            path.display()
        ))),
    }
}
