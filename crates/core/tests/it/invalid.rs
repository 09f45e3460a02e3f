//! Deltas that no site writes and no batch holds: made by hand, or by a program with a defect.

use crate::site::{Site, World};
use std::error::Error as _;
use synqlite_core::Error;
use synqlite_wire::{
    Count, Delta, GroupShape, Header, Hlc, Id, Number, Rid, SiteId, Stamp, Value, VersionVector,
};

/// A row inserted, updated and counted at one site, and a site that lacks all of it.
fn pair(world: &World) -> (Delta, Site) {
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY); \
               CREATE TABLE t(id TEXT PRIMARY KEY, a, n INT NOT NULL DEFAULT 0, p REFERENCES p)";
    let mut a = world.init_with("a", sql, &[("t.n", "counter")]);
    let b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO p VALUES('p'); INSERT INTO t VALUES('k', 1, 2, 'p')");
    a.replica.fold().unwrap();
    a.run("UPDATE t SET a = 2, n = n + 1");
    let (delta, _) = a.replica.export(&b.replica.seen().unwrap(), 0).unwrap();
    (delta, b)
}

/// Everything in the file, as a merge could have changed it.
fn state(site: &Site) -> (Vec<String>, String, VersionVector, i64) {
    let tables = site.rows("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
    let rows = tables.iter().flat_map(|table| site.rows(&format!("SELECT * FROM {table}")));
    let replica = &site.replica;
    let digest = replica.digest().unwrap().digest;
    (rows.collect(), digest.to_string(), replica.seen().unwrap(), replica.local_seq().unwrap())
}

/// Position in `delta.rows` of the row of table t.
fn row(delta: &Delta) -> usize {
    delta.rows.iter().position(|row| delta.tables[row.table as usize].name == "t").unwrap()
}

/// Of the row of table t, position of the register that holds `column`.
fn register(delta: &Delta, column: &str) -> usize {
    let row = &delta.rows[row(delta)];
    let groups = &delta.tables[row.table as usize].groups;
    let holds = |group: u32| groups[group as usize].columns.iter().any(|c| c == column);
    row.registers.iter().position(|register| holds(register.group)).unwrap()
}

#[test]
fn a_merge_refuses_what_no_decoder_gives() {
    let world = World::new();
    let (delta, mut b) = pair(&world);
    let (at, a, n, p) =
        (row(&delta), register(&delta, "a"), register(&delta, "n"), register(&delta, "p"));
    let negative = Stamp { hlc: Hlc(-1), site: b.replica.site() };
    let count = Count { stamp: negative, epoch: 0, sum: Number::default() };
    type Change<'a> = Box<dyn Fn(&mut Delta) + 'a>;
    let broken: Vec<(&str, Change<'_>)> = vec![
        ("table 9", Box::new(|d| d.rows[at].table = 9)),
        ("not there", Box::new(|d| d.tables.clear())),
        ("missing group", Box::new(|d| d.rows[at].registers.last_mut().unwrap().group = 77)),
        ("missing group", Box::new(|d| d.tables.iter_mut().for_each(|t| t.groups.clear()))),
        ("out of order", Box::new(|d| d.rows[at].registers.reverse())),
        (
            "out of order",
            Box::new(|d| {
                let twin = d.rows[at].registers[0].clone();
                d.rows[at].registers.insert(0, twin);
            }),
        ),
        ("another width", Box::new(|d| d.rows[at].registers[a].cell.values.clear())),
        ("another width", Box::new(|d| d.rows[at].registers[a].cell.values.push(Value::Null))),
        ("another width", Box::new(|d| d.rows[at].registers[p].cell.refs.clear())),
        ("another width", Box::new(|d| d.rows[at].registers[a].cell.refs.push(None))),
        (
            "another width",
            Box::new(|d| {
                let register = &mut d.rows[at].registers[a];
                register.previous = Some(register.cell.clone());
                register.previous.iter_mut().for_each(|cell| cell.values.clear());
            }),
        ),
        ("NaN", Box::new(|d| d.rows[at].registers[a].cell.values[0] = Value::Real(f64::NAN))),
        ("negative clock", Box::new(|d| d.rows[at].registers[a].stamp = negative)),
        ("negative clock", Box::new(|d| d.rows[at].registers[n].counts = vec![count.clone()])),
        ("negative clock", Box::new(|d| d.rows[at].header.deleted = negative)),
        (
            "negative clock",
            Box::new(|d| {
                d.upto.0.insert(negative.site, negative.hlc);
            }),
        ),
        (
            "causal length",
            Box::new(|d| d.rows[at].header = Header { cl: u64::MAX, ..Header::NONE }),
        ),
        (
            "not one column",
            Box::new(|d| {
                let wide = GroupShape { columns: vec!["a".into(), "z".into()], refs: vec![] };
                let group = d.rows[at].registers[a].group;
                d.tables[d.rows[at].table as usize].groups[group as usize] = wide;
                let register = &mut d.rows[at].registers[a];
                register.cell.values.push(Value::Null);
                register.counts = vec![Count { stamp: Stamp::ZERO, ..count.clone() }];
            }),
        ),
        (
            "out of order",
            Box::new(|d| {
                d.lines.values_mut().for_each(|line| line.points.clear());
            }),
        ),
    ];
    let before = state(&b);
    for (message, change) in &broken {
        let mut delta = delta.clone();
        change(&mut delta);
        let error = b.replica.merge(&delta, false).unwrap_err();
        assert!(matches!(error, Error::InvalidDelta(_)), "{message}: {error}");
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert!(error.hint().is_some() && error.source().is_some(), "{error}");
        assert_eq!(state(&b), before, "{message}");
    }
    assert_eq!(b.replica.merge(&delta, false).unwrap().inserted, 2);
}

/// Parts are checked as they come, so an earlier one may be joined already.
#[test]
fn a_merge_in_parts_is_undone_by_a_part_that_is_refused() {
    let world = World::new();
    let (delta, mut b) = pair(&world);
    let before = state(&b);
    let mut broken = delta.clone();
    broken.rows[0].rid = Rid::Key { key: vec![], generation: 0 };
    broken.rows[0].table = 9;
    let merged = b.replica.merge_from(false, &[], |sink| {
        sink(delta.clone())?;
        sink(broken)
    });
    assert!(matches!(merged, Err(Error::InvalidDelta(_))), "{merged:?}");
    assert_eq!(state(&b), before);
}

/// What is valid need not be sensible. Such a delta is merged or refused, and no panic comes of it.
#[test]
fn a_merge_survives_what_no_site_says() {
    let world = World::new();
    let (delta, b) = pair(&world);
    let (at, a, p) = (row(&delta), register(&delta, "a"), register(&delta, "p"));
    drop(b);
    let rids = [
        Rid::Key { key: vec![], generation: u32::MAX },
        Rid::Key { key: vec![255; 9], generation: 0 },
        Rid::Key { key: vec![3, 0, 7], generation: 1 },
        Rid::Birth { site: Id([9; 16]), n: u64::MAX },
        Rid::Birth { site: Id::ZERO, n: 0 },
    ];
    let group = |d: &mut Delta, register: usize, shape: GroupShape| {
        let (table, group) = (d.rows[at].table, d.rows[at].registers[register].group);
        d.tables[table as usize].groups[group as usize] = shape;
    };
    let shape = |columns: &[&str], refs: &[&str]| {
        let texts = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        GroupShape { columns: texts(columns), refs: texts(refs) }
    };
    type Change<'a> = Box<dyn Fn(&mut Delta) + 'a>;
    let mut odd: Vec<Change<'_>> = Vec::new();
    for rid in &rids {
        odd.push(Box::new(|d| d.rows[at].rid = rid.clone()));
        odd.push(Box::new(|d| d.rows.iter_mut().for_each(|row| row.rid = rid.clone())));
        odd.push(Box::new(|d| d.rows[at].registers[p].cell.refs = vec![Some(rid.clone())]));
    }
    for names in [["a"], ["id"], ["n"], ["p"], ["zz"], [""], ["\0"]] {
        odd.push(Box::new(move |d| group(d, a, shape(&names, &[]))));
        odd.push(Box::new(move |d| group(d, p, shape(&names, &["p>p"]))));
        odd.push(Box::new(move |d| {
            group(d, a, shape(&[names[0], names[0]], &[]));
            d.rows[at].registers[a].cell.values.push(Value::Integer(7));
        }));
        odd.push(Box::new(move |d| d.tables.iter_mut().for_each(|t| t.name = names[0].into())));
    }
    odd.push(Box::new(|d| {
        group(d, a, shape(&[], &[]));
        d.rows[at].registers[a].cell.values.clear();
    }));
    odd.push(Box::new(|d| d.rows[at].header = Header::NONE));
    odd.push(Box::new(|d| d.rows[at].header.cl = 1 << 62));
    odd.push(Box::new(|d| d.rows[at].registers.clear()));
    odd.push(Box::new(|d| d.rows.iter_mut().for_each(|row| row.registers.clear())));
    odd.push(Box::new(|d| {
        let latest = Stamp { hlc: Hlc(i64::MAX), site: Id([255; 16]) };
        d.rows[at].header.inserted = latest;
        d.rows[at].registers[a].stamp = latest;
    }));
    odd.push(Box::new(|d| {
        let count = Count { stamp: Stamp::ZERO, epoch: u64::MAX, sum: Number::default() };
        d.rows[at].registers[a].counts = vec![count];
    }));
    for (i, change) in odd.iter().enumerate() {
        let world = World::new();
        let (_, mut b) = pair(&world);
        let mut delta = delta.clone();
        change(&mut delta);
        assert_eq!(delta.check(), Ok(()), "{i}");
        let _ = b.replica.merge(&delta, true);
        b.check();
    }
}

/// Who reads a batch may know that its writer had seen more than its lines lead to.
#[test]
fn a_delta_may_lead_further_than_its_lines() {
    let world = World::new();
    let (mut delta, mut b) = pair(&world);
    let sites: Vec<SiteId> = delta.lines.keys().copied().collect();
    assert!(!sites.is_empty());
    for site in sites {
        let end = delta.upto.get(site);
        delta.upto.raise(site, end.after(0));
    }
    assert_eq!(b.replica.merge(&delta, false).unwrap().inserted, 2);
}
