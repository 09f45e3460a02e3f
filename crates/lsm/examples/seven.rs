//! The seven tasks: fill, overwrite, delete and read, in order and at random.
//!
//! `cargo run --release -p synqlite-lsm --example seven -- [entries] [folder] [sync|note]`
//!
//! Keys are 16 zero-padded digits, values 100 printable bytes; one operation a call, unsynced but
//! safe against a killed process (`sync`: forced one by one; `note`: the configuration of the
//! ProjectDB note). A table of microseconds an operation: wall time, then
//! processor time of all threads. A task's time ends when its last call returns.

use std::path::Path;
use std::time::Instant;

use synqlite_lsm::{Db, Options, Sync};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A small generator, so that every run is the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ (x >> 33)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
    }
}

/// Nanoseconds of processor time of all living threads.
fn processor() -> f64 {
    let mut total = 0.0;
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        total += text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    }
    total
}

fn timed(name: &str, n: usize, task: impl FnOnce() -> Outcome) -> Outcome {
    let (start, before) = (Instant::now(), processor());
    task()?;
    let (wall, cpu) = (start.elapsed().as_secs_f64() * 1e6, (processor() - before) / 1e3);
    println!("{name:<12} {:>8.3} {:>8.3}", wall / n as f64, cpu / n as f64);
    Ok(())
}

type Pairs = [(Vec<u8>, Vec<u8>)];

fn put_all(db: &Db, pairs: &Pairs) -> Outcome {
    for (key, value) in pairs {
        db.put(key, value)?;
    }
    Ok(())
}

fn read_all(db: &Db, pairs: &Pairs) -> Outcome {
    for (key, value) in pairs {
        if db.get(key)?.as_ref() != Some(value) {
            return Err(format!("{key:?} is wrong").into());
        }
    }
    Ok(())
}

fn delete_all(db: &Db, pairs: &Pairs) -> Outcome {
    for (key, _) in pairs {
        db.delete(key)?;
    }
    Ok(())
}

fn fresh(path: &Path, options: &Options) -> Result<Db, Box<dyn std::error::Error>> {
    if path.exists() {
        std::fs::remove_dir_all(path)?;
    }
    Ok(Db::open(path, options.clone())?)
}

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let n: usize = args.next().map_or(Ok(128_000), |n| n.parse())?;
    let path = args.next().map_or(std::env::temp_dir().join("synqlite-seven"), Into::into);
    let mode = args.next().unwrap_or_default();
    let note = Options {
        memtable_size: 2 << 20,
        block_size: 2 << 10,
        keep_files_open: false,
        ..Options::default()
    };
    let options = match mode.as_str() {
        "sync" => Options { sync: Sync::Always, ..Options::default() },
        "note" => note,
        _ => Options::default(),
    };
    let mut random = Random(301);
    let mut value = || (0..100).map(|_| b' ' + (random.next() % 95) as u8).collect::<Vec<u8>>();
    let ordered: Vec<_> = (0..n).map(|i| (format!("{i:016}").into_bytes(), value())).collect();
    let other: Vec<_> = ordered.iter().map(|(k, _)| (k.clone(), value())).collect();
    let mut shuffled = ordered.clone();
    random.shuffle(&mut shuffled);
    // Laid out in the order of use: the store is measured, not the way to its arguments.
    let shuffled: Vec<_> = shuffled.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    println!("{n} entries, us an operation: wall, processor");

    let db = fresh(&path, &options)?;
    timed("fill random", n, || put_all(&db, &shuffled))?;
    db.close()?;
    let db = fresh(&path, &options)?;
    timed("fill seq", n, || put_all(&db, &ordered))?;
    timed("overwrite", n, || put_all(&db, &other))?;
    db.close()?;
    for (name, order) in [("delete seq", &ordered[..]), ("delete rand", &shuffled)] {
        let db = fresh(&path, &options)?;
        put_all(&db, &ordered)?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        timed(name, n, || delete_all(&db, order))?;
        db.close()?;
    }
    let db = fresh(&path, &options)?;
    put_all(&db, &ordered)?;
    db.close()?;
    let start = Instant::now();
    let db = Db::open(&path, options)?;
    let reopened = start.elapsed().as_secs_f64() * 1e3;
    timed("read seq", n, || read_all(&db, &ordered))?;
    timed("read rand", n, || read_all(&db, &shuffled))?;
    timed("missing", n, || {
        for (key, _) in &shuffled {
            let absent = [&key[..15], b"x"].concat();
            if db.get(&absent)?.is_some() {
                return Err("an absent key was found".into());
            }
        }
        Ok(())
    })?;
    timed("scan", n, || {
        let mut scan = db.scan(..)?;
        let mut found = 0;
        while scan.advance()? {
            found += 1;
        }
        if found == n { Ok(()) } else { Err(format!("{found} pairs").into()) }
    })?;
    println!("clean reopen {reopened:.1} ms");
    db.close()?;
    std::fs::remove_dir_all(&path)?;
    Ok(())
}
