//! Policies as they are stored: replicated settings, of which the last writer wins.

mod names;
pub mod renamed;

use crate::meta::{self, Meta, SITE};
use crate::policy::{Policies, Policy};
use crate::{Error, Result};
use names::Names;
use rusqlite::{Connection, params};
use synqlite_wire::{Hlc, Setting, Stamp, VersionVector};

/// Keys of settings that tell of renamed columns begin so; no policy does.
pub const RENAMED: &str = "renamed\n";

/// Keys of settings that tell which of those names are of two columns after all.
pub const APART: &str = "apart\n";

/// Reads the policies of a replica.
pub fn load(conn: &Connection) -> Result<Policies> {
    // Of two under names that are of one table now the later one holds.
    let sql = "SELECT key, value FROM synqlite_policy ORDER BY hlc, key";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows = rows.collect::<Result<Vec<(String, String)>, _>>()?;
    let rows = rows
        .into_iter()
        .filter(|(key, _)| ![RENAMED, APART, SITE].iter().any(|begin| key.starts_with(begin)));
    let rows: Vec<(String, String)> = rows.collect();
    if rows.is_empty() {
        return Ok(Policies::default());
    }
    let names = Names::load(conn)?;
    Ok(rows.iter().map(|(key, value)| names.here(key, value)).collect())
}

/// Whether any setting was ever made whose key ends so.
pub fn any_of(conn: &Connection, end: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_policy WHERE substr(key, -length(?1)) = ?1";
    Ok(conn.prepare_cached(sql)?.exists([end])?)
}

/// Refuses a policy about a table or trigger that is not there. Only where it is set: it may reach a
/// site before the schema change that goes with it.
pub fn check_names(conn: &Connection, policy: &Policy) -> Result<()> {
    let (key, value) = (policy.key(), policy.value());
    let sql = "SELECT 1 FROM main.sqlite_master WHERE type = ?1 AND name = ?2 COLLATE NOCASE";
    let mut statement = conn.prepare_cached(sql)?;
    let mut need = |kind: &str, name: &str| match statement.exists(params![kind, name])? {
        true => Ok(()),
        false => {
            let (key, value) = (key.to_owned(), value.to_owned());
            Err(Error::Policy { key, value, why: format!("there is no {kind} {name}") })
        }
    };
    let table = |rest| key.strip_suffix(rest);
    if let Some(table) = table(".on_unique").or(table(".delete")).or(table(".ids")) {
        need("table", table)?;
    }
    if key == "fire_on_merge" {
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.into_iter().try_for_each(|name| need("trigger", name))?;
    }
    Ok(())
}

/// A policy as all sites know it: with the canonical names of its tables and columns (R-MIG-RENAME).
pub fn canonical(conn: &Connection, policy: &Policy) -> Result<(String, String)> {
    Ok(Names::load(conn)?.canonical(policy.key(), policy.value()))
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

/// Tells others what this site is called, once it has something else to tell. Returns whether it was news.
pub fn announce(conn: &Connection, meta: &mut Meta, now_ms: i64) -> Result<bool> {
    let name: Option<String> = meta::get(conn, "name")?;
    let told = |name: &String| !name.is_empty() && meta.seen.get(meta.site) > Hlc::ZERO;
    let Some(name) = name.filter(told) else { return Ok(false) };
    let key = format!("{SITE}{}", meta.site);
    let number = meta.number(conn, meta.site)?;
    let sql = "SELECT 1 FROM synqlite_policy WHERE key = ?1 AND value = ?2 AND site = ?3";
    if conn.prepare_cached(sql)?.exists(params![key, name, number])? {
        return Ok(false);
    }
    meta.local_seq += 1;
    let stamp = meta.tick(now_ms);
    store(conn, meta, &Setting { key, value: name, stamp })
}

/// Settings that a site which has seen `base` lacks.
pub fn since(conn: &Connection, meta: &Meta, base: &VersionVector) -> Result<Vec<Setting>> {
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
