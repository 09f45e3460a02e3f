//! Replicated settings that decide how rows merge (`synqlite policy`).

use std::collections::BTreeMap;

/// All policies that differ from their default, by key: `T.identity`, `T.refs`, `local_tables`, …
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(pub BTreeMap<String, String>);

impl Policies {
    /// The value set for `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of policy `key` of one table.
    pub fn of_table(&self, table: &str, key: &str) -> Option<&str> {
        self.get(&format!("{table}.{key}"))
    }

    /// A comma-separated value as a list; empty if the policy is not set.
    pub fn list(&self, key: &str) -> Vec<&str> {
        self.get(key)
            .into_iter()
            .flat_map(|v| v.split(','))
            .map(str::trim)
            .filter(|v| !v.is_empty())
            .collect()
    }

    /// Whether declared foreign keys are enforced by merges: `fk=enforce`, the default.
    pub fn enforces_foreign_keys(&self) -> bool {
        self.get("fk") != Some("ignore")
    }
}
