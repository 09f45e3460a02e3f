//! What the seven tasks do not show: forced writes, space, reopening, stalls, threads.
//!
//! `cargo run --release -p synqlite-lsm --example goals -- [entries] [folder] [part]`; the parts are
//! `room`, `synced`, `reopen` and `mixed`, all of them by default.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use synqlite_lsm::{Batch, Db, Options, Sync};

type Outcome = Result<(), Box<dyn std::error::Error>>;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ (x >> 33)
    }

    fn value(&mut self) -> Vec<u8> {
        (0..100).map(|_| b' ' + (self.next() % 95) as u8).collect()
    }

    fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
        order
    }
}

fn key(i: usize) -> Vec<u8> {
    format!("{i:016}").into_bytes()
}

fn fresh(path: &Path) -> Outcome {
    if path.exists() {
        std::fs::remove_dir_all(path)?;
    }
    Ok(())
}

/// Bytes of a folder's files, as the file system counts blocks.
fn space(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(path).into_iter().flatten().flatten();
    files.filter_map(|f| f.metadata().ok()).map(|m| m.blocks() * 512).sum()
}

/// Bytes this process sent to the device; what was removed before it got there does not count.
fn device() -> f64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|n| n.trim().parse::<f64>().ok()).unwrap_or(0.0)
    };
    number("write_bytes:") - number("cancelled_write_bytes:")
}

/// Nanoseconds of processor time of this thread.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

/// Waits until the background threads have nothing left to do.
fn settle(db: &Db) {
    let mut last = (u64::MAX, 0);
    loop {
        std::thread::sleep(Duration::from_millis(1_500));
        let stats = db.stats();
        let now = (stats.compacted_bytes, stats.flushes.count);
        if now == last {
            return;
        }
        last = now;
    }
}

fn synced(path: &Path) -> Outcome {
    let per_second = |threads: usize| -> Result<(f64, f64), Box<dyn std::error::Error>> {
        fresh(path)?;
        let db = Db::open(path, Options { sync: Sync::Always, ..Options::default() })?;
        db.put("first", "")?;
        let start = Instant::now();
        std::thread::scope(|s| {
            let db = &db;
            let write =
                move |t: usize| (0..1_000).try_for_each(|i| db.put(key(t << 20 | i), [7; 100]));
            let writers: Vec<_> = (0..threads).map(|t| s.spawn(move || write(t))).collect();
            writers.into_iter().try_for_each(|w| {
                w.join().map_err(|_| "a writer panicked")?.map_err(|e| e.to_string())
            })
        })?;
        let writes = 1_000.0 * threads as f64;
        Ok((writes / start.elapsed().as_secs_f64(), writes / db.stats().syncs.count as f64))
    };
    for _ in 0..3 {
        let ((one, _), (two, shared)) = (per_second(1)?, per_second(2)?);
        let times = two / one;
        println!(
            "synced writes: {:.0} us each; two writers {times:.2} times as many, {shared:.2} a force",
            1e6 / one
        );
    }
    Ok(())
}

fn room(path: &Path, n: usize) -> Outcome {
    fresh(path)?;
    let mut random = Random(301);
    let db = Db::open(path, Options::default())?;
    let live = (n * 116) as f64;
    let mut slowest: Vec<Duration> = Vec::with_capacity(n);
    let start = Instant::now();
    for i in random.order(n) {
        let value = random.value();
        let begin = Instant::now();
        db.put(key(i), value)?;
        slowest.push(begin.elapsed());
    }
    println!(
        "fill random: {:.2} us with generating values",
        start.elapsed().as_secs_f64() * 1e6 / n as f64
    );
    slowest.sort_unstable();
    let at = |p: f64| slowest[((n as f64 * p) as usize).min(n - 1)];
    println!(
        "writes: p50 {:?}, p99 {:?}, p99.9 {:?}, longest {:?}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    let stats = db.stats();
    println!("slowed {:?}, stopped {:?}", stats.slowdowns, stats.stops);
    for _ in 0..3 {
        for i in random.order(n) {
            db.put(key(i), random.value())?;
        }
    }
    println!("space after three overwrites: {:.2} of live data", space(path) as f64 / live);
    settle(&db);
    println!("settled: {:.2}", space(path) as f64 / live);
    let s = db.stats();
    println!("bytes to the device: {:.2} of those written", device() / s.user_bytes as f64);
    let tables = (s.flushed_bytes + s.compacted_bytes) as f64 / s.user_bytes as f64;
    println!(
        "write amplification: {tables:.2} tables, {:.2} with logs",
        tables + s.log_bytes as f64 / s.user_bytes as f64
    );
    for i in random.order(n) {
        db.delete(key(i))?;
    }
    println!("space after deleting everything: {:.3}", space(path) as f64 / live);
    settle(&db);
    println!("settled: {:.3}", space(path) as f64 / live);
    db.close()?;
    Ok(())
}

/// As a killed process leaves it: the files are copied while the store is open.
fn reopen(path: &Path, size: usize) -> Outcome {
    fresh(path)?;
    let copy = PathBuf::from(format!("{}-copy", path.display()));
    fresh(&copy)?;
    let options = Options { memtable_size: size, ..Options::default() };
    let db = Db::open(path, options.clone())?;
    let mut random = Random(7);
    let n = size / 180;
    for i in random.order(n) {
        db.put(key(i), random.value())?;
    }
    std::fs::create_dir_all(&copy)?;
    for file in std::fs::read_dir(path)? {
        let file = file?;
        std::fs::copy(file.path(), copy.join(file.file_name()))?;
    }
    let log = db.stats().log_bytes >> 20;
    db.close()?;
    let (start, before) = (Instant::now(), processor());
    let again = Db::open(&copy, options.clone())?;
    println!(
        "reopen after a kill: {:.1} ms for {log} MiB of log, {:.1} ms of processor time",
        start.elapsed().as_secs_f64() * 1e3,
        (processor() - before) / 1e6
    );
    assert_eq!(again.sequence(), n as u64);
    again.close()?;
    let start = Instant::now();
    let clean = Db::open(path, options)?;
    println!("clean reopen: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    clean.close()?;
    fresh(&copy)
}

fn mixed(path: &Path, n: usize) -> Outcome {
    fresh(path)?;
    let db = Db::open(path, Options::default())?;
    for i in 0..n {
        db.put(key(i), [7; 100])?;
    }
    let run = |threads: u64| {
        let start = Instant::now();
        std::thread::scope(|s| {
            for t in 0..threads {
                let db = db.clone();
                s.spawn(move || {
                    let mut random = Random(t);
                    (0..n as u64 / 2).try_for_each(|i| {
                        let key = key((random.next() % n as u64) as usize);
                        if i % 2 == 0 { db.put(key, [8; 100]) } else { db.get(key).map(|_| ()) }
                    })
                });
            }
        });
        threads as f64 * n as f64 / 2e3 / start.elapsed().as_secs_f64()
    };
    println!(
        "half puts, half gets: {:.0} thousand a second on one thread, {:.0} on two",
        run(1),
        run(2)
    );
    let mut batch = Batch::new();
    db.close()?;
    fresh(path)?;
    let db = Db::open(path, Options::default())?;
    let start = Instant::now();
    for i in 0..n {
        batch.put(key(i), [7; 100])?;
        if batch.len() == 1_000 {
            db.write(&batch)?;
            batch.clear();
        }
    }
    println!(
        "fill in batches of 1000: {:.2} us each",
        start.elapsed().as_secs_f64() * 1e6 / n as f64
    );
    db.close()?;
    Ok(())
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let n: usize = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let path = args.next().map_or(std::env::temp_dir().join("synqlite-goals"), PathBuf::from);
    let part = args.next();
    let wanted = |name: &str| part.as_ref().is_none_or(|part| part == name);
    if wanted("room") {
        room(&path, n)?;
    }
    if wanted("synced") {
        synced(&path)?;
    }
    if wanted("reopen") {
        reopen(&path, 10 << 20)?;
        reopen(&path, 90 << 20)?;
    }
    if wanted("mixed") {
        mixed(&path, n)?;
    }
    fresh(&path)
}
