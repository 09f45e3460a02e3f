//! Deltas that no site writes and no batch holds: made by hand, or by a program with a defect.

use crate::site::{Site, World};
use std::error::Error as _;
use synqlite_core::{Error, Merging};
use synqlite_wire::{
    Count, Delta, GroupShape, Header, Hlc, Id, Number, Rid, RowChange, Setting, SiteId, Stamp,
    Told, Value, VersionVector,
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
#[expect(clippy::too_many_lines, reason = "a table of cases")]
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
        (
            "of no column",
            Box::new(|d| {
                let group = d.rows[at].registers[a].group;
                let empty = GroupShape { columns: vec![], refs: vec![] };
                d.tables[d.rows[at].table as usize].groups[group as usize] = empty;
                d.rows[at].registers[a].cell.values.clear();
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
/// By two names of one table, or by one.
#[test]
fn a_row_that_comes_twice_is_joined_twice() {
    let world = World::new();
    let (honest, mut b) = pair(&world);
    let (mut c, mut d) = (world.clone_site(&mut b, "c"), world.clone_site(&mut b, "d"));
    let mut delta = honest.clone();
    delta.rows.extend(honest.rows.clone());
    let tables = delta.tables.len() as u32;
    delta.tables.extend(honest.tables.clone());
    let renamed =
        honest.rows.iter().map(|row| RowChange { table: row.table + tables, ..row.clone() });
    delta.rows.extend(renamed);
    b.replica.merge(&honest, false).unwrap();
    c.replica.merge(&delta, false).unwrap();
    let mut spool = d.replica.spool().unwrap();
    spool.part(delta).unwrap();
    spool.end_parts(b.replica.database(), b.replica.site(), false).unwrap();
    let spooled = spool.end();
    d.replica.take_in(&spooled, Merging::default(), &[]).unwrap();
    d.replica.work_off().unwrap();
    for site in [&c, &d] {
        assert_eq!(site.rows("SELECT * FROM t"), b.rows("SELECT * FROM t"));
        assert_eq!(site.replica.digest().unwrap().digest, b.replica.digest().unwrap().digest);
        site.check();
    }
}

#[test]
fn a_merge_in_parts_is_undone_by_a_part_that_is_refused() {
    let world = World::new();
    let (delta, mut b) = pair(&world);
    let before = state(&b);
    let mut broken = delta.clone();
    broken.rows[0].rid = Rid::Key { key: vec![], generation: 0 };
    broken.rows[0].table = 9;
    let merged = b.replica.merge_from(Merging::default(), &[], |sink| {
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
    let (delta, mut b) = pair(&world);
    let sites: Vec<SiteId> = delta.lines.keys().copied().collect();
    let mut first = delta.clone();
    first.rows.clear();
    for site in &sites {
        let line = first.lines.get_mut(site).unwrap();
        assert!(line.points.len() > 1, "two folds are two points");
        line.points.truncate(1);
        first.upto.0.insert(*site, line.points[0].clock);
    }
    b.replica.learn(&delta.lines).unwrap();
    let lines = first.lines.clone();
    let whole = Delta { lines, ..delta };
    assert_eq!(b.replica.merge(&whole, false).unwrap().inserted, 2);
}

/// A state that nobody's line leads to is nobody's: what is stamped up to there would be taken for seen.
#[test]
fn a_delta_leads_only_where_lines_do() {
    let world = World::new();
    let (delta, mut b) = pair(&world);
    let before = state(&b);
    for own in [false, true] {
        let mut delta = delta.clone();
        let site = if own { b.replica.site() } else { *delta.lines.keys().next().unwrap() };
        delta.upto.raise(site, delta.upto.latest().after(0));
        let refused = b.replica.merge(&delta, false).unwrap_err();
        assert!(refused.to_string().contains("to which no line"), "{refused}");
        assert_eq!(state(&b), before);
    }
}

/// The header is honest, and its rows are of another time, or of a site that it does not name.
#[test]
fn every_write_is_covered_by_the_header_of_its_changes() {
    let world = World::new();
    let (delta, mut b) = pair(&world);
    let (at, a, n) = (row(&delta), register(&delta, "a"), register(&delta, "n"));
    let own = delta.rows[at].header.inserted.site;
    let year_5000 = Stamp { hlc: Hlc(95_617_584_000_000 << 16), site: own };
    let stranger = Stamp { hlc: Hlc(5), site: Id([9; 16]) };
    let mine = Stamp { hlc: delta.upto.latest(), site: b.replica.site() };
    let before = state(&b);
    for stamp in [year_5000, stranger, mine, Stamp { hlc: Hlc::ZERO, ..stranger }] {
        let setting = Setting { key: "fk".into(), value: "ignore".into(), stamp };
        let text = String::new;
        let (table, row, kind, what) = (text(), text(), text(), text());
        let told = Told { id: [1; 16], table, row, kind, what, lost: stamp, kept: Stamp::ZERO };
        type Change<'a> = Box<dyn Fn(&mut Delta) + 'a>;
        let forged: Vec<Change<'_>> = vec![
            Box::new(|d| d.rows[at].header.cl_stamp = stamp),
            Box::new(|d| d.rows[at].header.inserted = stamp),
            Box::new(|d| d.rows[at].header.deleted = stamp),
            Box::new(|d| d.rows[at].header.reinserted = stamp),
            Box::new(|d| d.rows[at].header.yielded = stamp),
            Box::new(|d| d.rows[at].registers[a].stamp = stamp),
            Box::new(|d| {
                let count = Count { stamp, epoch: 0, sum: Number::default() };
                d.rows[at].registers[n].counts = vec![count];
            }),
            Box::new(|d| d.settings.push(setting.clone())),
            Box::new(|d| d.told.push(told.clone())),
            Box::new(|d| d.told.push(Told { lost: Stamp::ZERO, kept: stamp, ..told.clone() })),
        ];
        for (i, change) in forged.iter().enumerate() {
            let mut delta = delta.clone();
            change(&mut delta);
            assert_eq!(delta.check(), Ok(()), "{i}: well formed");
            let refused = b.replica.merge(&delta, true).unwrap_err();
            assert!(refused.is_of_changes(), "{i}, {stamp:?}: {refused}");
            assert!(refused.to_string().contains("does not cover"), "{i}, {stamp:?}: {refused}");
            assert_eq!(state(&b), before, "{i}");
        }
    }
    assert_eq!(b.replica.merge(&delta, false).unwrap().inserted, 2);
}

/// A number of a birth is its site's to give: one that it has not given yet would be given twice.
#[test]
fn no_row_has_a_number_that_its_site_has_yet_to_give() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO t VALUES(1, 'a')");
    let (delta, _) = a.replica.export(&b.replica.seen().unwrap(), 0).unwrap();
    let before = state(&b);
    for site in [a.replica.site(), b.replica.site(), Id([9; 16])] {
        for n in [1, 5, u64::MAX] {
            let mut delta = delta.clone();
            delta.rows[0].rid = Rid::Birth { site, n };
            let refused = b.replica.merge(&delta, false).unwrap_err();
            assert!(refused.to_string().contains("not given yet"), "{site} {n}: {refused}");
            assert_eq!(state(&b), before);
        }
    }
    assert_eq!(b.replica.merge(&delta, false).unwrap().inserted, 1);
}

/// What a table of a delta costs grows with its names, and not with their square.
#[test]
fn thousands_of_columns_take_no_minutes() {
    let world = World::new();
    let (delta, mut b) = pair(&world);
    let at = row(&delta);
    let table = delta.rows[at].table as usize;
    let register = delta.rows[at].registers[register(&delta, "a")].clone();
    let wide = |width: usize, apart: bool, d: &mut Delta| {
        let columns: Vec<String> = (0..width).map(|n| format!("w{n}")).collect();
        let of = |columns: &[String]| GroupShape { columns: columns.to_vec(), refs: vec![] };
        let new: Vec<GroupShape> = match apart {
            true => columns.chunks(1).map(of).collect(),
            false => vec![of(&columns)],
        };
        for group in new {
            let mut register = register.clone();
            register.group = d.tables[table].groups.len() as u32;
            register.cell.values = vec![Value::Integer(7); group.columns.len()];
            d.tables[table].groups.push(group);
            d.rows[at].registers.push(register);
        }
    };
    for (width, apart) in [(20_000, false), (20_000, true)] {
        let mut delta = delta.clone();
        wide(width, apart, &mut delta);
        let refused = b.replica.merge(&delta, false).unwrap_err();
        assert!(refused.to_string().contains("columns"), "{refused}");
    }
    let since = std::time::Instant::now();
    let mut merged = delta.clone();
    wide(8_000, true, &mut merged);
    b.replica.merge(&merged, false).unwrap();
    assert!(since.elapsed().as_secs() < 20, "{:?}", since.elapsed());
}

/// A list of columns whose names have commas can be read in very many ways.
#[test]
fn a_foreign_key_with_commas_in_its_names_is_read_at_once() {
    let world = World::new();
    let (mut delta, mut b) = pair(&world);
    let (at, p) = (row(&delta), register(&delta, "p"));
    let (table, group) =
        (delta.rows[at].table as usize, delta.rows[at].registers[p].group as usize);
    let names: Vec<String> = (1..30).map(|n| vec!["x"; n].join(",")).collect();
    delta.rows[at].registers[p].cell.values = vec![Value::Null; names.len()];
    let refs = vec![vec!["x"; 20_000].join(",")];
    delta.tables[table].groups[group] = GroupShape { columns: names, refs };
    b.replica.merge(&delta, false).unwrap();
}
