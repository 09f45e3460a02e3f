//! Merging commutes, associates and is idempotent, through the engine, on files.
//!
//! Three sites edit on a common base and export what they did, each in two deltas that build on one
//! another. Copies of one replica merge these deltas in different orders. New integer keys do not
//! meet here: a renumbering is made permanent by the next fold, which is a write of its own.

use crate::seeds::each;
use synqlite_core::{Error, Replica};
use synqlite_testkit::families::{Context, FAMILIES, Family};
use synqlite_testkit::history::START_MS;
use synqlite_testkit::random::Random;
use synqlite_testkit::world::{Result, State, World};
use synqlite_wire::{Delta, VersionVector};

/// A base, and what three sites changed since: for each the first and the second half.
struct Edits {
    world: World,
    deltas: [[Delta; 2]; 3],
}

fn edits(seed: u64, family: Family) -> Result<Edits> {
    let mut r = Random::new(seed);
    // Site 0 stays as it is: the copies are made of it.
    let mut world = World::new(family, 4, r.one_in(2), seed)?;
    let base = world.sites[0].replica.seen()?;
    let mut n = 0;
    let mut half = |world: &mut World, bases: [&VersionVector; 3]| -> Result<[Delta; 3]> {
        for _ in 0..36 {
            n += 1;
            let site = 1 + r.index(3);
            let context = Context { site, n, apart: true, onward: false };
            let sql = family.statement(&mut r, &context);
            world.sites[site].run(&sql, START_MS + 1 + r.below(100_000) as i64)?;
        }
        let mut export = |site: usize| -> Result<Delta> {
            Ok(world.sites[site].replica.export(bases[site - 1], 0)?.0)
        };
        Ok([export(1)?, export(2)?, export(3)?])
    };
    let [a, b, c] = half(&mut world, [&base; 3])?;
    let [d, e, f] = half(&mut world, [&a.upto, &b.upto, &c.upto])?;
    Ok(Edits { world, deltas: [[a, d], [b, e], [c, f]] })
}

/// What a copy of site 0 holds after merging these deltas, in this order. One that builds on a
/// delta that is not there yet must be refused, and changes nothing.
fn merged(edits: &Edits, name: &str, order: &[(usize, usize)]) -> Result<State> {
    let mut copy = edits.world.copy(0, name)?;
    for &(site, half) in order {
        merge(&mut copy.replica, &edits.deltas[site][half])?;
        copy.check()?;
    }
    let problems = copy.replica.verify()?;
    assert!(problems.is_empty(), "{problems:?}");
    copy.state()
}

fn merge(replica: &mut Replica, delta: &Delta) -> Result<()> {
    let expected = replica.seen()?.dominates(&delta.base);
    match replica.merge(delta, true) {
        Ok(_) if expected => Ok(()),
        Err(Error::MissingBase) if !expected => Ok(()),
        Ok(_) => Err("a delta was merged although its base is missing".into()),
        Err(e) => Err(e.into()),
    }
}

fn same(family: Family, order: &[(usize, usize)], got: &State, want: &State) {
    let name = family.name;
    assert_eq!(got.rows, want.rows, "family {name}: rows after {order:?}");
    assert_eq!(got.seen, want.seen, "family {name}: vector after {order:?}");
    assert_eq!(got.changes, want.changes, "family {name}: state after {order:?}");
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn the_order_of_merges_does_not_matter() {
    each(0..4, |seed| {
        for family in FAMILIES {
            let edits = edits(seed, family)?;
            let mut want: Option<State> = None;
            for (i, order) in ORDERS.iter().enumerate() {
                // Site by site, or all first halves before the second ones.
                let by_site = order.iter().flat_map(|&s| [(s, 0), (s, 1)]);
                let by_half = [0, 1].into_iter().flat_map(|h| order.map(|s| (s, h)));
                let order: Vec<_> = if i % 2 == 0 { by_site.collect() } else { by_half.collect() };
                let got = merged(&edits, &format!("order {i}"), &order)?;
                assert!(!got.changes.is_empty());
                if let Some(want) = &want {
                    same(family, &order, &got, want);
                }
                want.get_or_insert(got);
            }
        }
        Ok(())
    });
}

#[test]
fn repeated_and_lost_deltas_do_not_matter() {
    each(0..4, |seed| {
        for family in FAMILIES {
            let edits = edits(seed, family)?;
            let plain = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
            let want = merged(&edits, "plain", &plain)?;
            for i in 0..3 {
                let mut r = Random::new(seed ^ (i + 1) << 20);
                // Everything up to three times, in any order: second halves are refused until the
                // first ones are there. At last all that was lost is sent again.
                let mut order: Vec<_> = plain.iter().flat_map(|&d| [d, d, d]).collect();
                r.shuffle(&mut order);
                order.truncate(6 + r.index(6));
                order.extend(plain);
                let got = merged(&edits, &format!("repeated {i}"), &order)?;
                same(family, &order, &got, &want);
            }
        }
        Ok(())
    });
}

#[test]
fn what_a_site_joined_can_be_merged_instead_of_its_parts() {
    each(0..4, |seed| {
        for family in FAMILIES {
            let edits = edits(seed, family)?;
            let all = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
            let want = merged(&edits, "parts", &all)?;
            // (a ⊔ b) ⊔ c and a ⊔ (b ⊔ c): one site joins two and its export is merged as one.
            for (name, inner, outer) in
                [("left", &all[..4], &all[4..]), ("right", &all[2..], &all[..2])]
            {
                let mut relay = edits.world.copy(0, &format!("{name} inner"))?;
                let base = relay.replica.seen()?;
                for &(site, half) in inner {
                    merge(&mut relay.replica, &edits.deltas[site][half])?;
                }
                let (joined, _) = relay.replica.export(&base, 0)?;
                let mut copy = edits.world.copy(0, name)?;
                merge(&mut copy.replica, &joined)?;
                for &(site, half) in outer {
                    merge(&mut copy.replica, &edits.deltas[site][half])?;
                }
                same(family, inner, &copy.state()?, &want);
            }
        }
        Ok(())
    });
}
