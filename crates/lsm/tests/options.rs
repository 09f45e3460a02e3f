//! Every option changes something, and this is what.

use std::path::Path;
use std::time::{Duration, Instant};

use synqlite_lsm::{Compression, Db, Options, Stats, Sync};

fn base() -> Options {
    Options {
        memtable_size: 64 << 10,
        table_size: 32 << 10,
        background: false,
        idle: None,
        ..Options::default()
    }
}

fn key(i: u32) -> String {
    format!("key{:06}", i.wrapping_mul(7919) % 4_000)
}

/// A store of 4,000 pairs written in scattered order, flushed.
fn filled(dir: &Path, options: &Options) -> Db {
    let db = Db::open(dir, options.clone()).unwrap();
    for i in 0..4_000 {
        db.put(key(i), format!("value {i} {}", "compressible ".repeat(8))).unwrap();
    }
    db.flush().unwrap();
    db
}

fn with(options: Options, f: impl FnOnce(&Db, &Path) -> u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path(), &options);
    f(&db, dir.path())
}

fn stat(options: Options, f: impl FnOnce(Stats) -> u64) -> u64 {
    with(options, |db, _| f(db.stats()))
}

/// Reads from disk that reading every key twice takes.
fn reads(db: &Db) -> u64 {
    let before = db.stats().block_reads;
    for i in (0..4_000).chain(0..4_000) {
        assert!(db.get(key(i)).unwrap().is_some());
    }
    db.stats().block_reads - before
}

#[test]
fn memtable_size_sets_how_often_memory_is_flushed() {
    let flushes = |size| stat(Options { memtable_size: size, ..base() }, |s| s.flushes.count);
    assert!(flushes(32 << 10) > 3 * flushes(256 << 10));
}

#[test]
fn block_size_sets_how_much_one_read_fetches() {
    let cost =
        |size| with(Options { block_size: size, cache_size: 1 << 30, ..base() }, |db, _| reads(db));
    assert!(cost(1 << 10) > 4 * cost(16 << 10), "larger blocks, fewer of them");
}

#[test]
fn tables_per_compaction_sets_how_many_tables_gather() {
    let gathered = |n| {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options { tables_per_compaction: n, ..base() }).unwrap();
        let mut flushes = 0;
        for i in 0.. {
            db.put(key(i), [7; 100]).unwrap();
            let stats = db.stats();
            if stats.compactions.count > 0 {
                break;
            }
            flushes = stats.flushes.count;
        }
        // The first table overlaps nothing and goes to level 1 at once.
        flushes
    };
    assert_eq!((gathered(2), gathered(5), gathered(8)), (2, 5, 8));
}

#[test]
fn table_size_sets_into_how_many_tables_a_level_is_cut() {
    let tables = |size| {
        with(Options { table_size: size, ..base() }, |db, _| {
            db.compact_range(..).unwrap();
            db.stats().levels[1].tables as u64
        })
    };
    assert!(tables(16 << 10) > 3 * tables(128 << 10));
}

#[test]
fn level_size_sets_when_a_level_spills_into_the_next() {
    let deepest = |size| {
        stat(Options { level_size: size, ..base() }, |s| {
            s.levels.iter().rposition(|l| l.tables > 0).unwrap() as u64
        })
    };
    assert!(deepest(32 << 10) > deepest(256 << 20));
}

#[test]
fn keep_files_open_sets_whether_reads_hold_descriptors() {
    let open_tables = |keep| {
        with(Options { keep_files_open: keep, ..base() }, |db, dir| {
            reads(db);
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let targets = links.filter_map(|l| std::fs::read_link(l.path()).ok());
            targets
                .filter(|t| t.starts_with(dir) && t.extension().is_some_and(|e| e == "table"))
                .count() as u64
        })
    };
    assert!(open_tables(true) > 3);
    assert_eq!(open_tables(false), 0);
}

#[test]
fn cache_size_bounds_memory_and_saves_reads() {
    let cost = |size| {
        with(Options { cache_size: size, ..base() }, |db, _| {
            let reads = reads(db);
            assert!(db.stats().cache <= size, "{} of {size}", db.stats().cache);
            reads
        })
    };
    let (none, little, all) = (cost(0), cost(64 << 10), cost(64 << 20));
    assert!(none >= 8_000 && little < none && all < little / 10, "{none} {little} {all}");
}

#[test]
fn compression_makes_tables_smaller_and_changes_no_value() {
    let size = |compression| {
        with(Options { compression, ..base() }, |db, _| {
            assert!(db.get(key(5)).unwrap().unwrap().starts_with(b"value 5 compressible "));
            db.stats().flushed_bytes
        })
    };
    let (none, lz4, zstd) =
        (size(Compression::None), size(Compression::Lz4), size(Compression::Zstd));
    assert!(lz4 < none / 2 && zstd < lz4, "{none} {lz4} {zstd}");
}

#[test]
fn bloom_bits_save_reads_of_absent_keys() {
    let cost = |bits| {
        with(Options { bloom_bits: bits, cache_size: 0, ..base() }, |db, _| {
            let before = db.stats().block_reads;
            for i in 0..2_000 {
                assert_eq!(db.get(format!("{}x", key(i))).unwrap(), None);
            }
            db.stats().block_reads - before
        })
    };
    let (none, few, many) = (cost(0), cost(4), cost(10));
    assert!(none >= 2_000 && few < none / 2 && many < few / 2, "{none} {few} {many}");
}

#[test]
fn sync_sets_when_the_device_is_forced() {
    let syncs = |sync, pause| {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options { sync, ..Options::default() }).unwrap();
        for i in 0..20 {
            db.put(key(i), "v").unwrap();
            std::thread::sleep(pause);
        }
        db.stats().syncs.count
    };
    assert_eq!(syncs(Sync::Never, Duration::ZERO), 0);
    assert_eq!(syncs(Sync::Always, Duration::ZERO), 20);
    assert_eq!(syncs(Sync::Every(Duration::from_secs(3_600)), Duration::ZERO), 0);
    assert!(syncs(Sync::Every(Duration::from_millis(5)), Duration::from_millis(3)) > 0);
}

#[test]
fn background_sets_who_flushes() {
    let threads = |background| {
        let dir = tempfile::tempdir().unwrap();
        let _db = Db::open(dir.path(), Options { background, ..base() }).unwrap();
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let inside = |t: std::fs::DirEntry| {
            std::fs::read_to_string(t.path().join("comm")).unwrap_or_default()
        };
        // Other tests of this process run beside this one: count only a name that it alone uses.
        names.map(inside).filter(|n| n.starts_with("lsm-")).count()
    };
    // At least the two of this store, whatever else runs.
    let start = Instant::now();
    while threads(true) < 2 {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), base()).unwrap();
    for i in 0..4_000 {
        db.put(key(i), [7; 100]).unwrap();
        assert_eq!(db.stats().sealed, 0, "flushed before the write returns");
    }
}

#[test]
fn idle_stores_give_back_space() {
    let live = |idle| {
        let dir = tempfile::tempdir().unwrap();
        let db = filled(dir.path(), &Options { background: true, idle, ..base() });
        for i in 0..4_000 {
            db.delete(key(i)).unwrap();
        }
        let start = Instant::now();
        let entries = || db.stats().levels.iter().map(|l| l.entries).sum::<u64>();
        while entries() > 0
            && start.elapsed() < Duration::from_secs(if idle.is_some() { 20 } else { 1 })
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        entries()
    };
    let (tidied, left) = (live(Some(Duration::from_millis(50))), live(None));
    assert!(tidied < left, "{tidied} {left}");
}

#[test]
fn lagging_flushes_slow_writers_and_then_stop_them() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { memtable_size: 1 << 10, background: true, ..Options::default() };
    let db = Db::open(dir.path(), options).unwrap();
    for i in 0..3_000u32 {
        db.put(i.to_be_bytes(), vec![1; 500]).unwrap();
    }
    let stats = db.stats();
    assert!(stats.slowdowns.count > 0 && stats.slowdowns.time > Duration::ZERO, "{stats:?}");
    assert!(stats.stops.count > 0 && stats.stops.time > Duration::ZERO, "{stats:?}");
    assert_eq!(db.scan(..).unwrap().count(), 3_000);
}

#[test]
fn sequential_inserts_are_never_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options { level_size: 64 << 10, ..base() }).unwrap();
    for i in 0..6_000u32 {
        db.put(format!("{i:08}"), [7; 100]).unwrap();
    }
    let stats = db.stats();
    assert_eq!((stats.compacted_bytes, stats.levels[0].tables), (0, 0));
    assert!(stats.moved > 0, "what outgrows a level is moved");
}
