//! What newer snapshots cover goes, and nothing that a known site still needs.

use crate::client::Client;
use crate::support::{DATABASE, Lab, OTHER, SITE, batch, snapshot, until};
use std::sync::atomic::Ordering;
use std::time::Duration;
use synqlite_hub::Scope;
use synqlite_objects::ObjectName;

const DAY: i64 = 24 * 60 * 60 * 1000;

fn lab() -> Lab {
    Lab::with(|settings| {
        settings.open = true;
        settings.sweep = Duration::from_millis(100);
    })
}

/// A site says how far it has read.
fn read_upto(client: &mut Client, site: u8, upto: u64) {
    let site = format!("{site:02x}").repeat(16);
    client.get(&format!("/todo/objects?after={upto}&limit=1&site={site}")).expect(200);
}

fn put_covering(client: &mut Client, n: u64, covers: u64) -> u64 {
    let covers = covers.to_string();
    let headers = [("Synqlite-Covers", covers.as_str())];
    let put = client.request("PUT", &snapshot("todo", n), &headers, b"snapshot").expect(201);
    put.number("synqlite-sequence")
}

/// Sequences that are listed.
fn listed(client: &mut Client) -> Vec<u64> {
    let list = client.get("/todo/objects").expect(200);
    list.lines().iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// Long enough for several sweeps.
fn pass() {
    std::thread::sleep(Duration::from_millis(500));
}

#[test]
fn what_a_snapshot_covers_in_another_order_stays() {
    let lab = lab();
    let mut client = lab.nobody();
    client.put(&batch("todo", 1), b"batch").expect(201);
    read_upto(&mut client, 1, 1);
    let headers = [("Synqlite-Covers", "1"), ("Synqlite-Epoch", &*"0".repeat(32))];
    client.request("PUT", &snapshot("todo", 1), &headers, b"snapshot").expect(201);
    pass();
    assert_eq!(listed(&mut client), [1, 2]);
}

#[test]
pub fn nothing_goes_that_a_known_site_needs() {
    let lab = lab();
    let mut client = lab.nobody();
    for n in 1..=10 {
        client.put(&batch("todo", n), &[1; 5000]).expect(201);
    }
    read_upto(&mut client, 1, 10);
    read_upto(&mut client, 2, 4);
    assert_eq!(put_covering(&mut client, 10, 8), 11);
    until(|| listed(&mut client) == [5, 6, 7, 8, 9, 10, 11]);
    pass();
    assert_eq!(listed(&mut client), [5, 6, 7, 8, 9, 10, 11], "site 2 has read up to 4");
    client.get(&batch("todo", 4)).expect(404);
    client.get(&batch("todo", 5)).expect(200);
    read_upto(&mut client, 2, 7);
    until(|| listed(&mut client) == [8, 9, 10, 11]);
    read_upto(&mut client, 2, 10);
    until(|| listed(&mut client) == [9, 10, 11]);
    pass();
    assert_eq!(listed(&mut client), [9, 10, 11], "the snapshot covers up to 8");
}

#[test]
pub fn a_site_that_was_not_seen_for_long_is_not_waited_for() {
    let lab = lab();
    let mut client = lab.nobody();
    for n in 1..=3 {
        client.put(&batch("todo", n), b"x").expect(201);
    }
    read_upto(&mut client, 1, 3);
    read_upto(&mut client, 2, 0);
    put_covering(&mut client, 3, 3);
    pass();
    assert_eq!(listed(&mut client).len(), 4);
    lab.time.fetch_add(29 * DAY, Ordering::Relaxed);
    read_upto(&mut client, 1, 3);
    pass();
    assert_eq!(listed(&mut client).len(), 4);
    lab.time.fetch_add(2 * DAY, Ordering::Relaxed);
    until(|| listed(&mut client) == [4]);
}

#[test]
pub fn snapshots_that_a_newer_one_covers_go_and_the_newest_stays() {
    let lab = lab();
    let mut client = lab.nobody();
    client.put(&batch("todo", 1), b"x").expect(201);
    put_covering(&mut client, 1, 1);
    until(|| listed(&mut client) == [2]);
    put_covering(&mut client, 2, 2);
    until(|| listed(&mut client) == [3]);
    // More than there is counts as all before it.
    put_covering(&mut client, 3, u64::MAX);
    until(|| listed(&mut client) == [4]);
    pass();
    assert_eq!(listed(&mut client), [4]);
}

#[test]
pub fn other_databases_of_the_place_stay() {
    let lab = lab();
    let mut client = lab.nobody();
    let other = ObjectName::batch(OTHER, SITE, 0, 1);
    client.put(&format!("/todo/objects/{other}"), b"x").expect(201);
    client.put(&batch("todo", 1), b"x").expect(201);
    put_covering(&mut client, 1, 2);
    until(|| listed(&mut client) == [1, 3]);
    pass();
    assert_eq!(listed(&mut client), [1, 3]);
    assert_eq!(client.get("/todo/databases").text(), format!("{DATABASE}\n{OTHER}\n"));
}

#[test]
pub fn a_snapshot_that_says_nothing_retires_nothing() {
    let lab = lab();
    let mut client = lab.nobody();
    client.put(&batch("todo", 1), b"x").expect(201);
    client.put(&snapshot("todo", 1), b"x").expect(201);
    pass();
    assert_eq!(listed(&mut client), [1, 2]);
}

#[test]
pub fn of_too_many_sites_those_seen_longest_ago_are_forgotten() {
    let lab = Lab::with(|settings| {
        settings.open = true;
        settings.setup.sites = 20;
    });
    let secret = lab.token("*", Scope::Admin);
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    admin.put(&batch("todo", 1), b"x").expect(201);
    let known = |admin: &mut Client| -> Vec<String> {
        let told: serde_json::Value = serde_json::from_slice(&admin.get("/overview").body).unwrap();
        let sites = told["places"][0]["sites"].as_array().cloned().unwrap_or_default();
        sites.iter().map(|site| site["site"].as_str().unwrap()[..2].to_owned()).collect()
    };
    for site in 1..=100 {
        lab.time.fetch_add(1000, Ordering::Relaxed);
        read_upto(&mut admin, site, 1);
        let name = format!("{site:02x}");
        // Noted a moment later.
        until(|| known(&mut admin).contains(&name));
        assert!(known(&mut admin).len() <= 20);
    }
    let known = known(&mut admin);
    let newest: Vec<_> = (101 - known.len()..=100).map(|site| format!("{site:02x}")).collect();
    assert!(known.len() >= 15 && known == newest, "{known:?}");
}
