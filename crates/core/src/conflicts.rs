//! The conflict records of a replica: those that are open, and those that were.

use crate::Result;
use crate::closed::{self, Closed};
use crate::records::{self, Conflict};
use crate::referring::Referring;
use crate::refs::Lookup;
use crate::replica::Replica;
use crate::{Follower, needs, open};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};

/// Says of records which follow which.
pub(crate) fn lead(records: &mut [Conflict], followers: &BTreeMap<String, Vec<String>>) {
    let at: HashMap<String, usize> =
        records.iter().enumerate().map(|(at, c)| (c.id.clone(), at)).collect();
    for (leader, ids) in followers {
        let Some(&first) = at.get(leader) else { continue };
        let mut with: Vec<usize> = ids.iter().filter_map(|id| at.get(id).copied()).collect();
        with.sort_unstable();
        for at in with {
            records[at].follows = Some(leader.clone());
            if at == first {
                continue;
            }
            let Conflict { id, table, row, name, kind, .. } = records[at].clone();
            records[first].followers.push(Follower { id, table, row, name, kind });
        }
    }
}

/// Records of each table. The plus keeps SQLite from walking all rows, in order of their tables.
const COUNT: &str = "SELECT tbl, count(*) FROM synqlite_row WHERE kind IS NOT NULL GROUP BY +tbl";

impl Replica {
    /// How many records are open.
    pub fn open_conflicts(&self) -> Result<u64> {
        self.count(|_| Ok(0))
    }

    /// How many of them ask: all but those that follow another (R-ONE-ANSWER).
    pub fn open_questions(&self) -> Result<u64> {
        self.count(|conn| {
            Ok(open::followers(conn)?.into_values().map(|ids| ids.len() as u64).sum())
        })
    }

    /// How many records are open, less those that do not count.
    fn count(&self, less: impl Fn(&Connection) -> Result<u64>) -> Result<u64> {
        self.read(|conn, _, loaded| {
            let mut statement = conn.prepare(COUNT)?;
            let counts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let counts = counts.collect::<Result<Vec<(u32, i64)>, _>>()?;
            // States of a dropped table stay, for others may need them, and nobody can settle its records.
            let here = counts.iter().filter(|(no, _)| loaded.catalog.position_of_no(*no).is_some());
            let all: u64 = here.map(|(_, count)| count.unsigned_abs()).sum();
            Ok(all.saturating_sub(less(conn)?))
        })
    }

    /// The open records that ask, in order of table and row; those that follow another are with that one.
    pub fn questions(&self) -> Result<Vec<Conflict>> {
        let mut open = self.conflicts()?;
        open.retain(|conflict| conflict.follows.is_none());
        Ok(open)
    }

    /// The ids of the open records that wait for the answer to one, of which `id` is the beginning.
    pub fn followers(&self, id: &str) -> Result<Vec<String>> {
        let all = self.peek(|conn, _| open::followers(conn))?;
        let found = all.into_iter().find(|(leader, _)| leader.starts_with(id));
        Ok(found.map(|(_, ids)| ids).unwrap_or_default())
    }

    /// All open records, in order of table and row.
    pub fn conflicts(&self) -> Result<Vec<Conflict>> {
        self.read(|conn, meta, loaded| {
            let (mut out, referring) = (Vec::new(), Referring::new(conn));
            for (position, t) in loaded.catalog.tables.iter().enumerate() {
                let lookup = Lookup { conn, meta, catalog: &loaded.catalog };
                for (entry, mut conflict) in records::of_table(lookup, t)? {
                    needs::tell(lookup, &referring, (position, entry), &mut conflict)?;
                    out.push(conflict);
                }
            }
            out.sort_by(Conflict::by_row);
            lead(&mut out, &open::followers(conn)?);
            Ok(out)
        })
    }

    /// How many of [`Replica::closed_conflicts`] were decided without a question.
    pub fn decided_conflicts(&self) -> Result<u64> {
        self.peek(|conn, _| closed::decided(conn))
    }

    /// Records that were open here and are closed, the latest first; 1,000 at most.
    pub fn closed_conflicts(&self) -> Result<Vec<Closed>> {
        self.peek(closed::all)
    }
}

#[cfg(test)]
mod tests {
    use super::COUNT;
    use crate::fixture::Site;
    use rusqlite::StatementStatus;

    /// Every synchronization counts them, of however many rows.
    #[test]
    fn records_are_counted_without_a_look_at_other_rows() {
        let mut site = Site::new("CREATE TABLE t(k INTEGER PRIMARY KEY, v)");
        site.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<1000) INSERT INTO t SELECT i, i FROM n");
        site.replica.fold().unwrap();
        site.run("UPDATE t SET v = v + 1");
        site.replica.fold().unwrap();
        let entries = site.app.query_row("SELECT count(*) FROM synqlite_row", [], |row| row.get(0));
        assert_eq!(entries, Ok(1000));
        let mut statement = site.app.prepare(COUNT).unwrap();
        assert!(statement.query([]).unwrap().next().unwrap().is_none());
        let steps = statement.get_status(StatementStatus::VmStep);
        assert!(steps < 100, "{steps} instructions of SQLite");
    }
}
