//! What must hold after each merge, and at the end of a history.

use super::generate::STEP_MS;
use super::marks::Shown;
use super::migrate::Migration;
use super::numbers::Numbers;
use super::play::{Fault, Played, Player, engine, fault, harness, look_at};
use super::regions::Region;
use super::schema::{Role, Table, quote};
use super::search;
use super::{Action, History, Step, site_name};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use synqlite_core::{LogQuery, Replica, Value};
use synqlite_remote::Outcome;

/// What must hold of a site that has just folded or merged. A file that is as it was when it was looked at
/// last is not looked at again.
pub fn look(player: &mut Player<'_>, n: usize) -> Played {
    if player.sites[n].looked_at.is_some_and(|seen| seen == content(&player.sites[n].path)) {
        return Ok(());
    }
    examine(player, n)?;
    player.sites[n].looked_at = Some(content(&player.sites[n].path));
    Ok(())
}

/// A hash of a database and of its write-ahead log.
fn content(path: &Path) -> u64 {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let mut hasher = DefaultHasher::new();
    for file in [path, Path::new(&wal)] {
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

fn examine(player: &mut Player<'_>, n: usize) -> Played {
    let at = site_name(n);
    let found = player.texts(n, "PRAGMA integrity_check")?;
    if found != ["ok"] {
        return fault("integrity_check", format!("{at}: {}", found.join("; ")));
    }
    if player.history.regions.has(Region::Search) {
        search::examine(player, n)?;
    }
    // Between slices its application may have written what the next command looks at.
    if cfg!(feature = "small-parts") {
        let unfolded = player.with(n, |replica| replica.unfolded(1))?;
        if unfolded.map_err(|e| engine("unfolded")(e.into()))? > 0 {
            return Ok(());
        }
    }
    let (policies, verified) =
        player.with(n, |replica| (replica.policies(), verified(replica, n)))?;
    let policies = policies.map_err(|e| engine("policies")(e.into()))?;
    if policies.enforces_foreign_keys() {
        // A table that is not replicated is its application's own affair, and so is who refers to it.
        let local = policies.list("local_tables").into_iter();
        let local: Vec<_> =
            local.map(|name| format!("'{}'", name.to_lowercase().replace('\'', "''"))).collect();
        let local = local.join(", ");
        let found = player.texts(
            n,
            &format!(
                "SELECT \"table\" FROM pragma_foreign_key_check \
                 WHERE lower(\"table\") NOT IN ({local}) AND lower(parent) NOT IN ({local})"
            ),
        )?;
        if !found.is_empty() {
            return fault("foreign_key_check", format!("{at}: rows of {}", found.join(", ")));
        }
    }
    verified
}

fn verified(replica: &Replica, n: usize) -> Played {
    let problems = replica.verify_full().map_err(|e| engine("verify --full")(e.into()))?;
    match problems.is_empty() {
        true => Ok(()),
        false => fault("verify", format!("{}: {}", site_name(n), problems.join("; "))),
    }
}

/// Synchronizes all sites until a whole round moves nothing: at first each with all others, then over one
/// of them, each time another.
pub fn settle(player: &mut Player<'_>, ms: i64) -> Played {
    let live = player.live();
    let place = uses_place(player);
    let most = 2 * live.len() + 4;
    for round in 0..most {
        let mut moved = Vec::new();
        let middle = live[round % live.len()];
        let outer = || live.iter().copied().filter(|&n| n != middle);
        for n in [middle].into_iter().chain(outer()) {
            player.sites[n].env.set(ms + 1_000 * round as i64);
            let with =
                |&other: &usize| other != n && (round == 0 || n == middle || other == middle);
            for other in live.iter().copied().filter(with) {
                // What is no news was looked at before.
                let outcome = player.pull(n, other, round == 0)?;
                moved.extend(news(&outcome).map(|news| format!("{}: {news}", site_name(n))));
            }
            if place {
                let outcome = player.place(n, &Action::Sync(n))?;
                moved.extend(news(&outcome).map(|news| format!("{} {news}", site_name(n))));
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        if round + 1 == most {
            return fault("unsettled", moved.join("; "));
        }
    }
    Ok(())
}

/// What an exchange moved, if it moved anything.
pub fn news(outcome: &Outcome) -> Option<String> {
    let merged = &outcome.merged;
    let changed = merged.inserted + merged.updated + merged.deleted;
    let (came, went) = (outcome.received.rows, outcome.sent.rows);
    let still = changed == 0 && came == 0 && went == 0 && outcome.waiting.is_empty();
    (!still)
        .then(|| format!("{came} rows came, {went} went, {changed} changed, {:?}", outcome.waiting))
}

/// The migrations that a site has run.
fn applied(player: &Player<'_>, n: usize) -> BTreeSet<usize> {
    player.sites[n].applied.iter().copied().collect()
}

/// Whether sites are compared before all of them have run all migrations: where they are at different
/// versions, in some histories. What comes by a place does not tell what its writer had dropped.
pub fn stops_halfway(player: &Player<'_>) -> bool {
    let history = player.history;
    let live = player.live();
    let differ = live.windows(2).any(|pair| applied(player, pair[0]) != applied(player, pair[1]));
    differ && !uses_place(player) && (history.seed >> 5).is_multiple_of(4)
}

/// Sites at the same version show the same, whatever others have dropped.
pub fn compare_alike(player: &mut Player<'_>) -> Played {
    let mut versions: Vec<Told> = Vec::new();
    for n in player.live() {
        let (ours, _) = tell(player, n)?;
        let alike = |other: &&Told| {
            applied(player, other.site) == applied(player, n)
                && player.sites[other.site].schema == player.sites[n].schema
        };
        match versions.iter().find(alike) {
            Some(first) => first
                .same(&ours, false)
                .map_err(|fault| Fault { kind: format!("halfway: {}", fault.kind), ..fault })?,
            None => versions.push(ours),
        }
    }
    Ok(())
}

/// What must hold in the end.
pub fn judge(player: &mut Player<'_>) -> Played {
    let live = player.live();
    if !live.windows(2).all(|pair| applied(player, pair[0]) == applied(player, pair[1])) {
        return fault("migrated differently", String::new());
    }
    let mut want: Option<Told> = None;
    let mut all_told = Vec::new();
    for &n in &live {
        look(player, n)?;
        let (ours, told) = tell(player, n)?;
        loads_here(player, n)?;
        all_told.push(told);
        match &want {
            None => want = Some(ours),
            Some(first) => first.same(&ours, !drops(player))?,
        }
    }
    player.counted_exactly()?;
    if keeps_time(player.history) {
        stamped_later(player, &live)?;
    }
    // A snapshot may be of a time when a table was local, and have rows that its maker claims too.
    let local = player.history.regions.has(Region::Local);
    let changed = player.history.tally.as_ref().is_some_and(|tally| !tally.hops.is_empty());
    let quiet = player.history.migrations.is_empty() && !local && !changed;
    if uses_place(player) && quiet && !counts_after_restore(player) {
        joins_quietly(player, live[0])?;
    }
    match player.history.regions.has(Region::Told) {
        true => lost(player, &live, &all_told),
        false => Ok(()),
    }
}

/// Whether backups are restored where there are counters: who learns of the branch gives the place its counts.
fn counts_after_restore(player: &Player<'_>) -> bool {
    let history = player.history;
    let set = history.steps.iter().filter_map(|step| match &step.action {
        Action::Policy(_, value) => Some(value),
        _ => None,
    });
    let counts = history.policies.iter().map(|(_, value)| value).chain(set).any(|v| v == "counter");
    counts && history.steps.iter().any(|step| step.action == Action::Restore)
}

/// Whether sites meet at the place too.
pub fn uses_place(player: &Player<'_>) -> bool {
    player.history.steps.iter().any(|step| step.action == Action::Place)
}

/// Who joins when all has been said shows what all show, and has nothing to say itself: also where one merge
/// brings it what others heard of one by one (R-PIN).
fn joins_quietly(player: &mut Player<'_>, n: usize) -> Played {
    let (newcomer, outcome) = player.newcomer()?;
    let want = player.with(n, |replica| replica.digest())?;
    let digest = |digest: synqlite_core::Result<synqlite_core::Digest>| {
        digest.map(|digest| digest.digest).map_err(|e| engine("digest")(e.into()))
    };
    let (want, found) = (digest(want)?, digest(newcomer.digest())?);
    if let Some(news) = news(&outcome) {
        return fault("a new clone has news", news);
    }
    match want == found {
        true => Ok(()),
        false => fault("a new clone differs", format!("from {}", site_name(n))),
    }
}

/// What a site shows, and the text of all that it tells.
fn tell(player: &mut Player<'_>, n: usize) -> Played<(Told, String)> {
    let mut told = String::new();
    let policies = player.with(n, |replica| replica.policies())?;
    let policies = policies.map_err(|e| engine("policies")(e.into()))?;
    let site = &player.sites[n];
    let numbers = Numbers::new(&site.schema, policies);
    let misleads = numbers.may_mislead();
    let conn = look_at(site).map_err(harness)?;
    let mut rows = Vec::new();
    for t in site.schema.values() {
        rows.extend(shown(&conn, t, &numbers)?);
    }
    let conflicts = player.with(n, |replica| replica.conflicts())?;
    let conflicts = conflicts.map_err(|e| engine("conflicts")(e.into()))?;
    let mut records = Vec::new();
    for c in &conflicts {
        let rival = c.rival.iter().flat_map(|rival| &rival.shown);
        for (_, value) in c.displaced.iter().chain(&c.shown).chain(rival) {
            told += &words(value);
        }
        // The id says which row it is; a rowid that is no key is each site's own.
        let is_own = c.row.starts_with("rowid ") || !numbers.names_rows(&c.table);
        let row = if is_own { "" } else { &c.row };
        let list = |values: &[(String, Value)]| {
            let shared = values.iter().filter(|(column, _)| numbers.is_shared(&c.table, column));
            let shared = shared.map(|(column, value)| format!("{column} {}", words(value)));
            shared.collect::<Vec<_>>().join(", ")
        };
        records.push(format!(
            "{} {} {} {} shows ({}) asks ({})",
            c.id,
            c.kind,
            c.table,
            row,
            list(&c.shown),
            list(&c.displaced)
        ));
    }
    records.sort();
    let closed = player.with(n, |replica| replica.closed_conflicts())?;
    for closed in closed.map_err(|e| engine("conflicts")(e.into()))? {
        told += &format!("{closed:?}\n");
    }
    let digest = player.with(n, |replica| replica.digest())?;
    let digest = digest.map_err(|e| engine("digest")(e.into()))?.digest;
    let digest = if misleads { String::new() } else { format!("{digest:?}") };
    Ok((Told { site: n, rows, records, digest }, told))
}

/// Loads what a site shows into a database of its schema.
fn loads_here(player: &mut Player<'_>, n: usize) -> Played {
    let enforces = player.with(n, |replica| replica.policies())?;
    let enforces = enforces.map_err(|e| engine("policies")(e.into()))?;
    let site = &player.sites[n];
    let conn = look_at(site).map_err(harness)?;
    let tables: Vec<&Table> = site.schema.values().collect();
    loads(&conn, &tables, enforces.enforces_foreign_keys())
        .map_err(|Fault { kind, what }| Fault { kind, what: format!("{}: {what}", site_name(n)) })
}

fn words(value: &Value) -> String {
    match value {
        Value::Text(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        // SQLite shows no sign of a zero, and takes both for one value.
        Value::Real(zero) if *zero == 0.0 => "Real(0.0)".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Whether a column or a table was dropped: what it held goes on in the stash of some sites.
fn drops(player: &Player<'_>) -> bool {
    let first = |t: usize| player.history.schema.get(&t);
    let lacks = |name: &str| ["drop", "left out", "copied"].iter().any(|how| name.contains(how));
    player.history.migrations.iter().any(|m| lacks(&m.name))
        || player.history.migrations.iter().flat_map(|m| &m.after).any(|(no, after)| {
            let gone = |t: &Table| {
                t.columns.iter().any(|c| after.as_ref().is_none_or(|a| a.column(&c.id).is_none()))
            };
            first(*no).is_some_and(gone)
        })
}

struct Told {
    site: usize,
    rows: Vec<String>,
    records: Vec<String>,
    digest: String,
}

impl Told {
    fn same(&self, other: &Told, digests: bool) -> Played {
        let (a, b) = (site_name(self.site), site_name(other.site));
        let differ = |kind: &str, ours: &[String], theirs: &[String]| {
            let only = |these: &[String], those: &[String]| {
                let those: BTreeSet<_> = those.iter().collect();
                let only = these.iter().filter(|row| !those.contains(row));
                only.map(|row| format!("\n    {row}")).collect::<String>()
            };
            let (here, there) = (only(ours, theirs), only(theirs, ours));
            fault(kind, format!("only {a}:{here}\n  only {b}:{there}"))
        };
        if self.rows != other.rows {
            return differ("rows differ", &self.rows, &other.rows);
        }
        if self.records != other.records {
            return differ("records differ", &self.records, &other.records);
        }
        if digests && self.digest != other.digest {
            return fault("digests differ", format!("{a} {}, {b} {}", self.digest, other.digest));
        }
        Ok(())
    }
}

/// SQL of a column as one text. `quote` ends a text at its first NUL.
pub fn one(name: &str) -> String {
    format!(
        "quote({name})||CASE WHEN typeof({name})='text' AND instr({name},char(0)) THEN hex({name}) ELSE '' END"
    )
}

/// The rows of a table, as text, sorted.
fn shown(conn: &Connection, t: &Table, numbers: &Numbers<'_>) -> Played<Vec<String>> {
    let sql = format!("SELECT {} FROM {} AS t", numbers.text(t), quote(&t.name));
    let mut rows = super::app::texts(conn, &sql)
        .map_err(|e| Fault { kind: "schema differs".into(), what: format!("{sql}: {e}") })?;
    rows.iter_mut().for_each(|row| *row = format!("{}: {row}", t.name));
    rows.sort();
    Ok(rows)
}

/// Loads what a database shows into a new one of the same schema, as a dump does: with foreign keys
/// off, since SQLite itself does not take some rows that refer to themselves. Then it checks them. The
/// encoding is the same: what text the bytes of a blob are to an indexed expression depends on it.
fn loads(conn: &Connection, tables: &[&Table], keys: bool) -> Played {
    let fresh = Connection::open_in_memory().map_err(harness)?;
    for encoding in super::app::texts(conn, "PRAGMA encoding").map_err(harness)? {
        let sql = format!("PRAGMA encoding = '{encoding}'");
        fresh.execute_batch(&sql).map_err(harness)?;
    }
    let made = format!(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name NOT LIKE 'synqlite\\_%'
           ESCAPE '\\' AND name NOT LIKE 'synqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%'
           ESCAPE '\\' AND name NOT LIKE '{}%' AND type <> 'trigger' ORDER BY type = 'index'",
        search::INDEX
    );
    for sql in super::app::texts(conn, &made).map_err(harness)? {
        fresh.execute_batch(&sql).map_err(|e| harness(format!("{sql}: {e}")))?;
    }
    fresh.execute_batch("PRAGMA foreign_keys = OFF; BEGIN").map_err(harness)?;
    for t in tables {
        let stored: Vec<_> = t
            .columns
            .iter()
            .filter(|c| c.role != Role::Generated)
            .map(|c| quote(&c.name))
            .collect();
        let (list, marks) = (stored.join(", "), vec!["?"; stored.len()].join(", "));
        let name = quote(&t.name);
        let insert = format!("INSERT OR ABORT INTO {name}({list}) VALUES({marks})");
        let load = || -> rusqlite::Result<()> {
            let mut statement = conn.prepare(&format!("SELECT {list} FROM {name}"))?;
            let mut insert = fresh.prepare(&insert)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let values = (0..stored.len()).map(|i| row.get::<_, rusqlite::types::Value>(i));
                let values: Vec<_> = values.collect::<rusqlite::Result<_>>()?;
                insert.execute(rusqlite::params_from_iter(values))?;
            }
            Ok(())
        };
        load().map_err(|e| Fault { kind: "dump".into(), what: format!("table {name}: {e}") })?;
    }
    let dangling = super::app::texts(&fresh, "PRAGMA foreign_key_check").map_err(harness)?;
    match keys && !dangling.is_empty() {
        true => fault("dump", format!("rows of {} dangle", dangling.join(", "))),
        false => Ok(()),
    }
}

/// Whether all that is written is noted with its time, and keeps it: clocks go on, tables are replicated at all times
/// and rebuilt with their triggers only, and their rows stay what they are.
fn keeps_time(history: &History) -> bool {
    let jumps = [Region::Clock, Region::Restore, Region::Local];
    let others = ["left out", "copied", "rowids", "key retyped"];
    let kept = |m: &Migration| {
        m.name.starts_with("rebuild by Hand") && !others.iter().any(|other| m.name.contains(other))
    };
    // What waits when a file is dumped may be known by what rows show alone.
    let dumped = history.steps.iter().any(|step| step.action == Action::Dump);
    !(dumped || jumps.into_iter().any(|region| history.regions.has(region)))
        && history.migrations.iter().all(kept)
}

/// Whether a stamp of this time may be that of another value: its site wrote then, and between the same two
/// of its commands rebuilt a table by hand several times, or after rows went. The journal names rowids, and
/// does not tell which of them are of before which rebuild (R-MIG-REBUILD).
fn may_be_anothers(history: &History, ms: i64) -> bool {
    if !history.regions.has(Region::Twice) {
        return false;
    }
    let Some(of) = history.steps.iter().find(|step| (step.ms - ms).abs() < STEP_MS / 2) else {
        return false;
    };
    let is_own = |step: &&Step| step.site == of.site;
    let writes = |step: &&Step| {
        let Step { action, .. } = step;
        matches!(
            action,
            Action::Write(_) | Action::Migrate(_) | Action::Pragma(_) | Action::Retrigger(_)
        )
    };
    let (earlier, later): (Vec<_>, Vec<_>) =
        history.steps.iter().filter(is_own).partition(|step| step.ms <= of.ms);
    let earlier = earlier.into_iter().rev().take_while(writes);
    let before: Vec<_> = earlier.collect::<Vec<_>>().into_iter().rev().collect();
    let after: Vec<_> = later.iter().copied().take_while(writes).collect();
    // In the end all run what is left.
    let last = usize::from(after.len() == later.len());
    let (mut rebuilds, mut went) = (0, false);
    for step in before.into_iter().chain(after) {
        match &step.action {
            Action::Migrate(n) => rebuilds += 1 + history.migrations[*n].needs.len(),
            Action::Write(script) => {
                went |= script.iter().any(|sql| sql.contains("DELETE") || sql.contains("REPLACE"));
            }
            _ => {}
        }
    }
    rebuilds += last * (history.migrations.len() - rebuilds.min(history.migrations.len()));
    rebuilds > 1 || (rebuilds == 1 && went)
}

/// Values whose stamps are later than the statements that wrote them: nobody wrote them then, so they beat
/// what others wrote.
fn stamped_later(player: &mut Player<'_>, live: &[usize]) -> Played {
    let Some(&n) = live.first() else { return Ok(()) };
    let log = player.with(n, |replica| replica.log(&LogQuery::default()))?;
    let log = log.map_err(|e| engine("log")(e.into()))?;
    let written: BTreeMap<&str, i64> = player.history.times();
    let mut later = Vec::new();
    for entry in &log {
        for (column, value) in &entry.columns {
            let mark = value.trim_matches('\'');
            let Some(&ms) = written.get(mark).filter(|_| player.marks.is_noted(mark)) else {
                continue;
            };
            let is_late = entry.at_ms > ms + STEP_MS / 2;
            if is_late && !may_be_anothers(player.history, entry.at_ms) {
                let late = entry.at_ms - ms;
                later.push(format!(
                    "{column} {value} of {} {} is stamped {late} ms later than it was written",
                    entry.table, entry.row
                ));
            }
        }
    }
    match later.is_empty() {
        true => Ok(()),
        false => fault("stamped later", later.join("; ")),
    }
}

/// What was written and is neither shown anywhere nor told on every site: in the end, all have seen it.
fn lost(player: &mut Player<'_>, live: &[usize], told: &[String]) -> Played {
    let mut shown = Shown::new();
    for &n in live {
        shown.extend(player.shown(n)?);
    }
    let lost = player.marks.owed().filter(|(mark, _)| !shown.contains_key(mark));
    let lost = lost.filter(|(mark, _)| !told.iter().all(|told| told.contains(mark.as_str())));
    let lost: Vec<_> = lost.collect();
    let said = |(mark, by): &&(String, usize)| {
        let text = player.history.statement(mark).unwrap_or("");
        let silent = live.iter().zip(told).filter(|(_, told)| !told.contains(mark.as_str()));
        let silent: String = silent.map(|(n, _)| site_name(*n)).collect();
        format!("{mark} of {} on {silent}: {text}", site_name(*by))
    };
    let all: Vec<_> = lost.iter().map(said).collect();
    let inserted = |(mark, _): &&&(String, usize)| {
        player.history.statement(mark).is_none_or(|sql| !sql.starts_with("UPDATE"))
    };
    let kind = match lost.iter().filter(inserted).count() {
        0 => "lost update",
        _ => "lost",
    };
    match lost.is_empty() {
        true => Ok(()),
        false => fault(kind, format!("neither shown nor told: {}", all.join("; "))),
    }
}
