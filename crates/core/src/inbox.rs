//! What has arrived and is not merged yet: deltas that are too large for one transaction.
//!
//! Their bodies are spooled first, where that locks nobody out, and checked. Then they are put here, some at a
//! time, and count for nothing until a last transaction puts the deltas that they are of; then they are merged
//! slice by slice, and what a slice merges leaves in the same transaction. So whoever opens the file next can go on, whatever happened to the process that
//! began and to the place that it all came from.
//!
//! Invariant: while anything is here, states may have stamps that the version vector does not cover yet.
//! So nothing is given to others (`export`, `copy`), and nothing else is merged, until it is empty.

use crate::sqlvalue::Vector;
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use synqlite_wire::batch::{self, BodySize, Writer};
use synqlite_wire::{BatchError, BatchHeader, DatabaseId, Delta, SiteId, VersionVector};

const DDL: &str = "\
    CREATE TABLE IF NOT EXISTS main.synqlite_arrival(no INTEGER PRIMARY KEY, head BLOB NOT NULL, \
     upto BLOB NOT NULL, again INTEGER NOT NULL);\
    CREATE TABLE IF NOT EXISTS main.synqlite_arrived(arrival INTEGER, no INTEGER, rows INTEGER NOT NULL, \
     unpacked INTEGER NOT NULL, done INTEGER NOT NULL, held INTEGER NOT NULL, body BLOB NOT NULL, \
     PRIMARY KEY(arrival, no))";

const SPOOL: &str = "\
    DROP TABLE IF EXISTS temp.synqlite_spool;\
    CREATE TEMP TABLE synqlite_spool(arrival INTEGER, rows INTEGER, unpacked INTEGER, body BLOB)";

/// So many bytes are put here in one transaction.
const STAGE: i64 = if cfg!(feature = "small-parts") { 1 } else { 4 << 20 };

/// Deltas on their way here, as bodies of batches.
pub struct Spool<'a> {
    conn: &'a Connection,
    spooled: Spooled,
    /// The delta whose parts are coming, and how its bodies were written.
    parts: Option<(Delta, Writer)>,
}

/// What a spool holds, without the bodies.
#[derive(Debug, Default)]
pub struct Spooled(Vec<Head>);

#[derive(Debug)]
struct Head {
    /// The head of a batch, up to its bodies.
    bytes: Vec<u8>,
    header: BatchHeader,
    upto: VersionVector,
    again: bool,
}

impl<'a> Spool<'a> {
    pub(crate) fn new(conn: &'a Connection) -> Result<Spool<'a>> {
        conn.execute_batch(SPOOL)?;
        Ok(Spool { conn, spooled: Spooled::default(), parts: None })
    }

    /// A body of the next delta, which can be decoded.
    pub fn body(&mut self, size: BodySize, packed: &[u8]) -> Result<()> {
        let sql = "INSERT INTO temp.synqlite_spool VALUES(?1, ?2, ?3, ?4)";
        let no = self.spooled.0.len();
        let (rows, unpacked) = (size.rows.cast_signed(), size.unpacked.cast_signed());
        self.conn.prepare_cached(sql)?.execute(params![no as i64, rows, unpacked, packed])?;
        Ok(())
    }

    /// All bodies of a delta have come. `head`: the head of its batch; `upto`: what its receiver has then;
    /// `again`: whether rows come that were seen.
    pub fn delta(&mut self, head: Vec<u8>, upto: VersionVector, again: bool) -> Result<()> {
        let header = batch::decode_header(&head).map_err(unreadable)?;
        self.spooled.0.push(Head { bytes: head, header, upto, again });
        Ok(())
    }

    /// A part of the next delta, all of which have the same base and upto.
    pub fn part(&mut self, part: Delta) -> Result<()> {
        let (_, mut writer) = self.parts.take().unwrap_or_default();
        let packed = writer.add(&part).map_err(unreadable)?;
        if let Some(size) = writer.last() {
            self.body(size, &packed)?;
        }
        self.parts = Some((Delta { rows: vec![], ..part }, writer));
        Ok(())
    }

    /// All parts of a delta have come, if any has.
    pub fn end_parts(&mut self, database: DatabaseId, site: SiteId, again: bool) -> Result<()> {
        let Some((Delta { base, upto, lines, .. }, writer)) = self.parts.take() else {
            return Ok(());
        };
        let head = writer.head(database, site, None, (&base, &upto, &lines));
        self.delta(head, upto, again)
    }

    /// All of it.
    pub fn end(self) -> Spooled {
        self.spooled
    }
}

impl Spooled {
    /// Base and upto of each delta, and the lines that lead there.
    pub(crate) fn deltas(&self) -> impl Iterator<Item = (&BatchHeader, &VersionVector)> {
        self.0.iter().map(|head| (&head.header, &head.upto))
    }
}

/// Where bodies are being put before their deltas.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Number of the first delta.
    first: i64,
    /// The last body of the spool that was put.
    done: i64,
}

impl Staged {
    /// Nothing yet. What somebody left who was killed before he put the deltas goes. `random`: keeps apart
    /// what two put at once.
    pub fn begin(conn: &Connection, random: u32) -> Result<Staged> {
        conn.execute_batch(DDL)?;
        conn.execute_batch(
            "DELETE FROM synqlite_arrived WHERE arrival NOT IN (SELECT no FROM synqlite_arrival)",
        )?;
        let sql = "SELECT coalesce(max(no), 0) + 1 FROM synqlite_arrival";
        let free: i64 = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(Staged { first: free + (i64::from(random) << 12), done: 0 })
    }

    /// Puts the next bodies. Whether more are left.
    pub fn bodies(&mut self, conn: &Connection) -> Result<bool> {
        let sql =
            "SELECT rowid, length(body) FROM temp.synqlite_spool WHERE rowid > ?1 ORDER BY rowid";
        let (mut upto, mut bytes, mut more) = (self.done, 0, false);
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([self.done])?;
        while let Some(row) = rows.next()? {
            more = bytes >= STAGE;
            if more {
                break;
            }
            (upto, bytes) = (row.get(0)?, bytes + row.get::<_, i64>(1)?);
        }
        drop(rows);
        let sql = "INSERT INTO synqlite_arrived \
                   SELECT ?1 + arrival, rowid, rows, unpacked, 0, 0, body FROM temp.synqlite_spool \
                   WHERE rowid > ?2 AND rowid <= ?3 ORDER BY rowid";
        conn.prepare_cached(sql)?.execute([self.first, self.done, upto])?;
        self.done = upto;
        Ok(more)
    }
}

/// Puts here the deltas that were spooled on this connection, whose bodies are here: from now on all of it is.
pub fn put(conn: &Connection, spooled: &Spooled, staged: Staged) -> Result<()> {
    let first = staged.first;
    let there = "SELECT (SELECT count(*) FROM temp.synqlite_spool) = \
                 (SELECT count(*) FROM synqlite_arrived WHERE arrival >= ?1 AND arrival < ?1 + ?2)";
    let deltas = spooled.0.len() as i64;
    if !conn.prepare_cached(there)?.query_row([first, deltas], |row| row.get::<_, bool>(0))? {
        return Err(Error::Unmerged);
    }
    for (no, Head { bytes, upto, again, .. }) in (first..).zip(&spooled.0) {
        let sql = "INSERT INTO synqlite_arrival VALUES(?1, ?2, ?3, ?4)";
        conn.prepare_cached(sql)?.execute(params![no, bytes, Vector(upto.clone()), again])?;
    }
    conn.execute_batch("DROP TABLE temp.synqlite_spool")?;
    Ok(())
}

/// Whether anything is here.
pub fn any(conn: &Connection) -> Result<bool> {
    // Most replicas never had one, and their tables are made by the first.
    Ok(conn.table_exists(Some("main"), "synqlite_arrival")?
        && conn.prepare_cached("SELECT 1 FROM synqlite_arrival")?.exists([])?)
}

/// The part that comes after body `after` of what was spooled on this connection, and which body it is. Reads
/// nothing of the database itself.
pub fn next_spooled(
    conn: &Connection,
    Spooled(heads): &Spooled,
    after: i64,
) -> Result<Option<(i64, Delta)>> {
    let sql = "SELECT arrival, rows, unpacked, body, rowid FROM temp.synqlite_spool \
               WHERE rowid > ?1 ORDER BY rowid LIMIT 1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut bodies = statement.query([after])?;
    match bodies.next()? {
        None => Ok(None),
        Some(row) => {
            let (no, rows, unpacked): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let head = usize::try_from(no).ok().and_then(|no| heads.get(no));
            let Head { header, upto, .. } =
                head.ok_or_else(|| Error::Damaged("a body was spooled without its delta".into()))?;
            let body: Vec<u8> = row.get(3)?;
            let part = decode(header.clone(), upto.clone(), (rows, unpacked), &body)?;
            Ok(Some((row.get(4)?, part)))
        }
    }
}

/// One body as the part of a delta that it is.
fn decode(
    mut header: BatchHeader,
    upto: VersionVector,
    (rows, unpacked): (i64, i64),
    body: &[u8],
) -> Result<Delta> {
    let (rows, unpacked) = (rows.cast_unsigned(), unpacked.cast_unsigned());
    header.bodies = vec![BodySize { rows, unpacked, packed: body.len() as u64 }];
    let delta = batch::decode_body(&header, 0, body).map_err(unreadable)?;
    Ok(Delta { upto, ..delta })
}

/// Rows that are here.
pub fn rows(conn: &Connection) -> Result<u64> {
    if !any(conn)? {
        return Ok(0);
    }
    let sql = "SELECT coalesce(sum(rows - done), 0) FROM synqlite_arrived \
               WHERE arrival IN (SELECT no FROM synqlite_arrival)";
    let rows: i64 = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(rows.cast_unsigned())
}

/// What the version vector covers once all is merged that is here.
pub fn covers(conn: &Connection) -> Result<VersionVector> {
    let mut all = VersionVector::default();
    if any(conn)? {
        let mut statement = conn.prepare_cached("SELECT upto FROM synqlite_arrival")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let Vector(upto) = row.get(0)?;
            all.join(&upto);
        }
    }
    Ok(all)
}

/// Where a body is, and how many of its rows have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub arrival: i64,
    no: i64,
    done: i64,
}

/// The body that is merged next.
pub struct Front {
    pub at: At,
    /// The part that it is, without the rows that have left.
    pub delta: Delta,
    /// Whether it holds rows that were put off, whose stamps are those of this replica's lines.
    pub held: bool,
    /// Whether rows come that were seen.
    pub again: bool,
}

/// Where the front is.
pub fn at(conn: &Connection) -> Result<Option<At>> {
    if !any(conn)? {
        return Ok(None);
    }
    let sql = "SELECT arrival, no, done FROM synqlite_arrived \
               WHERE arrival IN (SELECT no FROM synqlite_arrival) ORDER BY arrival, no LIMIT 1";
    let at = |row: &rusqlite::Row<'_>| {
        Ok(At { arrival: row.get(0)?, no: row.get(1)?, done: row.get(2)? })
    };
    Ok(conn.prepare_cached(sql)?.query_row([], at).optional()?)
}

/// Reads the front.
pub fn front(conn: &Connection) -> Result<Option<Front>> {
    let Some(at) = at(conn)? else { return Ok(None) };
    let sql = "SELECT rows, unpacked, held, body, head, upto, again FROM synqlite_arrived AS d \
               JOIN synqlite_arrival AS a ON a.no = d.arrival WHERE d.arrival = ?1 AND d.no = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut found = statement.query(params![at.arrival, at.no])?;
    let lost = || Error::Damaged("a body has arrived without its delta".into());
    let row = found.next()?.ok_or_else(lost)?;
    let (rows, unpacked): (i64, i64) = (row.get(0)?, row.get(1)?);
    let (held, body): (bool, Vec<u8>) = (row.get(2)?, row.get(3)?);
    let (head, Vector(upto), again): (Vec<u8>, _, bool) = (row.get(4)?, row.get(5)?, row.get(6)?);
    let header = batch::decode_header(&head).map_err(unreadable)?;
    let mut delta = decode(header, upto, (rows, unpacked), &body)?;
    let done = usize::try_from(at.done).unwrap_or(usize::MAX).min(delta.rows.len());
    delta.rows.drain(..done);
    if done > 0 {
        delta.settings.clear();
    }
    Ok(Some(Front { at, delta, held, again }))
}

/// The next `rows` of the front have left, or all that it had. Returns where the front is then, if it had more.
pub fn leave(conn: &Connection, at: At, rows: usize, all: bool) -> Result<At> {
    let At { arrival, no, .. } = at;
    let done = at.done + i64::try_from(rows).unwrap_or(i64::MAX);
    if all {
        let sql = "DELETE FROM synqlite_arrived WHERE arrival = ?1 AND no = ?2";
        conn.prepare_cached(sql)?.execute([arrival, no])?;
    } else {
        let sql = "UPDATE synqlite_arrived SET done = ?3 WHERE arrival = ?1 AND no = ?2";
        conn.prepare_cached(sql)?.execute([arrival, no, done])?;
    }
    Ok(At { done, ..at })
}

/// Puts rows behind all others of the delta that they came with.
pub fn put_off(conn: &Connection, at: At, held: &Delta) -> Result<()> {
    let mut writer = Writer::default();
    let packed = writer.add(held).map_err(unreadable)?;
    let Some(size) = writer.last() else { return Ok(()) };
    let sql = "INSERT INTO synqlite_arrived \
               SELECT ?1, max(no) + 1, ?2, ?3, 0, 1, ?4 FROM synqlite_arrived WHERE arrival = ?1";
    let (rows, unpacked) = (size.rows.cast_signed(), size.unpacked.cast_signed());
    conn.prepare_cached(sql)?.execute(params![at.arrival, rows, unpacked, packed])?;
    Ok(())
}

/// Whether other bodies of the delta are here than the front.
pub fn is_last(conn: &Connection, at: At) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_arrived WHERE arrival = ?1 AND no <> ?2";
    Ok(!conn.prepare_cached(sql)?.exists([at.arrival, at.no])?)
}

/// The delta of the front is merged, or nothing of it is news.
pub fn end(conn: &Connection, at: At) -> Result<()> {
    conn.prepare_cached("DELETE FROM synqlite_arrived WHERE arrival = ?1")?
        .execute([at.arrival])?;
    conn.prepare_cached("DELETE FROM synqlite_arrival WHERE no = ?1")?.execute([at.arrival])?;
    Ok(())
}

fn unreadable(why: BatchError) -> Error {
    Error::Damaged(format!("what has arrived: {why}"))
}
