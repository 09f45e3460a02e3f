//! The demonstration: three sites of one database edit offline, disagree, and converge.
//!
//! The edits go through ordinary connections, as any application would make them. Only `init`,
//! `push`, `clone` and `sync` are ours.

mod data;
mod edits;

use crate::error::{CommandError, Failure, Kind, Result};
use crate::record::{DIGITS, Teller};
use crate::report::{Report, bytes, decision, grouped, outcome, rows, seconds};
use crate::sides::Style;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synqlite_core::{ConflictKind, Environment, Identity, InitOptions, Replica, Verb};
use synqlite_remote::{Remote, Session};

/// Sites in the order in which they write.
const SITES: [&str; 3] = ["A", "B", "C"];
/// More rounds than three sites ever need.
const ROUNDS: usize = 5;

/// Runs it in `dir`, or in a folder that it removes. `settles`: to the end, at which nothing is open.
pub fn run(
    dir: Option<&Path>,
    seed: u64,
    settles: bool,
    env: Arc<dyn Environment>,
) -> Result<Report> {
    let place = Place::new(dir, env.as_ref())?;
    let mut show = Show { place, env, lines: Vec::new(), steps: Vec::new() };
    show.say("Three sites share a database of customers, orders and notes. They edit it offline");
    show.say("and synchronize through a folder, as on a memory stick or a synced directory.");
    show.begin(seed)?;
    show.edit(seed)?;
    show.synchronize()?;
    if settles {
        show.settle()?;
        show.synchronize()?;
    }
    show.conclude()
}

/// The folder of the demonstration.
struct Place {
    dir: PathBuf,
    kept: bool,
}

impl Place {
    fn new(dir: Option<&Path>, env: &dyn Environment) -> Result<Place> {
        let Some(dir) = dir else {
            let name: String = env.random().iter().map(|byte| format!("{byte:02x}")).collect();
            let dir = std::env::temp_dir().join(format!("synqlite-demo-{name}"));
            fs::create_dir(&dir)?;
            return Ok(Place { dir, kept: false });
        };
        fs::create_dir_all(dir).map_err(|e| {
            let what = format!("{} cannot be a folder: {e}", dir.display());
            CommandError::new(what).hint("Give another folder with --dir")
        })?;
        let place = Place { dir: std::path::absolute(dir)?, kept: true };
        let ours = SITES.map(|site| place.db(site)).into_iter().chain([place.dir.join("folder")]);
        for path in ours {
            if path.symlink_metadata().is_ok() {
                let path = path.display().to_string();
                let exists = Failure::new(format!("{path} exists already"));
                let exists = exists.hint("Give another folder with --dir");
                return Err(exists.of(Kind::Conflict, Some(path)).into());
            }
        }
        Ok(place)
    }

    fn db(&self, site: &str) -> PathBuf {
        self.dir.join(format!("{site}.db"))
    }

    fn folder(&self) -> Result<Remote> {
        let mut path = self.dir.join("folder").display().to_string();
        path = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        if cfg!(windows) {
            path = format!("/{}", path.replace('\\', "/"));
        }
        Ok(Remote::parse(&format!("file://{path}/"))?)
    }

    /// What an application opens: nothing of ours.
    fn connect(&self, site: &str) -> Result<Connection> {
        let conn = Connection::open(self.db(site))?;
        conn.execute_batch("PRAGMA foreign_keys=ON")?;
        Ok(conn)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed is in the system's folder for such files.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The demonstration as it is told.
struct Show {
    place: Place,
    env: Arc<dyn Environment>,
    lines: Vec<String>,
    steps: Vec<Value>,
}

impl Show {
    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Records a step that took from `since` till now.
    fn step(&mut self, title: String, site: Option<&str>, since: Instant, more: Value) {
        let time = since.elapsed();
        let ms = time.as_secs_f64() * 1e3;
        self.say(format!("\n{}. {title} [{ms:.0} ms]", self.steps.len() + 1));
        let mut step = json!({"step": title, "site": site, "seconds": seconds(time)});
        if let (Some(step), Value::Object(more)) = (step.as_object_mut(), more) {
            step.extend(more);
        }
        self.steps.push(step);
    }

    fn open(&self, site: &str) -> Result<Replica> {
        Ok(Replica::open(&self.place.db(site), self.env.clone())?)
    }

    /// One database becomes three replicas.
    fn begin(&mut self, seed: u64) -> Result<()> {
        let since = Instant::now();
        let mut conn = Connection::open(self.place.db("A"))?;
        let made = data::fill(&mut conn, seed)?;
        drop(conn);
        let title =
            format!("A makes an ordinary database of {}, seed {seed}", rows(made.unsigned_abs()));
        self.step(title, Some("A"), since, json!({"rows": made}));

        let since = Instant::now();
        let options = InitOptions::default();
        let done = Replica::init(&self.place.db("A"), &options, self.env.clone())?;
        self.open("A")?.set_name("A")?;
        self.step("A makes it a replica: `init`".into(), Some("A"), since, json!({}));
        for t in done.tables {
            let how = match t.identity {
                Identity::Key => "its key says which row is which",
                Identity::Birth => "each row is itself, whatever its number",
            };
            self.say(format!("   {:<12} {:>6} rows; {how}", t.name, t.rows));
        }

        let since = Instant::now();
        let folder = self.place.folder()?;
        let session = Session::new(self.env.clone());
        let mut a = self.open("A")?;
        a.add_remote("origin", &folder.url(), None)?;
        let sent = folder.push(&mut a, &session)?.sent.bytes;
        self.step("A pushes it to the folder".into(), Some("A"), since, json!({"bytes": sent}));

        for site in ["B", "C"] {
            let since = Instant::now();
            let session = Session::new(self.env.clone());
            let cloned = folder.clone_to(&self.place.db(site), &session)?;
            self.open(site)?.set_name(site)?;
            let title =
                format!("{site} clones it from the folder: {}", rows(cloned.rows.unsigned_abs()));
            self.step(title, Some(site), since, json!({"rows": cloned.rows}));
        }
        Ok(())
    }

    /// Each site edits on its own, through an ordinary connection.
    fn edit(&mut self, seed: u64) -> Result<()> {
        for edits in edits::all(seed) {
            let since = Instant::now();
            let mut conn = self.place.connect(edits.site)?;
            let tx = conn.transaction()?;
            for edit in &edits.edits {
                tx.execute_batch(&edit.sql)?;
            }
            tx.commit()?;
            let sql: Vec<_> = edits.edits.iter().map(|e| e.sql.as_str()).collect();
            let title = format!("{} edits offline, with plain SQL", edits.site);
            self.step(title, Some(edits.site), since, json!({"sql": sql}));
            for edit in &edits.edits {
                self.say(format!("   {}", edit.sql.replace("; ", ";\n   ")));
                self.say(format!("      -- {}", edit.why));
            }
            // A later site writes in a later millisecond, as the story has it.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sites synchronize in turn until nothing is new.
    fn synchronize(&mut self) -> Result<()> {
        let folder = self.place.folder()?;
        for _ in 0..ROUNDS {
            let mut quiet = true;
            for site in SITES {
                let since = Instant::now();
                let mut replica = self.open(site)?;
                let session = Session::new(self.env.clone());
                let done = folder.sync(&mut replica, &session)?;
                let (sent, received, m) = (done.sent, done.received, &done.merged);
                if sent.rows + received.rows == 0 {
                    continue;
                }
                quiet = false;
                let title = format!("{site} synchronizes with the folder: `sync`");
                let conflicts = replica.open_questions()?;
                self.step(title, Some(site), since, outcome(&done, conflicts, since.elapsed()));
                self.say(format!(
                    "   sent {} ({}), received {} ({}); {} inserted, {} updated, {} deleted",
                    rows(sent.rows),
                    bytes(sent.bytes),
                    rows(received.rows),
                    bytes(received.bytes),
                    grouped(m.inserted),
                    grouped(m.updated),
                    grouped(m.deleted)
                ));
                for d in &m.decisions {
                    self.say(format!("   decided: {}", decision(d)));
                }
            }
            if quiet {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What stepped aside is listed and settled, each record on one site for all.
    fn settle(&mut self) -> Result<()> {
        let since = Instant::now();
        let b = self.open("B")?;
        let (open, here, sites) = (b.questions()?, b.site(), b.site_names()?);
        let title = "B lists what stepped aside, as every site would: `conflicts B.db`";
        self.step(title.into(), Some("B"), since, json!({"conflicts": open.len()}));
        let style = Style { width: 100, colour: false };
        let teller = Teller { style, here, sites: &sites, whole: None };
        for conflict in &open {
            let mut text = String::new();
            teller.tell(&mut text, conflict);
            text.lines().for_each(|line| self.say(format!("   {line}")));
        }
        drop(b);
        let steps = [
            (
                "B",
                ConflictKind::Fallback,
                Verb::Prefer,
                "the address is for B's customer; A's steps aside",
            ),
            (
                "B",
                ConflictKind::Fallback,
                Verb::Accept,
                "and A's keeps the address that it shows now",
            ),
            ("A", ConflictKind::RestrictRevived, Verb::Restore, "the order is not to be deleted"),
        ];
        steps.into_iter().try_for_each(|(site, kind, verb, why)| self.decide(site, kind, verb, why))
    }

    /// Settles the open record of a kind.
    fn decide(&mut self, site: &str, kind: ConflictKind, verb: Verb, why: &str) -> Result<()> {
        let since = Instant::now();
        let mut replica = self.open(site)?;
        let open = replica.questions()?;
        let Some(conflict) = open.iter().find(|c| c.kind == kind) else {
            return Err(CommandError::new(format!("{site} has no open conflict {kind}")));
        };
        let id = replica.settle_conflict(&conflict.id, verb)?;
        let left = replica.open_questions()?;
        let command = format!("conflicts {site}.db {} {}", verb.name(), &id[..DIGITS]);
        let title = format!("{site} settles one for all: `{command}`");
        self.step(title, Some(site), since, json!({"settled": id, "conflicts": left}));
        self.say(format!("   {} {}: {why}", conflict.table, conflict.row));
        Ok(())
    }

    /// Compares the sites and shows what became of the disagreements.
    fn conclude(mut self) -> Result<Report> {
        let since = Instant::now();
        let (mut digests, mut open) = (Vec::new(), 0);
        for site in SITES {
            let replica = self.open(site)?;
            open = replica.open_questions()?.max(open);
            digests.push((site, replica.digest()?.digest));
        }
        let first = digests.first().map_or(String::new(), |(_, digest)| digest.clone());
        let converged = digests.iter().all(|(_, digest)| *digest == first);
        self.step("Digests of all three".into(), None, since, json!({}));
        for (site, digest) in &digests {
            self.say(format!("   {site} {digest}"));
        }
        self.say(format!("   open conflicts on each of them: {open}"));
        self.say("\nWhat every site shows now:");
        let conn = self.place.connect("A")?;
        for question in edits::questions() {
            self.say(format!("   {}", question.sql));
            for row in edits::answer(&conn, &question.sql)? {
                self.say(format!("      {row}"));
            }
            self.say(format!("      -- {}", question.why));
        }
        drop(conn);
        self.say(if converged { "\nConverged." } else { "\nThe sites differ!" });
        if self.place.kept {
            let dir = self.place.dir.display().to_string();
            self.say(format!("The databases are in {dir}. Look at them as at any other:"));
            self.say(format!("  sqlite3 {dir}/B.db 'SELECT * FROM customers WHERE id > 400'"));
            self.say(format!("  synqlite log {dir}/B.db --table customers --limit 5"));
            if open > 0 {
                self.say(format!("  synqlite review {dir}/B.db"));
            }
        }
        if !converged {
            return Err(CommandError::new(self.lines.join("\n")));
        }
        let json = json!({"converged": converged, "conflicts": open, "digest": first, "steps": self.steps});
        Ok(Report::new(json, self.lines.join("\n")))
    }
}
