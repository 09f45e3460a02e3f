//! A hub's store in PostgreSQL. Several hubs may share one.
//!
//! One statement puts all objects that wait, with their sequences: it first counts up a row, and
//! whoever does that next waits until the first has committed. So sequences become visible in their
//! order, and what a reader sees is on PostgreSQL's disk. The statement also notifies all hubs.

mod address;
mod link;
mod writer;

use crate::backend::{
    Backend, Content, Done, Epoch, Incoming, Later, MOST_BEHIND, Millis, Page, Part, PlaceInfo,
    Reading, SiteInfo, Source, TokenId, Totals, Wanted, random_id,
};
use crate::embedded::IN_STORE;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::tokens::{Token, read_tokens, write_tokens};
use crate::wait::Waiters;
use bytes::Bytes;
pub(crate) use link::Link;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use synqlite_objects::{Kind, ObjectName};
use synqlite_wire::{DatabaseId, Id};
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Row;
use writer::{Job, Writer};

/// The format of the tables.
const FORMAT: i64 = 1;
/// Connections for reading.
const READERS: usize = 4;
/// Bytes of a part of a large object.
const CHUNK: usize = 256 << 10;
/// Most bytes of objects' starts that one list asks for.
const LARGEST_LOOK: u64 = 4 << 20;

/// Made once; the lock keeps two hubs from doing it at the same time.
const SCHEMA: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(8319119881037314149);
CREATE TABLE IF NOT EXISTS synqlite_hub(
  one bool PRIMARY KEY CHECK(one), format bigint NOT NULL, epoch text NOT NULL,
  sequence bigint NOT NULL);
INSERT INTO synqlite_hub VALUES(true, 1, replace(gen_random_uuid()::text, '-', ''), 0)
  ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS synqlite_object(
  place text COLLATE \"C\", sequence bigint, name text COLLATE \"C\" NOT NULL,
  database text COLLATE \"C\" NOT NULL, size bigint NOT NULL, content bytea, blob text,
  covers bigint NOT NULL, token bigint NOT NULL, at bigint NOT NULL,
  PRIMARY KEY(place, sequence), UNIQUE(place, name));
CREATE INDEX IF NOT EXISTS synqlite_covers ON synqlite_object(place, database, covers)
  WHERE covers > 0;
CREATE TABLE IF NOT EXISTS synqlite_blob(
  blob text, n bigint, content bytea NOT NULL, made timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY(blob, n));
CREATE TABLE IF NOT EXISTS synqlite_site(
  place text COLLATE \"C\", site text, upto bigint NOT NULL, seen bigint NOT NULL,
  PRIMARY KEY(place, site));
ALTER TABLE synqlite_site ADD COLUMN IF NOT EXISTS name text NOT NULL DEFAULT '';
CREATE TABLE IF NOT EXISTS synqlite_usage(token bigint PRIMARY KEY, bytes bigint NOT NULL);
CREATE TABLE IF NOT EXISTS synqlite_token(
  id bigint PRIMARY KEY, made bigint NOT NULL, token text NOT NULL);
COMMIT;";

const LIST: &str = "SELECT sequence, size, name, \
  CASE WHEN $3 = 0 THEN ''::bytea WHEN content IS NOT NULL THEN substring(content FOR $3) \
  ELSE (SELECT substring(b.content FOR $3) FROM synqlite_blob b WHERE b.blob = o.blob AND n = 0) END \
  FROM synqlite_object o WHERE place = $1 AND sequence > $2 ORDER BY sequence LIMIT $4";

const LATEST: &str =
    "SELECT sequence FROM synqlite_object WHERE place = $1 ORDER BY sequence DESC LIMIT 1";

const FIND: &str = "SELECT sequence FROM synqlite_object WHERE place = $1 AND name = $2";

const READ: &str = "SELECT size, content, blob FROM synqlite_object WHERE place = $1 AND name = $2";

const DATABASES: &str = "WITH RECURSIVE d AS ( \
  (SELECT split_part(name, '/', 1) AS id FROM synqlite_object WHERE place = $1 ORDER BY name LIMIT 1) \
  UNION ALL SELECT (SELECT split_part(name, '/', 1) FROM synqlite_object \
    WHERE place = $1 AND name > d.id || '0' ORDER BY name LIMIT 1) FROM d WHERE d.id IS NOT NULL) \
  SELECT id FROM d WHERE id IS NOT NULL";

/// What goes with removed objects: their parts, and what their tokens have stored.
const REMOVE: &str = "WITH gone AS (DELETE FROM synqlite_object WHERE place = $1 \
  AND ($2::text IS NULL OR name = $2) RETURNING size, token, blob), \
  parts AS (DELETE FROM synqlite_blob b USING gone g WHERE b.blob = g.blob), \
  used AS (UPDATE synqlite_usage u SET bytes = greatest(0, u.bytes - s.bytes) FROM \
    (SELECT token, sum(size)::bigint AS bytes FROM gone GROUP BY token) s WHERE u.token = s.token) \
  SELECT count(*) FROM gone";

const RETIRE: &str = "WITH late AS (DELETE FROM synqlite_site WHERE seen < $1), \
  due AS (SELECT place, database, least(max(covers), (SELECT min(upto) FROM synqlite_site s \
    WHERE s.place = o.place AND s.seen >= $1)) AS upto \
    FROM synqlite_object o WHERE covers > 0 GROUP BY place, database), \
  gone AS (DELETE FROM synqlite_object o USING due d WHERE o.place = d.place \
    AND o.database = d.database AND o.sequence <= d.upto RETURNING o.size, o.token, o.blob), \
  parts AS (DELETE FROM synqlite_blob b USING gone g WHERE b.blob = g.blob), \
  lost AS (DELETE FROM synqlite_blob b WHERE made < now() - interval '1 day' \
    AND NOT EXISTS (SELECT FROM synqlite_object o WHERE o.blob = b.blob)), \
  used AS (UPDATE synqlite_usage u SET bytes = greatest(0, u.bytes - s.bytes) FROM \
    (SELECT token, sum(size)::bigint AS bytes FROM gone GROUP BY token) s WHERE u.token = s.token) \
  SELECT count(*) FROM gone";

const SEEN: &str = "INSERT INTO synqlite_site AS s VALUES($1, $2, \
  least($3, (SELECT sequence FROM synqlite_hub)), $4, $5) ON CONFLICT(place, site) DO UPDATE \
  SET upto = greatest(s.upto, excluded.upto), seen = excluded.seen, \
    name = coalesce(nullif(excluded.name, ''), s.name) \
  WHERE s.upto < excluded.upto OR s.seen + 3600000 < excluded.seen \
    OR excluded.name NOT IN ('', s.name) RETURNING xmax = 0";

const PLACES: &str = "SELECT place, count(*), sum(size)::bigint, max(sequence), max(at) \
  FROM synqlite_object WHERE place > $1 GROUP BY place ORDER BY place LIMIT $2";

const SITES: &str = "SELECT site, upto, seen, name, (SELECT count(*) FROM (SELECT FROM synqlite_object o \
    WHERE o.place = s.place AND o.sequence > s.upto LIMIT $2) n) \
  FROM synqlite_site s WHERE place = $1 ORDER BY site";

/// Forgets the sites of a place that were seen longest ago: all but so many.
const MAKE_ROOM: &str = "DELETE FROM synqlite_site WHERE place = $1 AND site IN (SELECT site \
  FROM synqlite_site WHERE place = $1 ORDER BY seen DESC, site OFFSET $2)";

const TOTALS: &str = "SELECT count(DISTINCT place), count(*), coalesce(sum(size), 0)::bigint \
  FROM synqlite_object";

/// A hub's store in PostgreSQL.
pub struct Postgres {
    readers: Arc<[Link; READERS]>,
    next: AtomicUsize,
    epoch: Epoch,
    sites: usize,
    jobs: mpsc::Sender<Job>,
    beside: tokio::task::JoinHandle<()>,
    work: std::sync::Mutex<Option<tokio::task::JoinHandle<()>>>,
}

/// A number as PostgreSQL has it.
fn signed(n: u64) -> i64 {
    n.min(i64::MAX as u64) as i64
}

fn id(text: &str) -> Result<Id> {
    let bad = |_| Error::Damaged { what: "a table of the hub".into(), why: "an id is malformed" };
    text.parse().map_err(bad)
}

impl Postgres {
    /// Connects, and makes the tables if there are none. So many `sites` of a place are known.
    pub async fn open(url: &str, sites: usize, waiters: Arc<Waiters>) -> Result<Postgres> {
        let readers = Arc::new(std::array::from_fn(|_| Link::new(url)));
        let first: &Link = &readers[0];
        first.batch(SCHEMA).await?;
        let row = first.query("SELECT format, epoch FROM synqlite_hub", &[]).await?;
        let row = row.first().ok_or_else(|| Error::away("the hub's table is empty"))?;
        let found: i64 = row.get(0);
        if found > FORMAT {
            let what = "the store in PostgreSQL".to_owned();
            return Err(Error::Newer { what, found: found as u64, known: FORMAT as u64 });
        }
        let epoch = id(row.get(1))?;
        let (jobs, queue) = mpsc::channel(4096);
        let work = tokio::spawn(Writer::new(url, queue).run());
        let beside = tokio::spawn(link::listen(url.to_owned(), waiters));
        let work = std::sync::Mutex::new(Some(work));
        Ok(Postgres { readers, next: AtomicUsize::new(0), epoch, sites, jobs, beside, work })
    }

    fn reader(&self) -> &Link {
        let i = self.next.fetch_add(1, Ordering::Relaxed) % READERS;
        // The remainder is always a place of the array.
        self.readers.get(i).unwrap_or(&self.readers[0])
    }

    async fn put_object(&self, mut object: Incoming) -> Result<Done> {
        let size = object.content.size();
        if size > IN_STORE as u64 {
            let id = random_id()?;
            self.put_parts(&id.to_string(), &object.content).await?;
            object.content = Content::Kept(id, size);
        } else if let Content::File(staged) = &object.content {
            let path = staged.path().to_owned();
            let bytes = tokio::fs::read(&path).await.map_err(Error::io("read", &path))?;
            object.content = Content::Bytes(bytes.into());
        }
        let (reply, answer) = oneshot::channel();
        let gone = || Error::away("the store is closed");
        self.jobs.send(Job { object, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Puts the parts of a large object, which nothing leads to yet.
    async fn put_parts(&self, blob: &str, content: &Content) -> Result<()> {
        const PUT: &str = "INSERT INTO synqlite_blob(blob, n, content) VALUES($1, $2, $3)";
        let link = self.reader();
        match content {
            Content::Bytes(bytes) => {
                for (n, part) in bytes.chunks(CHUNK).enumerate() {
                    link.query(PUT, &[&blob, &(n as i64), &part]).await?;
                }
            }
            Content::File(staged) => {
                let path = staged.path();
                let mut file =
                    tokio::fs::File::open(path).await.map_err(Error::io("read", path))?;
                let (mut part, mut n) = (Vec::with_capacity(CHUNK), 0_i64);
                loop {
                    part.clear();
                    let mut source = (&mut file).take(CHUNK as u64);
                    let read = source.read_to_end(&mut part).await;
                    if read.map_err(Error::io("read", path))? == 0 {
                        break;
                    }
                    link.query(PUT, &[&blob, &n, &part]).await?;
                    n += 1;
                }
            }
            Content::Kept(..) => {}
        }
        Ok(())
    }

    async fn list_page(&self, place: &Place, wanted: Wanted) -> Result<Page> {
        let most = LARGEST_LOOK.checked_div(wanted.prefix).unwrap_or(wanted.limit).max(1);
        let limit = wanted.limit.min(most);
        let (after, prefix) = (signed(wanted.after), wanted.prefix as i32);
        // One more tells whether there is more.
        let params: link::Params<'_> = &[&place.as_str(), &after, &prefix, &signed(limit + 1)];
        let rows = self.reader().query(LIST, params).await?;
        let mut page = Page::new(Wanted { limit, ..wanted });
        for row in &rows {
            if page.is_full() {
                break;
            }
            let name = ObjectName::parse(row.get(2)).ok_or_else(|| Error::Damaged {
                what: "a table of the hub".into(),
                why: "the name of an object is malformed",
            })?;
            let (sequence, size): (i64, i64) = (row.get(0), row.get(1));
            page.line(sequence as u64, size as u64, &name, row.get(3));
        }
        Ok(page)
    }

    async fn read_object(
        &self,
        place: &Place,
        name: &ObjectName,
        part: Part,
    ) -> Result<Option<Reading>> {
        let rows = self.reader().query(READ, &[&place.as_str(), &name.to_string()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let size = row.get::<_, i64>(0) as u64;
        let Some(range) = part.of(size) else {
            return Ok(Some(Reading { size, range: None, bytes: Source::Bytes(Bytes::new()) }));
        };
        let bytes = match (row.get::<_, Option<Vec<u8>>>(1), row.get::<_, Option<String>>(2)) {
            (Some(content), _) => {
                let content = Bytes::from(content);
                let (start, end) = (range.start as usize, range.end as usize);
                Source::Bytes(content.slice(start.min(content.len())..end.min(content.len())))
            }
            (None, Some(blob)) => {
                let (sender, chunks) = mpsc::channel(2);
                let (readers, range) = (self.readers.clone(), range.clone());
                tokio::spawn(async move { send_parts(&readers[0], &blob, range, &sender).await });
                Source::Stream(chunks)
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Reading { size, range: Some(range), bytes }))
    }

    async fn place_infos(&self, after: Option<&Place>, limit: usize) -> Result<Vec<PlaceInfo>> {
        let after = after.map_or("", Place::as_str);
        let rows = self.reader().query(PLACES, &[&after, &(limit as i64)]).await?;
        let mut out = Vec::with_capacity(rows.len());
        for row in rows {
            let n = |i: usize| row.get::<_, i64>(i) as u64;
            let Ok(place) = Place::parse(row.get(0)) else { continue };
            let params: link::Params<'_> = &[&place.as_str(), &(MOST_BEHIND as i64)];
            let sites = self.reader().query(SITES, params).await?;
            let site = |row: &Row| {
                let (upto, seen, lacks): (i64, i64, i64) = (row.get(1), row.get(2), row.get(4));
                let (site, upto, name) = (id(row.get(0))?, upto as u64, row.get(3));
                Ok((SiteInfo { site, upto, seen, name }, lacks as u64))
            };
            let sites: Result<Vec<_>> = sites.iter().map(site).collect();
            let (objects, bytes, latest, changed) = (n(1), n(2), n(3), row.get(4));
            out.push(PlaceInfo { place, objects, bytes, latest, changed, sites: sites? });
        }
        Ok(out)
    }
}

/// Sends the parts of a large object that a range touches.
async fn send_parts(
    link: &Link,
    blob: &str,
    range: Range<u64>,
    to: &mpsc::Sender<std::io::Result<Bytes>>,
) {
    const GET: &str = "SELECT content FROM synqlite_blob WHERE blob = $1 AND n = $2";
    let chunk = CHUNK as u64;
    for n in range.start / chunk..range.end.div_ceil(chunk) {
        let found = link.query(GET, &[&blob, &signed(n)]).await;
        let part = match found.as_ref().map(|rows| rows.first()) {
            Ok(Some(row)) => Ok(Bytes::from(row.get::<_, Vec<u8>>(0))),
            Ok(None) => Err(std::io::Error::other("a part of the object is gone")),
            Err(e) => Err(std::io::Error::other(e.to_string())),
        };
        let part = part.map(|bytes| {
            let start = range.start.saturating_sub(n * chunk) as usize;
            let end = (range.end - n * chunk).min(bytes.len() as u64) as usize;
            bytes.slice(start.min(end)..end)
        });
        let failed = part.is_err();
        if to.send(part).await.is_err() || failed {
            return;
        }
    }
}

fn count(rows: &[Row]) -> u64 {
    rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64)
}

impl Backend for Postgres {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn put(&self, object: Incoming) -> Later<'_, Done> {
        Box::pin(self.put_object(object))
    }

    fn list<'a>(&'a self, place: &'a Place, wanted: Wanted) -> Later<'a, Page> {
        Box::pin(self.list_page(place, wanted))
    }

    fn latest<'a>(&'a self, place: &'a Place) -> Later<'a, u64> {
        Box::pin(async { Ok(count(&self.reader().query(LATEST, &[&place.as_str()]).await?)) })
    }

    fn find<'a>(&'a self, place: &'a Place, name: &'a ObjectName) -> Later<'a, Option<u64>> {
        Box::pin(async {
            let rows = self.reader().query(FIND, &[&place.as_str(), &name.to_string()]).await?;
            Ok(rows.first().map(|row| row.get::<_, i64>(0) as u64))
        })
    }

    fn read<'a>(
        &'a self,
        place: &'a Place,
        name: &'a ObjectName,
        part: Part,
    ) -> Later<'a, Option<Reading>> {
        Box::pin(self.read_object(place, name, part))
    }

    fn remove<'a>(&'a self, place: &'a Place, name: &'a ObjectName) -> Later<'a, bool> {
        Box::pin(async {
            let name = Some(name.to_string());
            Ok(count(&self.reader().query(REMOVE, &[&place.as_str(), &name]).await?) > 0)
        })
    }

    fn clear<'a>(&'a self, place: &'a Place) -> Later<'a, u64> {
        Box::pin(async {
            const FORGET: &str = "DELETE FROM synqlite_site WHERE place = $1";
            let none: Option<String> = None;
            let gone = self.reader().query(REMOVE, &[&place.as_str(), &none]).await?;
            self.reader().query(FORGET, &[&place.as_str()]).await?;
            Ok(count(&gone))
        })
    }

    fn databases<'a>(&'a self, place: &'a Place) -> Later<'a, Vec<DatabaseId>> {
        Box::pin(async {
            let rows = self.reader().query(DATABASES, &[&place.as_str()]).await?;
            rows.iter().map(|row| id(row.get(0))).collect()
        })
    }

    fn seen<'a>(&'a self, place: &'a Place, site: SiteInfo) -> Later<'a, ()> {
        Box::pin(async move {
            let SiteInfo { site, upto, seen, name } = site;
            let (site, upto) = (site.to_string(), signed(upto));
            let params: link::Params<'_> = &[&place.as_str(), &site, &upto, &seen, &name];
            let noted = self.reader().query(SEEN, params).await?;
            if noted.first().is_some_and(|row| row.get(0)) {
                let params: link::Params<'_> = &[&place.as_str(), &(self.sites as i64)];
                self.reader().query(MAKE_ROOM, params).await?;
            }
            Ok(())
        })
    }

    fn retire(&self, since: Millis) -> Later<'_, u64> {
        Box::pin(async move { Ok(count(&self.reader().query(RETIRE, &[&since]).await?)) })
    }

    fn places<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> Later<'a, Vec<PlaceInfo>> {
        Box::pin(self.place_infos(after, limit))
    }

    fn stored(&self, token: TokenId) -> Later<'_, u64> {
        const STORED: &str = "SELECT bytes FROM synqlite_usage WHERE token = $1";
        Box::pin(async move { Ok(count(&self.reader().query(STORED, &[&(token as i64)]).await?)) })
    }

    fn totals(&self) -> Later<'_, Totals> {
        Box::pin(async {
            let rows = self.reader().query(TOTALS, &[]).await?;
            let n = |i| rows.first().map_or(0, |row| row.get::<_, i64>(i) as u64);
            Ok(Totals { places: n(0), objects: n(1), bytes: n(2) })
        })
    }

    fn health(&self) -> Later<'_, ()> {
        Box::pin(async {
            const ASK: &str = "SELECT pg_is_in_recovery()::int::bigint";
            match count(&self.reader().query(ASK, &[]).await?) {
                0 => Ok(()),
                _ => Err(Error::away("PostgreSQL takes no writes here")),
            }
        })
    }

    fn counters(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn close(&self) -> Later<'_, ()> {
        self.beside.abort();
        let work = crate::wait::lock(&self.work).take();
        // What was sent before is still put: requests have their answers by now.
        if let Some(work) = work {
            work.abort();
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// All tokens of the store, in the order in which they were made.
pub(crate) async fn tokens(link: &Link) -> Result<Vec<Token>> {
    let rows = link.query("SELECT token FROM synqlite_token ORDER BY made, id", &[]).await?;
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        all.extend(read_tokens(row.get(0), "the table of tokens")?);
    }
    Ok(all)
}

/// Adds a token; makes the tables if there are none.
pub(crate) async fn add_token(link: &Link, token: Token) -> Result<()> {
    link.batch(SCHEMA).await?;
    let (id, made, text) = (token.id as i64, token.made, write_tokens(&[token]));
    const ADD: &str = "INSERT INTO synqlite_token VALUES($1, $2, $3)";
    link.query(ADD, &[&id, &made, &text]).await.map(drop)
}

/// Removes a token; whether it was there.
pub(crate) async fn revoke_token(link: &Link, id: u64) -> Result<bool> {
    const REVOKE: &str = "DELETE FROM synqlite_token WHERE id = $1 RETURNING id";
    Ok(!link.query(REVOKE, &[&(id as i64)]).await?.is_empty())
}

/// What an object covers, as far as it says so and can.
fn covers(object: &Incoming) -> i64 {
    if object.name.kind == Kind::Snapshot { signed(object.covers) } else { 0 }
}
