//! Random histories that contain the world: schemas and policies that change, keys that are equal and
//! spelled otherwise, backups restored, copies, clocks that jump, applications on another SQLite.
//!
//! - [`regions`]: the parts of the world that a history may contain.
//! - [`schema`], [`tables`], [`values`]: tables as data.
//! - [`migrate`], [`rebuild`]: how applications change them.
//! - [`writes`]: statements of applications.
//! - [`generate`]: the history of a seed.
//! - [`app`]: the application's side of a site, in this process or on the system's SQLite.
//! - [`counts`]: counters that are only added to.
//! - [`numbers`]: rows by what they are, where each site has numbers of its own for them.
//! - `search`: a search index that triggers keep.
//! - `between`: what applications write between the slices of a command.
//! - [`play`]: plays a history; [`oracle`] judges it; [`shrink`] leaves out what a fault does not need.
//!
//! A history is data: every statement, command and time of it is fixed before it is played. So steps can
//! be left out of it.

pub mod app;
mod between;
pub mod counts;
pub mod dump;
pub mod generate;
pub mod marks;
pub mod migrate;
pub mod numbers;
pub mod oracle;
mod place;
pub mod play;
pub mod rebuild;
pub mod regions;
pub mod schema;
mod search;
pub mod shrink;
pub mod tables;
pub mod values;
pub mod writes;

use migrate::Migration;
use regions::{Region, Regions};
use schema::Schema;
use std::collections::BTreeMap;
use std::fmt;

/// What several sites do.
#[derive(Clone, Debug)]
pub struct History {
    /// Where it comes from.
    pub seed: u64,
    /// What it contains.
    pub regions: Regions,
    /// How many sites there are in the end; the last ones may be cloned on the way.
    pub sites: usize,
    /// How many there are in the beginning.
    pub first: usize,
    /// How the first file is made.
    pub setup: Vec<String>,
    /// Policies given to `init`.
    pub policies: Vec<(String, String)>,
    /// The schema in the beginning.
    pub schema: Schema,
    /// Whether there is a table that is not replicated, `own`.
    pub own: bool,
    /// A table of counters, and what becomes of it.
    pub tally: Option<counts::Tally>,
    /// Statements that run before `init`.
    pub rows: Vec<String>,
    /// Schema changes, which every site runs in the end.
    pub migrations: Vec<Migration>,
    /// For each site: whether its application runs on the system's SQLite.
    pub system: Vec<bool>,
    /// For each site: what its application sets on its connection.
    pub pragmas: Vec<Vec<String>>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub struct Step {
    /// When, by the clock of the site that acts, in milliseconds.
    pub ms: i64,
    /// The site that acts.
    pub site: usize,
    /// What it does.
    pub action: Action,
}

/// What a site does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The application runs statements as one transaction.
    Write(Vec<String>),
    /// The application changes a setting of its connection.
    Pragma(String),
    /// The application makes its triggers anew, so that they run before all others; as TEMP ones or not.
    Retrigger(bool),
    /// A migration runs, after those that it needs.
    Migrate(usize),
    /// The application adds to counters.
    Add(counts::Adds, usize, i64),
    /// The next migration of the table of counters runs.
    Reshape,
    /// Folds.
    Fold,
    /// Pulls from a site.
    Pull(usize),
    /// Pushes to a site.
    Push(usize),
    /// Synchronizes with a site.
    Sync(usize),
    /// Synchronizes with the folder.
    Place,
    /// Sets a policy.
    Policy(String, String),
    /// Keeps a copy of the file.
    Backup,
    /// Puts that copy back.
    Restore,
    /// Is dumped and read back.
    Dump,
    /// Becomes a clone of a site, if it is none yet.
    Clone(usize, How),
}

/// How a site is cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By `clone`.
    Clone,
    /// By `cp` and `init --new-site`.
    Copy,
}

/// The name of a site.
pub fn site_name(site: usize) -> char {
    char::from(b'a' + site as u8)
}

impl History {
    /// When each mark was written.
    pub fn times(&self) -> BTreeMap<&str, i64> {
        let rows = self.rows.iter().map(|sql| (generate::START_MS, sql));
        let steps = self.steps.iter().flat_map(|step| match &step.action {
            Action::Write(script) => script.iter().map(|sql| (step.ms, sql)).collect(),
            _ => vec![],
        });
        let mut times = BTreeMap::new();
        for (ms, sql) in rows.chain(steps) {
            times.extend(marks::within(sql).map(|mark| (mark, ms)));
        }
        times
    }

    /// The statements that make its schema.
    pub fn made(&self) -> Vec<String> {
        let mut made = schema::statements(&self.schema);
        if self.regions.has(Region::Search) {
            made.extend(search::setup(&self.schema, self.seed));
        }
        made
    }

    /// The statement that wrote a mark.
    pub fn statement(&self, mark: &str) -> Option<&str> {
        let steps = self.steps.iter().filter_map(|step| match &step.action {
            Action::Write(script) => Some(script),
            _ => None,
        });
        let mark = format!("'{mark}'");
        let mut all = self.rows.iter().chain(steps.flatten());
        all.find(|sql| sql.contains(&mark)).map(String::as_str)
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let History { seed, regions, sites, first, .. } = self;
        writeln!(f, "seed {seed}, {sites} sites, {first} at first; {}", regions.names())?;
        for (site, on) in self.system.iter().enumerate() {
            let on = if *on { " (system's SQLite)" } else { "" };
            let pragmas = self.pragmas.get(site).map_or(String::new(), |p| p.join("; "));
            writeln!(f, "  site {}{on}: {pragmas}", site_name(site))?;
        }
        let tally = self.tally.as_ref().map_or(vec![], counts::Tally::setup);
        for sql in self.setup.iter().chain(&self.made()).chain(&self.rows).chain(&tally) {
            writeln!(f, "  a: {sql};")?;
        }
        let policies = self.policies.iter().map(|(k, v)| format!(" --policy {k}={v}"));
        writeln!(f, "  a: synqlite init{}", policies.collect::<String>())?;
        if self.tally.is_some() {
            writeln!(f, "  a: synqlite policy tally.n=counter")?;
        }
        for (n, hop) in self.tally.iter().flat_map(|tally| &tally.hops).enumerate() {
            writeln!(f, "  migration {n} of the tally: {};", hop.script.join("; "))?;
        }
        for (n, migration) in self.migrations.iter().enumerate() {
            writeln!(f, "  migration {n}, {}, needs {:?}:", migration.name, migration.needs)?;
            for sql in &migration.script {
                writeln!(f, "      {sql};")?;
            }
        }
        for Step { ms, site, action } in &self.steps {
            write!(f, "  {ms:>9} {}: ", site_name(*site))?;
            match action {
                Action::Write(list) => writeln!(f, "{};", list.join("; "))?,
                Action::Pragma(sql) => writeln!(f, "{sql};")?,
                Action::Retrigger(temp) => writeln!(f, "its triggers anew, TEMP {temp}")?,
                Action::Migrate(n) => writeln!(f, "migration {n}")?,
                Action::Add(how, row, by) => writeln!(f, "adds {by} to {row} ({how:?})")?,
                Action::Reshape => writeln!(f, "next migration of the tally")?,
                Action::Fold => writeln!(f, "synqlite fold")?,
                Action::Pull(from) => writeln!(f, "synqlite pull from {}", site_name(*from))?,
                Action::Push(to) => writeln!(f, "synqlite push to {}", site_name(*to))?,
                Action::Sync(with) => writeln!(f, "synqlite sync with {}", site_name(*with))?,
                Action::Place => writeln!(f, "synqlite sync with the folder")?,
                Action::Policy(key, value) => writeln!(f, "synqlite policy {key}={value}")?,
                Action::Backup => writeln!(f, "backup")?,
                Action::Restore => writeln!(f, "restore")?,
                Action::Dump => writeln!(f, "dump, and read it back")?,
                Action::Clone(of, how) => {
                    writeln!(f, "becomes a clone of {} ({how:?})", site_name(*of))?;
                }
            }
        }
        Ok(())
    }
}
