//! Batches that somebody made up: a small part of the campaign, and the stories of single ones.

use crate::seeds::each;
use std::path::Path;
use std::sync::Arc;
use synqlite_objects::{
    Entry, Kind, ObjectName, SnapshotHead, SnapshotHeader, Store, put_snapshot,
};
use synqlite_remote::{Outcome, Remote};
use synqlite_testkit::families::FAMILIES;
use synqlite_testkit::forge::play;
use synqlite_testkit::history::START_MS;
use synqlite_testkit::network::RemoteStore;
use synqlite_testkit::world::World;
use synqlite_wire::{Delta, Hlc, VersionVector, batch};

const URL: &str = "http://simulated/store";

#[test]
fn whoever_forges_batches_stops_nobody() {
    each(0..6, |seed| {
        let mut told = Vec::new();
        let played = play(seed, None, false, &mut |line| told.push(line.to_owned()));
        played.map(drop).map_err(|e| format!("{e}\n{}", told.join("\n")).into())
    });
}

/// Three thousand new rows that ask for one number were looked up once for each of them.
#[test]
fn many_rows_that_ask_for_one_number_take_no_minutes() {
    each(174..175, |seed| play(seed, None, false, &mut |_| {}).map(drop));
}

/// Three sites with keys of every kind, and a place that all have synchronized with. The last forges.
struct Lab {
    world: World,
    store: Arc<dyn Store>,
    remote: Remote,
    ms: i64,
}

impl Lab {
    fn new() -> Lab {
        let mut world = World::new(FAMILIES[0], 3, false, 7).unwrap();
        let store: Arc<dyn Store> = Arc::new(RemoteStore::default().line(1, 0));
        let remote = Remote::Store { store: store.clone(), url: URL.to_owned() };
        for site in &mut world.sites {
            site.replica.add_remote("origin", URL, None).unwrap();
        }
        let mut lab = Lab { world, store, remote, ms: START_MS };
        (0..3).for_each(|site| drop(lab.sync(site)));
        lab
    }

    fn write(&mut self, site: usize) {
        self.ms += 1_000;
        let table = self.world.sites[site].rows().unwrap();
        let table = table[0].split(':').next().unwrap();
        let sql = format!("DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})");
        assert!(self.world.sites[site].run(&sql, self.ms).unwrap(), "{sql}");
    }

    fn sync(&mut self, site: usize) -> Outcome {
        self.ms += 1_000;
        let remote = &self.remote;
        let done = self.world.sites[site].exchange(self.ms, |replica, session| {
            session.force = false;
            remote.sync(replica, session)
        });
        let problems = self.world.sites[site].replica.verify().unwrap();
        assert_eq!(problems, Vec::<String>::new());
        done.unwrap()
    }

    /// What the forger has written since, and puts forged.
    fn forge(&mut self, change: impl FnOnce(&mut Delta)) {
        let base = self.world.sites[2].replica.seen().unwrap();
        self.write(2);
        let replica = &mut self.world.sites[2].replica;
        let (mut delta, upto) = replica.export(&base, 0).unwrap();
        change(&mut delta);
        let bytes = batch::encode(replica.database(), replica.site(), &delta).unwrap();
        let upto = upto.cast_unsigned();
        let name = ObjectName::batch(replica.database(), replica.site(), upto - 1, upto);
        self.store.put_if_absent(&name, &bytes).unwrap();
    }

    /// Both others set one batch aside, for this reason, and go on with what they write.
    fn goes_on(&mut self, why: &str) {
        for site in [0, 1, 0, 1] {
            self.write(site);
            let aside = self.sync(site).aside;
            assert_eq!(aside.len(), 1, "{aside:?}");
            assert!(aside[0].why.contains(why) && !aside[0].hint.is_empty(), "{aside:?}");
            assert_eq!(aside[0].site, self.world.sites[2].replica.site().to_string());
            let kept = self.world.sites[site].replica.aside().unwrap();
            assert_eq!(kept, [(URL.to_owned(), aside[0].clone())]);
        }
        self.sync(0);
        let rows = [0, 1].map(|site| self.world.sites[site].rows().unwrap());
        assert_eq!(rows[0], rows[1]);
    }
}

#[test]
fn a_batch_that_claims_writes_of_mine_is_set_aside_and_i_go_on() {
    let mut lab = Lab::new();
    let mine = lab.world.sites[0].replica.site();
    lab.forge(|delta| delta.upto.raise(mine, delta.upto.latest().after(0)));
    lab.goes_on("to which no line");
}

#[test]
fn a_row_of_a_time_that_its_header_does_not_cover_is_set_aside() {
    let mut lab = Lab::new();
    let year_5000 = Hlc(95_617_584_000_000 << 16);
    lab.forge(|delta| delta.rows[0].header.deleted.hlc = year_5000);
    lab.goes_on("does not cover");
}

#[test]
fn a_batch_from_the_year_5000_stops_nobody() {
    let mut lab = Lab::new();
    let site = lab.world.sites[2].replica.site();
    lab.forge(|delta| {
        let year_5000 = Hlc(95_617_584_000_000 << 16);
        delta.upto.raise(site, year_5000);
        let line = delta.lines.get_mut(&site).unwrap();
        line.points.last_mut().unwrap().clock = year_5000;
    });
    lab.goes_on("ahead of this machine's clock");
}

/// One that says that a point comes after two others: whoever followed it looked for ever.
#[test]
fn a_line_that_contradicts_another_stops_nobody() {
    let mut lab = Lab::new();
    lab.write(2);
    lab.sync(2);
    lab.sync(0);
    lab.sync(1);
    let site = lab.world.sites[2].replica.site();
    lab.forge(|delta| {
        let line = delta.lines.get_mut(&site).unwrap();
        let end = delta.upto.get(site);
        line.points[0].clock = line.before;
        line.before = Hlc::ZERO;
        line.points.push(synqlite_wire::Point { clock: end, births: line.points[0].births });
    });
    for site in [0, 1, 0, 1] {
        lab.write(site);
        lab.sync(site);
    }
    lab.sync(0);
    assert_eq!(lab.world.sites[0].rows().unwrap(), lab.world.sites[1].rows().unwrap());
}

/// Bytes with right checksums that are no replica, under the name of the newest snapshot.
#[test]
fn a_snapshot_that_is_no_replica_blocks_no_clone() {
    let mut lab = Lab::new();
    lab.write(0);
    lab.sync(0);
    let (database, site) =
        (lab.world.sites[2].replica.database(), lab.world.sites[2].replica.site());
    let made_up = lab.world.path("made up");
    std::fs::write(&made_up, vec![7; 5_000]).unwrap();
    let beyond = VersionVector::default();
    let head = SnapshotHead { database, site, upto: 900, length: 5_000, after: None, beyond };
    let mut vector = lab.world.sites[0].replica.seen().unwrap();
    vector.raise(site, Hlc::at_ms(lab.ms));
    let header = SnapshotHeader { head, vector, trail: None };
    put_snapshot(&*lab.store, Path::new(&made_up), &header, None, &mut |_, _| ()).unwrap();
    let listed: Vec<Entry> = lab.store.list(database, Kind::Snapshot).unwrap();
    assert_eq!(listed.len(), 2);
    let (target, remote) = (lab.world.path("clone"), lab.remote.clone());
    let ms = lab.ms;
    lab.world.sites[1]
        .exchange(ms, |_, session| remote.clone_to(&target, session).map(drop))
        .unwrap();
    lab.write(1);
    lab.sync(1);
    lab.sync(0);
    assert_eq!(lab.world.sites[0].rows().unwrap(), lab.world.sites[1].rows().unwrap());
}
