//! The conflict records of a replica: those that are open, and those that were.

use crate::Result;
use crate::closed::{self, Closed};
use crate::records::{self, Conflict};
use crate::refs::Lookup;
use crate::replica::Replica;

impl Replica {
    /// How many records are open.
    pub fn open_conflicts(&self) -> Result<u64> {
        self.read(|conn, _, loaded| {
            let sql = "SELECT tbl, count(*) FROM synqlite_row WHERE kind IS NOT NULL GROUP BY tbl";
            let mut statement = conn.prepare(sql)?;
            let counts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let counts = counts.collect::<Result<Vec<(u32, i64)>, _>>()?;
            // States of a dropped table stay, for others may need them, and nobody can settle its records.
            let here = counts.iter().filter(|(no, _)| loaded.catalog.position_of_no(*no).is_some());
            Ok(here.map(|(_, count)| count.unsigned_abs()).sum())
        })
    }

    /// The open records, in order of table and row.
    pub fn conflicts(&self) -> Result<Vec<Conflict>> {
        self.read(|conn, meta, loaded| {
            let mut out = Vec::new();
            for t in &loaded.catalog.tables {
                let lookup = Lookup { conn, meta, catalog: &loaded.catalog };
                out.extend(records::of_table(lookup, t)?.into_iter().map(|(_, conflict)| conflict));
            }
            out.sort_by(Conflict::by_row);
            Ok(out)
        })
    }

    /// Records that were open here and are closed, the latest first; 1,000 at most.
    pub fn closed_conflicts(&self) -> Result<Vec<Closed>> {
        self.peek(|conn, _| closed::all(conn))
    }
}
