//! Arbitrary values for property tests: valid ones, with few sites so that they meet.

use crate::change::{Cell, Delta, GroupShape, Header, Register, RowChange, Setting, TableShape};
use crate::clock::{Hlc, Stamp, VersionVector};
use crate::counter::{Count, Counter, Number};
use crate::ids::{Id, Rid, SiteId};
use crate::line::{Line, Point};
use crate::told::Told;
use crate::value::Value;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;

pub(crate) fn id() -> impl Strategy<Value = Id> {
    prop_oneof![4 => (1..4_u8).prop_map(|n| Id([n; 16])), 1 => any::<[u8; 16]>().prop_map(Id)]
}

pub(crate) fn hlc() -> impl Strategy<Value = Hlc> {
    let near = (0..5_i64, 0..3_i64).prop_map(|(ms, n)| Hlc((1_795_000_000_000 + ms) << 16 | n));
    prop_oneof![3 => near, 1 => (1..=i64::MAX).prop_map(Hlc), 1 => Just(Hlc(1))]
}

pub(crate) fn stamp() -> impl Strategy<Value = Stamp> {
    let some = (hlc(), id()).prop_map(|(hlc, site)| Stamp { hlc, site });
    prop_oneof![4 => some, 1 => Just(Stamp::ZERO)]
}

/// Vectors as [`VersionVector::raise`] makes them: without entries of zero.
pub(crate) fn vector() -> impl Strategy<Value = VersionVector> {
    btree_map(id(), hlc(), 0..5).prop_map(VersionVector)
}

pub(crate) fn header() -> impl Strategy<Value = Header> {
    let any = (0..6_u64, stamp(), stamp(), stamp(), stamp(), stamp()).prop_map(
        |(cl, cl_stamp, inserted, deleted, reinserted, yielded)| Header {
            cl,
            cl_stamp,
            inserted,
            deleted,
            reinserted,
            yielded,
        },
    );
    let deleted = (stamp(), stamp()).prop_map(|(born, died)| {
        let mut header = Header::born(born);
        header.delete(died);
        header
    });
    prop_oneof![2 => any, 2 => stamp().prop_map(Header::born), 1 => deleted]
}

pub(crate) fn rid() -> impl Strategy<Value = Rid> {
    let birth = (id(), any::<u64>(), 0..64_u32).prop_map(|(site, n, low)| (site, n >> low));
    let key = prop_oneof![
        vec(any::<u8>(), 0..12),
        // Long runs of one byte share more than a key may leave out.
        (250..300_usize).prop_map(|len| vec![7; len]),
    ];
    prop_oneof![
        birth.prop_map(|(site, n)| Rid::Birth { site, n }),
        (key, any::<u32>()).prop_map(|(key, generation)| Rid::Key { key, generation }),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let real = any::<u64>().prop_map(f64::from_bits).prop_filter("no NaN", |real| !real.is_nan());
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        (-9..9_i64).prop_map(Value::Integer),
        real.prop_map(Value::Real),
        Just(Value::Real(-0.0)),
        vec(any::<u8>(), 0..9).prop_map(Value::Text),
        vec(any::<u8>(), 0..9).prop_map(Value::Blob),
    ]
}

/// Equal stamps are one write, so what was written follows from the stamp.
pub(crate) fn count() -> impl Strategy<Value = Count> {
    let some = (hlc(), id()).prop_map(|(hlc, site)| Stamp { hlc, site });
    some.prop_map(|stamp| {
        let parts = [stamp.hlc.0, i64::from(stamp.site.0[0])];
        let sum = Number::of(&Value::Real(parts[0] as f64 / 8.0 * parts[1] as f64), true);
        Count { stamp, epoch: parts[0] as u64 % 3, sum: sum.unwrap_or_default() }
    })
}

pub(crate) fn counts() -> impl Strategy<Value = Vec<Count>> {
    vec(count(), 0..4).prop_map(|all| {
        let by_site: BTreeMap<_, _> = all.into_iter().map(|c| (c.stamp.site, c)).collect();
        by_site.into_values().collect()
    })
}

pub(crate) fn counter() -> impl Strategy<Value = Counter> {
    (stamp(), counts()).prop_map(|(stamp, counts)| {
        let base = if stamp.hlc.0 % 3 == 0 { Value::Null } else { Value::Integer(stamp.hlc.0 % 7) };
        Counter { stamp, base, counts }
    })
}

fn name() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..6).prop_map(String::from_iter)
}

fn shape() -> impl Strategy<Value = TableShape> {
    let group = (vec(name(), 1..3), vec(name(), 0..3));
    let group = group.prop_map(|(columns, refs)| GroupShape { columns, refs });
    (name(), vec(group, 0..4)).prop_map(|(name, groups)| TableShape { name, groups })
}

fn cell(shape: &GroupShape) -> impl Strategy<Value = Cell> + use<> {
    (vec(value(), shape.columns.len()), vec(option::of(rid()), shape.refs.len()))
        .prop_map(|(values, refs)| Cell { values, refs })
}

fn register(shape: &GroupShape) -> impl Strategy<Value = (Option<Stamp>, Register)> + use<> {
    let counted = shape.columns.len() == 1;
    let counts = if counted { counts().boxed() } else { Just(vec![]).boxed() };
    let parts = (option::of(stamp()), cell(shape), option::of(cell(shape)), any::<bool>(), counts);
    parts.prop_map(|(stamp, cell, previous, pinned, counts)| {
        (stamp, Register { group: 0, stamp: Stamp::ZERO, cell, previous, pinned, counts })
    })
}

fn row(tables: &[TableShape]) -> impl Strategy<Value = RowChange> + use<> {
    let tables = tables.to_vec();
    any::<Index>().prop_flat_map(move |index| {
        let table = index.index(tables.len());
        let registers: Vec<_> =
            tables[table].groups.iter().map(|shape| option::of(register(shape))).collect();
        (rid(), header(), registers).prop_map(move |(rid, header, registers)| {
            let registers = (0..).zip(registers).filter_map(|(group, register)| {
                let (stamp, register) = register?;
                Some(Register { group, stamp: stamp.unwrap_or(header.inserted), ..register })
            });
            RowChange { table: table as u32, rid, header, registers: registers.collect() }
        })
    })
}

/// How sites may have come from one vector to another: some by a point in between, some on branches.
fn lines(base: &VersionVector, upto: &VersionVector) -> BTreeMap<SiteId, Line> {
    let news = upto.0.iter().filter(|(site, clock)| **clock > base.get(**site));
    let line = |(&site, &clock): (&SiteId, &Hlc)| {
        let before = base.get(site);
        let middle = Hlc(before.0 + (clock.0 - before.0) / 2);
        let middle = Point { clock: middle, births: site.0[0].into() };
        let last = Point { clock, births: middle.births + u64::from(site.0[1]) };
        let points = [middle, last].into_iter().filter(|p| *p == last || p.clock > before);
        let points = points.filter(|p| *p == last || p.clock < clock).collect();
        let root = if site.0[2] % 2 == 0 { site } else { Id([site.0[2]; 16]) };
        (site, Line { root, before, points })
    };
    news.map(line).collect()
}

/// Valid deltas: of several tables, their rows in any order.
pub(crate) fn delta() -> impl Strategy<Value = Delta> {
    let setting = (name(), name(), stamp());
    let setting = setting.prop_map(|(key, value, stamp)| Setting { key, value, stamp });
    let told = (any::<[u8; 16]>(), vec(name(), 4), stamp(), stamp());
    let told = told.prop_map(|(id, texts, lost, kept)| {
        let [table, row, kind, what] = [0, 1, 2, 3].map(|i: usize| texts[i].clone());
        Told { id, table, row, kind, what, lost, kept }
    });
    let rows = vec(shape(), 0..4).prop_flat_map(|tables| {
        let most = if tables.is_empty() { 0 } else { 8 };
        let rows = vec(row(&tables), 0..=most);
        (Just(tables), rows)
    });
    (vector(), vector(), rows, vec(setting, 0..3), vec(told, 0..3)).prop_map(
        |(base, upto, (tables, rows), settings, told)| {
            let lines = lines(&base, &upto);
            Delta { base, upto, lines, tables, rows, settings, told, ..Delta::default() }
        },
    )
}
