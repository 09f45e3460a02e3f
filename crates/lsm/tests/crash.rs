//! No acknowledged write is lost, whatever stops the store and wherever.
//!
//! A workload runs on a file system that forgets (`sim`), the process dies after every one of its
//! file operations in turn, and every kind of crash is tried there. The recovered store must show
//! exactly a prefix of the history, no shorter than what was synced (after a killed process: no
//! shorter than what was acknowledged). Then it takes one more synced write, loses the power, and
//! must show all of that.
//!
//! The large campaign: `CRASH_STATES=50000 cargo test --release -p synqlite-lsm --test crash`.

mod sim;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::{CRASHES, Crash, Random, Sim, Skip};
use synqlite_lsm::{Batch, Compression, Db, Error, Options, Sync};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was done, and what of it was promised.
struct History {
    /// Sequence and contents after each batch that was attempted; the first is the empty store.
    states: Vec<(u64, Model)>,
    acknowledged: usize,
    synced: usize,
}

/// Seeds from here on flush and compact in threads: no longer the same run every time.
const THREADED: u64 = 1 << 40;

fn options(seed: u64) -> Options {
    Options {
        memtable_size: 2 << 10,
        table_size: 1 << 10,
        block_size: 256,
        level_size: 4 << 10,
        tables_per_compaction: 2,
        compression: [Compression::None, Compression::Lz4, Compression::Zstd][seed as usize % 3],
        sync: if seed % 4 == 3 { Sync::Always } else { Sync::Never },
        background: seed >= THREADED,
        ..Options::default()
    }
}

fn open(sim: &Sim, seed: u64) -> Result<Db, Error> {
    Db::open_on(Arc::new(sim.clone()), "store", options(seed))
}

/// Runs the workload of a seed until it ends or the file system fails.
fn work(sim: &Sim, seed: u64, steps: usize) -> History {
    let mut history = History { states: vec![(0, Model::new())], acknowledged: 0, synced: 0 };
    // A failure ends the run like a crash; what was promised until then counts.
    let _ = attempt(sim, seed, steps, &mut history);
    history
}

fn attempt(sim: &Sim, seed: u64, steps: usize, history: &mut History) -> Result<(), Error> {
    let mut random = Random(seed);
    let mut db = open(sim, seed)?;
    for _ in 0..steps {
        match random.below(40) {
            0 => {
                db.flush()?;
                history.synced = history.acknowledged;
            }
            1 => {
                db.compact_range(..)?;
                history.synced = history.acknowledged;
            }
            2 => {
                db.close()?;
                history.synced = history.acknowledged;
                db = open(sim, seed)?;
            }
            3 => {
                db.sync()?;
                history.synced = history.acknowledged;
            }
            _ => {
                let (sequence, model) = history.states[history.acknowledged].clone();
                let (batch, model) = change(&mut random, model);
                let sync = random.below(4) == 0 || options(seed).sync == Sync::Always;
                history.states.truncate(history.acknowledged + 1);
                history.states.push((sequence + batch.len() as u64, model));
                db.write_with(&batch, sync)?;
                history.acknowledged += 1;
                if sync {
                    history.synced = history.acknowledged;
                }
            }
        }
    }
    Ok(())
}

fn change(random: &mut Random, mut model: Model) -> (Batch, Model) {
    let mut batch = Batch::new();
    for _ in 0..1 + random.below(4) {
        let key = format!("key{:02}", random.below(40)).into_bytes();
        if random.below(4) == 0 {
            batch.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let (fill, len) = (random.next() as u8, random.below(200) * random.below(3));
            let value = vec![fill; len];
            batch.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    (batch, model)
}

/// Checks one crashed world; the text says what is wrong.
fn check(
    world: &Sim,
    crash: Crash,
    history: &History,
    seed: u64,
    random: &mut Random,
) -> Result<(), String> {
    let killed = matches!(crash, Crash::Kill | Crash::TornKill);
    let least = if killed { history.acknowledged } else { history.synced };
    let db = open(world, seed).map_err(|e| format!("does not open: {e}"))?;
    let sequence = db.sequence();
    let found = history.states.iter().position(|(s, _)| *s == sequence);
    let found = found.ok_or(format!("sequence {sequence} is within a batch"))?;
    if found < least {
        return Err(format!("{found} batches recovered, {least} were promised"));
    }
    let model = &history.states[found].1;
    same(&db, model).map_err(|e| format!("after {found} batches: {e}"))?;
    // What was recovered can be forced by itself, even if only the kernel had it.
    if random.below(4) == 0 {
        db.sync().map_err(|e| format!("does not force: {e}"))?;
        let again = world.crash(Crash::Nothing, random);
        world.die_at(0);
        drop(db);
        let db = open(&again, seed).map_err(|e| format!("does not open after forcing: {e}"))?;
        return same(&db, model).map_err(|e| format!("after forcing: {e}"));
    }
    // One more write, forced; the process dies soon, then the power fails.
    let (batch, later) = change(random, model.clone());
    world.die_at(world.ops() + random.below(30) as u64);
    let done = db.write_with(&batch, true);
    let again = world.crash(Crash::Nothing, random);
    world.die_at(0);
    drop(db);
    if done.is_err() {
        let db = open(&again, seed).map_err(|e| format!("does not open after dying again: {e}"))?;
        return if db.sequence() >= history.states[history.synced].0 {
            Ok(())
        } else {
            Err("dying again lost synced batches".into())
        };
    }
    let db = open(&again, seed).map_err(|e| format!("does not open again: {e}"))?;
    same(&db, &later).map_err(|e| format!("after one more write: {e}"))?;
    db.close().map_err(|e| format!("does not close: {e}"))?;
    let db = open(&again, seed).map_err(|e| format!("does not open after closing: {e}"))?;
    same(&db, &later).map_err(|e| format!("after closing: {e}"))
}

fn same(db: &Db, model: &Model) -> Result<(), String> {
    let mut scan = db.scan(..).map_err(|e| e.to_string())?;
    let mut found = Model::new();
    while scan.advance().map_err(|e| e.to_string())? {
        found.insert(scan.key().to_vec(), scan.value().to_vec());
    }
    if found != *model {
        let wrong: Vec<_> = model
            .keys()
            .chain(found.keys())
            .filter(|k| model.get(*k) != found.get(*k))
            .map(|k| String::from_utf8_lossy(k).into_owned())
            .collect();
        return Err(format!("wrong keys: {wrong:?}"));
    }
    Ok(())
}

/// Crashes workloads everywhere until `states` crashed worlds were checked; the first failure.
fn campaign(states: usize, first_seed: u64, skip: Option<Skip>) -> Result<usize, String> {
    let mut checked = 0;
    let mut seed = first_seed;
    loop {
        let whole = Sim::new();
        whole.skip(skip);
        work(&whole, seed, 60);
        for at in 0..=whole.ops() {
            let sim = Sim::new();
            sim.skip(skip);
            sim.die_at(at);
            let history = work(&sim, seed, 60);
            for crash in CRASHES {
                let mut random = Random(seed ^ at << 20 ^ crash as u64);
                let world = sim.crash(crash, &mut random);
                check(&world, crash, &history, seed, &mut random)
                    .map_err(|e| format!("seed {seed}, operation {at}, {crash:?}: {e}"))?;
                checked += 1;
                if checked == states {
                    return Ok(checked);
                }
            }
        }
        seed += 1;
    }
}

#[test]
fn no_crash_loses_what_was_promised() {
    let states = std::env::var("CRASH_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(6_000);
    let seed = std::env::var("CRASH_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    match campaign(states, seed, None) {
        Ok(n) => println!("{n} crashed states recovered, from seed {seed} on"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn no_crash_loses_what_was_promised_with_threads() {
    for seed in THREADED..THREADED + 20 {
        let whole = Sim::new();
        work(&whole, seed, 60);
        let mut random = Random(seed);
        for _ in 0..40 {
            let at = random.next() % (whole.ops() + 1);
            let sim = Sim::new();
            sim.die_at(at);
            let history = work(&sim, seed, 60);
            let crash = CRASHES[random.below(CRASHES.len())];
            let world = sim.crash(crash, &mut random);
            check(&world, crash, &history, seed, &mut random)
                .unwrap_or_else(|e| panic!("seed {seed}, operation {at}, {crash:?}: {e}"));
        }
    }
}

#[test]
fn every_synchronization_is_needed() {
    for skip in [
        Skip::Log,
        Skip::OldLog,
        Skip::OldManifest,
        Skip::Table,
        Skip::Manifest,
        Skip::Current,
        Skip::Folder,
    ] {
        let found = campaign(30_000, 1, Some(skip));
        println!("without {skip:?}: {found:?}");
        assert!(found.is_err(), "leaving out {skip:?} goes unnoticed");
    }
}

#[test]
fn no_failed_operation_loses_what_was_promised() {
    let mut checked = 0;
    for seed in 1..4 {
        let whole = Sim::new();
        work(&whole, seed, 60);
        for at in 1..=whole.ops() {
            for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
                let sim = Sim::new();
                sim.fail_at(at, kind);
                let history = work(&sim, seed, 60);
                let mut random = Random(seed ^ at << 20);
                for crash in [Crash::Kill, Crash::Nothing, Crash::Mixture] {
                    let world = sim.crash(crash, &mut random);
                    check(&world, crash, &history, seed, &mut random).unwrap_or_else(|e| {
                        panic!("seed {seed}, operation {at} fails with {kind}, {crash:?}: {e}")
                    });
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} states after failed operations recovered");
}

#[test]
fn a_store_that_crashes_again_and_again_follows_the_model() {
    for seed in 1..=60 {
        let mut random = Random(seed);
        let mut world = Sim::new();
        let mut history = History { states: vec![(0, Model::new())], acknowledged: 0, synced: 0 };
        for life in 0..12 {
            let at = format!("seed {seed}, life {life}");
            world.die_at(random.below(400) as u64);
            let _ = attempt(&world, seed * 100 + life, 60, &mut history);
            let crash = CRASHES[random.below(CRASHES.len())];
            world = world.crash(crash, &mut random);
            // A copy is looked at, so that the next life begins with what the crash left.
            let copy = world.crash(Crash::Kill, &mut random);
            let db = open(&copy, seed).unwrap_or_else(|e| panic!("{at}, {crash:?}: {e}"));
            let killed = matches!(crash, Crash::Kill | Crash::TornKill);
            let least = if killed { history.acknowledged } else { history.synced };
            let sequence = db.sequence();
            let found = history.states.iter().position(|(s, _)| *s == sequence);
            let found = found.unwrap_or_else(|| panic!("{at}: {sequence} is within a batch"));
            assert!(found >= least, "{at}, {crash:?}: {found} batches, {least} were promised");
            same(&db, &history.states[found].1).unwrap_or_else(|e| panic!("{at}, {crash:?}: {e}"));
            history.states.truncate(found + 1);
            history.acknowledged = found;
            history.synced = if killed { history.synced } else { found };
        }
    }
}

#[test]
fn a_full_or_read_only_disk_is_named_and_loses_nothing() {
    for kind in [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem] {
        let sim = Sim::new();
        let refused = |e: &Error| matches!(e, Error::Io { source, .. } if source.kind() == kind);
        sim.refuse(Some(kind));
        let error = open(&sim, 1).and_then(|db| db.put("key", "value")).unwrap_err();
        assert!(refused(&error), "a new store: {error}");
        sim.refuse(None);
        let db = open(&sim, 1).unwrap();
        db.put("key", "value").unwrap();
        sim.refuse(Some(kind));
        // What was allocated before is still used.
        let mut written = 0;
        let error = loop {
            match db.put(format!("more{written}"), vec![1; 100]) {
                Ok(()) => written += 1,
                Err(e) => break e,
            }
            assert!(written < 10_000, "the disk takes nothing");
        };
        assert!(refused(&error) || matches!(error, Error::Halted { .. }), "{error}");
        assert_eq!(error.is_full(), kind == ErrorKind::StorageFull, "{error}");
        assert_eq!(db.get("key").unwrap(), Some(b"value".to_vec()), "reading goes on");
        drop(db);
        if let Err(e) = open(&sim, 1).and_then(|db| db.put("key", "other")) {
            assert!(refused(&e), "{e}");
        }
        sim.refuse(None);
        let db = open(&sim, 1).unwrap();
        assert!(db.get("key").unwrap().is_some());
        for i in 0..written {
            assert!(db.get(format!("more{i}")).unwrap().is_some(), "more{i} of {written}");
        }
    }
}

#[test]
fn what_there_is_no_room_to_merge_waits_and_writing_goes_on() {
    let sim = Sim::new();
    let put = |db: &Db, n: usize| db.put(key(n), vec![n as u8; 1_000]);
    let run = |background, tables_per_compaction| {
        let sizes = Options { memtable_size: 16 << 10, level_size: 1 << 20, ..options(0) };
        let options = Options { background, tables_per_compaction, ..sizes };
        Db::open_on(Arc::new(sim.clone()), "store", options).unwrap()
    };
    let db = run(false, 64);
    (0..300).for_each(|n| put(&db, n).unwrap());
    let tables = db.stats().levels[0].tables;
    assert!(tables > 10, "{tables} wait for a merge");
    db.close().unwrap();
    sim.limit(Some(100 << 10));
    let db = run(true, 2);
    let flushed = |n: usize| put(&db, n).and_then(|()| db.flush());
    for n in 300..320 {
        flushed(n).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(db.stats().levels[0].tables >= tables, "all is merged, so there was room");
    sim.limit(None);
    flushed(320).unwrap();
    let start = Instant::now();
    while db.stats().levels[0].tables > tables / 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "there is room now");
        std::thread::sleep(Duration::from_millis(5));
    }
    (0..=320).for_each(|n| assert!(db.get(key(n)).unwrap().is_some(), "{n}"));
}

/// A store on a full disk would stay full for ever.
#[test]
fn deletions_are_merged_however_little_room_there_is() {
    let sim = Sim::new();
    let sizes = Options { memtable_size: 16 << 10, level_size: 1 << 20, ..options(0) };
    let threads = Options { background: true, ..sizes };
    let db = Db::open_on(Arc::new(sim.clone()), "store", threads).unwrap();
    (0..300).for_each(|n| db.put(key(n), vec![n as u8; 1_000]).unwrap());
    db.compact_range(..).unwrap();
    let bytes = || db.stats().levels.iter().map(|level| level.bytes).sum::<u64>();
    let before = bytes();
    sim.limit(Some(40 << 10));
    (0..300).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    let start = Instant::now();
    while bytes() > before / 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "{} of {before} bytes", bytes());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Keys in no order.
fn key(n: usize) -> String {
    format!("key{:04}", n * 37 % 1009)
}
