//! What decides how rows merge (`synqlite policy`).

use std::collections::BTreeMap;

/// Value of the policy that makes a column a counter.
pub const COUNTER: &str = "counter";

/// A policy that means nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[error("policy {key}={value}: {why}")]
pub struct Meaningless {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What is wrong.
    pub why: String,
}

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

    /// Adds `KEY=VALUE` settings after checking that each means something.
    pub fn add(&mut self, settings: &[(String, String)]) -> Result<(), Meaningless> {
        for (key, value) in settings {
            check(key, value)?;
            self.0.insert(key.clone(), value.clone());
        }
        Ok(())
    }
}

/// Refuses a policy whose key or value this version does not act on. Names of tables and columns
/// are checked where the schema is read.
fn check(key: &str, value: &str) -> Result<(), Meaningless> {
    let last = key.rsplit_once('.').map(|(_, last)| last);
    let wrong = |why: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        Err(Meaningless { key, value, why: why.to_owned() })
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
