//! Named remotes, kept in the replica as git keeps them in a repository, and what each of them is
//! known to contain, so that a push looks only at what changed since.
//!
//! A remote may keep a secret, which means nothing here. So whatever moves or removes an entry overwrites where it was: SQLite
//! leaves old bytes in free space otherwise, and there they outlive the remote.

use crate::connection::{briefly, to_write};
use crate::meta::Meta;
use crate::replica::Replica;
use crate::{Error, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row};
use rusqlite::{params, params_from_iter};
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
    /// What this replica keeps beside the URL to use it.
    pub secret: Option<Secret>,
}

/// What a replica keeps of a remote beside its URL. What it means only those know who use remotes.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// As it was given.
    Bytes(Vec<u8>),
    /// Two texts: earlier releases had a column for each.
    Former([Option<String>; 2]),
}

/// Never shows it.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(...)")
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
    match briefly(clear) {
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

/// The column of secrets, and those of earlier releases.
const SECRETS: [&str; 3] = ["secret", "token", "key"];

fn has_column(conn: &Connection, column: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM pragma_table_info('synqlite_remote') WHERE name = ?1";
    Ok(conn.prepare_cached(sql)?.exists([column])?)
}

/// Reads remotes for [`from_row`]. A file of another release has not all columns of secrets.
fn select(conn: &Connection, which: &str) -> Result<String> {
    let mut columns = "name, url, pushed, pulled, sent".to_owned();
    for column in SECRETS {
        columns += ", ";
        columns += if has_column(conn, column)? { column } else { "NULL" };
    }
    Ok(format!("SELECT {columns} FROM synqlite_remote {which}"))
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<NamedRemote> {
    let sent: Option<Vec<u8>> = row.get(4)?;
    let former = [row.get::<_, Option<String>>(6)?, row.get(7)?];
    let former = former.iter().any(Option::is_some).then_some(Secret::Former(former));
    Ok(NamedRemote {
        name: row.get(0)?,
        url: row.get(1)?,
        pushed: row.get(2)?,
        pulled: row.get(3)?,
        sent: sent.and_then(|bytes| Sent::decode(&bytes)),
        secret: row.get::<_, Option<Vec<u8>>>(5)?.map(Secret::Bytes).or(former),
    })
}

impl Replica {
    /// The named remotes, by name.
    pub fn remotes(&self) -> Result<Vec<NamedRemote>> {
        let read = || {
            let sql = select(&self.conn, "ORDER BY name")?;
            let mut statement = self.conn.prepare_cached(&sql)?;
            let rows = statement.query_map([], from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// The remote called `name`.
    pub fn remote(&self, name: &str) -> Result<Option<NamedRemote>> {
        let read = || {
            let sql = select(&self.conn, "WHERE name = ?1")?;
            Ok(self.conn.prepare_cached(&sql)?.query_row([name], from_row).optional()?)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }

    /// Adds a remote, and what is kept of it; of one that is there already, with the same URL, what is kept from now
    /// on. [`Error::Refused`] if there is another of that name, or nothing new to keep.
    pub fn add_remote(&mut self, name: &str, url: &str, secret: Option<&[u8]>) -> Result<()> {
        let added = overwriting(&self.conn, || {
            let tx = to_write(&self.conn, &self.path, self.env.as_ref())?;
            if !has_column(&tx, "secret")? {
                tx.execute("ALTER TABLE synqlite_remote ADD COLUMN secret BLOB", [])?;
            }
            let sql = "INSERT INTO synqlite_remote(name, url, secret) VALUES(?1, ?2, ?3) \
                       ON CONFLICT(name) DO UPDATE SET secret = excluded.secret \
                       WHERE url = excluded.url AND excluded.secret IS NOT NULL";
            let added = tx.execute(sql, params![name, url, secret])?;
            tx.commit()?;
            Ok(added)
        });
        match added.map_err(|e| e.on(&self.path))? {
            0 => Err(Error::Refused(format!(
                "there is a remote called {name} already; to replace it, remove it first"
            ))),
            _ => Ok(()),
        }
    }

    /// Takes from others than its owner the right to read or write the file, and those that SQLite
    /// keeps beside it: for a secret that is to be kept in it. Whether they had it.
    /// [`Error::Refused`] if it is not ours to take.
    #[cfg(unix)]
    pub fn close_to_others(&mut self) -> Result<bool> {
        use std::os::unix::fs::PermissionsExt;
        let mut had = false;
        // New files get the rights of the database from SQLite.
        for end in ["", "-wal", "-shm", "-journal", "-shadow", "-dash"] {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            let Ok(found) = std::fs::metadata(&path) else { continue };
            let mode = found.permissions().mode();
            if mode & 0o077 != 0 {
                let own = std::fs::Permissions::from_mode(mode & 0o700);
                std::fs::set_permissions(&path, own).map_err(|e| {
                    let path = std::path::Path::new(&path).display();
                    Error::Refused(format!("others can read {path}, and it cannot be closed: {e}"))
                })?;
                had = true;
            }
        }
        Ok(had)
    }

    /// Other systems have no such rights.
    #[cfg(not(unix))]
    pub fn close_to_others(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Removes a remote, and what the file still holds of it.
    pub fn remove_remote(&mut self, name: &str) -> Result<Removed> {
        let remove = || {
            let there = overwriting(&self.conn, || {
                let tx = to_write(&self.conn, &self.path, self.env.as_ref())?;
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
            let tx = to_write(&self.conn, &self.path, self.env.as_ref())?;
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
