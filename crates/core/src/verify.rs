//! Checks the metadata against the tables, the constraints and the database itself.
//!
//! What must hold: SQLite finds the file sound and no reference dangles; every change is captured;
//! every visible row has exactly one state and every state that is placed has a row there; a dead row
//! keeps its values; no stamp is later than what the replica says it has seen. Writes that are not
//! folded yet are allowed for. One pass over each table and one over its states.

use crate::capture::{self, own_name};
use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::connection::connect;
use crate::count::Count;
use crate::counter;
use crate::describe::{loc_name, row_name, the_row};
use crate::env::Environment;
use crate::fold;
use crate::inbox;
use crate::journal::Window;
use crate::line;
use crate::meta::{self, Meta};
use crate::progress::Phase;
use crate::refs::Lookup;
use crate::replica::Replica;
use crate::schema::{self, quote};
use crate::settings;
use crate::sqlvalue::Located;
use crate::state::sums::{Compared, Sums};
use crate::state::{self, Body, ENTRY_COLUMNS, SEGMENT_COLUMNS, Segment, Stored};
use crate::status::windows;
use crate::track::{self, Loaded};
use crate::{Error, Result, migrate, open};
use rusqlite::{Connection, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Hlc, Rid, Stamp, Value, VersionVector};

/// How many rows of a table are named for one kind of problem; the rest are counted.
const NAMED: u64 = 20;

/// What is said of a file in which no row can be known yet.
const UNFINISHED: &str = "its rows are not taken in yet: synqlite init is at work, or was killed. Then the next \
                          command that writes takes them in, such as synqlite fold";

impl Replica {
    /// Looks for contradictions. Returns one sentence for each; none if all is well. Writes nothing.
    ///
    /// Metadata too damaged to be read is a problem, not an error.
    pub fn verify(&self) -> Result<Vec<String>> {
        self.env.begin(Phase::Verify);
        self.apart(|replica| {
            let mut found = Findings::default();
            let sound = match std::ptr::eq(self, replica) {
                // A connection of its own: one that wrote a full-text index remembers parts of it, and takes
                // what another has written since for damage.
                true => connect(&self.path, true, self.env.as_ref())
                    .and_then(|conn| integrity(&conn, &mut found)),
                false => integrity(&replica.conn, &mut found),
            };
            replica.verify_by(sound, found)
        })
    }

    /// `sound`: whether SQLite could look at the file.
    fn verify_by(&self, sound: Result<()>, mut found: Findings) -> Result<Vec<String>> {
        let sound = sound.map_err(|e| e.on(&self.path));
        let checked = sound.and_then(|()| {
            self.read(|conn, meta, loaded| {
                if migrate::begun(conn)? {
                    found.problem(UNFINISHED.to_owned());
                    return Ok(());
                }
                let Catalog { tables, local, .. } = &loaded.catalog;
                let mut all = tables.iter().chain(local);
                all.try_for_each(|t| references(conn, &loaded.catalog, t, &mut found))?;
                contradictions(conn, meta, loaded, self.env.as_ref(), &mut found)
            })
        });
        match checked {
            Ok(()) => {}
            Err(
                e @ (Error::Locked(_)
                | Error::OnDash(_)
                | Error::Alone(_)
                | Error::ReadOnly(_)
                | Error::Moved(_)
                | Error::NoDatabase(_)
                | Error::DiskFull(_)),
            ) => return Err(e),
            Err(e) => found.problem(format!("not everything could be checked: {e}")),
        }
        Ok(found.finish())
    }
}

impl Replica {
    /// [`Replica::verify`], and works out anew what every row shows, from the states of all (R-MAT).
    ///
    /// # Errors
    /// [`Error::Refused`] if there are writes that are not folded yet: they are no part of the states.
    pub fn verify_full(&self) -> Result<Vec<String>> {
        let mut problems = self.verify()?;
        if !problems.is_empty() {
            return Ok(problems);
        }
        let differences = self.apart(Replica::differences)?;
        let sentence = |(table, row, what): (String, String, String)| {
            format!("table {table}, {}: {what}", the_row(&row))
        };
        problems.extend(differences.into_iter().map(sentence));
        Ok(problems)
    }

    /// Table, row and what of rows that do not show what the states of all say.
    fn differences(&self) -> Result<Vec<(String, String, String)>> {
        self.read(|conn, meta, loaded| {
            if crate::journal::waiting(conn, &loaded.catalog, 1)? > 0 {
                let why = "there are writes that are not folded yet; run synqlite fold first";
                return Err(Error::Refused(why.into()));
            }
            let (catalog, policies) = (&loaded.catalog, settings::load(conn)?);
            let count = Count::new(self.env.as_ref(), Phase::Verify, Some(shown(conn, catalog)?));
            crate::merge::differences(conn, meta, catalog, &policies, count)
        })
    }
}

/// What [`Replica::verify`] finds in a transaction that has written, of what the next fold leaves.
pub(crate) fn unsound(conn: &Connection, env: &dyn Environment) -> Result<Vec<String>> {
    let mut found = Findings::default();
    integrity(conn, &mut found)?;
    let loaded = track::load(conn, &settings::load(conn)?)?;
    contradictions(conn, &Meta::load(conn)?, &loaded, env, &mut found)?;
    Ok(found.finish())
}

fn contradictions(
    conn: &Connection,
    meta: &Meta,
    loaded: &Loaded,
    env: &dyn Environment,
    found: &mut Findings,
) -> Result<()> {
    capture_objects(conn, loaded, found)?;
    for schema::Skipped { name, why, .. } in track::paused(conn, &loaded.catalog)? {
        found.problem(format!("table {name} is not replicated any more: {why}"));
    }
    let windows = windows(conn, loaded)?;
    let lookup = Lookup { conn, meta, catalog: &loaded.catalog };
    let mut seen = meta.seen.clone();
    // What is being merged in slices is here in part.
    seen.join(&inbox::covers(conn)?);
    let count = Count::new(env, Phase::Verify, Some(shown(conn, &loaded.catalog)?));
    let mut verify = Verify { conn, meta, seen, lookup, windows: &windows, found, count };
    verify.replica()?;
    for (t, window) in loaded.catalog.tables.iter().zip(&windows) {
        verify.table(t, window)?;
        if !loaded.stale.contains_key(&t.no) {
            verify.sums(t, window)?;
        }
    }
    Ok(())
}

/// How many rows the tables show.
fn shown(conn: &Connection, catalog: &Catalog) -> Result<u64> {
    let count = |t: &Tracked| {
        let sql = format!("SELECT count(*) FROM {}", t.target());
        Ok(conn.query_row(&sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
    };
    catalog.tables.iter().map(count).sum()
}

#[derive(Default)]
struct Findings {
    problems: Vec<String>,
    /// Rows by table and problem.
    rows: BTreeMap<(String, &'static str), u64>,
}

impl Findings {
    fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    fn row(
        &mut self,
        t: &Tracked,
        row: impl FnOnce() -> Result<String>,
        what: &'static str,
    ) -> Result<()> {
        let count = self.rows.entry((t.table.name.clone(), what)).or_default();
        *count += 1;
        if *count <= NAMED {
            self.problems.push(format!("table {}, {}: {what}", t.table.name, the_row(&row()?)));
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<String> {
        for ((table, what), count) in self.rows {
            if count > NAMED {
                let more = count - NAMED;
                self.problems.push(format!("table {table}, {more} more rows: {what}"));
            }
        }
        self.problems
    }
}

/// What SQLite finds. It looks at no table if it cannot at one, as where an index needs a function of the application:
/// then each is asked for by itself, and of those that cannot be looked at the replicated ones are told.
fn integrity(conn: &Connection, found: &mut Findings) -> Result<()> {
    let check = |of: &str, found: &mut Findings| -> Result<()> {
        let mut statement = conn.prepare(&format!("PRAGMA main.integrity_check{of}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let message: String = row.get(0)?;
            if message != "ok" {
                found.problem(format!("the database file: {message}"));
            }
        }
        Ok(())
    };
    // An error in a statement that could not be prepared has no code.
    let lacks = |e: &Error| {
        let Error::Sqlite(e) = e else { return false };
        e.sqlite_error_code().is_none_or(|code| code == ErrorCode::Unknown)
    };
    match check("", found) {
        Err(e) if lacks(&e) => {}
        checked => return checked,
    }
    let tables = "SELECT m.name, t.no NOTNULL FROM main.sqlite_master m LEFT JOIN synqlite_table t \
                  ON t.name = m.name COLLATE NOCASE AND t.shape <> '' WHERE m.type = 'table'";
    let mut statement = conn.prepare(tables)?;
    let mut tables = statement.query([])?;
    while let Some(row) = tables.next()? {
        let (table, replicated): (String, bool) = (row.get(0)?, row.get(1)?);
        match check(&format!("({})", quote(&table)), found) {
            Err(e) if lacks(&e) && replicated => {
                found.problem(format!("table {table} could not be checked: {e}"));
            }
            Err(e) if lacks(&e) => {}
            checked => checked?,
        }
    }
    Ok(())
}

/// Capture must be complete and as this version makes it. Where the application altered the table
/// since, its triggers are made anew by the next command that writes, and only must be there.
fn capture_objects(conn: &Connection, loaded: &Loaded, found: &mut Findings) -> Result<()> {
    let mut statement = conn.prepare(
        "SELECT name, type, tbl_name, sql FROM main.sqlite_master \
         WHERE name LIKE 'synqlite\\_%' ESCAPE '\\' AND sql IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let mut there: BTreeMap<String, (String, String, String)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        there.insert(row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?));
    }
    for t in &loaded.catalog.tables {
        let sql = "SELECT shape FROM synqlite_table WHERE no = ?1";
        let shape: String = conn.query_row(sql, [t.no], |row| row.get(0))?;
        let altered = shape != schema::shape(&t.table);
        let always = ["insert", "update", "delete"].map(|kind| own_name(kind, t.no));
        let table = &t.table.name;
        for (name, sql) in capture::objects(t) {
            let may_lack = capture::may_lack(conn, t, &name)?;
            match there.get(&name) {
                None if may_lack => {}
                None if !altered || always.contains(&name) => found.problem(format!(
                    "table {table}: {name} is missing, so changes are not all captured"
                )),
                Some((_, _, is)) if !altered && *is != sql => found.problem(format!(
                    "table {table}: {name} was altered, or another release of synqlite made it, so changes may \
                     be captured wrongly. The next command makes it anew"
                )),
                _ => {}
            }
        }
        there.retain(|name, _| !capture::is_own(name, t.no));
    }
    let triggers = there.iter().filter(|(_, (kind, ..))| kind == "trigger");
    for (name, (_, table, _)) in triggers.filter(|(_, (_, table, _))| !is_ours(table)) {
        found.problem(format!("table {table}: trigger {name} belongs to no replicated table"));
    }
    on_our_tables(conn, found)
}

/// Whether a table has a name as our metadata have.
fn is_ours(table: &str) -> bool {
    table.get(..9).is_some_and(|begin| begin.eq_ignore_ascii_case("synqlite_"))
}

/// Triggers of other programs on our tables: some put theirs on all that there are, such as sqlite-utils to count rows.
fn on_our_tables(conn: &Connection, found: &mut Findings) -> Result<()> {
    const THOSE: &str = "FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name LIKE 'synqlite\\_%' ESCAPE '\\'";
    let sql = format!("SELECT count(*), min(name) {THOSE}");
    let (count, first): (i64, Option<String>) =
        conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some(first) = first {
        let others = match count {
            1 => String::new(),
            _ => format!(" and {} more", count - 1),
        };
        found.problem(format!(
            "trigger {first}{others} of another program on tables of synqlite: each command and each write has to run \
             them. Drop them; what this prints does it: SELECT printf('DROP TRIGGER \"%w\";', name) {THOSE}"
        ));
    }
    Ok(())
}

/// No reference to a replicated table dangles, unless policy says that some may. Those that merges do not keep are
/// told too: nothing else tells of them.
fn references(
    conn: &Connection,
    catalog: &Catalog,
    t: &Tracked,
    found: &mut Findings,
) -> Result<()> {
    let is_replicated = |parent: &String| catalog.by_name(parent).is_some();
    let sql = "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list(?1, 'main')";
    let mut statement = conn.prepare_cached(sql)?;
    let declared = statement.query_map([&t.table.name], |row| row.get(0))?;
    let declared: Vec<String> = declared.collect::<rusqlite::Result<_>>()?;
    if !declared.iter().any(is_replicated) || !settings::load(conn)?.enforces_foreign_keys() {
        return Ok(());
    }
    let keeps = t.table.foreign_keys.iter().any(|fk| fk.enforced && is_replicated(&fk.parent));
    let sql = format!("PRAGMA main.foreign_key_check({})", quote(&t.table.name));
    let mut statement = match conn.prepare(&sql) {
        // One that refers to no key cannot be checked, and SQLite writes nothing to its table while it checks any.
        Err(_) if !keeps => return Ok(()),
        prepared => prepared?,
    };
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (rowid, parent): (Option<i64>, String) = (row.get(1)?, row.get(2)?);
        if is_replicated(&parent) {
            let name = match rowid.map(Loc::Row) {
                Some(loc) => loc_name(t, t.read(conn, &loc)?.as_deref(), &loc),
                None => "without rowid".to_owned(),
            };
            found.row(t, || Ok(name), "it refers to a row that is not there")?;
        }
    }
    Ok(())
}

struct Verify<'a> {
    conn: &'a Connection,
    meta: &'a Meta,
    /// What its states may have stamps of.
    seen: VersionVector,
    lookup: Lookup<'a>,
    /// What is not folded yet, of each table.
    windows: &'a [Window],
    found: &'a mut Findings,
    /// Rows whose sums were looked at.
    count: Count<'a>,
}

impl Verify<'_> {
    /// What concerns no single table of the application.
    fn replica(&mut self) -> Result<()> {
        let latest = self.meta.seen.latest();
        if latest > self.meta.clock {
            let (clock, latest) = (self.meta.clock.0, latest.0);
            self.found.problem(format!("the clock is at {clock}, yet {latest} has been seen"));
        }
        for (what, sql) in [
            (
                "stored row",
                "SELECT DISTINCT tbl FROM synqlite_row WHERE tbl NOT IN (SELECT no FROM synqlite_table)",
            ),
            (
                "segment",
                "SELECT DISTINCT tbl FROM synqlite_segment WHERE tbl NOT IN (SELECT no FROM synqlite_table)",
            ),
        ] {
            let mut statement = self.conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let no: i64 = row.get(0)?;
                self.found
                    .problem(format!("table number {no} is given to no table, yet has a {what}"));
            }
        }
        line::problems(self.conn, self.meta)?.into_iter().for_each(|p| self.found.problem(p));
        open::contradiction(self.lookup)?.into_iter().for_each(|p| self.found.problem(p));
        let mut statement = self.conn.prepare("SELECT key, hlc, site FROM synqlite_policy")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (key, stamp): (String, _) = (
                row.get(0)?,
                Stamp { hlc: Hlc(row.get(1)?), site: self.meta.site_of(row.get(2)?)? },
            );
            if let Some(what) = self.beyond([stamp]) {
                self.found.problem(format!("policy {key}: {what}"));
            }
        }
        Ok(())
    }

    /// What is wrong with a stamp, if one of them is.
    fn beyond(&self, stamps: impl IntoIterator<Item = Stamp>) -> Option<&'static str> {
        let mut worst = None;
        for stamp in stamps {
            if stamp.hlc > self.meta.clock {
                return Some("it is stamped later than the clock of this replica");
            }
            if !self.seen.covers(stamp) {
                worst = Some("it is stamped later than what this replica has seen of that site");
            }
        }
        worst
    }

    fn table(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        self.segments(t)?;
        self.keys(t, window)?;
        self.rows(t, window)?;
        self.places(t, window)?;
        self.entries(t, window)
    }

    /// Neither the rowids nor the births of two segments overlap, and no number of a birth is given
    /// twice.
    fn segments(&mut self, t: &Tracked) -> Result<()> {
        let sql = "SELECT lo, hi, site, hlc, position, first, \
                   lag(hi) OVER (ORDER BY lo) >= lo, \
                   lag(first + hi - lo) OVER (PARTITION BY site ORDER BY first) >= first, \
                   first IS NULL = (keys IS NULL) \
                   FROM synqlite_segment WHERE tbl = ?1 ORDER BY lo";
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([t.no])?;
        let births = meta::births(self.conn)?;
        while let Some(row) = rows.next()? {
            let (lo, hi): (i64, i64) = (row.get(0)?, row.get(1)?);
            let first: Option<i64> = row.get(5)?;
            let site = self.meta.site_of(row.get(2)?)?;
            let stamp = Stamp { hlc: Hlc(row.get(3)?), site };
            let overlaps = |i| row.get::<_, Option<bool>>(i).map(|o| o.unwrap_or(false));
            let last = hi.checked_sub(lo).and_then(|span| span.checked_add(first.unwrap_or(0)));
            let uncounted = first.is_some() && last.is_some_and(|last| last >= births);
            let what = [
                last.is_none().then_some("it ends before it begins"),
                (lo > hi).then_some("it ends before it begins"),
                overlaps(6)?.then_some("it overlaps the segment before it"),
                overlaps(7)?.then_some("it shares births with another segment"),
                overlaps(8)?.then_some("it has not either births or keys"),
                (row.get::<_, i64>(4)? > self.meta.local_seq)
                    .then_some("it changed after the latest change of this replica"),
                (site == self.meta.site && uncounted).then_some("its births are not counted"),
                self.beyond([stamp]),
            ];
            for what in what.into_iter().flatten() {
                self.found.row(t, || Ok(format!("{lo} to {hi} (a segment)")), what)?;
            }
        }
        Ok(())
    }

    /// Segments of keys have one for each rowid, and rows without an entry show theirs.
    fn keys(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        let sql = format!(
            "SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1 AND keys IS NOT NULL"
        );
        let mut statement = self.conn.prepare(&sql)?;
        let mut segments = statement.query([t.no])?;
        let now: BTreeSet<&Loc> = window.changed.values().map(|changed| &changed.now).collect();
        while let Some(row) = segments.next()? {
            let segment = Segment::from_row(row)?;
            let Some(rids) = segment.keyed()?.filter(|rids| fits(&segment, rids.len())) else {
                let name = || Ok(format!("{} to {} (a segment)", segment.lo, segment.hi));
                self.found.row(t, name, "it does not have one key for each of its rows")?;
                continue;
            };
            for (rowid, rid) in (segment.lo..=segment.hi).zip(rids) {
                let at = Loc::Row(rowid);
                let fresh = window.born.contains_key(&at) || now.contains(&at);
                let pending = window.changed.contains_key(&at) || window.gone.contains_key(&at);
                if fresh || pending || state::is_placed(self.conn, t, &at)? {
                    continue;
                }
                let (row, stored) =
                    (t.read(self.conn, &at)?, state::at(self.conn, self.meta, t, &at)?);
                let Rid::Key { key, .. } = &rid else { continue };
                match (row, stored) {
                    (Some(_), None) => self.unknown(t, &at)?,
                    (Some(row), Some(_)) if !self.shows(t, &row, key)? => {
                        let name = || Ok(loc_name(t, Some(&row), &at));
                        self.found.row(t, name, "its key was changed without being captured")?;
                    }
                    (None, Some(gone)) => {
                        let name =
                            || Ok(row_name(t, None, gone.loc.as_ref(), &gone.state, &gone.rid));
                        self.found.row(t, name, DISAPPEARED)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Whether a row shows the key by which a segment names it, as far as can be told: a row that is a
    /// part of it may have been written since the last fold.
    fn shows(&self, t: &Tracked, row: &[Value], key: &[u8]) -> Result<bool> {
        let tables = self.lookup.catalog.tables.iter().zip(self.windows);
        let mut written = tables.filter(|(_, window)| !window.is_empty()).map(|(t, _)| t.no);
        let names = |no| t.key_rows.iter().flatten().any(|row| row.parent.no == no);
        Ok(written.any(names) || self.lookup.key_rid(t, row)?.as_deref() == Some(key))
    }

    /// Every row shows what it did at the last fold or merge, unless the journal says otherwise.
    fn sums(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        let sums = Sums::load(self.conn, t)?;
        let now: BTreeSet<&Loc> = window.changed.values().map(|changed| &changed.now).collect();
        let appended = |loc: &Loc| match loc {
            Loc::Row(rowid) => window.appended.iter().any(|r| r.lo <= *rowid && *rowid <= r.hi),
            Loc::Key(_) => false,
        };
        for loc in state::places(self.conn, self.meta, t)? {
            self.count.add(1);
            let noted = window.changed.contains_key(&loc) || window.gone.contains_key(&loc);
            if noted || now.contains(&loc) || window.born.contains_key(&loc) || appended(&loc) {
                continue;
            }
            let Some(row) = t.read(self.conn, &loc)? else { continue };
            let compared = sums.compare(self.conn, t, &loc, &row, &BTreeSet::new())?;
            let what = match compared {
                None => "what it shows was never summed up",
                Some(found) if found == Compared::default() => continue,
                // Of others an update would only hide it.
                Some(found) if found.touched.iter().all(|c| fold::alone(t).any(|a| a == *c)) => {
                    UNCAPTURED
                }
                Some(_) => "it was changed without being captured",
            };
            self.found.row(t, || Ok(loc_name(t, Some(&row), &loc)), what)?;
        }
        // Of rows with entries or keys of their own it is looked for elsewhere.
        for loc in sums.locs() {
            let noted = window.changed.contains_key(&loc) || window.gone.contains_key(&loc);
            if noted || t.exists(self.conn, &loc)? {
                continue;
            }
            let stored = state::at(self.conn, self.meta, t, &loc)?;
            let born = |s: &Stored| s.entry.is_none() && matches!(s.rid, Rid::Birth { .. });
            if stored.as_ref().is_some_and(born) {
                self.found.row(t, || Ok(loc_name(t, None, &loc)), DISAPPEARED)?;
            }
        }
        Ok(())
    }

    /// Every visible row is known to the state.
    fn rows(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        let loc = loc_sql(&t.table, "o.");
        let now: BTreeSet<&Loc> = window.changed.values().map(|changed| &changed.now).collect();
        let unknown = match t.has_rowid() {
            false => self.there(t)?.difference(&self.placed(t)?).cloned().collect(),
            true => {
                // The + takes the integer affinity away, with which the index on loc could not be used.
                let sql = format!(
                    "SELECT {loc} FROM {} AS o \
                     WHERE coalesce((SELECT s.hi FROM synqlite_segment AS s WHERE s.tbl = ?1 \
                     AND s.lo <= {loc} ORDER BY s.lo DESC LIMIT 1) < {loc}, 1) AND NOT EXISTS(\
                     SELECT 1 FROM synqlite_row AS r WHERE r.tbl = ?1 AND r.loc = +({loc}))",
                    t.target()
                );
                t.places(&mut self.conn.prepare(&sql)?, [t.no])?
            }
        };
        for loc in unknown {
            if !window.born.contains_key(&loc) && !now.contains(&loc) {
                self.unknown(t, &loc)?;
            }
        }
        Ok(())
    }

    /// Where entries place rows of a table.
    fn placed(&self, t: &Tracked) -> Result<BTreeSet<Loc>> {
        let sql = "SELECT loc FROM synqlite_row WHERE tbl = ?1 AND loc IS NOT NULL";
        let mut statement = self.conn.prepare(sql)?;
        let placed = statement.query_map([t.no], |row| Ok(row.get::<_, Located>(0)?.0))?;
        Ok(placed.collect::<Result<_, _>>()?)
    }

    /// Where rows of a table are.
    fn there(&self, t: &Tracked) -> Result<BTreeSet<Loc>> {
        let sql = format!("SELECT {} FROM {} AS o", loc_sql(&t.table, "o."), t.target());
        Ok(t.places(&mut self.conn.prepare(&sql)?, [])?.into_iter().collect())
    }

    fn unknown(&mut self, t: &Tracked, loc: &Loc) -> Result<()> {
        let name = self.name_at(t, loc)?;
        self.found.row(t, || Ok(name), "it is in the table, but was neither captured nor merged")
    }

    /// Every state that is placed has a row at its place.
    fn places(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        let (placed, there) = (self.placed(t)?, self.there(t)?);
        for loc in placed.difference(&there) {
            if !window.gone.contains_key(loc) && !window.changed.contains_key(loc) {
                let name = || match state::at(self.conn, self.meta, t, loc)? {
                    Some(gone) if t.table.rowid_alias().is_none() => {
                        Ok(row_name(t, None, gone.loc.as_ref(), &gone.state, &gone.rid))
                    }
                    _ => Ok(loc_name(t, None, loc)),
                };
                self.found.row(t, name, DISAPPEARED)?;
            }
        }
        Ok(())
    }

    /// Every state is consistent in itself.
    fn entries(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        let now: BTreeSet<&Loc> = window.changed.values().map(|changed| &changed.now).collect();
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, wants, kind IS NOT NULL FROM synqlite_row WHERE tbl = ?1"
        );
        let mut statement = self.conn.prepare(&sql)?;
        let mut rows = statement.query([t.no])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            let Ok(stored) = state::decode(self.meta, t, row) else {
                self.found.row(
                    t,
                    || Ok(format!("{id} of synqlite_row")),
                    "its state cannot be read",
                )?;
                continue;
            };
            let (local_seq, wants): (i64, Option<i64>) = (row.get(4)?, row.get(5)?);
            let mut wrong = self.wrong(t, &stored, wants, local_seq, row.get(6)?);
            wrong.extend(self.miscounted(t, window, &stored)?);
            if !wrong.is_empty() {
                let name = self.name(t, &stored)?;
                for what in wrong {
                    self.found.row(t, || Ok(name.clone()), what)?;
                }
            }
            self.left_behind(t, window, &now, &stored)?;
        }
        Ok(())
    }

    fn wrong(
        &self,
        t: &Tracked,
        stored: &Stored,
        wants: Option<i64>,
        local_seq: i64,
        conflict: bool,
    ) -> Vec<&'static str> {
        let Stored { loc, state, .. } = stored;
        let h = &state.header;
        let cells = t.table.groups.iter().zip(&state.groups);
        let mut fits = cells.map(|(group, state)| match &state.body {
            Body::Stored(cell) => {
                cell.values.len() == group.columns.len()
                    && cell.refs.len() == group.foreign_keys.len()
            }
            Body::InTable => true,
        });
        let header = [h.cl_stamp, h.inserted, h.deleted, h.reinserted, h.yielded];
        let stamps = header.into_iter().chain(state.groups.iter().flat_map(|g| g.stamps()));
        let what = [
            (h.alive() && loc.is_none() && !conflict && !state.fell_with_parent())
                .then_some("it is alive, but not in the table"),
            (!h.alive() && loc.is_some() && !conflict)
                .then_some("it is deleted, but placed in the table"),
            (loc.is_none() && state.groups.iter().any(|g| g.body == Body::InTable))
                .then_some("it is not in the table and does not keep all of its values"),
            (!fits.all(|fits| fits)).then_some("it keeps values of other columns"),
            (wants != state.kept_id(t))
                .then_some("the number it asks for is not noted as it should be"),
            (local_seq > self.meta.local_seq)
                .then_some("it changed after the latest change of this replica"),
            self.beyond(stamps),
        ];
        what.into_iter().flatten().collect()
    }

    /// A counter must show what its counts add up to, unless it was written since the last fold.
    fn miscounted(
        &self,
        t: &Tracked,
        window: &Window,
        stored: &Stored,
    ) -> Result<Option<&'static str>> {
        let written = |loc| window.changed.contains_key(loc) || window.gone.contains_key(loc);
        let Some(loc) = stored.loc.as_ref().filter(|loc| !written(*loc)) else { return Ok(None) };
        if stored.state.groups.iter().all(|group| group.counts.is_empty()) {
            return Ok(None);
        }
        let Some(row) = t.read(self.conn, loc)? else { return Ok(None) };
        for (g, group) in stored.state.groups.iter().enumerate() {
            let (Body::Stored(base), c) = (&group.body, t.table.groups[g].columns[0]) else {
                continue;
            };
            // No site counts in a key. Where a delta says so, the row may have been given another.
            if t.table.primary_key.contains(&c) {
                continue;
            }
            if counter::sum(t, g, group, base).is_some_and(|sum| sum != row[c]) {
                return Ok(Some("it shows another number than its counts add up to"));
            }
        }
        Ok(None)
    }

    /// A row born in a segment that moved or died left its rowid; a row there now needs a state of
    /// its own.
    fn left_behind(
        &mut self,
        t: &Tracked,
        window: &Window,
        now: &BTreeSet<&Loc>,
        stored: &Stored,
    ) -> Result<()> {
        let Rid::Birth { .. } = &stored.rid else { return Ok(()) };
        let Some((_, rowid)) = Segment::of(self.conn, self.meta, t, &stored.rid)? else {
            return Ok(());
        };
        let at = Loc::Row(rowid);
        if stored.loc.as_ref() == Some(&at)
            || window.born.contains_key(&at)
            || now.contains(&at)
            || state::is_placed(self.conn, t, &at)?
            || !t.exists(self.conn, &at)?
        {
            return Ok(());
        }
        self.unknown(t, &at)
    }

    fn name(&self, t: &Tracked, stored: &Stored) -> Result<String> {
        let row = match &stored.loc {
            Some(loc) => t.read(self.conn, loc)?,
            None => None,
        };
        Ok(row_name(t, row.as_deref(), stored.loc.as_ref(), &stored.state, &stored.rid))
    }

    fn name_at(&self, t: &Tracked, loc: &Loc) -> Result<String> {
        Ok(loc_name(t, t.read(self.conn, loc)?.as_deref(), loc))
    }
}

const UNCAPTURED: &str =
    "it was changed without being captured; an UPDATE, even to what it shows, makes that known";
const DISAPPEARED: &str = "it disappeared from the table without being captured";

fn fits(segment: &Segment, keys: usize) -> bool {
    let rows = segment.hi.checked_sub(segment.lo).and_then(|span| span.checked_add(1));
    rows == i64::try_from(keys).ok()
}

#[cfg(test)]
mod tests;
