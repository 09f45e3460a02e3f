//! Plays a history on files.

use super::app::{self, App, Ran, System};
use super::between::Waiting;
use super::counts::{Shaped, Sums};
use super::dump;
use super::generate::{NOBODYS, START_MS};
use super::marks::{self, Marks, Shown};
use super::migrate::Migration;
use super::numbers;
use super::oracle;
use super::regions::Region;
use super::schema::{Column, Schema, Table, quote};
use super::{Action, History, How, Step, site_name};
use crate::network::RemoteStore;
use crate::world::{Result, Simulated, julian_day};
use rusqlite::Connection;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use synqlite_core::{Error, InitOptions, Policy, Replica, Value};
use synqlite_remote::{Outcome, Remote, Session, SyncError};

/// What went wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What kind of fault it is: while steps are left out it must stay the same.
    pub kind: String,
    /// What it is.
    pub what: String,
}

/// What SQLite itself does to a table that refers to itself under SET NULL or SET DEFAULT, where REPLACE takes
/// away the row that the updated one is to; or that it refuses an update of a row that refers to itself by a key
/// spelled otherwise: the history ends there.
const BROKEN: &str = "broken by SQLite";

/// A history either goes on or has a fault.
pub type Played<T = ()> = std::result::Result<T, Fault>;

/// A site.
pub struct Site {
    /// Its file.
    pub path: PathBuf,
    /// Its clock and its random numbers.
    pub env: Arc<Simulated>,
    /// Its application, once there is a file.
    pub app: Option<App>,
    slot: usize,
    pub(super) system: bool,
    /// The migrations that it has applied.
    pub applied: Vec<usize>,
    /// Its schema now.
    pub schema: Schema,
    backup: Option<(Vec<usize>, Schema)>,
    /// What its file was when it was looked at last.
    pub looked_at: Option<u64>,
    /// Whether it is a program that keeps its replica open from one command to the next.
    keeps: bool,
    kept: RefCell<Option<Replica>>,
    /// What its table of counters is like.
    pub(super) shaped: Shaped,
    /// What its application writes while the next command is at work.
    pub(super) waiting: Vec<Waiting>,
}

/// A history while it is played.
pub struct Player<'a> {
    /// What is played.
    pub history: &'a History,
    /// The other SQLite, if there is one.
    pub system: Option<&'a mut System>,
    /// The sites, those that are to come included.
    pub sites: Vec<Site>,
    /// What was written.
    pub marks: Marks,
    /// What counters must show.
    pub(super) counted: Sums,
    /// The place that numbers its objects, where it does.
    pub(super) store: RemoteStore,
    pub(super) dir: tempfile::TempDir,
}

/// A fault.
pub fn fault<T>(kind: impl Into<String>, what: impl Into<String>) -> Played<T> {
    Err(Fault { kind: kind.into(), what: what.into() })
}

/// What happened in the harness itself, or in SQLite where nothing should.
pub fn harness(error: impl std::fmt::Display) -> Fault {
    Fault { kind: "harness".into(), what: error.to_string() }
}

/// An error of the engine, by the name of its variant.
pub fn engine(doing: &str) -> impl Fn(SyncError) -> Fault + '_ {
    move |e| {
        let name = format!("{e:?}");
        let inner = name.strip_prefix("Engine(").unwrap_or(&name);
        let name: String = inner.chars().take_while(|c| c.is_alphanumeric()).collect();
        Fault { kind: format!("error {name}"), what: format!("{doing}: {e}") }
    }
}

/// Plays a history to its end. A panic is a fault. `keep`: the files of one that ends in a fault stay, and the
/// fault says where.
pub fn play(history: &History, system: Option<&mut System>, keep: bool) -> Option<Fault> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut player = Player::start(history, system)?;
        let played = player.all();
        let dir = player.close();
        played.map_err(|mut fault| {
            if keep {
                write!(fault.what, " ({})", dir.keep().display()).ok();
            }
            fault
        })
    }));
    match played {
        Ok(played) => played.err().filter(|fault| fault.kind != BROKEN),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
            Some(Fault { kind: "panic".into(), what: text.unwrap_or_default() })
        }
    }
}

impl<'a> Player<'a> {
    fn start(history: &'a History, system: Option<&'a mut System>) -> Played<Player<'a>> {
        let dir = app::folder().map_err(harness)?;
        let site = |n: usize| Site {
            path: dir.path().join(format!("{}.db", site_name(n))),
            env: Arc::new(Simulated::named(history.seed, n, site_name(n).to_string())),
            app: None,
            slot: n,
            system: history.system[n] && system.is_some(),
            applied: Vec::new(),
            schema: Schema::new(),
            backup: None,
            looked_at: None,
            keeps: ((history.seed >> 3) + n as u64).is_multiple_of(2),
            kept: RefCell::default(),
            shaped: Shaped::default(),
            waiting: vec![],
        };
        let sites: Vec<Site> = (0..history.sites).map(site).collect();
        sites.iter().for_each(|site| site.env.set(START_MS));
        let (marks, counted, store) = (Marks::default(), Sums::new(), RemoteStore::default());
        let mut player = Player { history, system, sites, marks, counted, store, dir };
        player.first()?;
        Ok(player)
    }

    /// The first sites.
    fn first(&mut self) -> Played {
        let history = self.history;
        self.sites[0].schema = history.schema.clone();
        let conn = Connection::open(&self.sites[0].path).map_err(harness)?;
        let tally = history.tally.as_ref().map_or(vec![], |tally| tally.setup());
        for sql in history.setup.iter().chain(&history.made()).chain(&tally) {
            let made = conn.prepare(sql).and_then(|mut s| s.query([])?.next().map(|_| ()));
            made.map_err(|e| harness(format!("{sql}: {e}")))?;
        }
        for sql in &history.rows {
            // Rows that collide are left out.
            let _collided = conn.execute_batch(sql);
        }
        if !conn.is_autocommit() {
            // A savepoint that a reference kept from being released.
            conn.execute_batch("ROLLBACK").map_err(harness)?;
        }
        if history.rows.iter().any(|sql| sql.contains("UPDATE OR REPLACE")) {
            let check = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0));
            let check: String = check.map_err(harness)?;
            if check != "ok" {
                return fault(BROKEN, check);
            }
        }
        let site = &self.sites[0];
        let with_policies = || {
            let policies = history.policies.iter().map(|(key, value)| Policy::new(key, value));
            let policies = policies.collect::<std::result::Result<_, _>>()?;
            let options = InitOptions { policies, ..InitOptions::default() };
            Replica::init(&site.path, &options, site.env.clone())
        };
        let init = || match with_policies() {
            Err(Error::Policy { .. }) => {
                Replica::init(&site.path, &InitOptions::default(), site.env.clone())
            }
            done => done,
        };
        let mut done = init();
        if let Err(Error::Dangling { .. } | Error::Doubles { .. }) = done {
            // It refuses them with good reason.
            let own = history.own.then(|| quote("own"));
            let all = history.schema.values().map(|t| quote(&t.name)).chain(own);
            let empty =
                all.map(|name| format!("DELETE FROM {name}")).collect::<Vec<_>>().join("; ");
            conn.execute_batch(&format!("PRAGMA foreign_keys = OFF; {empty}")).map_err(harness)?;
            done = init();
        }
        done.map_err(|e| engine("init")(e.into()))?;
        drop(conn);
        self.open_app(0)?;
        let shown = self.shown(0)?;
        self.marks.local(0, &Shown::new(), &shown);
        self.begin_to_count(START_MS)?;
        for site in 1..history.first {
            self.clone_site(site, 0, How::Clone)?;
        }
        Ok(())
    }

    fn open_app(&mut self, n: usize) -> Played {
        let site = &mut self.sites[n];
        let system = self.system.as_deref_mut().filter(|_| site.system);
        site.app = Some(App::open(system, site.slot, &site.path).map_err(harness)?);
        for pragma in self.history.pragmas.get(n).into_iter().flatten() {
            self.run(n, std::slice::from_ref(pragma), false, START_MS)?;
        }
        Ok(())
    }

    /// Closes whatever has the file open.
    fn close_app(&mut self, n: usize) -> Played {
        let site = &mut self.sites[n];
        site.kept.take();
        if let Some(app) = site.app.take() {
            let system = self.system.as_deref_mut().filter(|_| site.system);
            app.close(system).map_err(harness)?;
        }
        Ok(())
    }

    /// Closes all files. Returns where they are.
    fn close(mut self) -> tempfile::TempDir {
        for n in 0..self.sites.len() {
            let _closed = self.close_app(n);
        }
        self.dir
    }

    pub(super) fn run(&mut self, n: usize, script: &[String], whole: bool, ms: i64) -> Played<Ran> {
        let site = &self.sites[n];
        let Some(app) = &site.app else { return Ok(Ran::Done) };
        let system = self.system.as_deref_mut().filter(|_| site.system);
        app.run(system, script, whole, julian_day(ms)).map_err(harness)
    }

    /// The first column of what a query of a site's application finds.
    pub fn texts(&mut self, n: usize, sql: &str) -> Played<Vec<String>> {
        let site = &self.sites[n];
        let Some(app) = &site.app else { return Ok(vec![]) };
        let system = self.system.as_deref_mut().filter(|_| site.system);
        app.texts(system, sql).map_err(|e| harness(format!("{sql}: {e}")))
    }

    /// The marks that a site shows.
    pub fn shown(&mut self, n: usize) -> Played<Shown> {
        match self.shown_by(n) {
            none if none.is_empty() => Ok(Shown::new()),
            sql => Ok(marks::count(&self.texts(n, &sql)?)),
        }
    }

    /// The query that finds them; empty if nothing can hold any.
    pub(super) fn shown_by(&self, n: usize) -> String {
        let tables = self.sites[n].schema.values();
        let token = |t: &super::schema::Table| {
            Some(format!("SELECT {} FROM {}", quote(&t.token()?.name), quote(&t.name)))
        };
        tables.filter_map(token).collect::<Vec<_>>().join(" UNION ALL ")
    }

    /// Whether triggers of ours note what is written to each table.
    fn noted(&mut self, n: usize) -> Played<bool> {
        let sql = "SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'synqlite%'";
        let noted = self.texts(n, sql)?;
        Ok(self.sites[n].schema.values().all(|t| noted.contains(&t.name)))
    }

    /// Sites that are there.
    pub fn live(&self) -> Vec<usize> {
        (0..self.sites.len()).filter(|&n| self.sites[n].app.is_some()).collect()
    }

    fn all(&mut self) -> Played {
        let mut last = START_MS;
        for step in &self.history.steps {
            last = last.max(step.ms);
            self.step(step).map_err(|fault| Fault {
                what: format!("at {} {}: {}", step.ms, site_name(step.site), fault.what),
                ..fault
            })?;
        }
        self.write_waiting(None)?;
        if self.history.regions.has(Region::Local) {
            // Whoever says so has seen all that was said before.
            oracle::settle(self, last + 10_000)?;
            last += 60_000;
            self.live().iter().for_each(|&n| self.sites[n].env.set(last));
            if let Some(&n) = self.live().first() {
                self.policy(n, "local_tables", "")?;
            }
            oracle::settle(self, last + 10_000)?;
            last += 60_000;
        } else if oracle::stops_halfway(self) {
            oracle::settle(self, last + 10_000)?;
            oracle::compare_alike(self)?;
            last += 60_000;
            self.live().iter().for_each(|&n| self.sites[n].env.set(last));
        }
        for n in self.live() {
            for migration in 0..self.history.migrations.len() {
                self.migrate(n, migration, last)?;
            }
            while self.reshape(n, last)? {}
            self.fold(n)?;
        }
        oracle::settle(self, last + 10_000)?;
        oracle::judge(self)
    }

    fn step(&mut self, step: &Step) -> Played {
        let n = step.site;
        if let Action::Clone(of, how) = step.action {
            self.sites[n].env.set(step.ms);
            return match (&self.sites[n].app, &self.sites[of].app) {
                (None, Some(_)) => self.clone_site(n, of, how),
                _ => Ok(()),
            };
        }
        if self.sites[n].app.is_none() {
            return Ok(());
        }
        self.sites[n].env.set(step.ms);
        if let Action::Write(script) = &step.action
            && self.waits(step)
        {
            self.sites[n].waiting.push((script.clone(), step.ms));
            return Ok(());
        }
        match step.action {
            Action::Fold | Action::Place => {
                return self.meanwhile(n, |player| player.command_of(step));
            }
            Action::Pull(other) | Action::Push(other) | Action::Sync(other) => {
                self.write_waiting(Some(other))?;
                return self.meanwhile(n, |player| player.command_of(step));
            }
            _ => self.write_waiting(Some(n))?,
        }
        self.command_of(step)
    }

    fn command_of(&mut self, step: &Step) -> Played {
        let n = step.site;
        let with = |other: &usize| Some(*other).filter(|&other| self.sites[other].app.is_some());
        match &step.action {
            Action::Write(script) => self.write(n, script, step.ms),
            Action::Pragma(sql) => self.run(n, std::slice::from_ref(sql), false, step.ms).map(drop),
            Action::Retrigger(temp) => self.retrigger(n, *temp, step.ms),
            Action::Migrate(migration) => self.migrate(n, *migration, step.ms),
            Action::Add(how, row, by) => self.add(step, (*how, *row, *by)),
            Action::Reshape => self.reshape(n, step.ms).map(drop),
            Action::Fold => self.fold(n),
            Action::Pull(other) | Action::Push(other) | Action::Sync(other) => {
                let Some(other) = with(other) else { return Ok(()) };
                match self.meets_only_there() {
                    true => self.place(n, &step.action).map(drop),
                    false => self.exchange(n, other, &step.action).map(drop),
                }
            }
            Action::Place => self.drop_in(n, step.ms),
            Action::Policy(key, value) => self.policy(n, key, value),
            Action::Backup => self.backup(n),
            Action::Restore => self.restore(n),
            Action::Dump => {
                self.close_app(n)?;
                dump::read_back(&self.sites[n].path).map_err(harness)?;
                self.open_app(n)
            }
            Action::Clone(..) => Ok(()),
        }
    }

    pub(super) fn write(&mut self, n: usize, script: &[String], ms: i64) -> Played {
        let before = self.shown(n)?;
        if !self.noted(n)? {
            self.marks.unnoted(script);
        }
        self.run(n, script, true, ms)?;
        if self.history.own {
            // It may have been dropped.
            let _ran = self.run(n, &[NOBODYS.to_owned()], false, ms)?;
        }
        // By its own clause, or by one of the schema.
        let replaces = self.history.regions.has(Region::Replace);
        if replaces && script.iter().any(|sql| sql.contains("UPDATE")) {
            let found = self.texts(n, "PRAGMA integrity_check")?;
            if found != ["ok"] {
                return fault(BROKEN, found.join("; "));
            }
        }
        let after = self.shown(n)?;
        self.marks.local(n, &before, &after);
        Ok(())
    }

    /// Makes the triggers of the application anew, those that are there.
    fn retrigger(&mut self, n: usize, temp: bool, ms: i64) -> Played {
        let all = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'app%' ORDER BY name";
        for name in self.texts(n, all)? {
            let sql =
                format!("SELECT sql FROM sqlite_master WHERE name = '{name}' AND type = 'trigger'");
            let mut script = vec![format!("DROP TRIGGER {}", quote(&name))];
            script.extend(self.texts(n, &sql)?);
            // What a TEMP one kept from being captured nobody finds.
            let hushes = script[1].starts_with("CREATE")
                && script[1].contains(" AFTER ")
                && script[1].contains("IGNORE");
            if temp && !hushes {
                script[1] = script[1].replacen("CREATE TRIGGER", "CREATE TEMP TRIGGER", 1);
            }
            self.run(n, &script, true, ms)?;
        }
        Ok(())
    }

    /// Runs a script where nothing captures writes any more: what SQLite refuses even so no replica can take.
    fn uncaptured(&mut self, n: usize, script: &[String], ms: i64) -> Played<Ran> {
        let ours = "SELECT 'DROP TRIGGER ' || name FROM sqlite_master \
                    WHERE type = 'trigger' AND name LIKE 'synqlite%'";
        let drops = self.texts(n, ours)?;
        self.run(n, &drops, true, ms)?;
        self.run(n, script, false, ms)
    }

    /// Runs a migration, if it has not run, and those before it.
    fn migrate(&mut self, n: usize, migration: usize, ms: i64) -> Played {
        let history = self.history;
        let Some(m) = history.migrations.get(migration) else { return Ok(()) };
        if self.sites[n].applied.contains(&migration) {
            return Ok(());
        }
        for &need in &m.needs {
            self.migrate(n, need, ms)?;
        }
        if self.would_be_another(n, m)? || self.would_be_new(n, m)? {
            self.fold(n)?;
        }
        let before = self.shown(n)?;
        let hidden = self.hidden_in_dropped(n, m)?;
        if let Ran::Failed(first) = self.run(n, &m.script, false, ms)? {
            // SQLite refuses some changes while a trigger names what was renamed; a command helps.
            self.fold(n)?;
            if let Ran::Failed(why) = self.run(n, &m.script, false, ms)? {
                let what = format!("migration {migration} at {}: {first}; {why}", site_name(n));
                let plain = self.uncaptured(n, &m.script, ms)?;
                return fault(if matches!(plain, Ran::Done) { "migration" } else { BROKEN }, what);
            }
        }
        for (no, table) in &m.after {
            match table {
                Some(table) => drop(self.sites[n].schema.insert(*no, table.clone())),
                None => drop(self.sites[n].schema.remove(no)),
            }
        }
        self.sites[n].applied.push(migration);
        if m.after.iter().any(|(_, table)| table.is_some()) && self.lost_one(n)? {
            // Its rows tell which table it is, as long as they are the same.
            self.fold(n)?;
        }
        let after = self.shown(n)?;
        self.marks.local(n, &before, &after);
        self.marks.drop(hidden);
        Ok(())
    }

    /// Whether a table is gone with its triggers, and no command has seen it yet.
    fn lost_one(&mut self, n: usize) -> Played<bool> {
        let gone = "SELECT 1 FROM synqlite_table AS t WHERE shape <> '' \
             AND name NOT IN (SELECT name FROM sqlite_master WHERE type = 'table') \
             AND 'synqlite_delete_' || no NOT IN (SELECT name FROM sqlite_master) \
             AND NOT EXISTS(SELECT 1 FROM synqlite_meta WHERE key = 'gone' \
                            AND instr(char(10) || value || char(10), char(10) || no || char(10)))";
        Ok(!self.texts(n, gone)?.is_empty())
    }

    /// The marks in hidden rows of tables that a migration drops, or of whose marks it drops the column:
    /// records go with what they are of.
    fn hidden_in_dropped(&self, n: usize, m: &Migration) -> Played<Shown> {
        let goes = |(no, after): &(usize, Option<Table>)| {
            let keeps = after.as_ref().is_some_and(|after| after.token().is_some());
            self.sites[n].schema.get(no).filter(|_| !keeps).map(|t| t.name.clone())
        };
        let names: Vec<String> = m.after.iter().filter_map(goes).collect();
        if names.is_empty() {
            return Ok(Shown::new());
        }
        let conflicts = self.with(n, |replica| replica.conflicts())?;
        let conflicts = conflicts.map_err(|e| engine("conflicts")(e.into()))?;
        let of_them = conflicts.into_iter().filter(|c| names.contains(&c.table));
        let texts = of_them.flat_map(|c| c.displaced).filter_map(|(_, value)| match value {
            Value::Text(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        });
        Ok(marks::count(&texts.collect::<Vec<_>>()))
    }

    /// Whether the engine would take a table for another one after the migration: a table that is
    /// renamed without our triggers, or may lose them under a name that no command has seen yet, with the
    /// table or without it: another may have its name. It knows one that is made anew by its rows, if they
    /// are as the last command saw them, and one that no command has seen by what others tell of it, if no
    /// other table ever has one of its names.
    fn would_be_another(&mut self, n: usize, migration: &Migration) -> Played<bool> {
        let Some((no, after)) = migration.after.first() else { return Ok(false) };
        let Some(table) = self.sites[n].schema.get(no).map(|t| t.name.clone()) else {
            return Ok(false);
        };
        let captured = format!(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table}' \
             AND name LIKE 'synqlite\\_delete\\_%' ESCAPE '\\'"
        );
        if let Some(after) = after.as_ref().filter(|after| after.name != table) {
            let known =
                format!("SELECT 1 FROM synqlite_table WHERE name = '{table}' AND shape <> ''");
            let seen = !self.texts(n, &known)?.is_empty();
            let reused = self.is_of_another(*no, &table) || self.is_of_another(*no, &after.name);
            return Ok((seen || reused) && self.texts(n, &captured)?.is_empty());
        }
        let unseen = format!(
            "{captured} AND NOT EXISTS(SELECT 1 FROM synqlite_table AS t WHERE t.name = '{table}' \
             AND sqlite_master.name = 'synqlite_delete_' || t.no)"
        );
        if self.texts(n, &unseen)?.is_empty() {
            return Ok(false);
        }
        let writes = |sql: &String| sql.starts_with("UPDATE") || sql.starts_with("DELETE");
        let keyed =
            |t: &Table| -> Vec<_> { t.key.iter().map(|id| t.column(id).map(|c| c.ty)).collect() };
        let before = self.sites[n].schema.get(no).map(keyed);
        let same = before == after.as_ref().map(keyed) && !migration.script.iter().any(writes);
        let has = format!("SELECT 1 FROM {} LIMIT 1", quote(&table));
        let reused = self.names_of(*no).iter().any(|name| self.is_of_another(*no, name));
        Ok(!same
            || reused
            || self.texts(n, &has)?.is_empty()
            || !self.texts(n, "SELECT 1 FROM synqlite_journal LIMIT 1")?.is_empty())
    }

    /// All tables that there ever are, by their numbers.
    fn tables(&self) -> impl Iterator<Item = (&usize, &Table)> {
        let tables = self.history.migrations.iter().flat_map(|m| &m.after);
        tables.filter_map(|(no, t)| Some((no, t.as_ref()?))).chain(&self.history.schema)
    }

    /// The names that a table ever has.
    fn names_of(&self, no: usize) -> Vec<String> {
        self.tables().filter(|(other, _)| **other == no).map(|(_, t)| t.name.clone()).collect()
    }

    /// Whether a table with another number has this name too, at some time.
    fn is_of_another(&self, no: usize, name: &str) -> bool {
        self.tables().any(|(other, t)| *other != no && t.name.eq_ignore_ascii_case(name))
    }

    /// Whether the engine would take a column for a new one after the migration, and no site could tell
    /// better: one that is renamed before a command has seen it, or without our triggers, or loses them
    /// under a name that no command on any site has seen, or one that another had before or gets now.
    fn would_be_new(&mut self, n: usize, migration: &Migration) -> Played<bool> {
        let Some((no, Some(after))) = migration.after.first() else { return Ok(false) };
        let Some(before) = self.sites[n].schema.get(no).cloned() else { return Ok(false) };
        let rebuilt = migration.script.iter().any(|sql| sql.starts_with("DROP TABLE"));
        let named = |c: &&Column| c.generated.is_none() && (c.name != c.id || after.reused);
        let captured = format!(
            "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{}' \
             AND name LIKE 'synqlite_delete%'",
            before.name
        );
        let reused = after.reused && !before.reused;
        let unnamed = reused && self.texts(n, &captured)?.is_empty();
        for column in after.columns.iter().filter(named) {
            let Some(old) = before.column(&column.id) else { continue };
            let seen = format!(
                "SELECT 1 FROM sqlite_master, synqlite_column AS c WHERE type = 'trigger' \
                 AND tbl_name = '{}' AND sqlite_master.name = 'synqlite_delete_' || tbl \
                 AND c.name = '{}'",
                before.name, old.name
            );
            let renamed = old.name != column.name;
            if before.reused && (renamed || rebuilt) {
                return Ok(true);
            }
            let other = renamed || rebuilt || unnamed;
            if !other || renamed && !self.texts(n, &seen)?.is_empty() {
                continue;
            }
            if after.reused {
                return Ok(true);
            }
            let known = format!("SELECT 1 FROM synqlite_column WHERE name = '{}'", column.name);
            // This site may not hear of it before the old name is another's.
            let later = |m: &Migration| {
                m.after.iter().any(|(of, t)| of == no && t.as_ref().is_some_and(|t| t.reused))
            };
            let mut anywhere = false;
            if self.history.migrations.iter().any(later) {
                return Ok(true);
            }
            for site in self.live() {
                anywhere |= !self.texts(site, &known)?.is_empty();
            }
            if !anywhere {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does something with a replica as a command opens it, or as one that is still open.
    pub fn with<T>(&self, n: usize, does: impl FnOnce(&mut Replica) -> T) -> Played<T> {
        let site = &self.sites[n];
        let mut replica = match site.kept.take() {
            Some(replica) => replica,
            None => {
                Replica::open(&site.path, site.env.clone()).map_err(|e| engine("open")(e.into()))?
            }
        };
        let done = does(&mut replica);
        if site.keeps {
            site.kept.replace(Some(replica));
        }
        Ok(done)
    }

    pub(super) fn fold(&mut self, n: usize) -> Played {
        let folded = self.with(n, Replica::fold)?;
        folded.map(drop).map_err(|e| engine("fold")(e.into()))
    }

    /// Exchanges between two sites as a command does, and looks at both.
    pub fn exchange(&mut self, n: usize, other: usize, how: &Action) -> Played<Outcome> {
        let remote = Remote::Replica(self.sites[other].path.clone());
        let outcome = self.command(n, &remote, how)?;
        oracle::look(self, n)?;
        oracle::look(self, other)?;
        Ok(outcome)
    }

    /// Pulls, and looks at what that brought; with `both` at both sites in any case.
    pub fn pull(&mut self, n: usize, other: usize, both: bool) -> Played<Outcome> {
        let remote = Remote::Replica(self.sites[other].path.clone());
        let outcome = self.command(n, &remote, &Action::Pull(other))?;
        if both || oracle::news(&outcome).is_some() {
            oracle::look(self, n)?;
        }
        if both {
            oracle::look(self, other)?;
        }
        Ok(outcome)
    }

    pub(super) fn command(&mut self, n: usize, remote: &Remote, how: &Action) -> Played<Outcome> {
        // Between slices its application may have given rows other numbers.
        let numbered = self.history.regions.has(Region::Numbers) && !cfg!(feature = "small-parts");
        let before = if numbered { numbers::known(self, n)? } else { numbers::Known::new() };
        let env = self.sites[n].env.clone();
        let session = Session { env, force: true, whole: false };
        let (done, name) = self.with(n, |mine| match how {
            Action::Pull(_) => (remote.pull(mine, &session), "pull"),
            Action::Push(_) => (remote.push(mine, &session), "push"),
            _ => (remote.sync(mine, &session), "sync"),
        })?;
        let outcome = done.map_err(engine(name))?;
        if numbered {
            numbers::stay(self, n, &before)?;
        }
        Ok(outcome)
    }

    pub(super) fn policy(&mut self, n: usize, key: &str, value: &str) -> Played {
        match self.with(n, |replica| replica.set_policies(&[Policy::new(key, value)?]))? {
            Ok(()) | Err(Error::Policy { .. } | Error::Dangling { .. } | Error::Doubles { .. }) => {
                Ok(())
            }
            Err(e) => Err(engine("policy")(e.into())),
        }
    }

    fn backup_path(&self, n: usize) -> PathBuf {
        self.dir.path().join(format!("{}.bak", site_name(n)))
    }

    fn backup(&mut self, n: usize) -> Played {
        self.close_app(n)?;
        std::fs::copy(&self.sites[n].path, self.backup_path(n)).map_err(harness)?;
        self.open_app(n)?;
        let site = &mut self.sites[n];
        site.backup = Some((site.applied.clone(), site.schema.clone()));
        Ok(())
    }

    fn restore(&mut self, n: usize) -> Played {
        let Some((applied, schema)) = self.sites[n].backup.clone() else { return Ok(()) };
        self.close_app(n)?;
        std::fs::copy(self.backup_path(n), &self.sites[n].path).map_err(harness)?;
        (self.sites[n].applied, self.sites[n].schema) = (applied, schema);
        self.open_app(n)?;
        let mut shown = Shown::new();
        for site in self.live() {
            shown.extend(self.shown(site)?);
        }
        self.marks.restored(&shown);
        Ok(())
    }

    fn clone_site(&mut self, n: usize, of: usize, how: How) -> Played {
        let (path, env) = (self.sites[n].path.clone(), self.sites[n].env.clone());
        match how {
            How::Clone => {
                let remote = Remote::Replica(self.sites[of].path.clone());
                let session = Session { env, force: true, whole: false };
                remote.clone_to(&path, &session).map_err(engine("clone"))?;
            }
            How::Copy => {
                if self.history.tally.is_some() {
                    self.see(of)?;
                }
                self.close_app(of)?;
                std::fs::copy(&self.sites[of].path, &path).map_err(harness)?;
                self.open_app(of)?;
                let options = InitOptions { new_site: true, ..InitOptions::default() };
                let init = Replica::init(&path, &options, env);
                init.map_err(|e| engine("init --new-site")(e.into()))?;
            }
        }
        self.sites[n].applied = self.sites[of].applied.clone();
        self.sites[n].schema = self.sites[of].schema.clone();
        self.sites[n].shaped = self.sites[of].shaped;
        self.open_app(n)
    }
}

/// Opens a site's file with the engine's SQLite, to look.
pub fn look_at(site: &Site) -> Result<Connection> {
    Ok(Connection::open(&site.path)?)
}
