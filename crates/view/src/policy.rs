//! What decides how rows merge (`synqlite policy`).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Value of the policy that makes a column a counter.
pub const COUNTER: &str = "counter";

/// A text that is no policy.
#[derive(Clone, Debug, thiserror::Error)]
#[error("policy {key}={value}: {why}")]
pub struct BadPolicy {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What is wrong.
    pub why: String,
}

/// A policy that means something: this version acts on its key and its value. Whether the tables
/// and columns that it names are there is told when it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    key: String,
    value: String,
}

impl Policy {
    /// Checks a key and a value.
    pub fn new(key: &str, value: &str) -> Result<Policy, BadPolicy> {
        check(key, value)?;
        Ok(Policy { key: key.to_owned(), value: value.to_owned() })
    }

    /// What it is about: `T.identity`, `T.refs`, `local_tables`, …
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What it says.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Reads `KEY=VALUE`.
impl FromStr for Policy {
    type Err = BadPolicy;

    fn from_str(text: &str) -> Result<Policy, BadPolicy> {
        let (key, value) = text.split_once('=').ok_or_else(|| BadPolicy {
            key: text.to_owned(),
            value: String::new(),
            why: "write it as KEY=VALUE".to_owned(),
        })?;
        Policy::new(key, value)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// All policies that were set, by key. Some may be of a newer version, which this one does not act on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(BTreeMap<String, String>);

impl Policies {
    /// Each with its value, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

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

    /// Tables whose rows each site numbers for itself, as (key, table): `T.ids=local` (R-OWN).
    pub fn own_numbers(&self) -> impl Iterator<Item = (&str, &str)> {
        let set = self.0.iter().filter(|(_, value)| *value == "local");
        set.filter_map(|(key, _)| Some((key.as_str(), key.strip_suffix(".ids")?)))
    }

    /// Whether all that a merge brings comes in one transaction, however much it is: `merge=whole`.
    pub fn merges_whole(&self) -> bool {
        self.get("merge") == Some("whole")
    }

    /// Sets more of them.
    pub fn add(&mut self, set: &[Policy]) {
        self.0.extend(set.iter().map(|policy| (policy.key.clone(), policy.value.clone())));
    }
}

/// By key and value, checked or not: a file may hold those of a newer version.
impl FromIterator<(String, String)> for Policies {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(all: I) -> Policies {
        Policies(all.into_iter().collect())
    }
}

/// Refuses a policy whose key or value this version does not act on. Names of tables and columns
/// are checked where the schema is read.
fn check(key: &str, value: &str) -> Result<(), BadPolicy> {
    let last = key.rsplit_once('.').map(|(_, last)| last);
    let wrong = |why: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        Err(BadPolicy { key, value, why: why.to_owned() })
    };
    match (key, last) {
        ("fk", _) if matches!(value, "enforce" | "ignore") => Ok(()),
        ("fk", _) => wrong("it is `enforce` or `ignore`"),
        ("merge", _) if matches!(value, "slices" | "whole") => Ok(()),
        ("merge", _) => wrong("it is `slices` or `whole`"),
        ("local_tables" | "replicate_tables" | "fire_on_merge", _) => Ok(()),
        (_, Some("identity")) if matches!(value, "key" | "birth") => Ok(()),
        (_, Some("identity")) => wrong("it is `key` or `birth`"),
        (_, Some("refs")) => Ok(()),
        (_, Some("on_unique")) if matches!(value, "quarantine" | "unify") => Ok(()),
        (_, Some("on_unique")) => wrong("it is `quarantine` or `unify`"),
        (_, Some(_)) if value == COUNTER => Ok(()),
        (_, Some("ids")) if matches!(value, "shared" | "local") => Ok(()),
        (_, Some("ids")) => wrong("it is `shared` or `local`"),
        (_, Some("delete")) if matches!(value, "wins" | "last") => Ok(()),
        (_, Some("delete")) => wrong("it is `wins` or `last`"),
        _ if value.ends_with("=counter") => {
            wrong("KEY=VALUE cannot name a column that has = in its name")
        }
        _ => wrong(
            "known keys are T.identity, T.ids, T.on_unique, T.delete, T.refs, fk, merge, \
             local_tables, replicate_tables and fire_on_merge; a column T.C can be `counter`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_they_were_read() {
        let known = [
            "fk=ignore",
            "merge=whole",
            "t.identity=key",
            "t.ids=local",
            "t.n=counter",
            "t.refs=a:b",
            "local_tables=a, b",
        ];
        for text in known.into_iter().chain(["local_tables=", "t.refs=a:b=c"]) {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
        let said = "t.a=b=counter".parse::<Policy>().unwrap_err().to_string();
        assert!(said.contains("has = in its name"), "{said}");
        for text in
            ["fk", "fk=maybe", "t.identity=", "t.colour=red", "=", "t.delete=never", "t.ids=mine"]
        {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("policy {text}")), "{error}");
        }
    }
}
