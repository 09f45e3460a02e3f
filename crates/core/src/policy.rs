//! Replicated settings that decide how rows merge (`synqlite policy`). Last writer wins.

mod names;

use crate::meta::Meta;
use crate::{Error, Result, renames};
use names::Names;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use synqlite_wire::{Hlc, Setting, Stamp, VersionVector};

/// Value of the policy that makes a column a counter.
pub const COUNTER: &str = "counter";

/// All policies that were set, by key: `T.identity`, `T.refs`, `local_tables`, …
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(pub BTreeMap<String, String>);

impl Policies {
    /// The value set for `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of policy `key` of one table; table names compare as in SQLite.
    pub fn of_table(&self, table: &str, key: &str) -> Option<&str> {
        let wanted = format!("{table}.{key}");
        let found = self.0.iter().find(|(k, _)| k.eq_ignore_ascii_case(&wanted));
        found.map(|(_, value)| value.as_str())
    }

    /// A comma-separated value as a list; empty if the policy is not set.
    pub fn list(&self, key: &str) -> Vec<&str> {
        let items = self.get(key).into_iter().flat_map(|v| v.split(','));
        items.map(str::trim).filter(|v| !v.is_empty()).collect()
    }

    /// Whether declared foreign keys are enforced by merges: `fk=enforce`, the default.
    pub fn enforces_foreign_keys(&self) -> bool {
        self.get("fk") != Some("ignore")
    }

    /// Whether rows that refer to a row which lost a unique key show its winner (R-UNIFY).
    pub fn unifies(&self, table: &str) -> bool {
        self.of_table(table, "on_unique") == Some("unify")
    }

    /// Columns that are counters, as (key, table, column): `T.column=counter` (R-COUNTER).
    pub fn counters(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let set = self.0.iter().filter(|(_, value)| *value == COUNTER);
        set.filter_map(|(key, _)| {
            let (table, column) = key.rsplit_once('.')?;
            Some((key.as_str(), table, column))
        })
    }

    /// Whether a row that one site deletes and another updates later stays (`T.delete=last`).
    pub fn last_write_decides(&self, table: &str) -> bool {
        self.of_table(table, "delete") == Some("last")
    }

    /// Reads the policies of a replica.
    pub fn load(conn: &Connection) -> Result<Policies> {
        let mut statement = conn.prepare_cached("SELECT key, value FROM synqlite_policy")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows = rows.collect::<Result<Vec<(String, String)>, _>>()?;
        let rows = rows.into_iter().filter(|(key, _)| !key.starts_with(renames::PREFIX));
        let rows: Vec<(String, String)> = rows.collect();
        if rows.is_empty() {
            return Ok(Policies::default());
        }
        let names = Names::load(conn)?;
        Ok(Policies(rows.iter().map(|(key, value)| names.here(key, value)).collect()))
    }

    /// Adds `KEY=VALUE` settings after checking that each means something.
    pub fn add(&mut self, settings: &[(String, String)]) -> Result<()> {
        for (key, value) in settings {
            check(key, value)?;
            self.0.insert(key.clone(), value.clone());
        }
        Ok(())
    }
}

/// Refuses a policy whose key or value this version does not act on. Names of tables and columns
/// are checked where the schema is read.
fn check(key: &str, value: &str) -> Result<()> {
    let last = key.rsplit_once('.').map(|(_, last)| last);
    let wrong = |why: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        Err(Error::Policy { key, value, why: why.to_owned() })
    };
    match (key, last) {
        ("fk", _) if matches!(value, "enforce" | "ignore") => Ok(()),
        ("fk", _) => wrong("it is `enforce` or `ignore`"),
        ("local_tables" | "replicate_tables" | "fire_on_merge", _) => Ok(()),
        (_, Some("identity")) if matches!(value, "key" | "birth") => Ok(()),
        (_, Some("identity")) => wrong("it is `key` or `birth`"),
        (_, Some("refs")) => Ok(()),
        (_, Some("on_unique")) if matches!(value, "quarantine" | "unify") => Ok(()),
        (_, Some("on_unique")) => wrong("it is `quarantine` or `unify`"),
        (_, Some(_)) if value == COUNTER => Ok(()),
        (_, Some("delete")) if matches!(value, "wins" | "last") => Ok(()),
        (_, Some("delete")) => wrong("it is `wins` or `last`"),
        _ => wrong(
            "known keys are T.identity, T.on_unique, T.delete, T.refs, fk, local_tables, \
             replicate_tables and fire_on_merge; a column T.C can be `counter`",
        ),
    }
}

/// Refuses a policy about a table or trigger that is not there. Only where it is set: it may reach a
/// site before the schema change that goes with it.
pub fn check_names(conn: &Connection, key: &str, value: &str) -> Result<()> {
    let sql = "SELECT 1 FROM main.sqlite_master WHERE type = ?1 AND name = ?2 COLLATE NOCASE";
    let mut statement = conn.prepare_cached(sql)?;
    let mut need = |kind: &str, name: &str| match statement.exists(params![kind, name])? {
        true => Ok(()),
        false => {
            let (key, value) = (key.to_owned(), value.to_owned());
            Err(Error::Policy { key, value, why: format!("there is no {kind} {name}") })
        }
    };
    if let Some(table) = key.strip_suffix(".on_unique").or(key.strip_suffix(".delete")) {
        need("table", table)?;
    }
    if key == "fire_on_merge" {
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.into_iter().try_for_each(|name| need("trigger", name))?;
    }
    Ok(())
}

/// A policy as all sites know it: with the canonical names of its tables and columns (R-MIG-RENAME).
pub fn canonical(conn: &Connection, key: &str, value: &str) -> Result<(String, String)> {
    Ok(Names::load(conn)?.canonical(key, value))
}

/// Stores one setting if it is later than what is there. Returns whether it was.
pub fn store(conn: &Connection, meta: &mut Meta, setting: &Setting) -> Result<bool> {
    let site = meta.number(conn, setting.stamp.site)?;
    let mut statement =
        conn.prepare_cached("SELECT hlc, site FROM synqlite_policy WHERE key = ?1")?;
    let mut rows = statement.query([&setting.key])?;
    if let Some(row) = rows.next()? {
        let old = Stamp { hlc: Hlc(row.get(0)?), site: meta.site_of(row.get(1)?)? };
        if old >= setting.stamp {
            return Ok(false);
        }
    }
    let sql =
        "INSERT OR REPLACE INTO synqlite_policy(key, value, hlc, site) VALUES(?1, ?2, ?3, ?4)";
    let row = params![setting.key, setting.value, setting.stamp.hlc.0, site];
    conn.prepare_cached(sql)?.execute(row)?;
    Ok(true)
}

/// Settings that a site which has seen `base` lacks.
pub fn settings_since(
    conn: &Connection,
    meta: &Meta,
    base: &VersionVector,
) -> Result<Vec<Setting>> {
    let mut statement =
        conn.prepare_cached("SELECT key, value, hlc, site FROM synqlite_policy ORDER BY key")?;
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let stamp = Stamp { hlc: Hlc(row.get(2)?), site: meta.site_of(row.get(3)?)? };
        if !base.covers(stamp) {
            out.push(Setting { key: row.get(0)?, value: row.get(1)?, stamp });
        }
    }
    Ok(out)
}
