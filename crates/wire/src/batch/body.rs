//! The body of a batch: everything of a [`Delta`] but its two vectors and the lines between them.
//!
//! Sites, table shapes, the order in which rows of different tables alternate, then table by table
//! the rows' identities, headers and registers as columns, then settings, then what gave way.

use super::columns::{
    SiteList, Sites, get_cells, get_rids, get_stamps, put_cells, put_rids, put_stamps,
};
use super::error::BatchError;
use super::varint::{self, Reader};
use crate::change::{Cell, Delta, GroupShape, Header, Register, RowChange, Setting, TableShape};
use crate::check::{check_counts, check_group, check_length, check_shape, check_tables};
use crate::clock::Stamp;
use crate::counter::{Count, Number};
use crate::told::Told;
use std::collections::BTreeMap;

/// Fewest bytes of a row: its groups, its identity (two), its header.
const LEAST_ROW: usize = 4;

/// Flags of a header. A row inserted once has `INSERTED` and nothing else.
const CL_STAMP_DELETED: u8 = 1;
const CL_STAMP_WRITTEN: u8 = 2;
const CL_STAMP: u8 = 3;
const INSERTED: u8 = 4;
const DELETED: u8 = 8;
const REINSERTED: u8 = 16;
const DEMOTED: u8 = 32;
const CL_TWO: u8 = 64;
const CL_WRITTEN: u8 = 128;
const CL: u8 = 192;

/// Stamps of a header, each with the flag that says whether it is written.
type Field = (u8, fn(&mut Header) -> &mut Stamp);
const STAMPS: [Field; 5] = [
    (INSERTED, |header| &mut header.inserted),
    (DELETED, |header| &mut header.deleted),
    (REINSERTED, |header| &mut header.reinserted),
    (DEMOTED, |header| &mut header.yielded),
    (CL_STAMP_WRITTEN, |header| &mut header.cl_stamp),
];

/// Flags of a register.
const AS_INSERTED: u8 = 1;
const PREVIOUS: u8 = 2;
const PINNED: u8 = 4;
const COUNTS: u8 = 8;

/// Writes the body of a delta that has passed [`Delta::check`].
pub(super) fn encode(delta: &Delta) -> Vec<u8> {
    let mut sites = Sites::default();
    let mut rest = Vec::new();
    varint::put(&mut rest, delta.tables.len() as u64);
    delta.tables.iter().for_each(|table| put_shape(&mut rest, table));
    for run in delta.rows.chunk_by(|a, b| a.table == b.table) {
        varint::put(&mut rest, run.first().map_or(0, |row| u64::from(row.table)));
        varint::put(&mut rest, run.len() as u64);
    }
    let mut by_table = vec![Vec::new(); delta.tables.len()];
    for row in &delta.rows {
        by_table.get_mut(row.table as usize).into_iter().for_each(|rows| rows.push(row));
    }
    for (table, rows) in delta.tables.iter().zip(by_table).filter(|(_, rows)| !rows.is_empty()) {
        put_rows(&mut rest, &mut sites, table, &rows);
    }
    put_settings(&mut rest, &mut sites, &delta.settings);
    put_told(&mut rest, &mut sites, &delta.told);

    let mut out = Vec::with_capacity(rest.len() + 64);
    sites.put(&mut out, &delta.tips);
    out.extend(rest);
    out
}

/// Reads a body of `rows` rows; what the header says of the delta is left empty.
pub fn decode(rows: u64, body: &[u8]) -> Result<Delta, BatchError> {
    let reader = &mut Reader::new(body);
    let (sites, tips) = SiteList::get(reader)?;
    let count = reader.count()?;
    check_tables(count).map_err(|why| BatchError::Malformed(format!("it {why}")))?;
    let tables = (0..count).map(|_| get_shape(reader)).collect::<Result<Vec<TableShape>, _>>()?;
    let runs = get_runs(reader, rows, tables.len())?;
    let mut counts = vec![0; tables.len()];
    for &(table, len) in &runs {
        counts.get_mut(table as usize).into_iter().for_each(|count| *count += len);
    }
    let mut by_table = Vec::new();
    for (number, (table, count)) in (0..).zip(tables.iter().zip(counts)) {
        let rows =
            if count == 0 { Vec::new() } else { get_rows(reader, &sites, number, table, count)? };
        by_table.push(rows.into_iter());
    }
    let settings = get_settings(reader, &sites)?;
    let told = get_told(reader, &sites)?;
    reader.finish()?;

    let mut rows = Vec::new();
    for (table, len) in runs {
        rows.extend(by_table.get_mut(table as usize).into_iter().flatten().take(len));
    }
    Ok(Delta { tips, tables, rows, settings, told, ..Delta::default() })
}

fn put_shape(out: &mut Vec<u8>, table: &TableShape) {
    varint::put_text(out, &table.name);
    varint::put(out, table.groups.len() as u64);
    for group in &table.groups {
        varint::put_texts(out, &group.columns);
        varint::put_texts(out, &group.refs);
    }
}

fn get_shape(reader: &mut Reader<'_>) -> Result<TableShape, BatchError> {
    let name = reader.text()?;
    let groups = (0..reader.count()?)
        .map(|_| Ok(GroupShape { columns: reader.texts()?, refs: reader.texts()? }))
        .collect::<Result<_, BatchError>>()?;
    let shape = TableShape { name, groups };
    let bad = |why| BatchError::Malformed(format!("table `{}` {why}", shape.name));
    check_shape(&shape).map_err(bad)?;
    Ok(shape)
}

/// Tables and how many rows of each come in a row, `rows` in all.
fn get_runs(
    reader: &mut Reader<'_>,
    rows: u64,
    tables: usize,
) -> Result<Vec<(u32, usize)>, BatchError> {
    let bad = |why: &str| BatchError::Malformed(format!("{why}, or its number of rows is wrong"));
    let rows = usize::try_from(rows).ok().filter(|&rows| rows <= reader.left() / LEAST_ROW);
    let mut left = rows.ok_or_else(|| bad("it is too short"))?;
    let mut runs = Vec::new();
    while left > 0 {
        let table = u32::try_from(reader.varint()?).ok().filter(|&table| (table as usize) < tables);
        let table = table.ok_or_else(|| bad("a row is of a table that is not there"))?;
        let len = usize::try_from(reader.varint()?).ok().filter(|len| (1..=left).contains(len));
        let len = len.ok_or_else(|| bad("a run of rows has a wrong length"))?;
        left -= len;
        runs.push((table, len));
    }
    Ok(runs)
}

fn put_rows(out: &mut Vec<u8>, sites: &mut Sites, table: &TableShape, rows: &[&RowChange]) {
    let mut numbers = BTreeMap::new();
    let mut sets = Vec::new();
    let mut by_row = Vec::with_capacity(rows.len());
    let mut by_group = vec![Vec::new(); table.groups.len()];
    for row in rows {
        let set: Vec<u32> = row.registers.iter().map(|register| register.group).collect();
        by_row.push(*numbers.entry(set).or_insert_with_key(|set| {
            sets.push(set.clone());
            sets.len() as u64 - 1
        }));
        for register in &row.registers {
            let group = by_group.get_mut(register.group as usize);
            group.into_iter().for_each(|group| group.push((&row.header, register)));
        }
    }
    varint::put(out, sets.len() as u64);
    sets.iter().for_each(|set| put_set(out, set));
    by_row.iter().for_each(|&set| varint::put(out, set));
    put_rids(out, sites, rows.iter().map(|row| Some(&row.rid)));
    put_headers(out, sites, rows);
    for (group, registers) in table.groups.iter().zip(by_group) {
        put_registers(out, sites, group, &registers);
    }
}

fn get_rows(
    reader: &mut Reader<'_>,
    sites: &SiteList,
    number: u32,
    table: &TableShape,
    n: usize,
) -> Result<Vec<RowChange>, BatchError> {
    let mut sets = Vec::new();
    let count = reader.count()?;
    if count > n {
        return Err(BatchError::malformed("there are more sets of groups than rows"));
    }
    for _ in 0..count {
        sets.push((0_u64, get_set(reader, table.groups.len())?));
    }
    let mut by_row = Vec::new();
    for _ in 0..n {
        let set = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        let (uses, _) = sets.get_mut(set).ok_or_else(|| {
            BatchError::malformed("a row has registers of groups that are not listed")
        })?;
        *uses += 1;
        by_row.push(set);
    }
    let rids = get_rids(reader, sites, n)?;
    let headers = get_headers(reader, sites, n)?;

    let mut counts = vec![0_u64; table.groups.len()];
    for (uses, set) in &sets {
        for &group in set {
            counts.get_mut(group as usize).into_iter().for_each(|count| *count += uses);
        }
    }
    let mut by_group = Vec::new();
    for (number, (group, count)) in (0..).zip(table.groups.iter().zip(counts)) {
        by_group.push(get_registers(reader, sites, number, group, count)?.into_iter());
    }

    let mut rows = Vec::new();
    for ((set, rid), header) in by_row.into_iter().zip(rids).zip(headers) {
        let rid = rid.ok_or_else(|| BatchError::malformed("a row has no identity"))?;
        let groups = sets.get(set).map_or(&[][..], |(_, set)| set);
        let mut registers = Vec::with_capacity(groups.len());
        for &group in groups {
            let next = by_group.get_mut(group as usize).and_then(Iterator::next);
            registers.extend(next.map(|(stamp, register)| Register {
                stamp: stamp.unwrap_or(header.inserted),
                ..register
            }));
        }
        rows.push(RowChange { table: number, rid, header, registers });
    }
    Ok(rows)
}

/// Which groups a row has registers of: each group less the one before and one.
fn put_set(out: &mut Vec<u8>, set: &[u32]) {
    varint::put(out, set.len() as u64);
    let mut least = 0;
    for &group in set {
        let group = u64::from(group);
        varint::put(out, group.saturating_sub(least));
        least = group + 1;
    }
}

fn get_set(reader: &mut Reader<'_>, groups: usize) -> Result<Vec<u32>, BatchError> {
    let mut set = Vec::new();
    let mut least = 0_u64;
    for _ in 0..reader.count()? {
        let group = reader.varint()?.checked_add(least).filter(|&group| group < groups as u64);
        let group = group.and_then(|group| u32::try_from(group).ok());
        let group = group.ok_or_else(|| BatchError::malformed("a group is not in its table"))?;
        least = u64::from(group) + 1;
        set.push(group);
    }
    Ok(set)
}

/// Flags, causal lengths that are neither 1 nor 2, then a column for each stamp that has a flag.
fn put_headers(out: &mut Vec<u8>, sites: &mut Sites, rows: &[&RowChange]) {
    let flags: Vec<u8> = rows.iter().map(|row| header_flags(&row.header)).collect();
    out.extend(&flags);
    let having = |flag: u8| {
        let rows = rows.iter().zip(&flags).filter(move |(_, flags)| **flags & flag != 0);
        rows.map(|(row, _)| row.header)
    };
    having(CL_WRITTEN).for_each(|header| varint::put(out, header.cl));
    for (flag, field) in STAMPS {
        let stamps: Vec<Stamp> = having(flag).map(|mut header| *field(&mut header)).collect();
        put_stamps(out, sites, &stamps);
    }
}

fn get_headers(
    reader: &mut Reader<'_>,
    sites: &SiteList,
    n: usize,
) -> Result<Vec<Header>, BatchError> {
    let flags = reader.bytes(n)?;
    let both = |flags: u8, pair| flags & pair == pair;
    if flags.iter().any(|&flags| both(flags, CL) || both(flags, CL_STAMP)) {
        return Err(BatchError::malformed("a header has flags that exclude each other"));
    }
    let mut headers = Vec::new();
    for flags in flags {
        let cl = match flags & CL {
            CL_WRITTEN => reader.varint()?,
            CL_TWO => 2,
            _ => 1,
        };
        let header = Header { cl, ..Header::NONE };
        check_length(&header).map_err(BatchError::bad_row)?;
        headers.push(header);
    }
    for (flag, field) in STAMPS {
        let mut having: Vec<_> =
            headers.iter_mut().zip(flags).filter(|(_, flags)| **flags & flag != 0).collect();
        let stamps = get_stamps(reader, sites, having.len())?;
        having.iter_mut().zip(stamps).for_each(|((header, _), stamp)| *field(header) = stamp);
    }
    for (header, flags) in headers.iter_mut().zip(flags) {
        match flags & CL_STAMP {
            CL_STAMP_WRITTEN => {}
            CL_STAMP_DELETED => header.cl_stamp = header.deleted,
            _ => header.cl_stamp = header.inserted,
        }
    }
    Ok(headers)
}

fn header_flags(header: &Header) -> u8 {
    let cl = match header.cl {
        1 => 0,
        2 => CL_TWO,
        _ => CL_WRITTEN,
    };
    let cl_stamp = match header.cl_stamp {
        stamp if stamp == header.inserted => 0,
        stamp if stamp == header.deleted => CL_STAMP_DELETED,
        _ => CL_STAMP_WRITTEN,
    };
    let flag = |flag: u8, stamp: Stamp| if stamp.is_zero() { 0 } else { flag };
    cl | cl_stamp
        | flag(INSERTED, header.inserted)
        | flag(DELETED, header.deleted)
        | flag(REINSERTED, header.reinserted)
        | flag(DEMOTED, header.yielded)
}

/// Registers of one group: flags, stamps unless that of the insert, cells, previous cells.
fn put_registers(
    out: &mut Vec<u8>,
    sites: &mut Sites,
    group: &GroupShape,
    registers: &[(&Header, &Register)],
) {
    let mut stamps = Vec::new();
    for (header, register) in registers {
        let as_inserted = register.stamp == header.inserted;
        if !as_inserted {
            stamps.push(register.stamp);
        }
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        out.push(
            flag(as_inserted, AS_INSERTED)
                | flag(register.previous.is_some(), PREVIOUS)
                | flag(register.pinned, PINNED)
                | flag(!register.counts.is_empty(), COUNTS),
        );
    }
    put_stamps(out, sites, &stamps);
    let cells: Vec<&Cell> = registers.iter().map(|(_, register)| &register.cell).collect();
    put_cells(out, sites, group, &cells);
    let previous: Vec<&Cell> =
        registers.iter().filter_map(|(_, register)| register.previous.as_ref()).collect();
    put_cells(out, sites, group, &previous);
    put_counts(out, sites, registers);
}

/// Registers with their stamps; those without one have that of the insert.
fn get_registers(
    reader: &mut Reader<'_>,
    sites: &SiteList,
    number: u32,
    group: &GroupShape,
    n: u64,
) -> Result<Vec<(Option<Stamp>, Register)>, BatchError> {
    if n > 0 {
        check_group(group).map_err(BatchError::bad_row)?;
    }
    let flags = reader.bytes(usize::try_from(n).unwrap_or(usize::MAX))?;
    if flags.iter().any(|flags| flags & !(AS_INSERTED | PREVIOUS | PINNED | COUNTS) != 0) {
        return Err(BatchError::malformed("a register has unknown flags"));
    }
    let number_of = |flag: u8| flags.iter().filter(|&flags| flags & flag != 0).count();
    let stamps = get_stamps(reader, sites, flags.len() - number_of(AS_INSERTED))?;
    let cells = get_cells(reader, sites, group, flags.len())?;
    let previous = get_cells(reader, sites, group, number_of(PREVIOUS))?;
    let counts = get_counts(reader, sites, group, number_of(COUNTS))?;
    let (mut stamps, mut previous) = (stamps.into_iter(), previous.into_iter());
    let mut counts = counts.into_iter();
    let registers = flags.iter().zip(cells).map(|(flags, cell)| {
        let stamp = if flags & AS_INSERTED == 0 { stamps.next() } else { None };
        let previous = if flags & PREVIOUS != 0 { previous.next() } else { None };
        let pinned = flags & PINNED != 0;
        let counts = if flags & COUNTS != 0 { counts.next() } else { None }.unwrap_or_default();
        (stamp, Register { group: number, stamp: Stamp::ZERO, cell, previous, pinned, counts })
    });
    Ok(registers.collect())
}

/// Counts of the registers that have some: how many each has; stamps, epochs, sums of all.
fn put_counts(out: &mut Vec<u8>, sites: &mut Sites, registers: &[(&Header, &Register)]) {
    let having = registers.iter().map(|(_, r)| &r.counts).filter(|counts| !counts.is_empty());
    having.clone().for_each(|counts| varint::put(out, counts.len() as u64));
    let all: Vec<&Count> = having.flatten().collect();
    let stamps: Vec<Stamp> = all.iter().map(|count| count.stamp).collect();
    put_stamps(out, sites, &stamps);
    all.iter().for_each(|count| varint::put(out, count.epoch));
    for (shift, digits) in all.iter().map(|count| count.sum.parts()) {
        varint::put_signed(out, shift);
        varint::put(out, digits.len() as u64);
        out.extend(digits);
    }
}

fn get_counts(
    reader: &mut Reader<'_>,
    sites: &SiteList,
    group: &GroupShape,
    n: usize,
) -> Result<Vec<Vec<Count>>, BatchError> {
    let lens = (0..n).map(|_| reader.count()).collect::<Result<Vec<usize>, _>>()?;
    let total = lens.iter().try_fold(0_usize, |sum, &len| sum.checked_add(len));
    let total = total.filter(|&total| total <= reader.left() && !lens.contains(&0));
    let total = total.ok_or_else(|| BatchError::malformed("a number of counts is wrong"))?;
    let stamps = get_stamps(reader, sites, total)?;
    let epochs = (0..total).map(|_| reader.varint()).collect::<Result<Vec<u64>, _>>()?;
    let mut all = Vec::new();
    for (stamp, epoch) in stamps.into_iter().zip(epochs) {
        let shift = reader.signed()?;
        let len = reader.count()?;
        let sum = Number::from_parts(shift, reader.bytes(len)?);
        let sum = sum.ok_or_else(|| BatchError::malformed("a sum is not in its one form"))?;
        all.push(Count { stamp, epoch, sum });
    }
    let mut all = all.into_iter();
    let counts: Vec<Vec<Count>> =
        lens.into_iter().map(|len| all.by_ref().take(len).collect()).collect();
    counts.iter().try_for_each(|of| check_counts(group, of)).map_err(BatchError::bad_row)?;
    Ok(counts)
}

fn put_settings(out: &mut Vec<u8>, sites: &mut Sites, settings: &[Setting]) {
    varint::put(out, settings.len() as u64);
    for setting in settings {
        varint::put_text(out, &setting.key);
        varint::put_text(out, &setting.value);
    }
    let stamps: Vec<Stamp> = settings.iter().map(|setting| setting.stamp).collect();
    put_stamps(out, sites, &stamps);
}

fn get_settings(reader: &mut Reader<'_>, sites: &SiteList) -> Result<Vec<Setting>, BatchError> {
    let texts = (0..reader.count()?)
        .map(|_| Ok((reader.text()?, reader.text()?)))
        .collect::<Result<Vec<_>, BatchError>>()?;
    let stamps = get_stamps(reader, sites, texts.len())?;
    let settings = texts.into_iter().zip(stamps);
    Ok(settings.map(|((key, value), stamp)| Setting { key, value, stamp }).collect())
}

/// Nothing at all if there is none.
fn put_told(out: &mut Vec<u8>, sites: &mut Sites, told: &[Told]) {
    if told.is_empty() {
        return;
    }
    varint::put(out, told.len() as u64);
    for Told { id, table, row, kind, what, .. } in told {
        out.extend(id);
        [table, row, kind, what].into_iter().for_each(|text| varint::put_text(out, text));
    }
    let stamps = told.iter().flat_map(|told| [told.lost, told.kept]);
    put_stamps(out, sites, &stamps.collect::<Vec<_>>());
}

fn get_told(reader: &mut Reader<'_>, sites: &SiteList) -> Result<Vec<Told>, BatchError> {
    if reader.left() == 0 {
        return Ok(vec![]);
    }
    let count = reader.count()?;
    if count == 0 {
        return Err(BatchError::malformed("it says at length that nothing gave way"));
    }
    let texts = (0..count)
        .map(|_| {
            let id = reader.array()?;
            Ok((id, [reader.text()?, reader.text()?, reader.text()?, reader.text()?]))
        })
        .collect::<Result<Vec<_>, BatchError>>()?;
    let stamps = get_stamps(reader, sites, texts.len() * 2)?;
    let (pairs, _) = stamps.as_chunks::<2>();
    let told = texts.into_iter().zip(pairs);
    let told = told.map(|((id, [table, row, kind, what]), &[lost, kept])| Told {
        id,
        table,
        row,
        kind,
        what,
        lost,
        kept,
    });
    Ok(told.collect())
}
