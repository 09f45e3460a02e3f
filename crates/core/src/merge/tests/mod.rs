mod blueprints;
mod random;
mod shapes;

use super::row_validator::RowValidator;
use crate::catalog::Catalog;
use crate::fixture::Site;
use crate::init::InitOptions;
use crate::policy::{Policies, Policy};
use rusqlite::Connection;
use synqlite_view::catalog::Relation;
use synqlite_view::facts::Verdict;
use synqlite_view::memory::{self, Ground};
use synqlite_view::{Error, Result};
use synqlite_wire::Value;

/// A schema as a replica has it.
struct Base {
    catalog: Catalog,
    policies: Policies,
    conn: Connection,
    _file: Site,
}

impl Base {
    fn new(sql: &str, policies: &Policies) -> Base {
        let policies = policies.iter().map(|(k, v)| Policy::new(k, v).unwrap()).collect();
        let file = Site::with(sql, &InitOptions { policies, ..InitOptions::default() });
        let catalog = file.replica.read(|_, _, loaded| Ok(loaded.catalog.clone())).unwrap();
        let conn = Connection::open(&file.path).unwrap();
        Base { catalog, policies: file.replica.policies().unwrap(), conn, _file: file }
    }

    fn validator(&self) -> Sqlite<'_> {
        Sqlite { catalog: &self.catalog, validator: RowValidator::new(&self.conn) }
    }

    /// What replicas in memory share, where SQLite judges their rows.
    fn ground<'a>(&'a self, validator: &'a Sqlite<'a>) -> Ground<'a> {
        Ground { catalog: &self.catalog, policies: &self.policies, validator }
    }
}

/// SQLite as the validator of rows that are in memory.
struct Sqlite<'a> {
    catalog: &'a Catalog,
    validator: RowValidator<'a>,
}

impl Sqlite<'_> {
    fn table(&self, t: &Relation) -> Result<&crate::catalog::Tracked> {
        let position = self.catalog.position_of_no(t.no);
        let unknown = || Error::Damaged(format!("table {} is unknown", t.table.name));
        position.map(|position| &self.catalog.tables[position]).ok_or_else(unknown)
    }
}

impl memory::RowValidator for Sqlite<'_> {
    fn row(&self, t: &Relation, row: &[Value]) -> Result<Verdict> {
        Ok(self.validator.row(self.table(t)?, row)?)
    }

    fn default(&self, t: &Relation, column: usize) -> Result<Value> {
        Ok(self.validator.default(self.table(t)?, column)?)
    }
}
