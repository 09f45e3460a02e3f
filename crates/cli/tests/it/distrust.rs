//! Networks that do harm, and hubs that do: what they do is noticed, or does no harm.

use crate::network::{Hub, Proxy, mix};
use crate::support::{Lab, TODO, stderr, synqlite};
use serde_json::Value;

/// Seeds of the campaign over a harmful network; few by default. `FAULT_SEEDS=50` is a long one.
const SEEDS: &str = "FAULT_SEEDS";

/// A, B and C at a hub, each with a note that the others lack; B has pushed three.
fn three(lab: &Lab, hub: &Hub) {
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["remote", "add", &lab.db("A"), "origin", &hub.url("todo")]);
    lab.json(&["push", &lab.db("A")]);
    for site in ["B", "C"] {
        lab.json(&["clone", &hub.url("todo"), &lab.db(site)]);
    }
    for n in 1..=3 {
        lab.sql("B", &format!("INSERT INTO note VALUES('note {n}')"));
        lab.json(&["push", &lab.db("B")]);
    }
}

fn pull(lab: &Lab, site: &str) -> Value {
    lab.json(&["pull", &lab.db(site)])
}

/// The site looks at everything again, as it does after a day.
fn forget(lab: &Lab, hub: &Hub, site: &str) {
    lab.json(&["remote", "remove", &lab.db(site), "origin"]);
    lab.json(&["remote", "add", &lab.db(site), "origin", &hub.url("todo")]);
}

#[test]
fn a_dropped_batch_is_noticed_and_sent_again() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    three(&lab, &hub);
    let batches = hub.objects("todo", ".batch");
    hub.remove("todo", &batches[0]);
    let pulled = pull(&lab, "C");
    assert_eq!(pulled["merged"]["inserted"], 0);
    assert_eq!(pulled["waiting"].as_array().unwrap().len(), 2, "{pulled}");
    // Nothing is taken for known meanwhile, also with more behind it.
    lab.sql("B", "INSERT INTO note VALUES('note 4')");
    lab.json(&["push", &lab.db("B")]);
    assert_eq!(pull(&lab, "C")["waiting"].as_array().unwrap().len(), 3);
    forget(&lab, &hub, "B");
    assert!(lab.json(&["push", &lab.db("B")])["sent"]["rows"].as_u64() > Some(0));
    assert_eq!(pull(&lab, "C")["waiting"].as_array().unwrap().len(), 0);
    lab.assert_equal(&["B", "C"]);
}

/// Where a site had read to there is nothing now, so it does not wait for a day.
#[test]
fn a_dropped_batch_up_to_which_a_site_had_read_is_sent_again_at_once() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    three(&lab, &hub);
    lab.json(&["sync", &lab.db("B")]);
    let batches = hub.objects("todo", ".batch");
    hub.remove("todo", &batches[2]);
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 2);
    assert_eq!(lab.json(&["sync", &lab.db("B")])["sent"]["rows"], 1);
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 1);
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn the_order_of_batches_does_not_matter() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    three(&lab, &hub);
    // The first comes last.
    let batches = hub.objects("todo", ".batch");
    let first = hub.object("todo", &batches[0]);
    hub.replace("todo", &batches[0], &first);
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 3);
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn a_batch_that_comes_again_changes_nothing() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    three(&lab, &hub);
    pull(&lab, "C");
    for batch in hub.objects("todo", ".batch") {
        let bytes = hub.object("todo", &batch);
        hub.replace("todo", &batch, &bytes);
    }
    assert_eq!(pull(&lab, "C")["received"]["rows"], 0);
    assert_eq!(lab.json(&["sync", &lab.db("B")])["sent"]["rows"], 0);
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn an_altered_batch_is_set_aside() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    three(&lab, &hub);
    let batches = hub.objects("todo", ".batch");
    let mut bytes = hub.object("todo", &batches[1]);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    hub.replace("todo", &batches[1], &bytes);
    let (pulled, told) = lab.json_and_stderr(&["pull", &lab.db("C")]);
    assert!(told.contains("set aside") && told.contains(&batches[1]), "{told}");
    assert_eq!(pulled["set_aside"].as_array().map(Vec::len), Some(1));
    // What builds on it waits, and nothing of it is shown.
    assert_eq!(pulled["waiting"].as_array().map(Vec::len), Some(1));
    lab.json(&["verify", &lab.db("C")]);
}

#[test]
fn swapped_batches_lose_nothing() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    three(&lab, &hub);
    let batches = hub.objects("todo", ".batch");
    let (one, two) = (hub.object("todo", &batches[0]), hub.object("todo", &batches[1]));
    hub.replace("todo", &batches[0], &two);
    hub.replace("todo", &batches[1], &one);
    // What a batch holds is in it; a name only helps to find it.
    pull(&lab, "C");
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn an_old_snapshot_in_place_of_a_new_one_is_no_step_back() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    three(&lab, &hub);
    pull(&lab, "C");
    let snapshots = hub.objects("todo", ".snapshot");
    let old = hub.object("todo", &snapshots[0]);
    for batch in hub.objects("todo", ".batch") {
        hub.remove("todo", &batch);
    }
    hub.replace("todo", &snapshots[0], &old);
    pull(&lab, "C");
    lab.assert_equal(&["B", "C"]);
    forget(&lab, &hub, "C");
    lab.json(&["sync", &lab.db("C")]);
    lab.json(&["clone", &hub.url("todo"), &lab.db("D")]);
    lab.assert_equal(&["B", "C", "D"]);
}

#[test]
fn sites_converge_over_a_network_that_does_harm() {
    const SITES: [&str; 3] = ["A", "B", "C"];
    let seeds = std::env::var(SEEDS).ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    for seed in 1..=seeds {
        println!("seed {seed}");
        let lab = Lab::new();
        let hub = Hub::open(&lab);
        let proxy = Proxy::harming(&hub, seed);
        lab.sql("A", TODO);
        lab.json(&["init", &lab.db("A")]);
        lab.json(&["push", &lab.db("A"), &hub.url("todo")]);
        lab.json(&["remote", "add", &lab.db("A"), "origin", &proxy.url("todo")]);
        for site in ["B", "C"] {
            lab.json(&["clone", &hub.url("todo"), &lab.db(site)]);
            lab.json(&["remote", "remove", &lab.db(site), "origin"]);
            lab.json(&["remote", "add", &lab.db(site), "origin", &proxy.url("todo")]);
        }
        for n in 0..24 {
            let site = SITES[mix(seed, n) as usize % 3];
            lab.sql(site, &format!("INSERT INTO note VALUES('{site} {n}'); UPDATE todo SET what = '{n}' WHERE id = 1"));
            let output = synqlite(&["sync", &lab.db(site)]);
            let told = stderr(&output);
            let known = told.is_empty() || told.contains("cannot reach");
            assert!(known, "seed {seed}, step {n}: {told}");
        }
        for site in SITES.into_iter().chain(SITES) {
            lab.json(&["sync", &lab.db(site), &hub.url("todo")]);
        }
        lab.assert_equal(&SITES);
        assert_eq!(lab.rows("A", "SELECT count(*), count(DISTINCT text) FROM note"), ["25|25"]);
    }
}
