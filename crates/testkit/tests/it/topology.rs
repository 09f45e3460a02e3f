//! Sites that synchronize along any way: lost answers, repeated ones, third sites, a site that only
//! passes on. Integer keys meet and are renumbered here.

use crate::seeds::each;
use rusqlite::Connection;
use synqlite_testkit::families::{Context, FAMILIES, Family};
use synqlite_testkit::history::{Action, START_MS, Step, settling};
use synqlite_testkit::random::Random;
use synqlite_testkit::shapes::SHAPES;
use synqlite_testkit::world::{Result, World, rows};
use synqlite_wire::RowChange;

fn write(world: &World, r: &mut Random, family: Family, site: usize, n: u64) -> Result<bool> {
    let context = Context { site, n, apart: false, onward: false };
    let sql = family.statement(r, &context);
    world.sites[site].run(&sql, START_MS + 1_000 * (n as i64 + 1))
}

fn pull(world: &mut World, site: usize, from: usize) -> Result<()> {
    world.play(&Step { ms: START_MS, site, action: Action::Pull(from) })?;
    Ok(())
}

/// All sites must hold the same, to the last register of the last dead row.
fn converged(world: &mut World) -> Result<()> {
    let want = world.sites[0].state()?;
    for (i, site) in world.sites.iter_mut().enumerate() {
        let got = site.state()?;
        assert_eq!(got.rows, want.rows, "rows of site {i}");
        let differs = |c: &&RowChange| !want.changes.contains(c);
        let differing: Vec<_> = got.changes.iter().filter(differs).collect();
        let theirs: Vec<_> = want.changes.iter().filter(|c| !got.changes.contains(c)).collect();
        assert!(differing.is_empty(), "site {i} holds {differing:?}, not {theirs:?}");
        assert_eq!(got.changes.len(), want.changes.len(), "site {i} lacks rows");
        assert_eq!(got.seen, want.seen, "vector of site {i}");
        let problems = site.replica.verify()?;
        assert!(problems.is_empty(), "site {i}: {problems:?}");
    }
    Ok(())
}

fn settle(world: &mut World) -> Result<()> {
    for step in settling(world.sites.len(), START_MS) {
        world.play(&step)?;
    }
    converged(world)
}

#[test]
fn random_histories_converge_whatever_is_lost_or_repeated() {
    each(0..24, |seed| {
        let mut r = Random::new(seed);
        let family = FAMILIES[r.index(FAMILIES.len())];
        let count = 2 + r.index(4);
        let mut world = World::new(family, count, r.one_in(2), seed)?;
        for n in 0..70 {
            let site = r.index(count);
            let from = (site + 1 + r.index(count - 1)) % count;
            match r.below(14) {
                0 => pull(&mut world, site, from)?,
                1 => {
                    // The answer is lost on its way.
                    let base = world.sites[site].replica.seen()?;
                    world.sites[from].replica.export(&base, 0)?;
                }
                2 => {
                    // The answer arrives twice, the second time late.
                    let base = world.sites[site].replica.seen()?;
                    let (delta, _) = world.sites[from].replica.export(&base, 0)?;
                    let mine = &mut world.sites[site].replica;
                    mine.merge(&delta, true)?;
                    let again = mine.merge(&delta, true)?;
                    assert_eq!(
                        (again.rows, again.inserted, again.updated, again.deleted),
                        (0, 0, 0, 0)
                    );
                    pull(&mut world, site, from)?;
                    world.sites[site].replica.merge(&delta, true)?;
                }
                3 => {
                    let before = world.sites[site].rows()?;
                    world.sites[site].replica.fold()?;
                    assert_eq!(world.sites[site].rows()?, before, "a fold changed what is shown");
                }
                _ => drop(write(&world, &mut r, family, site, n)?),
            }
        }
        settle(&mut world)
    });
}

#[test]
fn changes_travel_along_a_chain_and_through_a_site_that_only_relays() {
    each(0..10, |seed| {
        let mut r = Random::new(seed);
        let family = FAMILIES[r.index(FAMILIES.len())];
        let mut world = World::new(family, 5, false, seed)?;
        // 0 - 1 - 2 - 3 - 4, and site 2 never writes.
        for n in 0..60 {
            let writer = [0, 1, 3, 4][r.index(4)];
            write(&world, &mut r, family, writer, n)?;
            if r.one_in(6) {
                let left = r.index(4);
                let (site, from) = if r.one_in(2) { (left, left + 1) } else { (left + 1, left) };
                pull(&mut world, site, from)?;
            }
        }
        // Renumberings are made where they are seen first, so they travel too.
        for _ in 0..8 {
            for left in 0..4 {
                pull(&mut world, left + 1, left)?;
            }
            for left in (0..4).rev() {
                pull(&mut world, left, left + 1)?;
            }
        }
        converged(&mut world)
    });
}

/// INV-LOCAL before any synchronization: a replica shows what a plain database shows.
#[test]
fn a_replica_shows_what_a_plain_database_shows() {
    each(0..60, |seed| {
        let mut r = Random::new(seed);
        let family = match seed % 3 {
            0 => FAMILIES[r.index(FAMILIES.len())],
            _ => Family::shaped(&SHAPES[r.index(SHAPES.len())], r.any()),
        };
        let recursive = r.one_in(2);
        let mut world = World::new(family, 1, recursive, seed)?;
        let plain = Connection::open_in_memory()?;
        let setting = if recursive { "ON" } else { "OFF" };
        plain.execute_batch(&format!(
            "PRAGMA foreign_keys={}; PRAGMA recursive_triggers={setting}",
            if family.enforces() { "ON" } else { "OFF" }
        ))?;
        plain.execute_batch(&family.schema())?;
        for n in 0..80 {
            let context = Context { site: 0, n, apart: false, onward: false };
            let sql = family.statement(&mut r, &context);
            let done = world.sites[0].run(&sql, START_MS + n as i64)?;
            if !done && recursive && is_pinned(&world.sites[0].app, &sql)? {
                continue;
            }
            let plainly = plain.execute_batch(&format!("BEGIN; {sql}; COMMIT")).is_ok();
            if !plain.is_autocommit() {
                plain.execute_batch("ROLLBACK")?;
            }
            assert_eq!(plainly, done, "{}: {sql}", family.name);
            if family.enforces() && plain.prepare("PRAGMA foreign_key_check")?.exists([])? {
                // REPLACE can leave references dangling in SQLite; a fold hides such rows.
                return Ok(());
            }
            if r.one_in(8) {
                world.sites[0].replica.fold()?;
            }
            assert_eq!(world.sites[0].rows()?, rows(&plain, family)?, "{sql}");
        }
        Ok(())
    });
}

/// Whether SQLite refuses a statement because the table has a trigger: an UPDATE OR REPLACE under
/// `recursive_triggers` whose displaced row takes others of its table along by CASCADE.
fn is_pinned(conn: &Connection, sql: &str) -> Result<bool> {
    const PINNED: i32 = 2835;
    let tried = conn.execute_batch(&format!("BEGIN; {sql}; ROLLBACK"));
    if !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    Ok(matches!(tried, Err(rusqlite::Error::SqliteFailure(e, _)) if e.extended_code == PINNED))
}

/// SQLite's default: programs that do not switch foreign keys on. What they leave dangling steps aside,
/// everywhere alike, and what they go on showing stays.
#[test]
fn sites_agree_whose_programs_do_not_keep_foreign_keys() {
    each(0..60, |seed| {
        let mut r = Random::new(seed);
        let family = Family::shaped(&SHAPES[seed as usize % SHAPES.len()], r.any());
        let count = 2 + r.index(2);
        let mut world = World::new(family, count, r.one_in(4), seed)?;
        for n in 0..40 {
            let site = r.index(count);
            let off = r.one_in(2);
            let keep = if off { "OFF" } else { "ON" };
            world.sites[site].app.execute_batch(&format!("PRAGMA foreign_keys={keep}"))?;
            match r.below(8) {
                0 => pull(&mut world, site, (site + 1 + r.index(count - 1)) % count)?,
                1 => drop(world.sites[site].replica.fold()?),
                _ => drop(write(&world, &mut r, family, site, n)?),
            }
        }
        settle(&mut world)
    });
}
