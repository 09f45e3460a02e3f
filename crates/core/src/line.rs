//! The lines of sites: by which clocks each came to where it is, and where a line forks.
//!
//! Invariant: of every site that this replica has seen something of it knows the line up to there,
//! and its own ends with the latest state that it may have given away. So a clock that a site is said
//! to have reached is either on the line that is known, or it goes on from there, or a file was
//! restored from a backup, or copied, and two have written under one id. Then each branch is
//! given the id that it has everywhere ([`tree`]), what is known under the old one is relabelled
//! ([`relabel`]), and a replica whose own line it is goes on under a new id.

mod moves;
pub mod parted;
mod relabel;
pub mod tree;

pub use moves::Moves;

use crate::catalog::Catalog;
use crate::env::Environment;
use crate::meta::{self, Meta};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use synqlite_wire::line::branch;
use synqlite_wire::{Delta, Hlc, Id, InvalidDelta, Line, Point, Rid, SiteId, VersionVector};
use tree::{Lines, Tree};

/// Within a millisecond a clock has so many values.
const VALUES: i64 = 1 << 16;
/// So many must be left of them that a seal is one of those.
const LEAST: i64 = 1 << 12;

/// Whether this point of the line of `site` is known. The beginning of every line is.
pub fn has(conn: &Connection, meta: &Meta, site: SiteId, clock: Hlc) -> Result<bool> {
    let Some(no) = meta.known_number(site) else { return Ok(clock == Hlc::ZERO) };
    let sql = "SELECT 1 FROM synqlite_line WHERE site = ?1 AND hlc = ?2";
    Ok(clock == Hlc::ZERO || conn.prepare_cached(sql)?.exists(params![no, clock.0])?)
}

/// The points of a site past one clock, up to another; `None` if there are none.
pub fn between(
    conn: &Connection,
    meta: &Meta,
    site: SiteId,
    after: Hlc,
    upto: Hlc,
) -> Result<Option<Line>> {
    let Some(no) = meta.known_number(site) else { return Ok(None) };
    let sql = "SELECT hlc, births FROM synqlite_line WHERE site = ?1 AND hlc > ?2 AND hlc <= ?3 \
               ORDER BY hlc";
    let mut statement = conn.prepare_cached(sql)?;
    let points = statement.query_map(params![no, after.0, upto.0], |row| {
        Ok(Point { clock: Hlc(row.get(0)?), births: row.get::<_, i64>(1)?.cast_unsigned() })
    })?;
    let points: Vec<Point> = points.collect::<Result<_, _>>()?;
    let Some(first) = points.first() else { return Ok(None) };
    let sql = "SELECT max(hlc) FROM synqlite_line WHERE site = ?1 AND hlc < ?2";
    let before: Option<i64> =
        conn.prepare_cached(sql)?.query_row(params![no, first.clock.0], |row| row.get(0))?;
    let (root, fork) = origin(conn, meta, site)?;
    Ok(Some(Line { root, before: before.map_or(fork.unwrap_or(Hlc::ZERO), Hlc), points }))
}

/// The root of a site's line, and where it forks off: at the beginning, if it is the root. `None` if
/// only other sites call a line so, which goes by another id here.
pub fn origin(conn: &Connection, meta: &Meta, site: SiteId) -> Result<(SiteId, Option<Hlc>)> {
    let Some(no) = meta.known_number(site) else { return Ok((site, Some(Hlc::ZERO))) };
    let sql = "SELECT root, fork FROM synqlite_site WHERE no = ?1 AND root IS NOT NULL";
    let found: Option<(u32, Option<i64>)> = conn
        .prepare_cached(sql)?
        .query_row([no], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((root, fork)) => Ok((meta.site_of(root)?, fork.map(Hlc))),
        None => Ok((site, Some(Hlc::ZERO))),
    }
}

/// The last known point of a site's line.
fn last(conn: &Connection, meta: &Meta, site: SiteId) -> Result<Option<Hlc>> {
    let Some(no) = meta.known_number(site) else { return Ok(None) };
    let sql = "SELECT max(hlc) FROM synqlite_line WHERE site = ?1";
    let last: Option<i64> = conn.prepare_cached(sql)?.query_row([no], |row| row.get(0))?;
    Ok(last.map(Hlc))
}

/// Whether any line forks.
fn any_fork(conn: &Connection) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM synqlite_site WHERE root IS NOT NULL")?.exists([])?)
}

/// Whether the line that began with `root` forks.
pub fn forks(conn: &Connection, meta: &Meta, root: SiteId) -> Result<bool> {
    let Some(no) = meta.known_number(root) else { return Ok(false) };
    Ok(conn.prepare_cached("SELECT 1 FROM synqlite_site WHERE root = ?1")?.exists([no])?)
}

/// The site whose line began with `root`, and those that are branches of it.
pub fn members(conn: &Connection, meta: &Meta, root: SiteId) -> Result<Vec<SiteId>> {
    let Some(no) = meta.known_number(root) else { return Ok(vec![]) };
    let sql = "SELECT no FROM synqlite_site WHERE no = ?1 OR root = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let numbers: Vec<u32> =
        statement.query_map([no], |row| row.get(0))?.collect::<Result<_, _>>()?;
    numbers.into_iter().map(|no| meta.site_of(no)).collect()
}

/// All that is known of the lines that began with `root`.
pub fn family(conn: &Connection, meta: &Meta, root: SiteId) -> Result<Lines> {
    let mut lines = Lines::new();
    for site in members(conn, meta, root)? {
        let line = between(conn, meta, site, Hlc::ZERO, Hlc(i64::MAX))?;
        lines.extend(line.map(|line| (site, line)));
    }
    Ok(lines)
}

/// Makes the whole line of a site that writes only once: one point, at `clock`.
pub fn begin(conn: &Connection, meta: &mut Meta, site: SiteId, clock: Hlc) -> Result<()> {
    let no = meta.number(conn, site)?;
    let sql = "INSERT OR IGNORE INTO synqlite_line(site, hlc, births) VALUES(?1, ?2, 0)";
    conn.prepare_cached(sql)?.execute(params![no, clock.0])?;
    Ok(())
}

/// What a replica works with that learns of lines.
pub struct Learner<'a> {
    /// The database.
    pub conn: &'a Connection,
    /// Its metadata.
    pub meta: &'a mut Meta,
    /// Its tables.
    pub catalog: &'a Catalog,
    /// Randomness.
    pub env: &'a dyn Environment,
    /// Tables, by number, in which counts of a line that forks went to its branch: what the line had counted
    /// before may be missing.
    pub counted: Vec<(u32, SiteId)>,
}

impl Learner<'_> {
    /// Seals what this site has stamped since its last point, so that nobody else can show that clock.
    pub fn seal(&mut self) -> Result<()> {
        let Learner { conn, meta, env, .. } = self;
        if meta.seen.get(meta.site) == meta.sealed {
            return Ok(());
        }
        let [.., a, b, c, d] = env.random();
        let left = VALUES - 1 - meta.clock.0 % VALUES;
        let range = if left < LEAST { left + VALUES } else { left };
        meta.clock.0 += 1 + i64::from(u32::from_be_bytes([a, b, c, d])) % range;
        meta.seen.raise(meta.site, meta.clock);
        meta.sealed = meta.clock;
        let births = meta::births(conn)?.cast_unsigned();
        let (site, clock) = (meta.site, meta.clock);
        self.append(site, &[Point { clock, births }])
    }

    fn append(&mut self, site: SiteId, points: &[Point]) -> Result<()> {
        let no = self.meta.number(self.conn, site)?;
        let sql = "INSERT INTO synqlite_line(site, hlc, births) VALUES(?1, ?2, ?3)";
        let mut statement = self.conn.prepare_cached(sql)?;
        for Point { clock, births } in points {
            statement.execute(params![no, clock.0, births.cast_signed()])?;
        }
        Ok(())
    }

    /// Takes note of pieces of lines. A piece that does not go on from anything known is left. Whether
    /// a line forks that was not known to.
    pub fn learn<'l>(
        &mut self,
        lines: impl IntoIterator<Item = (&'l SiteId, &'l Line)>,
    ) -> Result<bool> {
        self.seal()?;
        let (mut left, mut forked): (Vec<_>, _) = (lines.into_iter().collect(), false);
        loop {
            let (before, mut waiting) = (left.len(), Vec::new());
            for (site, line) in left {
                if self.extend(*site, line)? {
                    continue;
                }
                match self.graft(*site, line)? {
                    Some(news) => forked |= news,
                    None => waiting.push((site, line)),
                }
            }
            if waiting.is_empty() || waiting.len() == before {
                return Ok(forked);
            }
            left = waiting;
        }
    }

    /// The common case: the piece lies on the line of `site`, or goes on from its end.
    fn extend(&mut self, site: SiteId, line: &Line) -> Result<bool> {
        let new = match news(self.conn, self.meta, site, line)? {
            News::None => return Ok(true),
            News::More(known) => &line.points[known..],
            News::Apart => return Ok(false),
        };
        self.append(site, new)?;
        Ok(true)
    }

    /// Adds a piece to the tree that it belongs to, and follows what that means. Whether that was news;
    /// `None` if the point before it is not known.
    fn graft(&mut self, site: SiteId, line: &Line) -> Result<Option<bool>> {
        let known = family(self.conn, self.meta, line.root)?;
        let mut tree = Tree::new(line.root, &known);
        if !tree.add(line) {
            return Ok(None);
        }
        let lines = tree.lines();
        let mut news = lines != known;
        if news {
            let own = self.meta.site == line.root && tree.len() > tree.depth(self.meta.sealed);
            if !self.follow(line.root, &known, &lines)? {
                return Ok(None);
            }
            if own {
                self.begin_anew()?;
            }
        }
        if site != line.root && !lines.contains_key(&site) {
            // Whoever calls it so knows of a fork that is not known here.
            let (no, root) =
                (self.meta.number(self.conn, site)?, self.meta.number(self.conn, line.root)?);
            let sql = "UPDATE synqlite_site SET root = ?2 WHERE no = ?1 AND root IS NULL";
            news |= self.conn.execute(sql, [no, root])? > 0;
        }
        Ok(Some(news))
    }

    /// The lines that began with `root` were `old` and are `new`. Whether that can be: no site gives a row an
    /// identity that another row comes to have by a fork, but a batch can say that it did.
    fn follow(&mut self, root: SiteId, old: &tree::Lines, new: &tree::Lines) -> Result<bool> {
        let (conn, before) = (self.conn, self.meta.clone());
        conn.execute_batch("SAVEPOINT synqlite_follow")?;
        let followed = match relabel::follow(self, root, old, new) {
            Err(e) if e.is_of_changes() => {
                *self.meta = before;
                conn.execute_batch("ROLLBACK TO synqlite_follow")?;
                false
            }
            done => done.map(|()| true)?,
        };
        conn.execute_batch("RELEASE synqlite_follow")?;
        Ok(followed)
    }

    /// Goes on under a new id: somebody has seen states of this site that this file does not have.
    pub fn begin_anew(&mut self) -> Result<()> {
        let Learner { conn, meta, env, .. } = self;
        parted::note(conn, meta.site, meta.sealed, env.now_ms())?;
        meta.site = Id(env.random());
        meta.sealed = Hlc::ZERO;
        meta::set(conn, "site", meta.site.0)?;
        // What was copied over this file may have been made as another one.
        let path = Path::new(conn.path().unwrap_or_default());
        meta::set(conn, "instance", env.instance(path))?;
        meta.number(conn, meta.site)?;
        forget_places(conn)
    }
}

/// What is remembered of places is said in ids that may stand for something else now.
fn forget_places(conn: &Connection) -> Result<()> {
    conn.execute("UPDATE synqlite_remote SET sent = NULL, place = NULL", [])?;
    Ok(())
}

/// What a piece of a line says beyond what is known of its site.
enum News {
    None,
    /// So many of its points are known, and the others follow the last that is.
    More(usize),
    /// It is not simply a piece of that line.
    Apart,
}

fn news(conn: &Connection, meta: &Meta, site: SiteId, line: &Line) -> Result<News> {
    let known = match meta.known_number(site) {
        Some(_) => {
            let (root, fork) = origin(conn, meta, site)?;
            let Some(fork) = fork else { return Ok(News::Apart) };
            let begins = line.before == fork || has(conn, meta, site, line.before)?;
            if root != line.root || line.before < fork || !begins {
                return Ok(News::Apart);
            }
            let most = line.points.last().map_or(Hlc::ZERO, |last| last.clock);
            between(conn, meta, site, line.before, most)?.map_or(vec![], |known| known.points)
        }
        None if site == line.root && line.before == Hlc::ZERO => vec![],
        None => return Ok(News::Apart),
    };
    let same = known.iter().zip(&line.points).all(|(a, b)| a.clock == b.clock);
    if !same || known.len() > line.points.len() {
        return Ok(News::Apart);
    }
    if known.len() == line.points.len() {
        return Ok(News::None);
    }
    let end = known.last().map_or(line.before, |last| last.clock);
    let counted = known.last().map_or(0, |last| last.births);
    let new = line.points.get(known.len()..).unwrap_or_default();
    if new.iter().any(|point| point.births < counted) {
        return Ok(News::Apart);
    }
    let goes_on = last(conn, meta, site)?.is_none_or(|last| last <= end);
    Ok(if goes_on && site != meta.site { News::More(known.len()) } else { News::Apart })
}

/// Whether `lines` say nothing new.
pub fn knows<'l>(
    conn: &Connection,
    meta: &Meta,
    lines: impl IntoIterator<Item = (&'l SiteId, &'l Line)>,
) -> Result<bool> {
    for (site, line) in lines {
        if !matches!(news(conn, meta, *site, line)?, News::None) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a vector of another site means here, where its ids may stand for other branches. A clock that
/// is on no known line stands under an id that nobody has.
pub fn resolve(conn: &Connection, meta: &Meta, vector: &VersionVector) -> Result<VersionVector> {
    let mut resolved = VersionVector::default();
    for (&site, &clock) in &vector.0 {
        if has(conn, meta, site, clock)? {
            resolved.raise(site, clock);
            continue;
        }
        let (root, _) = origin(conn, meta, site)?;
        let mut way = Vec::new();
        // A line that does not fork may be long, and most news goes on from its end.
        if forks(conn, meta, root)? {
            way = Tree::new(root, &family(conn, meta, root)?).way(clock);
        }
        way.iter().for_each(|stretch| resolved.raise(stretch.site, stretch.end.clock));
        if way.is_empty() {
            let beyond = last(conn, meta, site)?.is_none_or(|last| clock > last);
            resolved.raise(if beyond { site } else { branch(root, clock) }, clock);
        }
    }
    Ok(resolved)
}

/// How the ids in a delta are called here, where that is otherwise.
pub fn moves(conn: &Connection, meta: &Meta, delta: &Delta) -> Result<Moves> {
    let mut moves = Moves::default();
    if !any_fork(conn)? {
        return Ok(moves);
    }
    let mut trees: BTreeMap<SiteId, Tree> = BTreeMap::new();
    for vector in [&delta.tips, &delta.upto] {
        for (&site, &clock) in &vector.0 {
            let (root, _) = origin(conn, meta, site)?;
            if !forks(conn, meta, root)? {
                continue;
            }
            let tree = match trees.entry(root) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Tree::new(root, &family(conn, meta, root)?)),
            };
            moves.insert(site, tree.way(clock));
        }
    }
    Ok(moves)
}

/// Checks that a known line leads to each state that is news, of which this site is never one.
pub fn check_led(conn: &Connection, meta: &Meta, upto: &VersionVector) -> Result<()> {
    for (&site, &clock) in &upto.0 {
        let news = clock > meta.seen.get(site);
        if news && (site == meta.site || !has(conn, meta, site, clock)?) {
            return Err(InvalidDelta::Unled(site).into());
        }
    }
    Ok(())
}

/// Checks that rows which are called by births had been born where the lines of their sites end: a number
/// that a site has not given yet is its own to give.
pub fn check_births(conn: &Connection, meta: &Meta, delta: &Delta) -> Result<()> {
    let mut known: BTreeMap<SiteId, u64> = BTreeMap::new();
    for row in &delta.rows {
        let Rid::Birth { site, n } = row.rid else { continue };
        let births = match known.entry(site) {
            Entry::Occupied(known) => *known.into_mut(),
            Entry::Vacant(new) => *new.insert(births(conn, meta, site)?),
        };
        if n >= births {
            let table = delta.tables.get(row.table as usize);
            return Err(Error::InvalidDelta(InvalidDelta::Row {
                table: table.map_or(String::new(), |table| table.name.clone()),
                rid: row.rid.clone(),
                why: "has a number that its site has not given yet",
            }));
        }
    }
    Ok(())
}

/// How many numbers of births a site had given at the last point that is known of it, or has if it is this
/// one.
fn births(conn: &Connection, meta: &Meta, site: SiteId) -> Result<u64> {
    if site == meta.site {
        return Ok(meta::births(conn)?.cast_unsigned());
    }
    let Some(no) = meta.known_number(site) else { return Ok(0) };
    let sql = "SELECT max(births) FROM synqlite_line WHERE site = ?1";
    let births: Option<i64> = conn.prepare_cached(sql)?.query_row([no], |row| row.get(0))?;
    Ok(births.map_or(0, i64::cast_unsigned))
}

/// How many numbers of births another site had given at the last point that is known of it up to a clock.
pub fn births_at(conn: &Connection, meta: &Meta, site: SiteId, clock: Hlc) -> Result<u64> {
    let Some(no) = meta.known_number(site) else { return Ok(0) };
    let sql =
        "SELECT births FROM synqlite_line WHERE site = ?1 AND hlc <= ?2 ORDER BY hlc DESC LIMIT 1";
    let found =
        conn.prepare_cached(sql)?.query_row(params![no, clock.0], |row| row.get::<_, i64>(0));
    Ok(found.optional()?.map_or(0, i64::cast_unsigned))
}

/// What is wrong with the lines, if anything is: every site that was seen has a point at that clock.
pub fn problems(conn: &Connection, meta: &Meta) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (&site, &clock) in &meta.seen.0 {
        if !has(conn, meta, site, clock)? {
            problems.push(format!("site {site}: its line does not lead to what was seen of it"));
        }
    }
    let sql =
        "SELECT DISTINCT site FROM synqlite_line WHERE site NOT IN (SELECT no FROM synqlite_site)";
    let mut statement = conn.prepare(sql)?;
    let lost = statement.query_map([], |row| row.get::<_, i64>(0))?;
    for no in lost {
        problems.push(format!("the line of site number {} belongs to no site", no?));
    }
    Ok(problems)
}
