//! What settings tell of other names that things got (R-MIG-RENAME).

use super::{APART, RENAMED};
use crate::Result;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// The names that tables got later, as sites have told.
#[derive(Default)]
pub struct TableNames {
    /// First names by later ones, which are in small letters.
    firsts: BTreeMap<String, BTreeSet<String>>,
    /// Later names, in small letters, of tables that are others after all.
    apart: BTreeSet<String>,
}

impl TableNames {
    pub fn load(conn: &Connection) -> Result<TableNames> {
        let mut names = TableNames::default();
        let renamed = pairs(conn, &format!("{RENAMED}\n"))?;
        if renamed.is_empty() {
            return Ok(names);
        }
        let apart: BTreeSet<_> = pairs(conn, &format!("{APART}\n"))?.into_iter().collect();
        for pair in renamed {
            let later = pair.1.to_ascii_lowercase();
            match apart.contains(&pair) {
                true => drop(names.apart.insert(later)),
                false => drop(names.firsts.entry(later).or_default().insert(pair.0)),
            }
        }
        Ok(names)
    }

    /// The first name of a table. Of one that several tables were renamed to it cannot be told: that is one
    /// more table.
    pub fn first<'n>(&'n self, name: &'n str) -> &'n str {
        let (mut seen, mut way) = (BTreeMap::new(), vec![name]);
        let mut roots = BTreeMap::new();
        while let Some(next) = way.pop() {
            let small = next.to_ascii_lowercase();
            match self.firsts.get(&small) {
                Some(firsts) => {
                    if seen.insert(small, next).is_none() {
                        way.extend(firsts.iter().map(|first| &**first));
                    }
                }
                None => drop(roots.insert(small, next)),
            }
        }
        match (roots.len(), roots.pop_first(), seen.pop_first()) {
            (1, Some((_, root)), _) => root,
            // Renamed, and renamed back.
            (0, _, Some((_, least))) => least,
            _ => name,
        }
    }

    /// The later names of a table that goes by this first one.
    pub fn all<'n>(&'n self, first: &'n str) -> impl Iterator<Item = &'n str> {
        let is = move |later: &&String| {
            !later.eq_ignore_ascii_case(first) && self.first(later).eq_ignore_ascii_case(first)
        };
        self.firsts.keys().filter(is).map(|later| &**later)
    }

    /// Whether a table of this name was told to be another than the one renamed so.
    pub fn is_apart(&self, name: &str) -> bool {
        self.apart.contains(&name.to_ascii_lowercase())
    }
}

/// First and later names that all settings tell of whose keys begin so, in the order of their keys.
pub fn pairs(conn: &Connection, begin: &str) -> Result<Vec<(String, String)>> {
    let sql = "SELECT substr(key, length(?1) + 1) FROM synqlite_policy \
               WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([begin], |row| row.get::<_, String>(0))?;
    let mut pairs = Vec::new();
    for rest in rows {
        let rest = rest?;
        pairs.extend(rest.split_once('\n').map(|(first, later)| (first.into(), later.into())));
    }
    Ok(pairs)
}
