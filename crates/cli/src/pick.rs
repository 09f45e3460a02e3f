//! Which open records a command is about.

use crate::error::{CommandError, Result};
use std::collections::BTreeSet;
use synqlite_core::rusqlite::{Connection, Error, params_from_iter, types};
use synqlite_core::{Conflict, ConflictKind, Replica, SiteId, SiteNames, Value};
use synqlite_front::moment::point_of_time;

/// What they have in common; all of them if nothing is said.
#[derive(clap::Args)]
pub struct Pick {
    /// Only records of this table.
    #[arg(long, value_name = "T")]
    table: Option<String>,
    /// Only records of this kind, such as `unique`, `fallback` or `fk_cascade`.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only records of rows that this site wrote: its name, or the first digits of its id.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Only records of rows that were written here.
    #[arg(long)]
    mine: bool,
    /// Only records of rows written since: `2026-11-20 12:18` in UTC, or how long ago: `90s`, `10m`, `2h`,
    /// `7d`.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only records whose row, as it was written, fulfils this condition in SQL; needs --table.
    #[arg(long = "where", value_name = "SQL", requires = "table")]
    condition: Option<String>,
}

impl Pick {
    /// Whether nothing is said.
    pub fn is_all(&self) -> bool {
        let Pick { table, kind, site, mine, since, condition } = self;
        let said = [table, kind, site, since, condition].iter().any(|said| said.is_some());
        !said && !mine
    }

    /// Leaves those that it says.
    pub fn choose(
        &self,
        replica: &Replica,
        sites: &SiteNames,
        conflicts: &mut Vec<Conflict>,
    ) -> Result<()> {
        if let Some(table) = &self.table {
            replica.check_table(table)?;
        }
        if let Some(kind) = &self.kind {
            known_kind(kind, conflicts)?;
        }
        let since = self.since.as_deref().map(point_of_time);
        let since = since.transpose()?;
        let same = |said: &Option<String>, is: &str| {
            said.as_ref().is_none_or(|said| said.eq_ignore_ascii_case(is))
        };
        let by = |site: SiteId| match &self.site {
            Some(said) => {
                sites.short(site) == *said || site.to_string().starts_with(&said.to_lowercase())
            }
            None => true,
        };
        let here = replica.site();
        if let Some(said) = self.site.as_ref().filter(|_| !by(here)) {
            let mut seen = replica.seen()?.0.into_keys();
            let of = |c: &Conflict| c.sites.iter().any(|(site, _)| by(*site));
            if !seen.any(by) && !conflicts.iter().any(of) {
                let error = CommandError::usage(format!("no site is called `{said}`"));
                return Err(error.hint("See: synqlite log; it names the sites that wrote"));
            }
        }
        conflicts.retain(|c| {
            same(&self.table, &c.table)
                && same(&self.kind, c.kind.as_str())
                && c.sites.iter().any(|(site, _)| by(*site))
                && (!self.mine || c.sites.iter().any(|(site, _)| *site == here))
                && since.is_none_or(|since| c.sites.iter().any(|(_, at)| *at >= since))
        });
        match &self.condition {
            Some(condition) => fulfil(condition, conflicts),
            None => Ok(()),
        }
    }
}

/// Refuses a kind that no program knows, and tells which are there.
fn known_kind(said: &str, conflicts: &[Conflict]) -> Result<()> {
    let here: BTreeSet<&str> = conflicts.iter().map(|c| c.kind.as_str()).collect();
    let kind = ConflictKind::from(said.to_ascii_lowercase().as_str());
    if !matches!(kind, ConflictKind::Other(_)) || here.iter().any(|k| k.eq_ignore_ascii_case(said))
    {
        return Ok(());
    }
    let error = CommandError::usage(format!("`{said}` is no kind of conflict"));
    let here: Vec<&str> = here.into_iter().collect();
    Err(match here.is_empty() {
        true => error,
        false => error.hint(format!("Open ones are of these kinds: {}", here.join(", "))),
    })
}

/// Leaves the records whose rows, as they were written, fulfil a condition. They are all of one table.
fn fulfil(condition: &str, conflicts: &mut Vec<Conflict>) -> Result<()> {
    let Some(first) = conflicts.first() else { return Ok(()) };
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns: Vec<String> = first.displaced.iter().map(|(name, _)| quote(name)).collect();
    let (table, marks) = (quote(&first.table), vec!["?"; columns.len() + 1].join(", "));
    let conn = Connection::open_in_memory()?;
    conn.execute_batch(&format!(
        "CREATE TABLE {table}(synqlite_record INTEGER, {})",
        columns.join(", ")
    ))?;
    let mut insert = conn.prepare(&format!("INSERT INTO {table} VALUES({marks})"))?;
    for (no, conflict) in (0..).zip(conflicts.iter()) {
        let values = conflict.displaced.iter().map(|(_, value)| sql_value(value));
        insert.execute(params_from_iter([types::Value::Integer(no)].into_iter().chain(values)))?;
    }
    let wrong = |e: Error| {
        let what = e.to_string();
        // Some builds of rusqlite tell the statement too, of which nobody here knows.
        let what = what.split(" in SELECT synqlite_record").next().unwrap_or_default();
        CommandError::usage(format!("--where: {what}"))
            .hint("It is a condition on the columns of the table, such as \"city = 'Oslo'\"")
    };
    let rows = format!("SELECT synqlite_record FROM {table} WHERE");
    // In parentheses it is one condition and nothing after it; without them it closes none that it did not open.
    conn.prepare(&format!("{rows} {condition}")).map_err(wrong)?;
    let mut select = conn.prepare(&format!("{rows} ({condition}\n)")).map_err(wrong)?;
    let found = select.query_map([], |row| row.get(0)).map_err(wrong)?;
    let found = found.collect::<Result<BTreeSet<i64>, _>>().map_err(wrong)?;
    let mut no = -1;
    conflicts.retain(|_| {
        no += 1;
        found.contains(&no)
    });
    Ok(())
}

fn sql_value(value: &Value) -> types::Value {
    match value {
        Value::Null => types::Value::Null,
        Value::Integer(i) => types::Value::Integer(*i),
        Value::Real(r) => types::Value::Real(*r),
        // What is no UTF-8 is compared by what can be read of it.
        Value::Text(t) => types::Value::Text(String::from_utf8_lossy(t).into_owned()),
        Value::Blob(b) => types::Value::Blob(b.to_vec()),
    }
}
