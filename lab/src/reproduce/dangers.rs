//! The dangers of benchmarking SQLite: how much one parameter changes.

use super::{Claims, Prepared, cell};
use crate::Result;
use crate::compare::Group;
use crate::engine::Engine;
use crate::stats::Summary;
use crate::study::{self, Study};
use crate::table::Style;
use std::path::Path;

pub fn prepare(dir: &Path, full: bool) -> Result<Prepared> {
    let vary = ["journal_mode", "synchronous", "populate", "wal_autocheckpoint", "file_system"];
    let study = Study {
        vary: vary.map(str::to_owned).to_vec(),
        transactions: if full { 1000 } else { 60 },
        populate: if full { 100_000 } else { 10_000 },
        engines: vec![Engine::Plain],
        rounds: 5,
        seed: 1,
    };
    let (plans, mounts, notes) = study.plans(dir)?;
    Ok(Prepared { plans, mounts, notes })
}

pub fn report(groups: &[Group<'_>], style: Style) -> String {
    let named = |name: &str| groups.iter().find(|g| g.name() == name);
    // Transactions a second over all three kinds.
    let of = |group: &Group<'_>| {
        let records = group.of(Engine::Plain)?;
        let rate = |wall: f64, n: f64| n / wall;
        let rates = records.iter().map(|r| {
            let sum = |of: &dyn Fn(&crate::meter::Phase) -> f64| {
                r.outcome.phases.iter().map(of).sum::<f64>()
            };
            rate(sum(&|p| p.wall), sum(&|p| p.transactions as f64))
        });
        Summary::of(&rates.collect::<Vec<_>>()).map(|s| s.median)
    };
    let rate = |name: &str| named(name).and_then(of);
    let over = |a: &str, b: &str| Some(rate(a)? / rate(b)?);
    let syncs = |name: &str| {
        named(name)?.row(Engine::Plain, "insert").and_then(|r| r.syncs).map(|s| s * 1000.0)
    };
    let mut claims = Claims::default();
    let wal = over("journal_mode=wal", "journal_mode=delete");
    claims.add(
        "WAL reaches up to 9 times the rate of DELETE (270 against 30)",
        wal.map(|r| r > 2.0),
        &format!("{} times", cell(wal)),
    );
    let (in_wal, in_delete) = (syncs("journal_mode=wal"), syncs("journal_mode=delete"));
    claims.add(
        "1,000 inserts cost 1,000 syncs in WAL with FULL",
        in_wal.map(|s| (950.0..1100.0).contains(&s)),
        &cell(in_wal),
    );
    claims.add(
        "and 5,000 in DELETE",
        in_delete.map(|s| (4900.0..5100.0).contains(&s)),
        &format!(
            "{}: this SQLite syncs the folder after deleting the journal only with EXTRA, which has \
             {}; TRUNCATE and PERSIST have {} and {}",
            cell(in_delete),
            cell(syncs("synchronous=extra")),
            cell(syncs("journal_mode=truncate")),
            cell(syncs("journal_mode=persist"))
        ),
    );
    let normal = over("synchronous=normal", "synchronous=full");
    claims.add(
        "NORMAL is 1.5 times as fast as FULL",
        normal.map(|r| r > 1.1),
        &format!("{} times, with 3 syncs instead of 4", cell(normal)),
    );
    let names: Vec<&str> = groups.iter().map(Group::name).collect();
    let rows: Vec<f64> =
        names.iter().filter_map(|n| n.strip_prefix("populate=")?.parse().ok()).collect();
    let most = rows.iter().copied().fold(0.0, f64::max);
    let populated = over("populate=0", &format!("populate={most}"));
    claims.add(
        "an empty database is about twice as fast as a populated one",
        populated.map(|r| r > 1.5),
        &format!("{} times against {most} rows", cell(populated)),
    );
    let log = over("wal_autocheckpoint=1000", "wal_autocheckpoint=10");
    claims.add(
        "a larger log is faster, up to a point",
        log.map(|r| r > 1.2),
        &format!("1,000 pages {} times as fast as 10", cell(log)),
    );
    let best = groups.iter().filter_map(|g| Some((g.name(), of(g)?)));
    let safe = best
        .filter(|(name, _)| !["off", "memory"].iter().any(|unsafe_one| name.ends_with(unsafe_one)));
    let best = safe.max_by(|a, b| a.1.total_cmp(&b.1));
    let gain = best.and_then(|(name, r)| Some((name, r / rate("journal_mode=delete")?)));
    claims.add(
        "the best setting is 28 times as fast as the default",
        gain.map(|(_, r)| r > 10.0),
        &gain.map_or(String::new(), |(name, r)| format!("{} times with {name}", cell(Some(r)))),
    );
    let systems: Vec<String> = names
        .iter()
        .filter_map(|n| n.strip_prefix("file_system="))
        .filter(|n| *n != "own")
        .filter_map(|n| {
            let ratio = over(&format!("file_system={n}"), "file_system=own")?;
            Some(format!("{n} {}", cell(Some(ratio))))
        })
        .collect();
    claims.add(
        "F2FS can look faster or slower than ext4, as one chooses the other parameters",
        None,
        &format!("on loop devices, over the machine's own: {}", systems.join(", ")),
    );
    let records: Vec<_> = groups
        .iter()
        .flat_map(|g| g.engines.iter().flat_map(|(_, list)| list.iter().map(|r| (*r).clone())))
        .collect();
    format!("{}\n\n{}", study::table(&records, style), claims.text())
}
