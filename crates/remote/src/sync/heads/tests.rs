use super::*;
use synqlite_wire::{DatabaseId, Hlc, Id};

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

/// A place with these batches (site, base, upto) and snapshots (site, vector).
fn heads(batches: &[Link<'_>], snapshots: &[(u8, Clocks<'_>)]) -> Heads {
    let batch = |(n, (by, base, upto)): (u64, &Link<'_>)| {
        let header = BatchHeader {
            format: 1,
            database: DATABASE,
            site: site(*by),
            base: vector(base),
            upto: vector(upto),
            rows: 1,
            unpacked: 1,
            size: 1,
        };
        (ObjectName::batch(DATABASE, site(*by), n, n + 1), header)
    };
    let snapshot = |(by, seen): &(u8, Clocks<'_>)| {
        let (database, site) = (DATABASE, site(*by));
        (SnapshotHeader { database, site, upto: 1, vector: vector(seen), length: 1 }, 1)
    };
    Heads {
        snapshots: snapshots.iter().map(snapshot).collect(),
        batches: (0..).zip(batches).map(batch).collect(),
        ..Heads::default()
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
