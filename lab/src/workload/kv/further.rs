//! What the seven tasks do not show: missing keys, scans, threads, space, reopening, stalls; and
//! with every write forced to the device, one writer and two.

use super::{Entry, Kv, other_values, put, shuffled};
use crate::meter::{Done, Meter, Phase, Timer, Watch};
use crate::store::{self, Store, Wish};
use crate::workload::random::Random;
use crate::workload::space;
use crate::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

impl Kv {
    pub(super) fn further(
        &self,
        dir: &Path,
        wish: Wish,
        seed: u64,
        meter: &mut Meter,
    ) -> Result<()> {
        let mut random = Random::new(seed, 0);
        let mut ordered = self.entries(&mut random)?;
        ordered.sort();
        if self.sync {
            return writers(dir, wish, &ordered, meter);
        }
        let filled = shuffled(&mut random, &ordered);
        let overwrites = [(); 3].map(|()| {
            let newer = other_values(&mut random, &ordered);
            shuffled(&mut random, &newer)
        });
        let bytes = |list: &[Entry]| list.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        let live = bytes(&ordered) as f64;

        let place = dir.join("d");
        let before = device();
        let db = store::open(&place, wish)?;
        meter.timed("fill random, each timed", || {
            let mut timer = Timer::new()?;
            for entry in &filled {
                let start = Instant::now();
                db.write(&[put(entry)])?;
                timer.add(start.elapsed());
            }
            Ok((done(&filled), Some(timer)))
        })?;
        meter.phase("overwrite random, three times", || {
            overwrites.iter().try_for_each(|list| write(&*db, list))?;
            Ok(Done { operations: 3 * filled.len() as u64, transactions: 0 })
        })?;
        meter.fact("space after three overwrites / live data", space(&place)? as f64 / live);
        settle(&place)?;
        meter.fact(
            "space after three overwrites, settled / live data",
            space(&place)? as f64 / live,
        );
        meter.fact("bytes to the device / bytes written", (device() - before) / (4.0 * live));
        db.close()?;

        let (time, db) = timed(|| store::open(&place, wish))?;
        meter.fact("clean reopen, ms", time);
        meter.phase("read random, settled", || read(&*db, &filled, true))?;
        let missing: Vec<Entry> =
            filled.iter().map(|(k, v)| (format!("{}x", &k[..k.len() - 1]), v.clone())).collect();
        meter.phase("read missing", || read(&*db, &missing, false))?;
        meter.phase("scan", || {
            let found = db.scan()?;
            if found != ordered.len() as u64 {
                return Err(Error::Bad(format!("a scan found {found} of {}", ordered.len())));
            }
            Ok(Done { operations: found, transactions: 0 })
        })?;
        for (name, threads) in [("get and put, one thread", 1), ("get and put, two threads", 2)] {
            let half = filled.len() / 2;
            let lists = [&overwrites[0][..half], &overwrites[1][half..]];
            meter.phase(name, || {
                together(&lists[..threads], |list| mixed(&*db, list))?;
                let operations = lists[..threads].iter().map(|list| list.len() as u64).sum();
                Ok(Done { operations, transactions: 0 })
            })?;
        }
        meter.phase("delete random, all", || {
            for (key, _) in &filled {
                db.write(&[(key, None)])?;
            }
            Ok(done(&filled))
        })?;
        meter.fact("space after deleting everything / live data", space(&place)? as f64 / live);
        settle(&place)?;
        meter.fact(
            "space after deleting everything, settled / live data",
            space(&place)? as f64 / live,
        );
        db.close()?;

        // As a killed process leaves them: the files are copied while the store is open.
        let (place, copied) = (dir.join("e"), dir.join("f"));
        let db = store::open(&place, wish)?;
        write(&*db, &filled)?;
        copy(&place, &copied)?;
        db.close()?;
        let (time, db) = timed(|| store::open(&copied, wish))?;
        meter.fact("reopen after a kill, ms", time);
        if read(&*db, &filled, true).is_err() {
            return Err(Error::Bad(format!("{} lost entries", wish.name.text())));
        }
        db.close()
    }
}

fn done(list: &[Entry]) -> Done {
    Done { operations: list.len() as u64, transactions: list.len() as u64 }
}

fn write(db: &dyn Store, list: &[Entry]) -> Result<()> {
    list.iter().try_for_each(|entry| db.write(&[put(entry)]))
}

fn read(db: &dyn Store, list: &[Entry], there: bool) -> Result<Done> {
    for (key, _) in list {
        if db.read(&[key])? != u64::from(there) {
            let what = if there { "is not there" } else { "was never written, and is there" };
            return Err(Error::Bad(format!("key {key} {what}")));
        }
    }
    Ok(Done { operations: list.len() as u64, transactions: 0 })
}

/// Every second operation a get, the others puts.
fn mixed(db: &dyn Store, list: &[Entry]) -> Result<()> {
    for pair in list.chunks(2) {
        db.write(&[put(&pair[0])])?;
        if let Some((key, _)) = pair.get(1) {
            db.read(&[key])?;
        }
    }
    Ok(())
}

/// Each list on a thread of its own.
fn together(lists: &[&[Entry]], work: impl Fn(&[Entry]) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let spawned: Vec<_> = lists.iter().map(|list| scope.spawn(|| work(list))).collect();
        spawned.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| Error::Bad("a thread panicked".into()))?
        })
    })
}

/// Writes that are forced one by one, by one thread and by two; each writer has its own half.
fn writers(dir: &Path, wish: Wish, entries: &[Entry], meter: &mut Meter) -> Result<()> {
    let (first, second) = entries.split_at(entries.len() / 2);
    let mut phases = [Phase::named("put, one writer"), Phase::named("put, two writers")];
    // In turns, because the device changes its pace from second to second.
    let turns = 10;
    for turn in 0..turns {
        for (threads, phase) in phases.iter_mut().enumerate() {
            let db = store::open(&dir.join(format!("{turn}-{threads}")), wish)?;
            db.write(&[("first", Some(""))])?;
            let part = |list| slice(list, turn, turns);
            let lists = [part(first), part(second)];
            let lists = &lists[..=threads];
            let watch = Watch::start();
            together(lists, |list| write(&*db, list))?;
            let operations = lists.iter().map(|list| list.len() as u64).sum();
            watch.stop(phase, Done { operations, transactions: operations });
            db.close()?;
        }
    }
    let rate = |phase: &Phase| phase.operations as f64 / phase.wall;
    meter.fact("two writers / one", rate(&phases[1]) / rate(&phases[0]));
    phases.into_iter().for_each(|phase| meter.add(phase));
    Ok(())
}

fn slice(list: &[Entry], turn: usize, turns: usize) -> &[Entry] {
    &list[list.len() * turn / turns..list.len() * (turn + 1) / turns]
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let start = Instant::now();
    let made = work()?;
    Ok((start.elapsed().as_secs_f64() * 1e3, made))
}

/// Waits until a store's files have not changed their sizes for a second and a half, at most a minute.
fn settle(dir: &Path) -> Result<()> {
    let mut last = (space(dir)?, Instant::now());
    let begun = last.1;
    while last.1.elapsed() < Duration::from_millis(1500) && begun.elapsed().as_secs() < 60 {
        thread::sleep(Duration::from_millis(100));
        let now = space(dir)?;
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    Ok(())
}

/// Bytes this process sent to the device; what was removed before it got there does not count.
fn device() -> f64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|n| n.trim().parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    number("write_bytes:") - number("cancelled_write_bytes:")
}

/// Copies a folder whose files may come and go; again, if any did.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for _ in 0..100 {
        let before = files(from)?;
        if to.exists() {
            fs::remove_dir_all(to).map_err(Error::io(to))?;
        }
        match copy_once(from, to) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            result => result.map_err(Error::io(from))?,
        }
        if files(from)? == before {
            return Ok(());
        }
    }
    Err(Error::Bad(format!("the files in {} never keep still", from.display())))
}

fn copy_once(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_once(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Names and lengths, sorted.
fn files(dir: &Path) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io(dir))?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        found.push((name.clone(), metadata.len()));
        if metadata.is_dir() {
            let inner = files(&entry.path())?.into_iter();
            found.extend(inner.map(|(file, length)| (format!("{name}/{file}"), length)));
        }
    }
    found.sort();
    Ok(found)
}
