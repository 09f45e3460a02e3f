//! Long campaigns; `docs/testing.md` says what each proves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use synqlite_testkit::crash::{self, Program};
use synqlite_testkit::exchange::{self, Played};
use synqlite_testkit::forge;
use synqlite_testkit::history::History;
use synqlite_testkit::model::{Model, Verdict, unavailable};
use synqlite_testkit::mutants::{self, Bench, Mutant, Outcome};
use synqlite_testkit::sample;
use synqlite_testkit::shapes;
use synqlite_testkit::wild::app::System;
use synqlite_testkit::wild::generate;
use synqlite_testkit::wild::play::play;
use synqlite_testkit::wild::regions::Regions;
use synqlite_testkit::wild::shrink::shrink;
use synqlite_testkit::world::Result;
use synqlite_view::random;

const USAGE: &str = "\
usage:
  campaign model --seeds FROM..TO [--python python3] [--lazy] [--constraints [--shapes WORDS] | --states]
      [--jobs N] [--first]
  campaign states --seeds FROM..TO [--jobs N] [--first]
  campaign network --seeds FROM..TO
  campaign forge --seeds FROM..TO [--only KINDS] [--jobs N] [--show]
  campaign wild --seeds FROM..TO [--sites N] [--jobs N] [--only REGIONS] [--without REGIONS] [--with REGIONS]
      [--all REGIONS] [--long] [--first] [--show] [--keep]
  campaign mutants [NAME...] [--histories 2000] [--jobs N] [--by CAMPAIGN]
  campaign crash --rounds N --seed S [--bin SYNQLITE] [--rows N]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        _ if arguments.iter().any(|a| matches!(a.as_str(), "--help" | "-h")) => {
            println!("{USAGE}");
            Ok(true)
        }
        Some("model") => model(&arguments),
        Some("states") => states(&arguments),
        Some("network") => network(&arguments),
        Some("forge") => forge(&arguments),
        Some("wild") => wild(&arguments),
        Some("mutants") => mutants(&arguments),
        Some("crash") => kill(&arguments),
        Some("child") => crash::child(&arguments[1..]).map(|()| true),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

/// The value after the option `name`.
fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|a| a == name)?;
    arguments.get(at + 1).map(String::as_str)
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| format!("{text} is no number\n{USAGE}").into())
}

fn model(arguments: &[String]) -> Result<bool> {
    let python = option(arguments, "--python").unwrap_or("python3");
    if let Some(why) = unavailable(python) {
        println!("skipped: {why}");
        return Ok(true);
    }
    let seeds = option(arguments, "--seeds").ok_or(USAGE)?;
    let (from, to) = seeds.split_once("..").ok_or(USAGE)?;
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    let (lazy, constraints, first) = (has("--lazy"), has("--constraints"), has("--first"));
    let shapes = shapes::named(option(arguments, "--shapes"));
    if shapes.is_empty() {
        return Err("no shape has such a name".into());
    }
    let jobs = number(option(arguments, "--jobs").unwrap_or("1"))?.max(1);
    let next = AtomicU64::new(number(from)?);
    let (to, start) = (number(to)?, Instant::now());
    let count = Mutex::new(Count::default());
    let work = || -> std::result::Result<(), String> {
        let text = |e: Box<dyn std::error::Error>| e.to_string();
        let mut model = Model::start(python).map_err(text)?;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return Ok(());
            }
            if has("--states") {
                let verdict = sample::compare(&mut model, seed).map_err(text)?;
                count.lock().unwrap_or_else(PoisonError::into_inner).add(seed, verdict, start);
                continue;
            }
            let history = if constraints {
                History::constrained(seed, lazy, &shapes)
            } else {
                History::random(seed, lazy)
            };
            let mut verdict = model.compare(&history).map_err(text)?;
            match verdict {
                Verdict::Different(_) if first => {
                    println!("FAULT seed {seed}: the model differs");
                    next.store(to, Ordering::Relaxed);
                }
                Verdict::Different(difference) => {
                    verdict = Verdict::Different(model.shrink(&history, difference).map_err(text)?);
                }
                _ if first => println!("played {seed}"),
                _ => {}
            }
            count.lock().unwrap_or_else(PoisonError::into_inner).add(seed, verdict, start);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|w| w.join().unwrap_or(Err("a worker died".into())));
        ended.collect::<std::result::Result<Vec<()>, String>>()
    })?;
    let Count { same, steps, beyond, different } =
        count.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{same} histories the same after each of {steps} steps, {different} different, {beyond} stopped by the model"
    );
    Ok(different == 0)
}

/// Random states in memory, on random schemas. What ends in a fault is shortened.
fn states(arguments: &[String]) -> Result<bool> {
    let seeds = option(arguments, "--seeds").ok_or(USAGE)?;
    let (from, to) = seeds.split_once("..").ok_or(USAGE)?;
    let jobs = number(option(arguments, "--jobs").unwrap_or("1"))?.max(1);
    let first = arguments.iter().any(|a| a == "--first");
    let (next, to) = (AtomicU64::new(number(from)?), number(to)?);
    let (faults, played, start) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return;
            }
            let fault = random::play(seed);
            if first {
                println!("played {seed}");
            }
            if let Some(fault) = fault {
                faults.fetch_add(1, Ordering::Relaxed);
                if first {
                    next.store(to, Ordering::Relaxed);
                }
                println!("FAULT seed {seed}: states\n{fault}\n");
            }
            let all = played.fetch_add(1, Ordering::Relaxed) + 1;
            if all.is_multiple_of(100_000) {
                let rate = all as f64 / start.elapsed().as_secs_f64();
                println!("{all} histories, {faults:?} with faults; {rate:.0} histories/s");
            }
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let (faults, played) = (faults.into_inner(), played.into_inner());
    println!("{played} histories, {faults} with faults, in {:.0} s", start.elapsed().as_secs_f64());
    Ok(faults == 0)
}

/// Each seed once with faults of the network only, and once with losses of the place too.
fn network(arguments: &[String]) -> Result<bool> {
    let seeds = option(arguments, "--seeds").ok_or(USAGE)?;
    let (from, to) = seeds.split_once("..").ok_or(USAGE)?;
    let (mut all, mut differ) = (Played::default(), 0);
    for seed in number(from)?..number(to)? {
        for losing in [false, true] {
            match exchange::play(seed, losing) {
                Ok(played) => all.add(played),
                Err(e) => {
                    differ += 1;
                    println!("seed {seed}, losing {losing}: {e}");
                }
            }
        }
    }
    println!("{differ} histories failed; of the others: {all:?}");
    Ok(differ == 0)
}

/// Histories in which one site forges. What each seed forged is told of those that fail, or with `--show`.
fn forge(arguments: &[String]) -> Result<bool> {
    let seeds = option(arguments, "--seeds").ok_or(USAGE)?;
    let (from, to) = seeds.split_once("..").ok_or(USAGE)?;
    let jobs = number(option(arguments, "--jobs").unwrap_or("1"))?.max(1);
    let show = arguments.iter().any(|a| a == "--show");
    let only = option(arguments, "--only");
    let (next, to) = (AtomicU64::new(number(from)?), number(to)?);
    let (faults, all) = (AtomicU64::new(0), Mutex::new((0_u64, forge::Played::default())));
    let start = Instant::now();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return;
            }
            let (mut told, began) = (Vec::new(), Instant::now());
            let mut tell = |line: &str| told.push(line.to_owned());
            let playing = AssertUnwindSafe(|| {
                forge::play(seed, only, show, &mut tell).map_err(|e| e.to_string())
            });
            let played = catch_unwind(playing).unwrap_or_else(|_| Err("it panicked".into()));
            if show {
                println!(
                    "seed {seed}, {:.1} s:\n  {}",
                    began.elapsed().as_secs_f64(),
                    told.join("\n  ")
                );
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            match played {
                Ok(played) => {
                    let parted = told.iter().find(|line| line.starts_with("PARTED"));
                    let parted = parted.map(|line| line.chars().take(150).collect::<String>());
                    parted.into_iter().for_each(|line| println!("seed {seed}: {line}"));
                    all.1.add(played);
                }
                Err(e) => {
                    faults.fetch_add(1, Ordering::Relaxed);
                    let e: String = e.chars().take(2_000).collect();
                    println!("FAULT seed {seed}: {e}\n  {}\n", told.join("\n  "));
                }
            }
            all.0 += 1;
            if all.0.is_multiple_of(100) {
                let rate = all.1.forged as f64 / start.elapsed().as_secs_f64();
                println!("{} histories, {faults:?} with faults; {rate:.0} batches/s", all.0);
            }
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let faults = faults.into_inner();
    let (played, all) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{played} histories, {faults} with faults; of the others: {all:?}");
    Ok(faults == 0)
}

/// Histories that contain the world. Faults are shortened unless `--long` is given; `--keep` keeps their files.
fn wild(arguments: &[String]) -> Result<bool> {
    let seeds = option(arguments, "--seeds").ok_or(USAGE)?;
    let (from, to) = seeds.split_once("..").ok_or(USAGE)?;
    let named = |flag| option(arguments, flag).map(|names| Regions::named(names).ok_or(USAGE));
    let all = named("--all").transpose()?;
    let only = named("--only").transpose()?.or(all.clone()).unwrap_or_else(Regions::all);
    let regions = only.without(&named("--without").transpose()?.unwrap_or_default());
    let always = named("--with").transpose()?.or(all).unwrap_or_default();
    let sites = option(arguments, "--sites").map(number).transpose()?;
    let jobs = number(option(arguments, "--jobs").unwrap_or("1"))?.max(1);
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    let (first, long) = (has("--first"), has("--first") || has("--long"));
    let (next, to) = (AtomicU64::new(number(from)?), number(to)?);
    let (faults, played, start) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let work = || {
        let mut system = System::start();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return;
            }
            let sites = sites.unwrap_or([2, 3, 5][(seed % 3) as usize]) as usize;
            let history = generate::history(seed, sites, &regions, &always);
            if has("--show") {
                println!("{history}");
                continue;
            }
            let fault = play(&history, system.as_mut(), has("--keep"));
            if first {
                println!("played {seed}");
            }
            if let Some(fault) = fault {
                faults.fetch_add(1, Ordering::Relaxed);
                if first {
                    next.store(to, Ordering::Relaxed);
                }
                let (history, fault) = match long {
                    true => (history, fault),
                    false => shrink(&history, fault, system.as_mut()),
                };
                println!("FAULT seed {seed}: {}\n{history}  {}\n", fault.kind, fault.what);
            }
            let all = played.fetch_add(1, Ordering::Relaxed) + 1;
            if all.is_multiple_of(100) {
                let rate = all as f64 / start.elapsed().as_secs_f64();
                println!("{all} histories, {faults:?} with faults; {rate:.1} histories/s");
            }
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let (faults, played) = (faults.into_inner(), played.into_inner());
    println!("{played} histories, {faults} with faults");
    Ok(faults == 0)
}

/// Takes repairs out again, all or those that are named, and says which are missed.
fn mutants(arguments: &[String]) -> Result<bool> {
    let histories = number(option(arguments, "--histories").unwrap_or("2000"))?;
    let jobs = number(option(arguments, "--jobs").unwrap_or("1"))?.max(1);
    let is_value = |at: usize| arguments[at - 1].starts_with("--");
    let names =
        (1..arguments.len()).filter(|&at| !arguments[at].starts_with("--") && !is_value(at));
    let names: Vec<&String> = names.map(|at| &arguments[at]).collect();
    if let Some(name) = names.iter().find(|name| mutants::all().all(|m| m.name != ***name)) {
        return Err(format!("no mutant is called {name}").into());
    }
    let wanted = |m: &&Mutant<'_>| names.is_empty() || names.iter().any(|name| *name == m.name);
    let wanted: Vec<&Mutant<'_>> = mutants::all().filter(wanted).collect();
    let (bench, mut all_found) = (Bench::set_up(&wanted)?, true);
    for mutant in wanted {
        let mutant =
            &Mutant { campaign: option(arguments, "--by").unwrap_or(mutant.campaign), ..*mutant };
        let Mutant { name, breaks, .. } = mutant;
        match bench.try_out(mutant, histories, jobs)? {
            Outcome::Found(nth, kind) => println!("{name}: history {nth}, {kind} ({breaks})"),
            Outcome::Skipped(why) => println!("{name}: skipped: {why}"),
            Outcome::NotFound => {
                all_found = false;
                println!("{name}: NOT FOUND ({breaks})");
            }
        }
    }
    Ok(all_found)
}

/// What histories showed so far.
#[derive(Default)]
struct Count {
    same: u64,
    steps: usize,
    beyond: u64,
    different: u64,
}

impl Count {
    fn add(&mut self, seed: u64, verdict: Verdict, start: Instant) {
        match verdict {
            Verdict::Same(steps) => {
                self.same += 1;
                self.steps += steps;
            }
            Verdict::Beyond(why) => {
                self.beyond += 1;
                println!("seed {seed}: the model stops: {why}");
            }
            Verdict::Different(difference) => {
                self.different += 1;
                println!("seed {seed} differs\n{}\n", difference.story);
            }
        }
        let all = self.same + self.different + self.beyond;
        if all.is_multiple_of(100) {
            let rate = all as f64 / start.elapsed().as_secs_f64();
            let Count { same, different, .. } = self;
            println!("{all}: {same} the same, {different} different; {rate:.1} histories/s");
        }
    }
}

fn kill(arguments: &[String]) -> Result<bool> {
    let rounds = number(option(arguments, "--rounds").ok_or(USAGE)?)?;
    let seed = number(option(arguments, "--seed").ok_or(USAGE)?)?;
    let rows = u32::try_from(number(option(arguments, "--rows").unwrap_or("3000"))?)?;
    let program = match option(arguments, "--bin") {
        Some(path) => Program::Tool(path.into()),
        None => Program::Child(std::env::current_exe()?),
    };
    println!("{rounds} rounds of seed {seed}, {rows} rows a table, {program:?}");
    let report = crash::campaign(&program, rounds, seed, rows, &mut |line| println!("{line}"))?;
    print!("{report}");
    Ok(report.failures.is_empty())
}
