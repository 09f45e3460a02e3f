//! A small part of the campaign in which the world changes.

use crate::seeds::each;
use synqlite_testkit::wild::app::System;
use synqlite_testkit::wild::generate::history;
use synqlite_testkit::wild::play::play;
use synqlite_testkit::wild::regions::Regions;

/// The parts of the world that these histories contain.
const REGIONS: &str = "order,replace,clone,clock,place,spelled,system,policy,keys";

#[test]
fn sites_agree_whatever_changes() {
    let regions = Regions::named(REGIONS).expect("known names");
    let mut system = System::start();
    let system = std::cell::RefCell::new(&mut system);
    each(0..24, |seed| {
        let sites = [2, 3, 5][(seed % 3) as usize];
        let history = history(seed, sites, &regions, &Regions::default());
        match play(&history, system.borrow_mut().as_mut(), false) {
            None => Ok(()),
            Some(fault) => Err(format!("{}: {}\n{history}", fault.kind, fault.what).into()),
        }
    });
}
