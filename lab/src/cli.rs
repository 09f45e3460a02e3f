//! The command line.

use crate::engine::Engine;
use crate::params::Settings;
use crate::reproduce::Experiment;
use crate::workload::brief::Brief;
use crate::workload::bystander::Bystander;
use crate::workload::hub::Hub;
use crate::workload::kv::{Kv, Source};
use crate::workload::micro::{Key, Micro, Operation};
use crate::workload::mobibench::Mobibench;
use crate::workload::notice::Notice;
use crate::workload::sites::Sites;
use crate::workload::sync::Sync;
use crate::workload::tpcc::{Length, Tpcc};
use crate::{Error, Result};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::str::FromStr;

/// Measures SynQLite against plain SQLite and others.
///
/// Every result carries all of its parameters: versions, settings, storage, machine, load, seed,
/// commit. Engines take turns; ratios are formed round by round.
#[derive(Parser)]
#[command(name = "synqlite-lab", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a workload
    Run {
        #[command(subcommand)]
        workload: Workloads,
    },
    /// The project's headline ratios, in under three minutes
    Quick(Quick),
    /// Repeat a published experiment, and print its tables beside the published ones
    Reproduce(Reproduce),
    /// Print the tables of results files
    Table(Table),
    /// Make one page of results files, with plots and all parameters
    Report(ReportArgs),
    /// Make plots of results files, as SVG
    Plot(PlotArgs),
    /// Compare two results files, or two engines: A and B are FILE or FILE:ENGINE
    Compare(Compare),
    /// The hub that `run hub` measures; ends with its standard input
    #[command(hide = true)]
    ServeHub {
        /// Its store
        store: String,
    },
    /// The writer of `run notice`
    #[command(hide = true)]
    Beat {
        /// The database
        db: PathBuf,
        /// How many commits
        commits: u64,
    },
    /// Print the triggers of a database, by table
    Triggers {
        /// The database
        db: PathBuf,
    },
}

#[derive(Subcommand)]
pub enum Workloads {
    /// Insert, update and delete, each by itself
    Micro(MicroArgs),
    /// TPC-C: five transaction types in their mix, consistency checked afterwards
    Tpcc(TpccArgs),
    /// Small transactions on small records: latencies, bytes, syncs, recovery
    Mobibench(MobibenchArgs),
    /// Keys and values: fill, overwrite, delete, read, in order and at random
    Kv(KvArgs),
    /// Clone, push, pull, fold, merge; continuous synchronization
    Sync(SyncArgs),
    /// A program that opens the database for each request, and prepares each statement anew
    Brief(BriefArgs),
    /// A program that writes one row after another while a pull, a fold, a push runs on the same file
    Bystander(BystanderArgs),
    /// How soon a commit of another process is noticed, and what waiting for it costs
    Notice(NoticeArgs),
    /// A hub under load: pushes and pulls of many clients, idle databases, large objects
    Hub(HubArgs),
    /// Many sites of one database at one hub: bytes that cross the network, and those that must
    Sites(SitesArgs),
    /// One parameter varied, all others held: the slides' study
    Parameters(ParametersArgs),
}

/// What all runs share.
#[derive(Args, Clone)]
pub struct Common {
    /// Engines, in the order of their turns: plain, again (plain once more: the resolution),
    /// replica, replica:fold=transaction, replica:fold=CHANGES, replica:fold=MILLISECONDSms,
    /// improved (same parameters), original, original:keys=scanned; for kv only: store, store:note
    /// (as the ProjectDB note sets it), and in lab/peers leveldb, rocksdb, fjall, each also
    /// with :alike (memtable, cache and filter as ours), redb, lmdb, sled; for hub and
    /// sites: hub; for hub only: hub:postgres, hub:bucket; to see what capture costs at least:
    /// floor, floor:idle
    #[arg(long, value_delimiter = ',', default_value = "plain,replica,again")]
    pub engines: Vec<Engine>,
    /// Rounds; each engine has one turn in each
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Rounds before that are thrown away; the first checks that all engines execute the same
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub warm_up: u32,
    /// Seed: the same one gives the same statements
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Journal modes to run in: delete, truncate, persist, memory, wal, off, and on vfs=dash
    /// dash-strict, dash-fast, dash-shadow, dash-shadow-x, dash-paper, dash-paper-x
    #[arg(long, value_delimiter = ',', default_value = "wal")]
    pub journal_mode: Vec<String>,
    /// PRAGMA=VALUE on the application's connection; may be given more than once. WAL has
    /// synchronous=normal, the other journal modes synchronous=full, unless set here
    #[arg(long, value_name = "PRAGMA=VALUE")]
    pub set: Vec<String>,
    /// Fire no triggers, so that nothing is captured, whatever the engine
    #[arg(long)]
    pub no_triggers: bool,
    #[command(flatten)]
    pub place: Place,
}

/// Where databases and results go.
#[derive(Args, Clone)]
pub struct Place {
    /// New or empty folder for the databases [default: a temporary one]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Results file to write, as JSON lines
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// Name for the results, to tell them apart and to select them
    #[arg(long, default_value = "")]
    pub name: String,
    /// Print tables as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// From, to, step: `5`, `1..3`, `10000..50000/10000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub low: u64,
    pub high: u64,
    pub step: u64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Span, String> {
        let bad = || format!("'{text}' is no number, LOW..HIGH or LOW..HIGH/STEP");
        let number = |part: &str| part.replace('_', "").parse::<u64>().map_err(|_| bad());
        let Some((low, rest)) = text.split_once("..") else {
            let n = number(text)?;
            return Ok(Span { low: n, high: n, step: 1 });
        };
        let (high, step) = rest.split_once('/').unwrap_or((rest, "1"));
        let span = Span { low: number(low)?, high: number(high)?, step: number(step)? };
        if span.step == 0 || span.low > span.high {
            return Err(format!("'{text}' is empty"));
        }
        if (span.high - span.low) / span.step > 1000 {
            return Err(format!(
                "'{text}' has more than 1,000 values; give a step: LOW..HIGH/STEP"
            ));
        }
        Ok(span)
    }
}

impl Span {
    pub fn values(self) -> impl Iterator<Item = u64> {
        (self.low..=self.high).step_by(self.step as usize)
    }
}

#[derive(Args)]
pub struct MicroArgs {
    /// Tables, as N, LOW..HIGH or LOW..HIGH/STEP; every combination with the next two is run
    #[arg(long, default_value = "5")]
    pub tables: Span,
    /// Columns of each table, the key included
    #[arg(long, default_value = "5")]
    pub columns: Span,
    /// Rows of all tables together
    #[arg(long, default_value = "10000")]
    pub rows: Span,
    /// Give each table a random share of the rows, not an equal one
    #[arg(long)]
    pub random_divide: bool,
    /// Statements a transaction; 1: each commits by itself
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub transaction: u64,
    /// Primary keys
    #[arg(long, value_enum, default_value = "integer")]
    pub key: Key,
    /// Rows that are there before the run
    #[arg(long, default_value_t = 0)]
    pub populate: u64,
    /// One database for all numbers of rows, which grows, instead of a new one for each
    #[arg(long)]
    pub no_rebuild: bool,
    /// Engines do not fold between insert, update and delete
    #[arg(long)]
    pub no_fold_between: bool,
    /// Measure only these
    #[arg(long, value_enum, value_delimiter = ',', default_value = "insert,update,delete")]
    pub operations: Vec<Operation>,
    #[command(flatten)]
    pub common: Common,
}

impl MicroArgs {
    /// The benchmarks that the ranges span.
    pub fn all(&self) -> Result<Vec<Micro>> {
        let mut all = Vec::new();
        for tables in self.tables.values() {
            for columns in self.columns.values() {
                let micro = |rows: Vec<u64>| Micro {
                    tables: u32::try_from(tables).unwrap_or(u32::MAX),
                    columns: u32::try_from(columns).unwrap_or(u32::MAX),
                    rows,
                    divide_at_random: self.random_divide,
                    transaction: self.transaction,
                    key: self.key,
                    populate: self.populate,
                    fold_between: !self.no_fold_between,
                    operations: self.operations.clone(),
                };
                if self.no_rebuild {
                    all.push(micro(self.rows.values().collect()));
                } else {
                    all.extend(self.rows.values().map(|rows| micro(vec![rows])));
                }
            }
        }
        all.iter().try_for_each(Micro::check)?;
        Ok(all)
    }
}

#[derive(Args)]
pub struct TpccArgs {
    /// Warehouses
    #[arg(long, default_value_t = 1)]
    pub warehouses: i64,
    /// Divide items, customers and orders by this; 1 is the standard
    #[arg(long, default_value_t = 10)]
    pub scale: i64,
    /// Transactions of a run
    #[arg(long, default_value_t = 1000, conflicts_with = "seconds")]
    pub transactions: u64,
    /// Run so long instead; engines then execute different numbers of transactions
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Engines fold once between load and transactions
    #[arg(long)]
    pub fold_after_load: bool,
    #[command(flatten)]
    pub common: Common,
}

impl TpccArgs {
    pub fn workload(&self) -> Result<Tpcc> {
        let length = match self.seconds {
            Some(seconds) => Length::Seconds(seconds),
            None => Length::Transactions(self.transactions),
        };
        let Self { warehouses, scale, fold_after_load, .. } = *self;
        let tpcc = Tpcc { warehouses, scale, length, fold_after_load };
        tpcc.check()?;
        Ok(tpcc)
    }
}

#[derive(Args)]
pub struct MobibenchArgs {
    /// Transactions of each kind; percentiles past p99 need 10,000
    #[arg(long, default_value_t = 10_000)]
    pub transactions: u64,
    /// Operations a transaction, 1 to 20, each on its own table; every number is run
    #[arg(long, default_value = "3")]
    pub operations: Span,
    /// Bytes of a record
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub record: u32,
    /// Percentages of pages that an update shares with the transaction before
    #[arg(long, value_delimiter = ',')]
    pub duplication: Vec<u32>,
    /// How often to time recovery after a crash
    #[arg(long, default_value_t = 0)]
    pub recoveries: u32,
    /// Megabytes that the database has before
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub fill: u32,
    /// Count what reaches the block device; nothing else should be writing to it
    #[arg(long)]
    pub device: bool,
    #[command(flatten)]
    pub common: Common,
}

impl MobibenchArgs {
    pub fn all(&self) -> Result<Vec<Mobibench>> {
        let one = |operations: u64| {
            let bench = Mobibench {
                transactions: self.transactions,
                operations: u32::try_from(operations).unwrap_or(u32::MAX),
                record: self.record,
                duplication: self.duplication.clone(),
                recoveries: self.recoveries,
                fill: self.fill,
                device: self.device,
            };
            bench.check().map(|()| bench)
        };
        self.operations.values().map(one).collect()
    }
}

#[derive(Args)]
pub struct KvArgs {
    /// Entries
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub entries: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub value: u32,
    /// Take keys and values from this CSV file instead; it has a header
    #[arg(long, conflicts_with_all = ["entries", "value"])]
    pub csv: Option<PathBuf>,
    /// Column of the keys, from 0
    #[arg(long, default_value_t = 0, requires = "csv")]
    pub key_column: usize,
    /// Column of the values, from 0
    #[arg(long, default_value_t = 1, requires = "csv")]
    pub value_column: usize,
    /// Operations a batch or transaction; 1: each by itself
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub transaction: u64,
    /// Stores force each group to the device (SQLite: --set synchronous=full)
    #[arg(long)]
    pub sync: bool,
    /// Instead of the seven tasks what they do not show, for stores only: missing keys, scans, two
    /// threads, space, reopening; with --sync: one and two writers
    #[arg(long)]
    pub further: bool,
    #[command(flatten)]
    pub common: Common,
}

impl KvArgs {
    pub fn workload(&self) -> Kv {
        let source = match &self.csv {
            Some(path) => {
                Source::Csv { path: path.clone(), key: self.key_column, value: self.value_column }
            }
            None => Source::Random { entries: self.entries, value: self.value },
        };
        let Self { transaction, sync, further, .. } = *self;
        Kv { source, transaction, sync, further }
    }
}

#[derive(Args)]
pub struct SyncArgs {
    /// Rows of the database; every number is run
    #[arg(long, default_value = "20000")]
    pub rows: Span,
    /// Numbers of changes between two synchronizations
    #[arg(long, value_delimiter = ',', default_value = "100,1000")]
    pub changes: Vec<u64>,
    /// Rows of the continuous part; 0 leaves it out
    #[arg(long, default_value_t = 10_000)]
    pub continuous: u64,
    /// Rows between two folds of the continuous part
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000")]
    pub every: Vec<u64>,
    #[command(flatten)]
    pub common: Common,
}

impl SyncArgs {
    pub fn all(&self) -> Result<Vec<Sync>> {
        let one = |rows| {
            let (changes, rounds) = (self.changes.clone(), self.every.clone());
            let sync = Sync { rows, changes, continuous: self.continuous, rounds };
            sync.check().map(|()| sync)
        };
        self.rows.values().map(one).collect()
    }
}

#[derive(Args)]
pub struct BystanderArgs {
    /// Rows that are inserted, updated and deleted at once; every number is run
    #[arg(long, default_value = "100000")]
    pub rows: Span,
    /// Milliseconds of the program's busy_timeout; every number is run
    #[arg(long, value_delimiter = ',', default_value = "5000")]
    pub patience: Vec<u64>,
    #[command(flatten)]
    pub common: Common,
}

impl BystanderArgs {
    pub fn all(&self) -> Vec<Bystander> {
        let of = |rows| self.patience.iter().map(move |&patience| Bystander { rows, patience });
        self.rows.values().flat_map(of).collect()
    }
}

#[derive(Args)]
pub struct BriefArgs {
    /// Tables of the database; every number is run
    #[arg(long, default_value = "30")]
    pub tables: Span,
    /// Requests, and statements, of each sort
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: u64,
    #[command(flatten)]
    pub common: Common,
}

impl BriefArgs {
    pub fn all(&self) -> Result<Vec<Brief>> {
        let one = |tables| {
            let brief = Brief { tables, requests: self.requests };
            brief.check().map(|()| brief)
        };
        self.tables.values().map(one).collect()
    }
}

#[derive(Args)]
pub struct NoticeArgs {
    /// Commits that are waited for, each way
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub commits: u64,
    /// Seconds in which nobody commits, each way
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub idle: u64,
    #[command(flatten)]
    pub common: Common,
}

impl NoticeArgs {
    pub fn all(&self) -> Vec<Notice> {
        vec![Notice { commits: self.commits, idle: self.idle }]
    }
}

#[derive(Args)]
pub struct HubArgs {
    /// Clients, each with a connection and a place of its own
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub clients: u64,
    /// Objects that each client pushes, and pulls
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub objects: u64,
    /// Bytes of an object
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub bytes: u64,
    /// Pushes a second, of all clients together, while latency is measured
    #[arg(long, default_value_t = 2_500, value_parser = clap::value_parser!(u64).range(1..))]
    pub pace: u64,
    /// Databases that get one object each; 0 leaves it out
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    pub databases: u64,
    /// Megabytes of one large object; 0 leaves it out
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100_000))]
    pub large: u64,
    /// Database for the engine hub:postgres, as postgres://USER@HOST/DATABASE; the run fills it
    #[arg(long)]
    pub postgres: Option<String>,
    /// Prefix for the engine hub:bucket, as s3://BUCKET/PREFIX, with keys in the usual AWS_
    /// variables; the run fills it
    #[arg(long)]
    pub bucket: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

impl HubArgs {
    pub fn workload(&self) -> Hub {
        let Self { clients, objects, bytes, pace, databases, large, .. } = *self;
        let (postgres, bucket) = (self.postgres.clone(), self.bucket.clone());
        Hub { clients, objects, bytes, pace, databases, large, postgres, bucket }
    }
}

#[derive(Args)]
pub struct SitesArgs {
    /// Sites, each with a file of its own
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    pub sites: u64,
    /// Batches that each site pushes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub batches: u64,
    /// Bytes of new content in a batch, about
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(256..=60_000))]
    pub bytes: u64,
    /// Sites that are at work at a time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: u64,
    #[command(flatten)]
    pub common: Common,
}

impl SitesArgs {
    pub fn workload(&self) -> Sites {
        let [sites, batches, bytes, threads] =
            [self.sites, self.batches, self.bytes, self.threads].map(|n| n as usize);
        Sites { sites, batches, bytes, threads }
    }
}

#[derive(Args)]
pub struct ParametersArgs {
    /// What to vary: journal_mode, synchronous, populate, wal_autocheckpoint, page_size, cache_size,
    /// file_system (on loop devices, for root) [default: all of them]
    #[arg(long, value_delimiter = ',')]
    pub vary: Vec<String>,
    /// Transactions of each kind; the slides have 1000
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: u64,
    /// Rows that are there before; the slides have 100000
    #[arg(long, default_value_t = 10_000)]
    pub populate: u64,
    /// Engines, in the order of their turns
    #[arg(long, value_delimiter = ',', default_value = "plain,replica")]
    pub engines: Vec<Engine>,
    /// Rounds; each engine has one turn in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seed: the same one gives the same statements
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub place: Place,
}

impl Common {
    /// The settings for each journal mode.
    pub fn settings(&self) -> Result<Vec<Settings>> {
        const MODES: [&str; 6] = ["delete", "truncate", "persist", "memory", "wal", "off"];
        let each = |mode: &String| {
            let mode = mode.to_ascii_lowercase();
            let dash = mode.starts_with("dash-");
            if !dash && !MODES.contains(&mode.as_str()) {
                return Err(Error::unknown("journal mode", &mode, &MODES));
            }
            let mut settings = Settings { no_triggers: self.no_triggers, ..Settings::default() };
            if dash {
                settings = settings.on_dash(&mode)?;
            }
            let synchronous = if mode == "wal" { "normal" } else { "full" };
            settings.set("foreign_keys=off")?;
            settings.set(&format!("synchronous={synchronous}"))?;
            if !dash {
                settings.set(&format!("journal_mode={mode}"))?;
            }
            self.set.iter().try_for_each(|text| settings.set(text))?;
            Ok(settings)
        };
        self.journal_mode.iter().map(each).collect()
    }
}

#[derive(Args)]
pub struct Quick {
    /// Rounds; fewer are faster and vaguer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Print the tables behind the headline too
    #[arg(long)]
    pub details: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct Reproduce {
    /// The experiment
    #[arg(value_enum)]
    pub experiment: Experiment,
    /// In the size that was published; takes hours
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Args)]
pub struct Select {
    /// Results files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Only results whose name begins so
    #[arg(long)]
    pub name: Option<String>,
    /// Only these engines
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<Engine>,
    /// Only this workload
    #[arg(long)]
    pub workload: Option<String>,
    /// Take what stands before the end of a file that is cut short
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
pub struct Table {
    #[command(flatten)]
    pub select: Select,
    /// Form ratios over this engine
    #[arg(long, default_value = "plain")]
    pub over: Engine,
    /// Print tables as Markdown
    #[arg(long)]
    pub markdown: bool,
}

#[derive(Args)]
pub struct ReportArgs {
    #[command(flatten)]
    pub select: Select,
    /// Form ratios over this engine
    #[arg(long, default_value = "plain")]
    pub over: Engine,
    /// The page to write
    #[arg(long, short, default_value = "report.html")]
    pub out: PathBuf,
}

#[derive(Args)]
pub struct PlotArgs {
    #[command(flatten)]
    pub select: Select,
    /// Folder for the pictures
    #[arg(long)]
    pub dir: PathBuf,
    /// Begin the names of the files so
    #[arg(long, default_value = "")]
    pub prefix: String,
}

#[derive(Args)]
pub struct Compare {
    /// The baseline, as FILE or FILE:ENGINE
    pub a: String,
    /// What is compared with it
    pub b: String,
    /// What is compared: paths of parameters in which the runs may differ, such as engine, program,
    /// asked, storage, workload.options.rows
    #[arg(long, value_delimiter = ',', default_value = "engine")]
    pub by: Vec<String>,
    /// Compare runs that differ in more, and mark the difference; take what stands before the end
    /// of a file that is cut short
    #[arg(long)]
    pub force: bool,
    /// Print the table as Markdown
    #[arg(long)]
    pub markdown: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn spans_are_read() {
        let values = |text: &str| text.parse::<Span>().unwrap().values().collect::<Vec<_>>();
        assert_eq!(values("5"), [5]);
        assert_eq!(values("1..3"), [1, 2, 3]);
        assert_eq!(values("10_000..30_000/10000"), [10_000, 20_000, 30_000]);
        for text in ["", "x", "3..1", "1..5/0", "1..9999999"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
