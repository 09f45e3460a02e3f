//! Named remotes, kept in the replica as git keeps them in a repository, and what each of them is
//! known to contain, so that a push looks only at what changed since.
//!
//! A remote may keep a token. So whatever moves or removes an entry overwrites where it was: SQLite
//! leaves old bytes in free space otherwise, and there they outlive the remote.

use crate::connection::BUSY;
use crate::meta::Meta;
use crate::replica::Replica;
use crate::{Error, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior};
use rusqlite::{params, params_from_iter};
use std::time::Duration;
use synqlite_wire::{Hlc, Id, VersionVector};

/// A remote of this replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedRemote {
    /// Its name.
    pub name: String,
    /// Its URL, or the absolute path of another replica.
    pub url: String,
    /// When a push to it last succeeded, in milliseconds since 1970.
    pub pushed: Option<i64>,
    /// When a pull from it last succeeded, in milliseconds since 1970.
    pub pulled: Option<i64>,
    /// What it is known to contain.
    pub sent: Option<Sent>,
    /// What this replica needs to use it.
    pub access: Access,
}

/// What a replica needs to use a remote, beside its URL.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// The token that it wants.
    pub token: Option<String>,
    /// Absolute path of the file with the key by which everything in it is sealed.
    pub key_file: Option<String>,
}

/// Never shows the token.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "...");
        f.debug_struct("Access").field("token", &token).field("key_file", &self.key_file).finish()
    }
}

/// A state of this replica that a remote contains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Position of the replica: every row that changed up to it is there.
    pub local_seq: i64,
    /// What the replica had seen then.
    pub seen: VersionVector,
}

/// What a synchronization did and found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Synced {
    /// It sent, or there was nothing to send.
    pub pushed: bool,
    /// It fetched, or there was nothing to fetch.
    pub pulled: bool,
    /// What the remote contains.
    pub theirs: VersionVector,
    /// What to remember of the remote for the next time; what is remembered stays if absent.
    pub memory: Option<Vec<u8>>,
}

/// What became of a remote that was to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Removed {
    /// There was one of that name.
    pub there: bool,
    /// Nothing of it is left. Else the write-ahead log still has it, which other programs are using.
    pub cleared: bool,
}

/// Every page of the table is overwritten, not only the cell of an entry: SQLite may have left parts
/// of it where it balanced the tree.
fn write_anew(conn: &Connection) -> Result<()> {
    let mut statement = conn.prepare("SELECT * FROM synqlite_remote")?;
    let columns = statement.column_count();
    let row = |row: &Row<'_>| (0..columns).map(|c| row.get(c)).collect();
    let rows = statement.query_map([], row)?.collect::<Result<Vec<Vec<Value>>, _>>()?;
    conn.execute("DELETE FROM synqlite_remote", [])?;
    let sql = format!("INSERT INTO synqlite_remote VALUES({})", vec!["?"; columns].join(","));
    let mut insert = conn.prepare(&sql)?;
    rows.into_iter().try_for_each(|row| Ok(insert.execute(params_from_iter(row)).map(drop)?))
}

/// Runs `f`, in which SQLite overwrites with zeros what it deletes and moves.
pub(crate) fn overwriting<T>(conn: &Connection, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let before: i64 = conn.pragma_query_value(None, "secure_delete", |row| row.get(0))?;
    conn.pragma_update_and_check(None, "secure_delete", 1, |_| Ok(()))?;
    let done = f();
    conn.pragma_update_and_check(None, "secure_delete", before, |_| Ok(()))?;
    done
}

/// Pages as they were before the last transaction stay in a write-ahead log, and in the shadow file
/// of a database that has one. Returns whether all are gone.
pub(crate) fn clear_former_pages(conn: &Connection) -> Result<bool> {
    let clear = || {
        // A shadow gets the pages of the last transaction with those of the next.
        let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        conn.pragma_update(None, "user_version", version)?;
        let log = "PRAGMA main.wal_checkpoint(TRUNCATE)";
        conn.query_row(log, [], |row| row.get::<_, bool>(0)).map(|busy| !busy)
    };
    conn.busy_timeout(Duration::from_secs(1))?;
    let cleared = clear();
    conn.busy_timeout(BUSY)?;
    match cleared {
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(false),
        cleared => Ok(cleared?),
    }
}

impl Sent {
    /// Position (8 bytes), then each site (16) with its clock (8); integers little-endian.
    fn encode(&self) -> Vec<u8> {
        let mut out = self.local_seq.to_le_bytes().to_vec();
        for (site, hlc) in &self.seen.0 {
            out.extend(site.0);
            out.extend(hlc.0.to_le_bytes());
        }
        out
    }

    /// `None` if it is not such a text: then nothing is known, and more is looked at than needed.
    fn decode(bytes: &[u8]) -> Option<Sent> {
        let (local_seq, mut rest) = bytes.split_first_chunk::<8>()?;
        let mut sent = Sent { local_seq: i64::from_le_bytes(*local_seq), ..Sent::default() };
        while let Some((site, after)) = rest.split_first_chunk::<16>() {
            let (hlc, after) = after.split_first_chunk::<8>()?;
            sent.seen.raise(Id(*site), Hlc(i64::from_le_bytes(*hlc)));
            rest = after;
        }
        rest.is_empty().then_some(sent)
    }
}

const COLUMNS: &str = "name, url, pushed, pulled, sent, token, key";

fn from_row(row: &Row<'_>) -> rusqlite::Result<NamedRemote> {
    let sent: Option<Vec<u8>> = row.get(4)?;
    Ok(NamedRemote {
        name: row.get(0)?,
        url: row.get(1)?,
        pushed: row.get(2)?,
        pulled: row.get(3)?,
        sent: sent.and_then(|bytes| Sent::decode(&bytes)),
        access: Access { token: row.get(5)?, key_file: row.get(6)? },
    })
}

impl Replica {
    /// The named remotes, by name.
    pub fn remotes(&self) -> Result<Vec<NamedRemote>> {
        let read = || {
            let sql = format!("SELECT {COLUMNS} FROM synqlite_remote ORDER BY name");
            let mut statement = self.conn.prepare_cached(&sql)?;
            let rows = statement.query_map([], from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// The remote called `name`.
    pub fn remote(&self, name: &str) -> Result<Option<NamedRemote>> {
        let read = || {
            let sql = format!("SELECT {COLUMNS} FROM synqlite_remote WHERE name = ?1");
            Ok(self.conn.prepare_cached(&sql)?.query_row([name], from_row).optional()?)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// Adds a remote. [`Error::Refused`] if there is one of that name.
    pub fn add_remote(&mut self, name: &str, url: &str, access: &Access) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO synqlite_remote(name, url, token, key) \
                   VALUES(?1, ?2, ?3, ?4)";
        let row = params![name, url, access.token, access.key_file];
        let added = overwriting(&self.conn, || Ok(self.conn.execute(sql, row)?));
        match added.map_err(|e| e.on(&self.path))? {
            0 => Err(Error::Refused(format!("there is a remote called {name} already"))),
            _ => Ok(()),
        }
    }

    /// Removes a remote, and what the file still holds of it.
    pub fn remove_remote(&mut self, name: &str) -> Result<Removed> {
        let remove = || {
            let there = overwriting(&self.conn, || {
                let tx = Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?;
                let sql = "DELETE FROM synqlite_remote WHERE name = ?1";
                let there = tx.execute(sql, [name])? > 0;
                if there {
                    write_anew(&tx)?;
                }
                tx.commit()?;
                Ok(there)
            })?;
            let cleared = !there || clear_former_pages(&self.conn)?;
            Ok(Removed { there, cleared })
        };
        remove().map_err(|e: Error| e.on(&self.path))
    }

    /// What the remotes with this URL are known to contain.
    pub fn sent_to(&self, url: &str) -> Result<Option<Sent>> {
        Ok(self.remotes()?.into_iter().find(|r| r.url == url).and_then(|r| r.sent))
    }

    /// What was remembered of the remotes with this URL at the last synchronization.
    pub fn memory_of(&self, url: &str) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT place FROM synqlite_remote WHERE url = ?1 AND place IS NOT NULL LIMIT 1";
        let read =
            || Ok(self.conn.prepare_cached(sql)?.query_row([url], |r| r.get(0)).optional()?);
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// Notes that the remotes with this URL were synchronized just now.
    pub fn note_synced(&mut self, url: &str, synced: &Synced) -> Result<()> {
        let now = self.env.now_ms();
        let note = || {
            let tx = Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?;
            let meta = Meta::load(&tx)?;
            let sql = "UPDATE synqlite_remote SET pushed = iif(?2, ?4, pushed), \
                       pulled = iif(?3, ?4, pulled), place = ifnull(?5, place) WHERE url = ?1";
            let Synced { pushed, pulled, theirs, memory } = synced;
            let there =
                tx.prepare_cached(sql)?.execute(params![url, pushed, pulled, now, memory])?;
            if there > 0 && theirs.dominates(&meta.seen) {
                let sent = Sent { local_seq: meta.local_seq, seen: meta.seen }.encode();
                let sql = "UPDATE synqlite_remote SET sent = ?2 WHERE url = ?1";
                tx.prepare_cached(sql)?.execute(params![url, sent])?;
            }
            tx.commit()?;
            Ok(())
        };
        overwriting(&self.conn, note).map_err(|e| e.on(&self.path))
    }

    /// How many rows changed here, by writes and merges, after a local sequence.
    pub fn changed_since(&self, local_seq: i64) -> Result<i64> {
        let sql = "SELECT (SELECT count(*) FROM synqlite_row WHERE position > ?1) + \
                   (SELECT ifnull(sum(hi - lo + 1), 0) FROM synqlite_segment WHERE position > ?1)";
        let count = self.conn.query_row(sql, [local_seq], |row| row.get(0));
        count.map_err(|e| Error::from(e).on(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_reads_back() {
        let mut sent = Sent { local_seq: 77, ..Sent::default() };
        assert_eq!(Sent::decode(&sent.encode()), Some(sent.clone()));
        sent.seen.raise(Id([3; 16]), Hlc(9));
        sent.seen.raise(Id([4; 16]), Hlc(1 << 40));
        let bytes = sent.encode();
        assert_eq!(Sent::decode(&bytes), Some(sent));
        assert_eq!(Sent::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Sent::decode(b""), None);
    }
}
