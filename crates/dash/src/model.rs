//! A model of the protocols: two files with version numbers, and steps that a power failure may
//! lose. Every state that it can leave is walked through and given to the rule of recovery.
//!
//! A file is its version, whether its pages are whole, and which transaction it holds. What is not
//! synchronized may be there or not, each part by itself; names become durable in their order.

use crate::mode::{Evidence, Mode};
use crate::pair::{Facts, Winner, winner};
use std::collections::BTreeSet;

/// A file: what it holds if it is whole, its version, and whether it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    holds: u64,
    version: u64,
    whole: bool,
}

/// What a step does.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Version number of the shadow.
    Version(u64),
    /// Pages of a transaction into the shadow.
    Pages(u64),
    /// Both names.
    Exchange,
    /// Bytes of both files are durable.
    Bytes,
    /// Bytes are durable before any exchange that follows.
    Hand,
    /// Names are durable.
    Names,
    /// The transaction was acknowledged.
    Ack(u64),
}

/// The steps of a transaction that makes version `n`.
fn steps(mode: Mode, n: u64) -> Vec<Step> {
    use Step::{Ack, Bytes, Exchange, Hand, Names, Pages, Version};
    match mode {
        Mode::Strict => vec![Pages(n), Version(n), Hand, Exchange, Bytes, Names, Ack(n)],
        Mode::Fast => vec![Pages(n), Version(n), Bytes, Exchange, Ack(n)],
        Mode::Shadow => {
            vec![Names, Version(n), Bytes, Pages(n), Bytes, Exchange, Version(0), Bytes, Ack(n)]
        }
        _ => vec![Version(n), Bytes, Pages(n), Bytes, Exchange, Version(0), Bytes, Ack(n)],
    }
}

/// The machine as the program sees it, and everything that the device may hold instead.
#[derive(Debug, Clone)]
struct World {
    /// The two files now; `main` says which has the database's name.
    files: [File; 2],
    main: usize,
    /// What each file may be on the device.
    durable: [BTreeSet<File>; 2],
    /// Which file may have the name on the device; later exchanges are further back.
    names: Vec<usize>,
    /// For each of `names`, what was handed to the device before and is there with it.
    handed: Vec<Option<(usize, File)>>,
    handing: Option<(usize, File)>,
    acked: u64,
    begun: u64,
}

impl World {
    fn new(mode: Mode) -> World {
        let reset = mode.evidence() == Evidence::Version;
        let old = File { holds: 1, version: if reset { 0 } else { 1 }, whole: true };
        let new = File { holds: 2, version: 2, whole: true };
        World {
            files: [new, old],
            main: 0,
            durable: [BTreeSet::from([new]), BTreeSet::from([old])],
            names: vec![0],
            handed: vec![None],
            handing: None,
            acked: 2,
            begun: 2,
        }
    }

    fn change(&mut self, at: usize, change: impl Fn(&mut File)) {
        change(&mut self.files[at]);
        // Of several changes that are not durable any combination may be.
        let mut more: Vec<File> = self.durable[at].iter().copied().collect();
        more.iter_mut().for_each(&change);
        self.durable[at].extend(more);
    }

    fn step(&mut self, step: Step) {
        let shadow = 1 - self.main;
        match step {
            Step::Version(n) => self.change(shadow, |file| file.version = n),
            Step::Pages(n) => {
                self.begun = n;
                // While some of the pages are there and others not, it is whole of nothing.
                let mut torn: Vec<File> = self.durable[shadow].iter().copied().collect();
                torn.iter_mut().for_each(|file| file.whole = false);
                self.durable[shadow].extend(torn);
                self.change(shadow, |file| (file.holds, file.whole) = (n, true));
            }
            Step::Exchange => {
                self.main = shadow;
                self.names.push(shadow);
                self.handed.push(self.handing.take());
            }
            Step::Hand => self.handing = Some((shadow, self.files[shadow])),
            Step::Bytes => {
                for (durable, file) in self.durable.iter_mut().zip(self.files) {
                    *durable = BTreeSet::from([file]);
                }
            }
            Step::Names => {
                self.names = vec![self.main];
                self.handed = vec![None];
            }
            Step::Ack(n) => self.acked = n,
        }
    }

    /// Every state that the device may hold: the file with the name first.
    fn crashes(&self) -> Vec<[File; 2]> {
        let mut out = Vec::new();
        for (at, &named) in self.names.iter().enumerate() {
            for &a in &self.durable[0] {
                for &b in &self.durable[1] {
                    let files = [a, b];
                    let fits = self.handed[at].is_none_or(|(file, least)| files[file] == least);
                    if fits {
                        out.push([files[named], files[1 - named]]);
                    }
                }
            }
        }
        out
    }
}

/// The file that recovery makes the database.
fn recovered(mode: Mode, [main, shadow]: [File; 2]) -> File {
    let facts = Facts {
        hot_journal: false,
        versions: [Some(main.version), Some(shadow.version)],
        follows: true,
        resets: mode.evidence() == Evidence::Version,
        whole: (mode.evidence() == Evidence::Checksum).then_some([
            main.whole && main.holds == main.version,
            shadow.whole && shadow.holds == shadow.version,
        ]),
        super_journal: None,
    };
    match winner(&facts) {
        Winner::Main => main,
        Winner::Shadow => shadow,
    }
}

/// Walks through three transactions; the states that were met, and those that recover wrongly.
fn walk(mode: Mode) -> (BTreeSet<[u64; 2]>, Vec<[File; 2]>) {
    let mut world = World::new(mode);
    let (mut states, mut wrong) = (BTreeSet::new(), Vec::new());
    for n in 3..6 {
        for step in steps(mode, n) {
            world.step(step);
            for files in world.crashes() {
                states.insert(files.map(|file| file.version));
                let found = recovered(mode, files);
                if !found.whole || !(world.acked..=world.begun).contains(&found.holds) {
                    wrong.push(files);
                }
            }
        }
    }
    (states, wrong)
}

#[test]
fn every_state_of_the_safe_protocols_recovers() {
    for mode in [Mode::Strict, Mode::Fast, Mode::Shadow] {
        let (states, wrong) = walk(mode);
        assert!(wrong.is_empty(), "{mode}: {wrong:?}");
        assert!(states.len() > 6, "{mode}: only {states:?}");
    }
}

#[test]
fn the_states_are_those_of_figure_11() {
    let (states, _) = walk(Mode::Shadow);
    for [main, shadow] in states {
        let known = main > 0 && (shadow == 0 || shadow == main + 1 || shadow + 1 == main)
            || main == 0 && shadow > 0;
        assert!(known, "({main}, {shadow})");
    }
}

#[test]
fn the_paper_as_printed_takes_a_half_written_file_for_a_finished_one() {
    let (_, wrong) = walk(Mode::Paper);
    let fault =
        wrong.iter().any(|[main, shadow]| !main.whole && main.version == shadow.version + 1);
    assert!(fault, "(n+1, n) with a half-written main file: {wrong:?}");
}
