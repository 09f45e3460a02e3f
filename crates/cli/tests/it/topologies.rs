//! Random edits, random meetings, a folder that loses files, a hub of which sites remember what it
//! contained: all sites converge in the end.

#[cfg(unix)]
use crate::network::Hub;
use crate::support::{Lab, objects};
use std::path::PathBuf;
use std::sync::Arc;
use synqlite_core::{Replica, System};
use synqlite_remote::{Outcome, Remote, Session};

const SITES: [&str; 4] = ["A", "B", "C", "D"];

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn site(&mut self) -> &'static str {
        SITES[self.below(SITES.len())]
    }

    /// A statement of an application.
    fn statement(&mut self) -> String {
        let (id, n) = (self.below(8) + 1, self.below(1_000));
        match self.below(7) {
            0 => format!("INSERT INTO todo(what) VALUES('{n}')"),
            1 => format!("UPDATE todo SET what = 'w{n}' WHERE id = {id}"),
            2 => format!("UPDATE todo SET done = {n} WHERE id = {id}"),
            3 => format!("DELETE FROM todo WHERE id = {id}"),
            4 => format!("INSERT INTO note VALUES('{n}')"),
            5 => format!(
                "INSERT INTO todo(id, what) SELECT coalesce(max(id), 0) + 1, '{n}' FROM todo"
            ),
            _ => format!("DELETE FROM note WHERE rowid = {id}"),
        }
    }
}

type Exchange = fn(&Remote, &mut Replica, &Session) -> synqlite_remote::sync::Result<Outcome>;

fn exchange(lab: &Lab, site: &str, remote: &str, run: Exchange) -> Outcome {
    let mut replica = Replica::open(&PathBuf::from(lab.db(site)), Arc::new(System)).unwrap();
    let session = Session { env: Arc::new(System), force: false, whole: false };
    let remote = Remote::parse(remote).unwrap();
    run(&remote, &mut replica, &session).unwrap_or_else(|e| panic!("{site}: {e}"))
}

fn play(seed: u64, losses: bool) {
    println!("seed {seed}");
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let lab = Lab::with_a();
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    for (n, site) in SITES.into_iter().enumerate().skip(1) {
        let from = if n % 2 == 0 { lab.db("A") } else { lab.folder() };
        lab.json(&["clone", &from, &lab.db(site)]);
    }
    for _ in 0..30 {
        let site = dice.site();
        match dice.below(if losses { 8 } else { 7 }) {
            0..=2 => {
                let script: Vec<_> = (0..=dice.below(3)).map(|_| dice.statement()).collect();
                lab.sql(site, &script.join(";"));
            }
            3 => drop(exchange(&lab, site, &lab.folder(), Remote::push)),
            4 => drop(exchange(&lab, site, &lab.folder(), Remote::pull)),
            5 => drop(exchange(&lab, site, &lab.folder(), Remote::sync)),
            6 => {
                let other = dice.site();
                if other != site {
                    exchange(&lab, site, &lab.db(other), Remote::pull);
                }
            }
            _ => {
                let batches = objects(&lab, ".batch");
                if !batches.is_empty() {
                    std::fs::remove_file(&batches[dice.below(batches.len())]).unwrap();
                }
            }
        }
    }
    for round in 0.. {
        let quiet = SITES.iter().fold(true, |quiet, site| {
            let done = exchange(&lab, site, &lab.folder(), Remote::sync);
            quiet && done.sent.rows + done.received.rows == 0 && done.waiting.is_empty()
        });
        if quiet {
            break;
        }
        assert!(round < 6, "seed {seed}: it does not settle");
    }
    lab.assert_equal(&SITES);
}

#[test]
fn random_meetings_end_in_agreement() {
    (1..=3).for_each(|seed| play(seed, false));
}

#[test]
fn a_folder_that_loses_batches_is_healed() {
    (4..=6).for_each(|seed| play(seed, true));
}

/// Sites that meet at a hub, which each remembers, and directly and at a folder, of which the notes
/// about the hub know nothing.
#[cfg(unix)]
#[test]
fn what_sites_remember_of_a_hub_is_never_too_much() {
    for seed in 7..=10 {
        println!("seed {seed}");
        let mut dice = Dice((seed * 0x9e37_79b9) | 1);
        let lab = Lab::with_a();
        let hub = Hub::open(&lab);
        let url = hub.url("todo");
        lab.json(&["remote", "add", &lab.db("A"), "hub", &url]);
        lab.json(&["push", &lab.db("A"), "hub"]);
        lab.json(&["push", &lab.db("A"), &lab.folder()]);
        for (n, site) in SITES.into_iter().enumerate().skip(1) {
            let from = [lab.db("A"), url.clone(), lab.folder()];
            lab.json(&["clone", &from[n % 3], &lab.db(site)]);
            lab.json(&["remote", "add", &lab.db(site), "hub", &url]);
        }
        for _ in 0..50 {
            let site = dice.site();
            match dice.below(10) {
                0..=2 => lab.sql(site, &dice.statement()),
                3 => drop(exchange(&lab, site, &url, Remote::push)),
                4 => drop(exchange(&lab, site, &url, Remote::pull)),
                5 | 6 => drop(exchange(&lab, site, &url, Remote::sync)),
                7 => drop(exchange(&lab, site, &lab.folder(), Remote::sync)),
                _ => {
                    let other = dice.site();
                    if other != site {
                        exchange(&lab, site, &lab.db(other), Remote::sync);
                    }
                }
            }
        }
        for site in SITES.into_iter().chain(SITES) {
            exchange(&lab, site, &url, Remote::sync);
        }
        lab.assert_equal(&SITES);
        // Whoever comes new finds all of it there too.
        lab.json(&["clone", &url, &lab.db("E")]);
        lab.assert_equal(&["A", "E"]);
    }
}
