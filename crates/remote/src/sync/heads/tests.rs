use super::*;
use crate::sync::plan::Step;
use synqlite_objects::Trail;
use synqlite_wire::{DatabaseId, Id};

const DATABASE: DatabaseId = Id([1; 16]);

fn site(n: u8) -> SiteId {
    Id([n; 16])
}

type Clocks<'a> = &'a [(u8, i64)];
/// Site, base and upto of a batch.
type Link<'a> = (u8, Clocks<'a>, Clocks<'a>);

fn vector(clocks: Clocks<'_>) -> VersionVector {
    let mut vector = VersionVector::default();
    clocks.iter().for_each(|&(n, clock)| vector.raise(site(n), Hlc(clock)));
    vector
}

/// A store with these batches (site, base, upto) and snapshots (site, vector).
fn heads(batches: &[Link<'_>], snapshots: &[(u8, Clocks<'_>)]) -> Heads {
    let batch = |(n, link): (u64, &Link<'_>)| batch(n, None, link);
    let snapshot = |(by, seen): &(u8, Clocks<'_>)| snapshot(*by, 1, Trail::default(), seen);
    Heads {
        snapshots: snapshots.iter().map(snapshot).collect(),
        batches: (0..).zip(batches).map(batch).collect(),
        ..Heads::default()
    }
}

fn batch(n: u64, after: Option<PrefixHash>, (by, base, upto): &Link<'_>) -> Batch {
    let header = BatchHeader {
        format: 1,
        database: DATABASE,
        site: site(*by),
        after,
        base: vector(base),
        upto: vector(upto),
        lines: BTreeMap::new(),
        bodies: vec![],
        start: 1,
        size: 1,
    };
    let name = ObjectName::batch(DATABASE, site(*by), n, n + 1);
    Batch { name, header, base: vector(base), upto: vector(upto), index: None, prefix: vec![] }
}

fn snapshot(by: u8, upto: u64, trail: Trail, seen: Clocks<'_>) -> Snapshot {
    let (database, site, vector) = (DATABASE, site(by), vector(seen));
    let (after, beyond) = (Some(trail.last()), VersionVector::default());
    let head = SnapshotHead { database, site, upto, length: 1, after, beyond };
    let entry = Entry { name: head.name(), size: 1 };
    let header = SnapshotHeader { head: head.clone(), vector, trail: Some(trail) };
    Snapshot { entry, head, header: Some(header), index: None }
}

/// A store that numbers its objects, as it is seen by one who has remembered `known` of them.
struct RemoteStore {
    names: Vec<ObjectName>,
    batches: Vec<Batch>,
    snapshots: Vec<Snapshot>,
}

impl RemoteStore {
    fn new() -> RemoteStore {
        RemoteStore { names: vec![], batches: vec![], snapshots: vec![] }
    }

    fn trail(&self) -> Trail {
        let mut trail = Trail::default();
        self.names.iter().for_each(|name| trail.push(name));
        trail
    }

    /// A batch that builds on the first `seen` objects, and on `base`.
    fn batch(&mut self, seen: usize, link: Link<'_>) {
        let after = self.trail().prefixes()[seen];
        let batch = batch(self.names.len() as u64, Some(after), &link);
        self.names.push(batch.name);
        self.batches.push(batch);
    }

    fn snapshot(&mut self, by: u8, seen: Clocks<'_>) {
        let snapshot = snapshot(by, self.names.len() as u64, self.trail(), seen);
        self.names.push(snapshot.entry.name);
        self.snapshots.push(snapshot);
    }

    /// What is told to one who remembers the first `known` objects; of the rest, those before
    /// `kept` are gone, and `hidden` is not told.
    fn heads(self, known: usize, kept: usize, hidden: Option<usize>) -> Heads {
        let RemoteStore { names, mut batches, mut snapshots } = self;
        let mut trail = Trail::default();
        names.iter().take(known).for_each(|name| trail.push(name));
        let told = |i: &usize| *i >= known && *i >= kept && Some(*i) != hidden;
        let listed: Vec<_> = (0..names.len()).filter(told).map(|i| names[i]).collect();
        batches.retain(|batch| listed.contains(&batch.name));
        snapshots.retain(|snapshot| listed.contains(&snapshot.entry.name));
        let headers = snapshots.iter().filter_map(|snapshot| snapshot.header.as_ref());
        let row = match known {
            0 => ObjectLog::listed(&listed, headers),
            _ => ObjectLog::resumed(trail, &listed),
        };
        let index = |name: &ObjectName| {
            row.of_listed(listed.iter().position(|listed| listed == name).unwrap())
        };
        batches.iter_mut().for_each(|batch| batch.index = index(&batch.name));
        snapshots.iter_mut().for_each(|s| s.index = index(&s.entry.name));
        Heads { snapshots, batches, row: Some(row), resumed: known > 0, ..Heads::default() }
    }
}

/// Site 1 makes the store, 2 and 3 go on side by side, then 2 again, having seen all.
fn store() -> RemoteStore {
    let mut store = RemoteStore::new();
    store.snapshot(1, &[(1, 5)]);
    store.batch(1, (2, &[], &[(2, 6)]));
    store.batch(1, (3, &[], &[(3, 7)]));
    store.batch(3, (2, &[(2, 6)], &[(2, 8)]));
    store
}

#[test]
fn a_prefix_hash_stands_for_everything_before_it() {
    let heads = store().heads(1, 0, None);
    let plan = heads.plan(&vector(&[(1, 5)]));
    assert_eq!(plan.steps, [Step::Batch(0), Step::Batch(1), Step::Batch(2)]);
    assert!(plan.whole && plan.waiting.is_empty());
    assert_eq!(plan.reached, vector(&[(1, 5), (2, 8), (3, 7)]));
    let from_nothing = store().heads(0, 0, None).plan(&VersionVector::default());
    assert_eq!(from_nothing.steps[0], Step::Snapshot(0));
    assert!(from_nothing.whole);
}

#[test]
fn what_builds_on_a_hidden_object_waits() {
    let heads = store().heads(1, 0, Some(2));
    let plan = heads.plan(&vector(&[(1, 5)]));
    assert_eq!((plan.steps.len(), plan.waiting.len()), (1, 1));
    assert_eq!(plan.reached, vector(&[(1, 5), (2, 6)]), "the second batch of site 2 had seen it");
    // Even by one who has its changes from elsewhere: what is shown to him is not what 2 saw.
    let plan = heads.plan(&vector(&[(1, 5), (3, 7)]));
    assert_eq!(plan.waiting.len(), 1);
}

#[test]
fn the_batches_of_one_site_may_come_in_any_order() {
    let mut store = RemoteStore::new();
    store.snapshot(1, &[(1, 5)]);
    for n in 0..4 {
        let base = [(2, n + 5)];
        store.batch(1 + n as usize, (2, &base[..usize::from(n > 0)], &[(2, n + 6)]));
    }
    store.names[1..].reverse();
    let heads = store.heads(1, 0, None);
    let plan = heads.plan(&vector(&[(1, 5)]));
    assert_eq!((plan.reached, plan.waiting.len()), (vector(&[(1, 5), (2, 9)]), 0));
}

#[test]
fn a_batch_with_a_prefix_hash_of_another_store_waits_until_its_changes_come_otherwise() {
    let mut heads = store().heads(1, 0, None);
    heads.row = Some(ObjectLog::resumed(Trail::of(vec![Id([9; 16])]).unwrap(), &[]));
    let plan = heads.plan(&vector(&[(1, 5)]));
    assert_eq!((plan.steps.len(), plan.waiting.len()), (0, 3));
    let again = batch(9, None, &(4, &[(1, 5)], &[(1, 5), (2, 8), (3, 7), (4, 1)]));
    heads.batches.push(again);
    let plan = heads.plan(&vector(&[(1, 5)]));
    assert_eq!((plan.steps, plan.waiting.len()), (vec![Step::Batch(3)], 0));
}

#[test]
fn a_row_whose_beginning_is_gone_goes_on_from_the_snapshot_that_covers_it() {
    let whole = || {
        let mut store = store();
        store.batch(4, (3, &[(3, 7)], &[(3, 9)]));
        store.snapshot(2, &[(1, 5), (2, 8), (3, 9)]);
        // Its site had not seen the last two, but all before.
        store.batch(4, (1, &[(1, 5)], &[(1, 10)]));
        store.batch(7, (3, &[(3, 9)], &[(3, 11)]));
        store
    };
    for kept in [0, 3, 5] {
        let heads = whole().heads(0, kept, None);
        for start in [vector(&[]), vector(&[(1, 5), (2, 8), (3, 9)])] {
            let plan = heads.plan(&start);
            assert!(plan.whole && plan.waiting.is_empty(), "{kept}: {:?}", plan.waiting);
            assert_eq!(plan.reached, vector(&[(1, 10), (2, 8), (3, 11)]));
        }
    }
}

#[test]
fn a_prefix_hash_that_lies_too_far_back_is_known_to_nobody() {
    for far in [synqlite_objects::REACH, synqlite_objects::REACH + 1] {
        let mut store = RemoteStore::new();
        store.snapshot(1, &[(1, 5)]);
        for n in 0..far as i64 {
            let base = if n == 0 { vec![] } else { vec![(2, n + 5)] };
            store.batch(1 + n as usize, (2, &base, &[(2, n + 6)]));
        }
        store.batch(1, (3, &[], &[(3, 7)]));
        let waits = usize::from(far > synqlite_objects::REACH);
        let count = store.names.len();
        for known in [0, 1, count - 1] {
            let again = RemoteStore {
                names: store.names.clone(),
                batches: store
                    .batches
                    .iter()
                    .map(|b| Batch { prefix: vec![], ..b.clone() })
                    .collect(),
                snapshots: vec![snapshot(1, 0, Trail::default(), &[(1, 5)])],
            };
            let start = if known == count - 1 {
                vector(&[(1, 5), (2, far as i64 + 5)])
            } else {
                vector(&[(1, 5)])
            };
            let plan = again.heads(known, 0, None).plan(&start);
            assert_eq!(plan.waiting.len(), waits, "{far} objects between, {known} remembered");
        }
    }
}

#[test]
fn batches_are_merged_in_an_order_in_which_each_finds_its_base() {
    let heads = heads(
        &[
            (1, &[(1, 5), (2, 7)], &[(1, 9), (2, 7)]),
            (2, &[(1, 5)], &[(1, 5), (2, 7)]),
            (1, &[], &[(1, 5)]),
        ],
        &[],
    );
    let plan = heads.plan(&VersionVector::default());
    assert_eq!(plan.steps, [Step::Batch(2), Step::Batch(1), Step::Batch(0)]);
    assert_eq!(plan.reached, vector(&[(1, 9), (2, 7)]));
    assert!(plan.waiting.is_empty());
}

#[test]
fn what_is_known_is_left_out() {
    let heads = heads(&[(1, &[], &[(1, 5)]), (1, &[(1, 5)], &[(1, 6)])], &[(1, &[(1, 5)])]);
    let plan = heads.plan(&vector(&[(1, 5), (3, 1)]));
    assert_eq!(plan.steps, [Step::Batch(1)]);
    assert!(heads.plan(&vector(&[(1, 6)])).steps.is_empty());
}

#[test]
fn a_snapshot_helps_only_where_batches_are_missing() {
    let chain: &[Link<'_>] = &[(1, &[(1, 5)], &[(1, 6)]), (1, &[(1, 7)], &[(1, 8)])];
    let plan = heads(chain, &[(1, &[(1, 6)])]).plan(&vector(&[(1, 5)]));
    assert_eq!((plan.steps, plan.waiting.len()), (vec![Step::Batch(0)], 1));
    let plan = heads(chain, &[(1, &[(1, 7)])]).plan(&vector(&[(1, 5)]));
    assert_eq!(plan.steps, [Step::Batch(0), Step::Snapshot(0), Step::Batch(1)]);
    assert_eq!(plan.reached, vector(&[(1, 8)]));
    let plan = heads(chain, &[]).plan(&VersionVector::default());
    assert_eq!((plan.steps.len(), plan.waiting.len()), (0, 2));
    assert_eq!(plan.reached, VersionVector::default());
}
