//! What is done to an honest delta, field by field.

use super::odd::Odd;
use std::collections::BTreeMap;
use synqlite_wire::{
    Cell, Count, Delta, GroupShape, Header, Hlc, Id, Line, Number, Point, Register, Rid, RowChange,
    Setting, Stamp, TableShape, Told,
};

/// A kind of forgery.
pub type Mutation = fn(&mut Delta, &mut Odd<'_>);

/// All of them, by name.
pub const ALL: [(&str, Mutation); 34] = [
    ("header", |d, o| row(d, o, |_, o, row| *field(&mut row.header, o) = o.stamp())),
    ("headers", |d, o| d.rows.iter_mut().for_each(|row| *field(&mut row.header, o) = o.stamp())),
    ("length", |d, o| {
        row(d, o, |_, o, row| row.header.cl = [0, 1, 2, 3, 8, 1 << 62][o.r.index(6)])
    }),
    ("deleted", |d, o| row(d, o, |_, o, row| row.header.delete(o.stamp()))),
    ("reborn", |d, o| row(d, o, |_, o, row| row.header.insert(o.stamp()))),
    ("none", |d, o| row(d, o, |_, _, row| row.header = Header::NONE)),
    ("rid", |d, o| row(d, o, |d, o, row| row.rid = o.rid(d))),
    ("rids", |d, o| {
        let rid = o.rid(d);
        d.rows.iter_mut().for_each(|row| row.rid = rid.clone());
    }),
    ("table", |d, o| {
        let tables = d.tables.len();
        row(d, o, |_, o, row| row.table = o.r.index(tables.max(1)) as u32);
    }),
    ("written", |d, o| register(d, o, |_, o, register, _| register.stamp = o.stamp())),
    ("value", |d, o| {
        register(d, o, |_, o, register, _| {
            let at = o.r.index(register.cell.values.len().max(1));
            register.cell.values.get_mut(at).into_iter().for_each(|value| *value = o.value());
        });
    }),
    ("cell", |d, o| register(d, o, |d, o, register, group| register.cell = o.cell(group, d))),
    ("cells", cells),
    ("previous", |d, o| {
        register(d, o, |d, o, register, group| register.previous = Some(o.cell(group, d)));
    }),
    ("pinned", |d, o| register(d, o, |_, _, register, _| register.pinned ^= true)),
    ("counts", |d, o| {
        register(d, o, |_, o, register, _| {
            let count = |o: &mut Odd<'_>| {
                let sum = Number::of(&o.value(), o.r.one_in(2)).unwrap_or_default();
                Count { stamp: o.stamp(), epoch: [0, 1, u64::MAX][o.r.index(3)], sum }
            };
            register.counts = (0..=o.r.below(3)).map(|_| count(o)).collect();
        });
    }),
    ("dropped", |d, o| row(d, o, |_, o, row| row.registers.truncate(o.r.index(3)))),
    ("shuffled", |d, o| o.r.shuffle(&mut d.rows)),
    ("fewer", |d, o| d.rows.truncate(o.r.index(d.rows.len().max(1)))),
    ("one key", |d, o| many(d, o, |_, _, _, _| ())),
    ("many", |d, o| {
        many(d, o, |o, rid, row, n| {
            row.rid = match rid {
                Rid::Birth { site, .. } => {
                    Rid::Birth { site: *site, n: o.births.saturating_sub(n) }
                }
                Rid::Key { key, .. } => Rid::Key { key: key.clone(), generation: n as u32 },
            };
        });
    }),
    ("chain", |d, o| chain(d, o, false)),
    ("cycle", |d, o| chain(d, o, true)),
    ("base", |d, o| {
        let site = o.site();
        if o.r.one_in(2) {
            d.base.0.insert(site, o.clock())
        } else {
            d.base.0.remove(&site)
        };
    }),
    ("upto", |d, o| {
        let site = o.site();
        if o.r.one_in(3) {
            d.upto.0.remove(&site)
        } else {
            d.upto.0.insert(site, o.clock())
        };
    }),
    ("tips", |d, o| {
        d.tips.0.insert(o.site(), o.clock());
    }),
    ("line", line),
    ("points", |d, o| {
        let site = o.site();
        let end = d.upto.get(site).0;
        let n = [1, 2, 50, 2_000_i64][o.r.index(4)].min(end);
        let point =
            |i: i64| Point { clock: Hlc(end - n + 1 + i), births: o.births + i.cast_unsigned() };
        let points: Vec<Point> = (0..n).map(point).collect();
        let before = d.lines.get(&site).map_or(Hlc::ZERO, |line| line.before);
        d.lines.insert(site, Line { root: site, before: before.min(Hlc(end - n)), points });
    }),
    ("name", |d, o| {
        let at = o.r.index(d.tables.len().max(1));
        d.tables.get_mut(at).into_iter().for_each(|table| table.name = o.name());
    }),
    ("groups", groups),
    ("wide", |d, o| {
        let width = [3, 300, 1_900][o.r.index(3)];
        let columns: Vec<String> = (0..width).map(|n| format!("w{n}")).collect();
        let apart = o.r.one_in(2);
        shape(d, o, |o, table, row| {
            let new: Vec<GroupShape> = match apart {
                true => columns
                    .iter()
                    .map(|c| GroupShape { columns: vec![c.clone()], refs: vec![] })
                    .collect(),
                false => vec![GroupShape { columns: columns.clone(), refs: vec![] }],
            };
            for group in new {
                let values = group.columns.iter().map(|_| o.value()).collect();
                let cell = Cell { values, refs: vec![] };
                let at = table.groups.len() as u32;
                row.registers.push(of(at, o.stamp(), cell));
                table.groups.push(group);
            }
        });
    }),
    ("keys", |d, o| {
        shape(d, o, |o, table, row| {
            let at = o.r.index(table.groups.len().max(1));
            let Some(group) = table.groups.get_mut(at) else { return };
            let count = [1, 2, 200][o.r.index(3)];
            let long = vec!["a"; 1 << o.r.below(10)].join(",");
            let odd = [long.clone(), format!("{long}>p(id)"), o.name(), "p>p(id)".to_owned()];
            group.refs = (0..count).map(|_| odd[o.r.index(4)].clone()).collect();
            let refs: Vec<Option<Rid>> = vec![Some(row.rid.clone()); count];
            let same = row.registers.iter_mut().filter(|register| register.group as usize == at);
            same.for_each(|register| register.cell.refs.clone_from(&refs));
        });
    }),
    ("settings", settings),
    ("told", |d, o| {
        for _ in 0..=o.r.below(3) {
            let text = |o: &mut Odd<'_>| o.name().repeat([1, 1, 30][o.r.index(3)]);
            let (table, row, kind, what) = (text(o), text(o), text(o), text(o));
            let (id, lost, kept) = (o.r.bytes(), o.stamp(), o.stamp());
            d.told.push(Told { id, table, row, kind, what, lost, kept });
        }
    }),
];

/// Makes types' promises true again where a mutation broke them, as far as that is not the point.
pub fn mend(delta: &mut Delta) {
    let Delta { tables, rows, lines, upto, .. } = delta;
    for row in rows.iter_mut() {
        row.table = row.table.min(tables.len().saturating_sub(1) as u32);
        let Some(table) = tables.get(row.table as usize) else { continue };
        row.registers.sort_by_key(|register| register.group);
        row.registers.dedup_by_key(|register| register.group);
        row.registers.retain(|register| (register.group as usize) < table.groups.len());
        for register in &mut row.registers {
            let group = &table.groups[register.group as usize];
            let fit = |cell: &mut Cell| {
                cell.values.resize(group.columns.len(), synqlite_wire::Value::Null);
                cell.refs.resize(group.refs.len(), None);
            };
            fit(&mut register.cell);
            register.previous.iter_mut().for_each(fit);
            register.counts.sort_by_key(|count| count.stamp.site);
            register.counts.dedup_by_key(|count| count.stamp.site);
            if group.columns.len() != 1 {
                register.counts.clear();
            }
        }
        row.registers.retain(|r| !table.groups[r.group as usize].columns.is_empty());
    }
    if tables.is_empty() {
        rows.clear();
    }
    lines.retain(|site, line| line.points.last().is_some_and(|last| last.clock == upto.get(*site)));
}

/// Gives whatever says something else than the honest delta a time of its own. A site that gives one time to
/// two values parts those who hear of one first from those who hear of the other; nothing tells which is true.
pub fn restamp(honest: &Delta, delta: &mut Delta, o: &mut Odd<'_>) {
    type Said<'a> = (&'a str, &'a Rid, &'a [String]);
    let mut said: BTreeMap<Said<'_>, &Register> = BTreeMap::new();
    for row in &honest.rows {
        let table = &honest.tables[row.table as usize];
        for register in &row.registers {
            let columns = &table.groups[register.group as usize].columns;
            said.insert((&table.name, &row.rid, columns), register);
        }
    }
    for row in &mut delta.rows {
        let table = &delta.tables[row.table as usize];
        for register in &mut row.registers {
            let columns = &table.groups[register.group as usize].columns;
            let known = said.get(&(&table.name, &row.rid, columns));
            let own = register.stamp.site == o.own && register.stamp.hlc <= o.latest;
            if known.is_none_or(|known| *known != register)
                && (own || known.is_some_and(|known| known.stamp == register.stamp))
            {
                register.stamp = Stamp { hlc: o.unique(), site: o.own };
            }
            let told = known.map_or(&[][..], |known| &known.counts);
            for count in register.counts.iter_mut().filter(|count| !told.contains(count)) {
                count.stamp = Stamp { hlc: o.unique(), site: o.own };
            }
            register.counts.sort_by_key(|count| count.stamp.site);
            register.counts.dedup_by_key(|count| count.stamp.site);
        }
    }
    for setting in delta.settings.iter_mut().filter(|setting| !honest.settings.contains(setting)) {
        setting.stamp = Stamp { hlc: o.unique(), site: o.own };
    }
}

fn of(group: u32, stamp: Stamp, cell: Cell) -> Register {
    Register { group, stamp, cell, previous: None, pinned: false, counts: vec![] }
}

fn field<'h>(header: &'h mut Header, o: &mut Odd<'_>) -> &'h mut Stamp {
    let Header { cl: _, cl_stamp, inserted, deleted, reinserted, yielded } = header;
    let fields = [cl_stamp, inserted, deleted, reinserted, yielded];
    let at = o.r.index(5);
    fields.into_iter().nth(at).expect("five of them")
}

fn row(
    delta: &mut Delta,
    o: &mut Odd<'_>,
    change: impl FnOnce(&Delta, &mut Odd<'_>, &mut RowChange),
) {
    if delta.rows.is_empty() {
        return;
    }
    let at = o.r.index(delta.rows.len());
    let mut row = delta.rows[at].clone();
    change(delta, o, &mut row);
    delta.rows[at] = row;
}

fn register(
    delta: &mut Delta,
    o: &mut Odd<'_>,
    change: impl FnOnce(&Delta, &mut Odd<'_>, &mut Register, &GroupShape),
) {
    row(delta, o, |delta, o, row| {
        if row.registers.is_empty() {
            return;
        }
        let at = o.r.index(row.registers.len());
        let register = &mut row.registers[at];
        let group = delta.tables[row.table as usize].groups[register.group as usize].clone();
        change(delta, o, register, &group);
    });
}

/// A row and the shape of its table.
fn shape(
    delta: &mut Delta,
    o: &mut Odd<'_>,
    change: impl FnOnce(&mut Odd<'_>, &mut TableShape, &mut RowChange),
) {
    let at = o.r.index(delta.rows.len().max(1));
    let Delta { tables, rows, .. } = delta;
    if let Some(row) = rows.get_mut(at)
        && let Some(table) = tables.get_mut(row.table as usize)
    {
        change(o, table, row);
    }
}

fn cells(delta: &mut Delta, o: &mut Odd<'_>) {
    let known = delta.clone();
    for row in &mut delta.rows {
        for register in &mut row.registers {
            register.cell =
                o.cell(&known.tables[row.table as usize].groups[register.group as usize], &known);
        }
    }
}

/// Many rows like one.
fn many(
    delta: &mut Delta,
    o: &mut Odd<'_>,
    change: impl Fn(&mut Odd<'_>, &Rid, &mut RowChange, u64),
) {
    let count = [10, 300, 3_000][o.r.index(3)];
    if delta.rows.is_empty() {
        return;
    }
    let like = delta.rows[o.r.index(delta.rows.len())].clone();
    for n in 1..=count {
        let mut row = like.clone();
        change(o, &like.rid, &mut row, n);
        delta.rows.push(row);
    }
}

/// Rows each of which refers to the one before; the first to the last, if that makes a cycle.
fn chain(delta: &mut Delta, o: &mut Odd<'_>, cycle: bool) {
    let refers = |row: &&RowChange| {
        let groups = &delta.tables[row.table as usize].groups;
        row.registers.iter().any(|register| !groups[register.group as usize].refs.is_empty())
    };
    let Some(like) = delta.rows.iter().find(refers).cloned() else { return };
    let count = [3, 100, 1_500][o.r.index(3)];
    let named = |n: u64| match &like.rid {
        Rid::Birth { site, .. } => Rid::Birth { site: *site, n },
        Rid::Key { .. } => {
            let part =
                synqlite_wire::key::KeyPart::Value(synqlite_wire::Value::Integer(n.cast_signed()));
            Rid::Key { key: synqlite_wire::key::encode(&[part]), generation: 0 }
        }
    };
    let stamp = Stamp { hlc: o.latest, site: o.own };
    for n in 0..count {
        let to = if n == 0 { if cycle { count - 1 } else { 0 } } else { n - 1 };
        let mut row = RowChange { rid: named(n), header: Header::born(stamp), ..like.clone() };
        for register in &mut row.registers {
            register.stamp = stamp;
            register.cell.refs.iter_mut().for_each(|rid| *rid = Some(named(to)));
        }
        delta.rows.push(row);
    }
}

fn line(delta: &mut Delta, o: &mut Odd<'_>) {
    let site = o.site();
    let end = delta.upto.get(site);
    let Some(line) = delta.lines.get_mut(&site) else {
        let point = Point { clock: end, births: o.births };
        let (root, before) = (o.site(), Hlc(o.clock().0.min(end.0 - 1).max(0)));
        delta.lines.insert(site, Line { root, before, points: vec![point] });
        return;
    };
    match o.r.below(4) {
        0 => line.root = o.site(),
        1 => line.before = Hlc(line.before.0.saturating_sub(1).max(0)),
        2 => line.points.iter_mut().for_each(|point| point.births = u64::MAX),
        _ => drop(delta.lines.remove(&site)),
    }
}

fn groups(delta: &mut Delta, o: &mut Odd<'_>) {
    shape(delta, o, |o, table, row| {
        if table.groups.is_empty() {
            return;
        }
        let at = o.r.index(table.groups.len());
        let group = table.groups[at].clone();
        match o.r.below(5) {
            // The same once more, with a register of its own.
            0 => table.groups.push(group),
            // Two that share columns.
            1 => {
                let more = table.groups[o.r.index(table.groups.len())].columns.clone();
                let columns = group.columns.into_iter().chain(more).collect();
                table.groups.push(GroupShape { columns, refs: group.refs });
            }
            2 => o.r.shuffle(&mut table.groups),
            3 => {
                let name = o.name();
                table.groups[at]
                    .columns
                    .iter_mut()
                    .take(1)
                    .for_each(|column| *column = name.clone());
            }
            _ => table.groups[at].columns.reverse(),
        }
        let last = table.groups.len() - 1;
        let values = table.groups[last].columns.iter().map(|_| o.value()).collect();
        let refs = table.groups[last].refs.iter().map(|_| Some(row.rid.clone())).collect();
        row.registers.push(of(last as u32, o.stamp(), Cell { values, refs }));
    });
}

fn settings(delta: &mut Delta, o: &mut Odd<'_>) {
    let table = delta.tables.first().map_or("p".to_owned(), |table| table.name.clone());
    let column = |d: &Delta, o: &mut Odd<'_>| {
        let groups = d.tables.iter().flat_map(|table| &table.groups);
        let columns: Vec<&String> = groups.flat_map(|group| &group.columns).collect();
        if columns.is_empty() { o.name() } else { columns[o.r.index(columns.len())].clone() }
    };
    for _ in 0..=o.r.below(4) {
        let (one, two) =
            (column(delta, o), if o.r.one_in(2) { column(delta, o) } else { o.name() });
        let (key, value) = match o.r.below(11) {
            0 => ("fk".into(), ["ignore", "enforce", "what"][o.r.index(3)].into()),
            1 => (format!("{table}.identity"), ["key", "birth", "x"][o.r.index(3)].into()),
            2 => (format!("{table}.delete"), "last".into()),
            3 => (format!("{table}.{one}"), "counter".into()),
            4 => (format!("{table}.refs"), format!("{one}:{}", o.name())),
            5 => (format!("{table}.on_unique"), "unify".into()),
            6 => ("fire_on_merge".into(), o.name()),
            7 => (format!("renamed\n{table}\n{one}\n{two}"), String::new()),
            8 => (format!("apart\n{table}\n{one}\n{two}"), String::new()),
            9 => (o.name(), o.name()),
            _ => (format!("renamed\n{}", o.name()), o.name().repeat(20)),
        };
        let stamp = o.stamp();
        delta.settings.push(Setting { key, value, stamp });
    }
}

/// A header for which right checksums are made, with other bytes in it.
pub fn garble(batch: &[u8], o: &mut Odd<'_>) -> Vec<u8> {
    let len = batch.get(10..14).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes)
        as usize;
    let (Some(head), Some(rest)) = (batch.get(14..14 + len), batch.get(14 + len + 16..)) else {
        return batch.to_vec();
    };
    let mut head = head.to_vec();
    for _ in 0..=o.r.below(3) {
        let at = 33.min(head.len() - 1) + o.r.index(head.len().saturating_sub(33).max(1));
        match o.r.below(3) {
            0 => drop(head.remove(at.min(head.len() - 1))),
            1 => head.insert(at.min(head.len()), o.r.below(256) as u8),
            _ => head.iter_mut().skip(at).take(1).for_each(|byte| *byte = o.r.below(256) as u8),
        }
    }
    synqlite_wire::batch::seal(&head, &rest[..rest.len().saturating_sub(16)])
}

/// A site that nobody knows.
pub fn stranger(o: &mut Odd<'_>) -> Id {
    Id(o.r.bytes())
}
