//! Makes a database a replica again that was one and lost its metadata, while somebody else still
//! knows it.
//!
//! Which writes were made here since, nobody has noted; the rows tell. All that the others know is
//! merged into the emptied tables, and then compared with what stood there. A row that both have, by
//! its primary key or else by all of its values, is one row, and where it differs it was written here.
//! A row that only this file has was inserted here, unless the others know it as deleted or hidden and
//! unchanged. A row that only they have came since, or was deleted here: it is shown again, because a
//! row too many is seen and a row too few is not.
//!
//! So nothing is lost in silence: every value that a write from here replaces, and every row that has
//! no place beside theirs, is noted among the closed records.

use crate::catalog::{Catalog, Fresh, Loc, Tracked, loc_sql};
use crate::connection::{connect, to_write};
use crate::describe::{loc_name, text};
use crate::env::Environment;
use crate::fold::{self, Terms};
use crate::init::{self, InitOptions, TableReport, select};
use crate::journal::{Born, Window};
use crate::known::known_by;
use crate::merge::{self, Columns, Decision, Lost, Subject, Write};
use crate::meta::Meta;
use crate::remotes::{clear_former_pages, overwriting};
use crate::replica::{Replica, check_format, upgrade};
use crate::schema::{Skipped, Table, quote};
use crate::settings;
use crate::sqlvalue::{Located, values};
use crate::state::{self, Body, ENTRY_COLUMNS};
use crate::work::Work;
use crate::{Error, Result, capture, closed, deinit, migrate, pull, refs};
use rusqlite::{Connection, ErrorCode, params};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use synqlite_view::ConflictKind;
use synqlite_wire::{Setting, SiteId, Value, VersionVector};

/// What became of a database that is a replica again.
#[derive(Clone, Debug)]
pub struct Rejoined {
    /// The replica's site: a new one.
    pub site: SiteId,
    /// Replicated tables.
    pub tables: Vec<TableReport>,
    /// What is not replicated, and why.
    pub skipped: Vec<Skipped>,
    /// How the rows compare.
    pub compared: Compared,
}

/// How the rows of a database compare with those that the others know.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Rows that differ: what this database has is written anew.
    pub updated: u64,
    /// Rows that only this database has: they are inserted.
    pub inserted: u64,
    /// Rows that the others know as deleted or hidden: they are not shown.
    pub hidden: u64,
    /// Rows that only the others have: they are shown.
    pub theirs: u64,
    /// What was replaced, and what has no place, row by row.
    pub told: Vec<Decision>,
}

impl Replica {
    /// Makes the database at `path` a replica of the same database as `source`, with a site id of its
    /// own. `force` takes changes that are stamped far ahead of this machine's clock.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is a whole replica.
    pub fn rejoin(
        path: &Path,
        source: &mut Replica,
        options: &InitOptions,
        force: bool,
        env: Arc<dyn Environment>,
    ) -> Result<Rejoined> {
        let conn = connect(path, true, env.as_ref())?;
        let rejoined = overwriting(&conn, || {
            upgrade(&conn, path, env.as_ref())?;
            match check_format(&conn, path) {
                Ok(()) => {
                    let name = path.display();
                    return Err(Error::Refused(format!(
                        "{name} is a replica, and no table of it is missing. Synchronize it"
                    )));
                }
                Err(
                    Error::NotAReplica(_)
                    | Error::Torn { .. }
                    | Error::Damaged(_)
                    | Error::OlderFormat { .. },
                ) => {}
                Err(e) => return Err(e),
            }
            source.fold()?;
            let tx = to_write(&conn, path, env.as_ref())?;
            let rejoined = rejoin(&tx, path, source, options, force, env.as_ref())?;
            tx.commit()?;
            Ok(rejoined)
        });
        let rejoined = rejoined.map_err(|e| e.on(path))?;
        clear_former_pages(&conn).map_err(|e| e.on(path))?;
        Ok(rejoined)
    }
}

/// A number means a row of one site there (R-OWN), and which of theirs it is here nobody knows any more.
fn refuse_own_numbers(conn: &Connection, tables: &[Table]) -> Result<()> {
    for table in tables.iter().filter(|table| table.own_number().is_some()) {
        let any = format!("SELECT 1 FROM main.{} LIMIT 1", quote(&table.name));
        if conn.prepare(&any)?.exists([])? {
            return Err(Error::Refused(format!(
                "each site numbers the rows of {name} for itself ({name}.ids=local), and which row of the others has \
                 which number here is lost. Clone the database under another name, and write there what only this \
                 file has",
                name = table.name
            )));
        }
    }
    Ok(())
}

fn rejoin(
    conn: &Connection,
    path: &Path,
    source: &mut Replica,
    options: &InitOptions,
    force: bool,
    env: &dyn Environment,
) -> Result<Rejoined> {
    deinit::remove(conn)?;
    init::create(conn, path, source.database(), options.history, env)?;
    let now = env.now_ms();
    let mut work = Work::begin(conn, env)?;
    for setting in source.settings()? {
        settings::store(conn, &mut work.meta, &setting)?;
    }
    work.policies = settings::load(conn)?;
    migrate::set_policies(&mut work, &options.policies, now)?;
    let schema = select(conn, &work.policies, options)?;
    let theirs = source.table_names()?;
    let shared = schema.tables.iter().filter(|t| theirs.contains(&t.name.to_ascii_lowercase()));
    let shared: Vec<Table> = shared.cloned().collect();
    refuse_own_numbers(conn, &shared)?;
    merge::with_indexes(conn, &work.policies, || {
        shared.iter().enumerate().try_for_each(|(i, table)| set_aside(conn, table, i))
    })?;
    migrate::take_in(&mut work, &shared)?;
    pull::merge_all(&mut work, source, force)?;
    let (compared, alone) = compare(&mut work, &shared)?;
    closed::note_rejoined(conn, &alone, now)?;
    let new = |t: &&Table| work.catalog.by_name(&t.name).is_none();
    let fresh: Vec<Table> = schema.tables.iter().filter(new).cloned().collect();
    if !fresh.is_empty() {
        migrate::take_in(&mut work, &fresh)?;
    }
    let tables = init::table_reports(conn, &work.catalog)?;
    capture::guard(conn, &work.catalog)?;
    work.save()?;
    Ok(Rejoined { site: work.meta.site, tables, skipped: schema.skipped, compared })
}

impl Replica {
    /// All replicated settings.
    fn settings(&self) -> Result<Vec<Setting>> {
        self.peek(|conn, meta| settings::since(conn, meta, &VersionVector::default()))
    }

    /// Names by which tables are known here or elsewhere, in lower case.
    fn table_names(&self) -> Result<BTreeSet<String>> {
        self.peek(|conn, _| {
            let sql = "SELECT lower(name) FROM synqlite_table UNION \
                       SELECT lower(canonical) FROM synqlite_table";
            let mut statement = conn.prepare(sql)?;
            let names = statement.query_map([], |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
    }
}

/// The name of the table in which the rows of the `i`th table wait.
fn aside(i: usize) -> String {
    format!("temp.synqlite_aside_{i}")
}

/// Moves the rows of a table to where they wait.
fn set_aside(conn: &Connection, table: &Table, i: usize) -> Result<()> {
    let columns = table.columns.len();
    // Without affinities, so that values stay what they are.
    let places: Vec<_> = (0..columns).map(|c| format!("c{c}")).collect();
    let names: Vec<_> = table.columns.iter().map(|c| quote(&c.name)).collect();
    let (aside, target) = (aside(i), format!("main.{}", quote(&table.name)));
    conn.execute_batch(&format!(
        "CREATE TEMP TABLE {}({}); INSERT INTO {aside} SELECT {} FROM {target}; DELETE FROM {target}",
        aside.trim_start_matches("temp."),
        places.join(","),
        names.join(",")
    ))?;
    Ok(())
}

/// Compares what waits with what the tables show, writes what differs, and stamps it. Returns with what is told
/// that part of it of which no other site will know.
fn compare(work: &mut Work<'_>, shared: &[Table]) -> Result<(Compared, Vec<Decision>)> {
    let conn = work.conn;
    let (mut compared, mut replaced) = (Compared::default(), Vec::new());
    let mut windows: Vec<Window> = work.catalog.tables.iter().map(|_| Window::default()).collect();
    // Parents come first.
    let of = |t: &Tracked| shared.iter().position(|s| s.name == t.table.name);
    merge::with_indexes(conn, &work.policies, || {
        let mut hidden = Vec::new();
        for (position, (t, window)) in work.catalog.tables.iter().zip(&mut windows).enumerate() {
            let Some(i) = of(t) else { continue };
            let (to, replaced) = (&mut compared, &mut replaced);
            let mut comparison = Comparison { work, t, aside: aside(i), window, to, replaced };
            hidden.extend(comparison.run()?.into_iter().map(|row| (position, row)));
            conn.execute_batch(&format!("DROP TABLE {}", aside(i)))?;
        }
        bring_back(work, hidden, &mut windows, &mut compared)
    })?;
    let Work { meta, catalog, policies, env, .. } = work;
    let none = Fresh::new();
    let terms = Terms { policies, env: *env, pins: true };
    let (_, wrote) = fold::fold_windows(conn, meta, catalog, terms, windows, none)?;
    let (mut all, mut passed_on) = (Vec::new(), BTreeSet::new());
    for replaced in replaced {
        let (at, mut told) = (replaced.at, replaced.told(conn, meta, catalog)?);
        passed_on.extend(told.first().map(|_| at));
        all.append(&mut told);
    }
    closed::note_written(conn, meta, catalog, &all)?;
    merge::repair(conn, meta, catalog, policies, wrote)?;
    let told = compared.told.iter().enumerate();
    let alone = told.filter(|(at, _)| !passed_on.contains(at)).map(|(_, told)| told.clone());
    let alone = alone.collect();
    Ok((compared, alone))
}

/// A row that shows here what others had written over, or not seen: whoever wrote that is told (R-TOLD).
struct Replaced {
    /// Position of the table.
    table: usize,
    loc: Loc,
    /// Its place among what is told here.
    at: usize,
    /// What the others showed, by column, and when it was written.
    lost: Vec<(usize, Write)>,
}

impl Replaced {
    /// What gave way, once it is known when this site wrote what replaced it.
    fn told(self, conn: &Connection, meta: &Meta, catalog: &Catalog) -> Result<Vec<Lost>> {
        let t = &catalog.tables[self.table];
        let Some(stored) = state::at(conn, meta, t, &self.loc)? else { return Ok(vec![]) };
        let Some(row) = t.read(conn, &self.loc)? else { return Ok(vec![]) };
        let (here, sites, row) = (meta.site, &meta.names, &row[..]);
        let subject =
            Subject { t, rid: &stored.rid, row: Some(row), stored: Some(&stored), here, sites };
        let told = |(c, lost): (usize, Write)| {
            let stamp = stored.state.column_stamp(t, c);
            let kept = Write { stamp, values: vec![row[c].clone()] };
            let why = "of a file that became a replica again";
            let columns = Columns::of(t, &[c]);
            let lost = Some(lost).filter(|lost| !lost.stamp.is_zero() && lost.stamp < stamp)?;
            Some(subject.gives_way(ConflictKind::Overwritten, &columns, &lost, &kept, why))
        };
        Ok(self.lost.into_iter().filter_map(told).collect())
    }
}

/// Rows that both have, as (where one waits, where it is), and rows that only wait.
type Matched = (Vec<(i64, Loc)>, Vec<i64>);

/// A row that others deleted is needed here if a row of this file refers to it.
fn bring_back(
    work: &Work<'_>,
    mut hidden: Vec<(usize, Vec<Value>)>,
    windows: &mut [Window],
    compared: &mut Compared,
) -> Result<()> {
    let (conn, catalog) = (work.conn, &work.catalog);
    loop {
        let mut wanted: Vec<(usize, String)> = Vec::new();
        let positions: BTreeSet<usize> = hidden.iter().map(|(position, _)| *position).collect();
        for &position in &positions {
            for (child, f) in catalog.references_to(position) {
                let c = &catalog.tables[child];
                let fk = &c.table.foreign_keys[f];
                for loc in refs::dangling(conn, c, &catalog.tables[position], fk)? {
                    let row = c.read(conn, &loc)?.unwrap_or_default();
                    let key: Vec<Value> =
                        fk.columns.iter().filter_map(|&c| row.get(c).cloned()).collect();
                    wanted.push((position, format!("{:?}{key:?}", fk.parent_columns)));
                }
            }
        }
        let (before, mut rest) = (hidden.len(), Vec::new());
        for (position, row) in hidden {
            let t = &catalog.tables[position];
            let is_wanted = catalog.references_to(position).any(|(child, f)| {
                let columns = &catalog.tables[child].table.foreign_keys[f].parent_columns;
                let key: Vec<Value> = columns.iter().map(|&c| row[c].clone()).collect();
                wanted.contains(&(position, format!("{columns:?}{key:?}")))
            });
            match if is_wanted { t.insert(conn, &row, None).ok() } else { None } {
                Some(loc) => {
                    windows[position].born.insert(loc, Born::at(0));
                    compared.hidden -= 1;
                    compared.inserted += 1;
                }
                None => rest.push((position, row)),
            }
        }
        if rest.len() == before {
            return Ok(());
        }
        hidden = rest;
    }
}

struct Comparison<'a, 'w> {
    work: &'a Work<'w>,
    t: &'a Tracked,
    /// The table in which the rows of this one wait.
    aside: String,
    window: &'a mut Window,
    to: &'a mut Compared,
    replaced: &'a mut Vec<Replaced>,
}

impl Comparison<'_, '_> {
    /// Returns the rows that are not shown because others deleted or hid them.
    fn run(&mut self) -> Result<Vec<Vec<Value>>> {
        let (pairs, alone) = match self.t.table.primary_key.is_empty() {
            true => self.by_all_values()?,
            false => self.by_key()?,
        };
        let shown: i64 = {
            let sql = format!("SELECT count(*) FROM {}", self.t.target());
            self.work.conn.query_row(&sql, [], |row| row.get(0))?
        };
        let matched = pairs.len() as u64;
        self.to.theirs += shown.unsigned_abs().saturating_sub(matched);
        for (rowid, loc) in pairs {
            self.update(rowid, &loc)?;
        }
        let mut hidden = Vec::new();
        if alone.is_empty() {
            return Ok(hidden);
        }
        let gone = self.gone()?;
        for rowid in alone {
            let row = self.waiting(rowid)?;
            if gone.contains(&fingerprint(&row)) {
                self.to.hidden += 1;
                hidden.push(row);
            } else {
                self.insert(&row)?;
            }
        }
        Ok(hidden)
    }

    fn by_key(&self) -> Result<Matched> {
        let column = |&c: &usize| format!("o.{} = s.c{c}", quote(&self.t.table.columns[c].name));
        let same: Vec<_> = self.t.table.primary_key.iter().map(column).collect();
        let sql = format!(
            "SELECT s.rowid, {} FROM {} AS s CROSS JOIN {} AS o ON {}",
            loc_sql(&self.t.table, "o."),
            self.aside,
            self.t.target(),
            same.join(" AND ")
        );
        let mut statement = self.work.conn.prepare(&sql)?;
        let pairs = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, Located>(1)?)))?;
        let mut taken = HashSet::new();
        let pairs: Vec<(i64, Located)> = pairs.collect::<Result<_, _>>()?;
        let placed = pairs.into_iter().map(|(rowid, place)| Ok((rowid, self.t.place(place)?)));
        let mut pairs: Vec<(i64, Loc)> = placed.collect::<Result<_>>()?;
        // Two spellings of one key cannot both be that row.
        pairs.retain(|(_, loc)| taken.insert(loc.clone()));
        let matched: HashSet<i64> = pairs.iter().map(|(rowid, _)| *rowid).collect();
        let mut alone = self.all_waiting()?;
        alone.retain(|rowid| !matched.contains(rowid));
        Ok((pairs, alone))
    }

    fn by_all_values(&self) -> Result<Matched> {
        let sql = format!(
            "SELECT {}, {} FROM {} AS o",
            loc_sql(&self.t.table, "o."),
            self.t.column_list(),
            self.t.target()
        );
        let mut statement = self.work.conn.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut shown: HashMap<String, Vec<Loc>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let row_values = values(row, 1, self.t.table.columns.len())?;
            let loc = self.t.place(row.get(0)?)?;
            shown.entry(fingerprint(&row_values)).or_default().push(loc);
        }
        let (mut pairs, mut alone) = (Vec::new(), Vec::new());
        for rowid in self.all_waiting()? {
            let places = shown.get_mut(&fingerprint(&self.waiting(rowid)?));
            match places.and_then(Vec::pop) {
                Some(loc) => pairs.push((rowid, loc)),
                None => alone.push(rowid),
            }
        }
        Ok((pairs, alone))
    }

    fn all_waiting(&self) -> Result<Vec<i64>> {
        let sql = format!("SELECT rowid FROM {} ORDER BY rowid", self.aside);
        let mut statement = self.work.conn.prepare(&sql)?;
        let rowids = statement.query_map([], |row| row.get(0))?;
        Ok(rowids.collect::<Result<_, _>>()?)
    }

    fn waiting(&self, rowid: i64) -> Result<Vec<Value>> {
        let sql = format!("SELECT * FROM {} WHERE rowid = ?1", self.aside);
        let count = self.t.table.columns.len();
        let mut statement = self.work.conn.prepare_cached(&sql)?;
        Ok(statement.query_row([rowid], |row| values(row, 0, count))?)
    }

    /// Rows that the others know and do not show.
    fn gone(&self) -> Result<HashSet<String>> {
        let sql =
            format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc IS NULL");
        let mut statement = self.work.conn.prepare(&sql)?;
        let mut rows = statement.query(params![self.t.no])?;
        let mut gone = HashSet::new();
        while let Some(row) = rows.next()? {
            let stored = state::decode(&self.work.meta, self.t, row)?;
            let mut kept = vec![Value::Null; self.t.table.columns.len()];
            for (of, group) in self.t.table.groups.iter().zip(&stored.state.groups) {
                if let Body::Stored(cell) = &group.body {
                    for (&c, value) in of.columns.iter().zip(&cell.values) {
                        kept[c] = value.clone();
                    }
                }
            }
            gone.insert(fingerprint(&kept));
        }
        Ok(gone)
    }

    /// Writes what a row that both have shows here and not there.
    fn update(&mut self, rowid: i64, loc: &Loc) -> Result<()> {
        let (conn, t) = (self.work.conn, self.t);
        let ours = self.waiting(rowid)?;
        let Some(theirs) = t.read(conn, loc)? else { return Ok(()) };
        let key = |c: &usize| t.table.primary_key.contains(c);
        let differs: Vec<usize> =
            (0..ours.len()).filter(|c| !key(c) && !same(&ours[*c], &theirs[*c])).collect();
        if differs.is_empty() {
            return Ok(());
        }
        let list = |row: &[Value]| {
            let of = |&c: &usize| format!("{} {}", t.table.columns[c].name, text(&row[c]));
            differs.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        let name = (loc_name(t, Some(&theirs), loc), known_by(&t.table, &theirs, &[]));
        if let Err(refusal) = t.update(conn, loc, &differs, &ours) {
            let what =
                format!("this file had {}, which has no place: {}", list(&ours), broken(refusal)?);
            self.tell(name, what);
            return Ok(());
        }
        self.tell(name, format!("{} replaces {}", list(&ours), list(&theirs)));
        self.replaces(loc, &differs, &theirs)?;
        self.to.updated += 1;
        let written: BTreeMap<u32, i64> = differs.iter().map(|&c| (t.column_nos[c], 0)).collect();
        self.window.changed.insert(loc.clone(), migrate::changed(loc, written));
        Ok(())
    }

    /// Remembers what a row of this file replaces.
    fn replaces(&mut self, loc: &Loc, columns: &[usize], theirs: &[Value]) -> Result<()> {
        let Work { conn, meta, catalog, .. } = self.work;
        let (t, table) = (self.t, catalog.position_of_no(self.t.no));
        let (Some(table), Some(stored)) = (table, state::at(conn, meta, t, loc)?) else {
            return Ok(());
        };
        let lost = |&c: &usize| {
            let stamp = stored.state.column_stamp(t, c);
            (c, Write { stamp, values: vec![theirs[c].clone()] })
        };
        let lost = columns.iter().map(lost).collect();
        let at = self.to.told.len() - 1;
        self.replaced.push(Replaced { table, loc: loc.clone(), at, lost });
        Ok(())
    }

    fn insert(&mut self, row: &[Value]) -> Result<()> {
        let t = self.t;
        match t.insert(self.work.conn, row, None) {
            Ok(loc) => {
                self.to.inserted += 1;
                self.window.born.insert(loc, Born::at(0));
            }
            Err(refusal) => {
                let list = t.table.columns.iter().zip(row);
                let list: Vec<_> = list.map(|(c, v)| format!("{} {}", c.name, text(v))).collect();
                let name = (loc_name(t, Some(row), &Loc::Row(0)), known_by(&t.table, row, &[]));
                let what = format!(
                    "only this file had it, and it has no place: {}; its values were {}",
                    broken(refusal)?,
                    list.join(", ")
                );
                self.tell(name, what);
            }
        }
        Ok(())
    }

    fn tell(&mut self, (row, name): (String, Option<String>), what: String) {
        let table = self.t.table.name.clone();
        let words = what.clone();
        self.to.told.push(Decision { table, row, name, what, words, record: None, claim: None });
    }
}

/// What a constraint says of a row that breaks it; any other failure stays one.
fn broken(refusal: Error) -> Result<String> {
    match refusal {
        Error::Sqlite(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Ok(e.to_string())
        }
        e => Err(e),
    }
}

/// Equal for rows whose values are the same.
fn fingerprint(row: &[Value]) -> String {
    format!("{row:?}")
}

fn same(a: &Value, b: &Value) -> bool {
    fingerprint(std::slice::from_ref(a)) == fingerprint(std::slice::from_ref(b))
}
