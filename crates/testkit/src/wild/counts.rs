//! Counters that are only added to, in a table that is changed and rebuilt meanwhile: in the end every site shows
//! the exact sum (R-COUNTER).
//!
//! The table, `tally`, is no part of a history's schema: its rows are never deleted, and what each site adds is read
//! from what the site shows before and after. What docs/limits.md names as a limit of counters is left out: each is
//! counted once before there are clones, and a file is folded before it is copied; who saves a row by REPLACE folds,
//! and so does who gives a table or a column another name, before that and before it writes or migrates again.

use super::app::Ran;
use super::play::{Played, Player, fault};
use super::{Step, site_name};
use crate::random::Random;
use std::collections::BTreeMap;

/// A table of counters, and how it is changed.
#[derive(Clone, Debug)]
pub struct Tally {
    key: Key,
    shapes: Vec<Shape>,
    /// The way from each shape to the next.
    pub hops: Vec<Hop>,
}

/// What the key of the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Text,
    Integer,
    WithoutRowid,
    Pair,
}

/// The names and types that the table has.
#[derive(Clone, Debug)]
struct Shape {
    table: String,
    counter: String,
    ty: &'static str,
    note: String,
    /// Columns that were added.
    more: Vec<String>,
}

/// A migration of the table.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Its statements.
    pub script: Vec<String>,
    names: Names,
}

/// What a migration does to names, and so what a command has to see before the site goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Names {
    /// Nothing.
    #[default]
    Same,
    /// It gives others, which triggers tell: they are seen before the next migration.
    Told,
    /// It gives others where nothing tells it: they are seen before the next write.
    Untold,
}

/// How an application adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adds {
    /// To one row.
    One,
    /// To one row, which gets a note too.
    Noted,
    /// To one row, which it inserts if it is not there.
    Upsert,
    /// To all rows.
    All,
    /// It saves the row by REPLACE.
    Saved,
    /// It writes the note alone.
    Nothing,
}

/// So many rows are there from the start.
const FIRST: usize = 4;

impl Tally {
    /// One of them.
    pub fn draw(r: &mut Random) -> Tally {
        let key = [Key::Text, Key::Integer, Key::WithoutRowid, Key::Pair][r.index(4)];
        let first = Shape {
            table: "tally".to_owned(),
            counter: "n".to_owned(),
            ty: "INTEGER",
            note: "note".to_owned(),
            more: vec![],
        };
        let mut tally = Tally { key, shapes: vec![first], hops: vec![] };
        for no in 0..r.index(5) {
            let was = tally.shapes[no].clone();
            let (shape, hop) = tally.hop(r, no, &was);
            tally.shapes.push(shape);
            tally.hops.push(hop);
        }
        tally
    }

    /// What makes the table and its first rows.
    pub fn setup(&self) -> Vec<String> {
        let rows = (0..FIRST).map(|row| format!("({}, {row}00)", self.value(row)));
        let shape = &self.shapes[0];
        let (keys, rows) = (self.keys(), rows.collect::<Vec<_>>().join(", "));
        vec![
            self.create(shape, &shape.table),
            format!("INSERT INTO tally({keys}, {}) VALUES {rows}", shape.counter),
        ]
    }

    /// A way of adding, and to which row.
    pub fn adds(&self, r: &mut Random) -> (Adds, usize, i64) {
        use Adds::*;
        let how = [One, One, Noted, Upsert, Upsert, All, Saved, Nothing][r.index(8)];
        // Rows of one number that two sites insert are two rows.
        let rows = if self.key == Key::Integer { FIRST } else { 2 * FIRST };
        (how, r.index(rows), [1, 1, 2, 5, -3, 1_000][r.index(6)])
    }

    fn hop(&self, r: &mut Random, no: usize, was: &Shape) -> (Shape, Hop) {
        let mut shape = was.clone();
        let (old, made) = (was.table.clone(), format!("new{no}"));
        let mut names = Names::Told;
        let mut script = match r.index(8) {
            0 => {
                shape.more.push(format!("x{no}"));
                names = Names::Same;
                vec![format!("ALTER TABLE {old} ADD COLUMN x{no} DEFAULT 'x'")]
            }
            1 => {
                shape.counter = format!("n{no}");
                vec![format!("ALTER TABLE {old} RENAME COLUMN {} TO n{no}", was.counter)]
            }
            2 => {
                shape.table = format!("tally{no}");
                vec![format!("ALTER TABLE {old} RENAME TO tally{no}")]
            }
            _ => vec![],
        };
        if script.is_empty() {
            names = Names::Same;
            match r.index(6) {
                0 => shape.ty = if was.ty == "REAL" { "INTEGER" } else { "REAL" },
                1 => shape.more.push(format!("y{no}")),
                2 => (shape.note, names) = (format!("note{no}"), Names::Untold),
                3 => (shape.counter, names) = (format!("n{no}"), Names::Untold),
                _ => {}
            }
            script = self.rebuild(r.index(4), was, &shape, &made);
        }
        (shape, Hop { script, names })
    }

    /// A rebuild, as one of the tools does it.
    fn rebuild(&self, tool: usize, was: &Shape, shape: &Shape, made: &str) -> Vec<String> {
        let table = &was.table;
        let columns = |of: &Shape| {
            let mut list = vec![self.keys(), of.counter.clone(), of.note.clone()];
            list.extend(of.more.iter().take(was.more.len()).cloned());
            list.join(", ")
        };
        let copy = |from: &str, to: &str| {
            format!("INSERT INTO {to}({}) SELECT {} FROM {from}", columns(shape), columns(was))
        };
        let (begin, commit) = ("BEGIN".to_owned(), "COMMIT".to_owned());
        let (make, drop) = (self.create(shape, made), format!("DROP TABLE {table}"));
        let rename = format!("ALTER TABLE {made} RENAME TO {table}");
        match tool {
            0 => vec![begin, make, copy(table, made), drop, rename, commit],
            // Its triggers are made again.
            1 => {
                let keep = format!("@keep {table}");
                vec![begin, keep, make, copy(table, made), drop, rename, "@make".to_owned(), commit]
            }
            2 => {
                let away = format!("ALTER TABLE {table} RENAME TO {made}");
                let (make, drop) = (self.create(shape, table), format!("DROP TABLE {made}"));
                vec![begin, away, make, copy(made, table), drop, commit]
            }
            _ => {
                let away = format!("CREATE TABLE {made} AS SELECT * FROM {table}");
                let (make, gone) = (self.create(shape, table), format!("DROP TABLE {made}"));
                vec![begin, away, drop, make, copy(made, table), gone, commit]
            }
        }
    }

    fn create(&self, shape: &Shape, table: &str) -> String {
        let (key, tail) = match self.key {
            Key::Text => ("k TEXT PRIMARY KEY", ")"),
            Key::Integer => ("k INTEGER PRIMARY KEY", ")"),
            Key::WithoutRowid => ("k TEXT PRIMARY KEY", ") WITHOUT ROWID"),
            Key::Pair => ("k TEXT, j INTEGER", ", PRIMARY KEY(k, j))"),
        };
        let Shape { counter, ty, note, more, .. } = shape;
        let more: String = more.iter().map(|name| format!(", {name} DEFAULT 'x'")).collect();
        format!("CREATE TABLE {table}({key}, {counter} {ty} DEFAULT 0, {note} TEXT{more}{tail}")
    }

    fn keys(&self) -> String {
        if self.key == Key::Pair { "k, j" } else { "k" }.to_owned()
    }

    fn value(&self, row: usize) -> String {
        match self.key {
            Key::Integer => row.to_string(),
            Key::Pair => format!("'k{row}', 1"),
            _ => format!("'k{row}'"),
        }
    }

    /// What an application runs.
    fn add(&self, at: usize, how: Adds, row: usize, by: i64) -> String {
        let Shape { table, counter: n, note, more, .. } = &self.shapes[at];
        let (keys, value) = (self.keys(), self.value(row));
        let this = format!("WHERE ({keys}) = ({value})");
        match how {
            Adds::One => format!("UPDATE {table} SET {n} = {n} + {by} {this}"),
            Adds::Noted => {
                format!("UPDATE {table} SET {n} = {n} + {by}, {note} = 'at {by}' {this}")
            }
            Adds::Upsert => format!(
                "INSERT INTO {table}({keys}, {n}) VALUES({value}, {by}) \
                 ON CONFLICT({keys}) DO UPDATE SET {n} = {n} + excluded.{n}"
            ),
            Adds::All => format!("UPDATE {table} SET {n} = {n} + {by}"),
            Adds::Saved => {
                let rest: String = more.iter().map(|name| format!(", {name}")).collect();
                format!(
                    "REPLACE INTO {table}({keys}, {n}, {note}{rest}) \
                     SELECT {keys}, {n} + {by}, 'saved'{rest} FROM {table} {this}"
                )
            }
            Adds::Nothing => format!("UPDATE {table} SET {note} = 'by {by}' {this}"),
        }
    }
}

/// What a site has made of the table, and all sites together of its counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shaped {
    /// So many migrations have run.
    at: usize,
    /// What no command has seen yet.
    unseen: Names,
}

/// What counters show, by key.
pub type Sums = BTreeMap<String, i64>;

impl Player<'_> {
    fn sums(&mut self, n: usize) -> Played<Sums> {
        let Some(tally) = &self.history.tally else { return Ok(Sums::new()) };
        let Shape { table, counter, .. } = &tally.shapes[self.sites[n].shaped.at];
        let sql = format!("SELECT k || ':' || CAST({counter} AS INTEGER) FROM {table}");
        let all = self.texts(n, &sql)?;
        let pair = |text: &String| {
            let (key, sum) = text.split_once(':')?;
            Some((key.to_owned(), sum.parse().ok()?))
        };
        Ok(all.iter().filter_map(pair).collect())
    }

    /// An application adds.
    pub(super) fn add(&mut self, step: &Step, (how, row, by): (Adds, usize, i64)) -> Played {
        let (n, history) = (step.site, self.history);
        let Some(tally) = &history.tally else { return Ok(()) };
        if self.sites[n].shaped.unseen == Names::Untold {
            self.see(n)?;
        }
        let before = self.sums(n)?;
        let sql = tally.add(self.sites[n].shaped.at, how, row, by);
        if let Ran::Failed(why) = self.run(n, std::slice::from_ref(&sql), true, step.ms)? {
            return fault("counting", format!("{sql}: {why}"));
        }
        for (key, sum) in self.sums(n)? {
            let added = sum - before.get(&key).unwrap_or(&0);
            *self.counted.entry(key).or_default() += added;
        }
        if how == Adds::Saved { self.see(n) } else { Ok(()) }
    }

    /// The next migration of the table runs.
    pub(super) fn reshape(&mut self, n: usize, ms: i64) -> Played<bool> {
        let history = self.history;
        let shaped = self.sites[n].shaped;
        let Some(hop) = history.tally.as_ref().and_then(|tally| tally.hops.get(shaped.at)) else {
            return Ok(false);
        };
        if shaped.unseen.max(hop.names) > Names::Same {
            self.see(n)?;
        }
        if let Ran::Failed(why) = self.run(n, &hop.script, false, ms)? {
            let script = hop.script.join("; ");
            return fault("reshaping", format!("at {}: {script}: {why}", site_name(n)));
        }
        self.sites[n].shaped = Shaped { at: shaped.at + 1, unseen: hop.names };
        Ok(true)
    }

    /// A command sees what happened.
    pub(super) fn see(&mut self, n: usize) -> Played {
        self.sites[n].shaped.unseen = Names::Same;
        self.fold(n)
    }

    /// What the first site counts, before there are others.
    pub(super) fn begin_to_count(&mut self, ms: i64) -> Played {
        if self.history.tally.is_none() {
            return Ok(());
        }
        self.policy(0, "tally.n", "counter")?;
        self.counted = self.sums(0)?;
        let step = Step { ms, site: 0, action: super::Action::Fold };
        self.add(&step, (Adds::All, 0, 1))?;
        self.see(0)
    }

    /// Every site shows the sum of what all have added.
    pub(super) fn counted_exactly(&mut self) -> Played {
        if self.history.tally.is_none() {
            return Ok(());
        }
        for n in self.live() {
            let sums = self.sums(n)?;
            if sums != self.counted {
                let want = &self.counted;
                return fault("sums", format!("{} shows {sums:?}, not {want:?}", site_name(n)));
            }
        }
        Ok(())
    }
}
