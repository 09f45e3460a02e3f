//! The one task that puts objects: all that wait go in one statement (group commit).

use super::link::{Link, Params};
use super::{covers, signed};
use crate::backend::{Content, Done, Incoming, TokenId};
use crate::error::{Error, Result};
use std::collections::{HashMap, HashSet};
use tokio::sync::{mpsc, oneshot};

/// Most objects, and most bytes, of one statement; a single object may exceed the latter.
const LARGEST: (usize, u64) = (1000, 16 << 20);

/// Counts up the sequence, which waits for whoever did it before to commit; puts what is absent; adds
/// up what tokens store; notifies. `n` keeps the order in which objects came. A name that came twice
/// is put once.
const PUT: &str = "WITH base AS (UPDATE synqlite_hub SET sequence = sequence + $9 \
    RETURNING sequence - $9 AS sequence), \
  new AS (INSERT INTO synqlite_object SELECT i.place, b.sequence + i.n, i.name, \
      split_part(i.name, '/', 1), i.size, i.content, i.blob, \
      CASE WHEN i.covers > 0 THEN least(i.covers, b.sequence + i.n - 1) ELSE 0 END, i.token, i.at \
    FROM base b, unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::text[], \
      $6::bigint[], $7::bigint[], $8::bigint[]) WITH ORDINALITY \
      AS i(place, name, size, content, blob, covers, token, at, n) ORDER BY i.n \
    ON CONFLICT DO NOTHING RETURNING place, name, sequence, size, token), \
  used AS (INSERT INTO synqlite_usage AS u SELECT token, sum(size)::bigint FROM new GROUP BY token \
    ON CONFLICT(token) DO UPDATE SET bytes = u.bytes + excluded.bytes), \
  told AS (SELECT count(pg_notify('synqlite_hub', place)) AS n FROM \
    (SELECT DISTINCT place FROM new) p) \
  SELECT place, name, sequence FROM new, told";

const FIND: &str = "SELECT o.place, o.name, o.sequence FROM synqlite_object o, \
  unnest($1::text[], $2::text[]) AS i(place, name) WHERE o.place = i.place AND o.name = i.name";

const USED: &str = "SELECT token, bytes FROM synqlite_usage WHERE token = ANY($1)";

/// An object that waits.
pub struct Job {
    pub object: Incoming,
    pub reply: oneshot::Sender<Result<Done>>,
}

impl Job {
    fn size(&self) -> u64 {
        self.object.content.size()
    }

    /// Where its parts are, if it is large.
    fn blob(&self) -> Option<String> {
        self.object.content.kept().map(|id| id.to_string())
    }
}

/// The task's own state.
pub struct Writer {
    link: Link,
    jobs: mpsc::Receiver<Job>,
}

type Found = HashMap<(String, String), u64>;

impl Writer {
    pub fn new(url: &str, jobs: mpsc::Receiver<Job>) -> Writer {
        Writer { link: Link::new(url), jobs }
    }

    /// Works until nobody is left to ask.
    pub async fn run(mut self) {
        while let Some(first) = self.jobs.recv().await {
            let mut size = first.size();
            let mut jobs = vec![first];
            while jobs.len() < LARGEST.0 && size < LARGEST.1 {
                let Ok(job) = self.jobs.try_recv() else { break };
                size += job.size();
                jobs.push(job);
            }
            self.put(jobs).await;
        }
    }

    async fn put(&self, jobs: Vec<Job>) {
        let jobs = match self.refuse(jobs).await {
            Ok(jobs) if jobs.is_empty() => return,
            Ok(jobs) => jobs,
            Err(()) => return,
        };
        let done = self.write(&jobs).await;
        // Of those that came together under one name, the first was put.
        let mut put = HashSet::new();
        for job in jobs {
            let key = (job.object.place.to_string(), job.object.name.to_string());
            let answer = match &done {
                Ok((new, old)) => match (new.get(&key), old.get(&key)) {
                    (Some(&sequence), _) => Ok(Done { sequence, created: put.insert(key) }),
                    (None, Some(&sequence)) => Ok(Done { sequence, created: false }),
                    (None, None) => Err(Error::away("an object was removed while it was put")),
                },
                Err(Error::Full) => Err(Error::Full),
                Err(e) => Err(Error::away(e.to_string())),
            };
            let kept = answer.as_ref().is_ok_and(|done| done.created);
            if let (Some(blob), false) = (job.blob(), kept) {
                // If this fails, retiring removes them a day later.
                const LOSE: &str = "DELETE FROM synqlite_blob b WHERE blob = $1 AND NOT EXISTS \
                    (SELECT FROM synqlite_object o WHERE o.blob = b.blob)";
                let _ = self.link.query(LOSE, &[&blob]).await;
            }
            // Whoever asked may have gone; the object stays.
            let _ = job.reply.send(answer);
        }
    }

    /// Answers those whose token may store no more; the others go on.
    async fn refuse(&self, jobs: Vec<Job>) -> Result<Vec<Job>, ()> {
        if jobs.iter().all(|job| job.object.quota.is_none()) {
            return Ok(jobs);
        }
        let tokens: Vec<i64> = jobs.iter().map(|job| job.object.token as i64).collect();
        let (mut used, there): (HashMap<TokenId, u64>, Found) =
            match self.used(&tokens, &jobs).await {
                Ok(found) => found,
                Err(e) => {
                    for job in jobs {
                        let _ = job.reply.send(Err(Error::away(e.to_string())));
                    }
                    return Err(());
                }
            };
        let mut left = Vec::with_capacity(jobs.len());
        for job in jobs {
            let key = (job.object.place.to_string(), job.object.name.to_string());
            let sum = used.entry(job.object.token).or_default();
            let limit = job.object.quota.filter(|limit| sum.saturating_add(job.size()) > *limit);
            match limit {
                Some(limit) if !there.contains_key(&key) => {
                    let _ = job.reply.send(Err(Error::Quota { limit }));
                }
                _ => {
                    *sum += job.size();
                    left.push(job);
                }
            }
        }
        Ok(left)
    }

    async fn used(&self, tokens: &[i64], jobs: &[Job]) -> Result<(HashMap<TokenId, u64>, Found)> {
        let rows = self.link.query(USED, &[&tokens]).await?;
        let pair =
            |row: &tokio_postgres::Row| (row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64);
        Ok((rows.iter().map(pair).collect(), self.find(jobs).await?))
    }

    async fn find(&self, jobs: &[Job]) -> Result<Found> {
        let places: Vec<_> = jobs.iter().map(|job| job.object.place.as_str()).collect();
        let names: Vec<_> = jobs.iter().map(|job| job.object.name.to_string()).collect();
        Ok(found(&self.link.query(FIND, &[&places, &names]).await?))
    }

    /// Puts what is absent. What was put now, and what was there.
    async fn write(&self, jobs: &[Job]) -> Result<(Found, Found)> {
        let each = |f: fn(&Job) -> i64| -> Vec<i64> { jobs.iter().map(f).collect() };
        let places: Vec<_> = jobs.iter().map(|job| job.object.place.as_str()).collect();
        let names: Vec<_> = jobs.iter().map(|job| job.object.name.to_string()).collect();
        let contents: Vec<Option<&[u8]>> = jobs.iter().map(content).collect();
        let blobs: Vec<_> = jobs.iter().map(Job::blob).collect();
        let (sizes, covers) = (each(|job| signed(job.size())), each(|job| covers(&job.object)));
        let (tokens, times) = (each(|job| job.object.token as i64), each(|job| job.object.at));
        let count = jobs.len() as i64;
        let params: Params<'_> =
            &[&places, &names, &sizes, &contents, &blobs, &covers, &tokens, &times, &count];
        let new = found(&self.link.query(PUT, params).await?);
        let old = if new.len() < jobs.len() { self.find(jobs).await? } else { Found::new() };
        Ok((new, old))
    }
}

fn content(job: &Job) -> Option<&[u8]> {
    match &job.object.content {
        Content::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn found(rows: &[tokio_postgres::Row]) -> Found {
    let entry = |row: &tokio_postgres::Row| ((row.get(0), row.get(1)), row.get::<_, i64>(2) as u64);
    rows.iter().map(entry).collect()
}
