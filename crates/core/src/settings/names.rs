//! Names in policies: the application's here, the canonical ones everywhere else (R-MIG-RENAME).

use super::renamed::TableNames;
use crate::Result;
use crate::capture::{self, columns_of};
use crate::policy::COUNTER;
use rusqlite::Connection;

/// A name here, and the one by which all sites know the same thing.
struct Name {
    here: String,
    canonical: String,
    /// Others that it had on sites which did not know the canonical one.
    later: Vec<String>,
}

/// A replicated table and its columns, the latest first.
struct Table {
    name: Name,
    no: u32,
    columns: Vec<Name>,
}

/// Which name of a thing stands in a policy.
#[derive(Clone, Copy)]
enum Spoken {
    Here,
    Canonical,
}

/// The names of all tables that policies may speak of.
pub(super) struct Names(Vec<Table>);

impl Names {
    /// As the triggers tell: SQLite rewrites the names in them when something is renamed.
    pub fn load(conn: &Connection) -> Result<Names> {
        let mut statement =
            conn.prepare_cached("SELECT no, name, canonical FROM synqlite_table")?;
        let all = TableNames::load(conn)?;
        let known = statement.query_map([], |row| {
            let canonical: String = row.get(2)?;
            let later = all.all(&canonical).map(str::to_owned).collect();
            let name = Name { here: row.get(1)?, canonical, later };
            Ok(Table { name, no: row.get(0)?, columns: vec![] })
        })?;
        let mut tables = known.collect::<rusqlite::Result<Vec<Table>>>()?;
        let sql =
            "SELECT tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' AND name = ?1";
        let mut trigger = conn.prepare_cached(sql)?;
        let sql = "SELECT no, name, canonical FROM synqlite_column \
                   WHERE tbl = ?1 AND name IS NOT NULL ORDER BY no DESC";
        let mut columns = conn.prepare_cached(sql)?;
        for table in &mut tables {
            let mut told = trigger.query([capture::own_name("delete", table.no)])?;
            let mut renamed = Default::default();
            if let Some(row) = told.next()? {
                table.name.here = row.get(0)?;
                renamed = columns_of(&row.get::<_, String>(1)?);
            }
            let column = |row: &rusqlite::Row<'_>| {
                let here = match renamed.get(&row.get(0)?) {
                    Some(name) => name.clone(),
                    None => row.get(1)?,
                };
                Ok(Name { here, canonical: row.get(2)?, later: vec![] })
            };
            table.columns = columns.query_map([table.no], column)?.collect::<Result<_, _>>()?;
        }
        Ok(Names(tables))
    }

    /// A policy in the names of this site.
    pub fn here(&self, key: &str, value: &str) -> (String, String) {
        self.said(key, value, Spoken::Canonical)
    }

    /// A policy in the names that all sites know.
    pub fn canonical(&self, key: &str, value: &str) -> (String, String) {
        self.said(key, value, Spoken::Here)
    }

    fn said<'t>(&'t self, key: &'t str, value: &str, now: Spoken) -> (String, String) {
        let named = |t: &'t Table| Some((t, within(key, t.name.now(now))?));
        let later = |t: &'t Table| {
            let mut names = t.name.later(now).iter();
            names.find_map(|name| Some((t, within(key, name)?)))
        };
        let found = self.0.iter().find_map(named).or_else(|| self.0.iter().find_map(later));
        let Some((table, rest)) = found else { return (key.into(), value.into()) };
        let column = |name: &str| other(&table.columns, name.trim(), now);
        let parent = |name: &str| other(self.0.iter().map(|t| &t.name), name.trim(), now);
        let named = if value == COUNTER { column(rest) } else { rest.to_owned() };
        let reference = |part: &str| match part.split_once(':') {
            Some((child, to)) => format!("{}:{}", column(child), parent(to)),
            None => part.to_owned(),
        };
        let value = match rest {
            "refs" => value.split(',').map(reference).collect::<Vec<_>>().join(","),
            _ => value.to_owned(),
        };
        (format!("{}.{named}", table.name.then(now)), value)
    }
}

impl Name {
    fn now(&self, spoken: Spoken) -> &str {
        match spoken {
            Spoken::Here => &self.here,
            Spoken::Canonical => &self.canonical,
        }
    }

    /// What else it is called.
    fn later(&self, spoken: Spoken) -> &[String] {
        match spoken {
            Spoken::Here => &[],
            Spoken::Canonical => &self.later,
        }
    }

    /// The other name.
    fn then(&self, spoken: Spoken) -> &str {
        match spoken {
            Spoken::Here => &self.canonical,
            Spoken::Canonical => &self.here,
        }
    }
}

/// The other name of what is called `name`; a name that nothing has stays.
fn other<'n>(names: impl IntoIterator<Item = &'n Name>, name: &str, now: Spoken) -> String {
    let names: Vec<&Name> = names.into_iter().collect();
    let is = |called: &str| called.eq_ignore_ascii_case(name);
    let found = names.iter().find(|n| is(n.now(now)));
    let found = found.or_else(|| names.iter().find(|n| n.later(now).iter().any(|l| is(l))));
    found.map_or(name, |n| n.then(now)).to_owned()
}

/// What follows the name of a table and a dot in a key.
fn within<'k>(key: &'k str, table: &str) -> Option<&'k str> {
    let head = key.get(..table.len())?;
    key[table.len()..].strip_prefix('.').filter(|_| head.eq_ignore_ascii_case(table))
}
