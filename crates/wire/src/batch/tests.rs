//! What a batch promises as a whole.

use super::*;
use crate::change::{Cell, GroupShape, Header, Register, RowChange, TableShape};
use crate::clock::{Hlc, Stamp, VersionVector};
use crate::ids::{Id, Rid};
use crate::line::Point;
use crate::strategies;
use crate::value::Value;
use proptest::prelude::*;
use proptest::sample::Index;

const DATABASE: DatabaseId = Id(*b"a-database-of-us");
const SITE: SiteId = Id(*b"the-writing-site");
const OTHER: SiteId = Id(*b"a-site-elsewhere");

fn group(columns: &[&str]) -> GroupShape {
    GroupShape { columns: columns.iter().map(|c| c.to_string()).collect(), refs: vec![] }
}

fn cell(value: i64) -> Cell {
    Cell { values: vec![value.into()], refs: vec![] }
}

/// `rows` rows of `UPDATE t SET b = ?`, inserted long ago in one go, updated within milliseconds.
fn updates(rows: u64, value: impl Fn(u64) -> i64) -> Delta {
    let then = Stamp { hlc: Hlc::at_ms(1_790_000_000_000), site: SITE };
    let stamp = |n: u64| Stamp { hlc: Hlc::at_ms(1_795_000_000_000 + n as i64 % 7), site: SITE };
    let register = |n: u64| Register {
        group: 1,
        stamp: stamp(n),
        cell: cell(value(n)),
        previous: None,
        pinned: false,
        counts: vec![],
    };
    let row = |n: u64| RowChange {
        table: 0,
        rid: Rid::Birth { site: SITE, n: 40_000 + n },
        header: Header::born(then),
        registers: vec![register(n)],
    };
    let mut base = VersionVector::default();
    base.raise(SITE, then.hlc);
    base.raise(OTHER, Hlc::at_ms(1_794_000_000_000));
    let mut upto = base.clone();
    upto.raise(SITE, Hlc::at_ms(1_795_000_000_007));
    let point = Point { clock: upto.get(SITE), births: 50_000 };
    let line = Line { root: SITE, before: then.hlc, points: vec![point] };
    let groups = vec![group(&["id"]), group(&["b"])];
    Delta {
        base,
        upto,
        tables: vec![TableShape { name: "t".into(), groups }],
        rows: (0..rows).map(row).collect(),
        lines: BTreeMap::from([(SITE, line)]),
        ..Delta::default()
    }
}

/// Numbers without a pattern (Knuth's multiplicative hash), so that nothing compresses away.
fn scattered(n: u64) -> i64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n << 32) as i64
}

#[test]
fn a_hundred_updates_take_sixteen_bytes_a_row_at_most() {
    let size = |value: fn(u64) -> i64| encode(DATABASE, SITE, &updates(100, value)).unwrap().len();
    let counting = size(|n| n as i64);
    let (random_32_bits, random_64_bits) = (size(|n| scattered(n) >> 32), size(scattered));
    assert!(counting <= 500, "{counting} bytes");
    assert!(random_32_bits <= 900, "{random_32_bits} bytes");
    assert!(random_64_bits <= 1_600, "{random_64_bits} bytes");
}

#[test]
fn many_like_rows_pass_the_guard_against_bombs() {
    let part = updates(4_000, |_| 7);
    let (mut writer, mut packed) = (Writer::default(), Vec::new());
    for _ in 0..60 {
        packed.extend(writer.add(&part).unwrap());
    }
    let vectors = (&part.base, &part.upto, &part.lines);
    let batch = frame::close(writer.head(DATABASE, SITE, None, vectors), &packed);
    let (header, again) = decode(&batch).unwrap();
    let unpacked: u64 = header.bodies.iter().map(|body| body.unpacked).sum();
    assert!(unpacked > 40 * header.size, "not so alike: {header:?}");
    assert!(again.len() == 60 && again.iter().all(|again| *again == part));
}

/// A row takes a hundred times as much memory as its bytes, and a body is read at once.
#[test]
fn no_body_has_more_rows_than_writers_put_into_one() {
    let most = updates(4_096, |_| 7);
    assert_eq!(decode(&encode(DATABASE, SITE, &most).unwrap()).unwrap().1, [most]);
    let refused = encode(DATABASE, SITE, &updates(4_097, |_| 7)).unwrap_err();
    assert!(refused.to_string().contains("more rows"), "{refused}");
    let raw = body::encode(&updates(4_097, |_| 7));
    let bodies = [BodySize { rows: 4_097, unpacked: raw.len() as u64, packed: raw.len() as u64 }];
    let Delta { base, upto, lines, .. } = updates(1, |_| 7);
    let fields = header::Fields {
        database: DATABASE,
        site: SITE,
        after: None,
        base: &base,
        upto: &upto,
        lines: &lines,
        bodies: &bodies,
    };
    let forged = seal(&fields.encode(), &raw);
    assert!(matches!(decode_header(&forged), Err(BatchError::Malformed(_))));
}

/// What no table can hold is refused as it is read, in an encoder and a decoder alike.
#[test]
fn no_table_is_wider_than_tables_can_be() {
    let shaped = |groups: Vec<GroupShape>| {
        let mut delta = updates(1, |_| 7);
        delta.tables[0].groups.extend(groups);
        delta
    };
    let group = |columns: usize| {
        let columns = (0..columns).map(|n| n.to_string()).collect();
        GroupShape { columns, refs: vec![] }
    };
    let wide = [vec![group(2_001)], vec![group(1); 8_193], vec![group(2_000); 5]];
    for groups in wide {
        let delta = shaped(groups);
        let refused = encode(DATABASE, SITE, &delta).unwrap_err();
        assert!(matches!(refused, BatchError::Invalid(_)), "{refused}");
        let refused = decode_raw(1, &body::encode(&delta)).unwrap_err();
        assert!(refused.to_string().contains("columns"), "{refused}");
    }
    let fits = shaped(vec![group(2_000); 4]);
    assert!(encode(DATABASE, SITE, &fits).is_ok());
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let batch = encode(DATABASE, SITE, &updates(3, scattered)).unwrap();
    for bit in 0..8 * batch.len() {
        let mut damaged = batch.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&damaged).is_err(), "bit {bit} of {}", 8 * batch.len());
    }
    for len in 0..batch.len() {
        let error = decode(&batch[..len]).unwrap_err();
        assert!(matches!(error, BatchError::Truncated { .. }), "{len} bytes: {error}");
    }
    let mut longer = batch.clone();
    longer.push(0);
    assert!(matches!(decode(&longer), Err(BatchError::Malformed(_))));
}

/// `delta` as a batch of bodies of at most `most` rows.
fn in_parts(delta: &Delta, most: usize) -> Vec<u8> {
    let (mut writer, mut bodies) = (Writer::default(), Vec::new());
    for rows in delta.rows.chunks(most) {
        let part = Delta { rows: rows.to_vec(), ..delta.clone() };
        bodies.extend(writer.add(&part).unwrap());
    }
    let mut batch = writer.head(DATABASE, SITE, None, (&delta.base, &delta.upto, &delta.lines));
    batch.extend(bodies);
    let mut verifier = Verifier::default();
    // However the bytes are cut.
    batch.chunks(7).for_each(|bytes| verifier.pass(bytes));
    batch.extend(verifier.sum());
    batch
}

#[test]
fn a_delta_in_parts_comes_back_in_parts() {
    let delta = updates(10, scattered);
    let batch = in_parts(&delta, 4);
    let (header, parts) = decode(&batch).unwrap();
    assert_eq!((header.bodies.len(), header.rows()), (3, 10));
    let rows: Vec<RowChange> = parts.iter().flat_map(|part| part.rows.clone()).collect();
    assert_eq!(rows, delta.rows);
    assert!(parts.iter().all(|p| (&p.base, &p.upto) == (&delta.base, &delta.upto)));
    assert_eq!(in_parts(&delta, 100), encode(DATABASE, SITE, &delta).unwrap());
    for bit in 0..8 * batch.len() {
        let mut damaged = batch.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&damaged).is_err(), "bit {bit} of {}", 8 * batch.len());
    }
}

#[test]
fn many_like_parts_pass_the_guard_against_bombs() {
    let delta = updates(60_000, |_| 7);
    let batch = in_parts(&delta, 1_000);
    let (header, _) = decode(&batch).unwrap();
    let unpacked: u64 = header.bodies.iter().map(|body| body.unpacked).sum();
    assert!(unpacked > 20 * header.size, "not so alike: {unpacked} of {}", header.size);
}

#[test]
fn a_header_asks_for_as_many_bytes_as_it_needs() {
    let delta = updates(100, scattered);
    let batch = encode(DATABASE, SITE, &delta).unwrap();
    let mut have = 0;
    let header = loop {
        match decode_header(&batch[..have]) {
            Ok(header) => break header,
            Err(BatchError::Truncated { need, .. }) => {
                assert!(need as usize > have);
                have = need as usize;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert!(have < 300, "{have} bytes");
    assert_eq!((&header.base, &header.upto), (&delta.base, &delta.upto));
    assert_eq!((header.database, header.site, header.rows()), (DATABASE, SITE, 100));
    assert_eq!(header.size, batch.len() as u64);
}

fn count() -> crate::Count {
    crate::Count { stamp: Stamp { hlc: Hlc(1), site: SITE }, epoch: 0, sum: Default::default() }
}

/// Applies `change` to a delta of one row; the writer must refuse it with `message`.
fn broken(message: &str, change: impl Fn(&mut Delta)) -> Delta {
    let mut delta = updates(1, scattered);
    change(&mut delta);
    let error = encode(DATABASE, SITE, &delta).unwrap_err();
    assert!(matches!(error, BatchError::Invalid(_)), "{error}");
    assert!(error.to_string().contains(message), "{error}");
    delta
}

#[test]
fn neither_writer_nor_reader_takes_a_broken_delta() {
    let negative = Stamp { hlc: Hlc(-1), site: SITE };
    let broken = [
        broken("table 1", |d| d.rows[0].table = 1),
        broken("missing group", |d| d.rows[0].registers[0].group = 2),
        broken("negative clock", |d| d.rows[0].registers[0].stamp = negative),
        broken("negative clock", |d| d.rows[0].header.yielded = negative),
        broken("causal length", |d| d.rows[0].header.cl = u64::MAX),
        broken("another width", |d| d.rows[0].registers[0].cell.values.clear()),
        broken("NaN", |d| d.rows[0].registers[0].cell.values[0] = Value::Real(f64::NAN)),
        broken("out of order", |d| {
            let twin = d.rows[0].registers[0].clone();
            d.rows[0].registers.push(twin);
        }),
        broken("counts out of order", |d| d.rows[0].registers[0].counts = vec![count(), count()]),
        broken("not one column", |d| {
            d.tables[0].groups[1].columns.push("another".into());
            d.rows[0].registers[0].cell.values.push(Value::Null);
            d.rows[0].registers[0].counts = vec![count()];
        }),
    ];
    for delta in &broken {
        let read = decode_raw(1, &body::encode(delta));
        assert!(matches!(read, Err(BatchError::Malformed(_))), "{read:?}");
    }
}

#[test]
fn a_writer_refuses_what_no_body_can_say() {
    broken("another width", |d| d.rows[0].registers[0].cell.refs.push(None));
    broken("negative clock", |d| {
        let stamp = Stamp { hlc: Hlc(-1), site: SITE };
        d.rows[0].registers[0].counts = vec![crate::Count { stamp, ..count() }];
    });
    broken("negative clock", |d| {
        d.base.0.insert(OTHER, Hlc(-1));
    });
    broken("line of site", |d| {
        d.upto.raise(SITE, Hlc::at_ms(1_796_000_000_000));
    });
    broken("line of site", |d| {
        d.lines.get_mut(&SITE).unwrap().before = d.upto.get(SITE);
    });
}

#[test]
fn the_number_of_rows_must_be_right() {
    let body = body::encode(&updates(3, scattered));
    let reads: Vec<_> = [3, 0, 2, 4, u64::MAX].map(|rows| decode_raw(rows, &body).is_ok()).into();
    assert_eq!(reads, [true, false, false, false, false]);
}

/// The example of `docs/formats/batch.md`: body and batch, as the first release writes them.
const EXAMPLE_BODY: &str = "\
    0107070707070707070707070707070707000104746f646f02010269640001057469746c65000001\
    01020000000202040080f8b2e5bd68000101020103046d696c6b00";
const EXAMPLE: &str = "\
    9353796e5142617402004c0000000101010101010101010101010101010107070707070707070707\
    07070707070700010707070707070707070707070707070700818080f0e5cafbd001010002808080\
    f0e5cafbd001010143430ed780cc26cf61f49c5f139e70a01ba228b52ffd2043d501000403010700\
    0104746f646f02010269640001057469746c6500000101020000000202040080f8b2e5bd68010304\
    6d696c6b000200a619bc0e600175464b6ce28dc0f9aa86407b57b1f17d";

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

#[test]
fn the_documented_batch_stays_readable() {
    let (database, site) = (Id([1; 16]), Id([7; 16]));
    let stamp = Stamp { hlc: Hlc::at_ms(1_795_000_000_000), site };
    let register = |group, value| Register {
        group,
        stamp,
        cell: Cell { values: vec![value], refs: vec![] },
        previous: None,
        pinned: false,
        counts: vec![],
    };
    let row = RowChange {
        table: 0,
        rid: Rid::Birth { site, n: 1 },
        header: Header::born(stamp),
        registers: vec![register(0, 1.into()), register(1, "milk".into())],
    };
    let groups = vec![group(&["id"]), group(&["title"])];
    let mut delta = Delta {
        tables: vec![TableShape { name: "todo".into(), groups }],
        rows: vec![row],
        ..Delta::default()
    };
    delta.upto.raise(site, stamp.hlc);
    let point = Point { clock: stamp.hlc, births: 2 };
    let line = Line { root: site, before: Hlc::ZERO, points: vec![point] };
    delta.lines.insert(site, line);
    let (header, read) = decode(&unhex(EXAMPLE)).unwrap();
    assert_eq!(read, [delta.clone()]);
    assert_eq!((header.format, header.database, header.site), (2, database, site));
    // The body's bytes are fixed; those of the batch may change with zstd.
    assert_eq!(body::encode(&delta), unhex(EXAMPLE_BODY));
}

#[test]
fn what_was_seen_of_sites_that_rows_name_comes_along() {
    let mut delta = updates(1, scattered);
    delta.rows[0].header.inserted.site = OTHER;
    delta.tips.raise(OTHER, Hlc::at_ms(1_794_000_000_000));
    let batch = encode(DATABASE, SITE, &delta).unwrap();
    assert_eq!(decode(&batch).unwrap().1, [delta]);
}

proptest! {
    #[test]
    fn decoding_gives_back_what_was_encoded(
        delta in strategies::delta(),
        after in proptest::option::of(strategies::id()),
    ) {
        let batch = encode_after(DATABASE, SITE, after, &delta).unwrap();
        let (header, again) = decode(&batch).unwrap();
        prop_assert_eq!(&again[..], std::slice::from_ref(&delta));
        prop_assert_eq!((header.rows(), header.after), (delta.rows.len() as u64, after));
        prop_assert_eq!(decode_header(&batch), Ok(header));
    }

    #[test]
    fn a_flipped_bit_is_noticed(delta in strategies::delta(), at in any::<Index>(), bit in 0..8_u8) {
        let mut batch = encode(DATABASE, SITE, &delta).unwrap();
        let at = at.index(batch.len());
        batch[at] ^= 1 << bit;
        prop_assert!(decode(&batch).is_err());
    }

    #[test]
    fn a_cut_batch_is_known_for_one(delta in strategies::delta(), at in any::<Index>()) {
        let batch = encode(DATABASE, SITE, &delta).unwrap();
        let cut = &batch[..at.index(batch.len())];
        let error = decode(cut).unwrap_err();
        prop_assert!(matches!(error, BatchError::Truncated { .. }), "{}", error);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        rows in 0..9_u64,
        header in prop::collection::vec(any::<u8>(), 0..80),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = decode(&body);
        let _ = decode(&seal(&header, &body));
        if let Ok(delta) = decode_raw(rows, &body) {
            let batch = encode(DATABASE, SITE, &delta).unwrap();
            prop_assert_eq!(decode(&batch).unwrap().1, [delta]);
        }
    }

    /// Unlike random bytes, a body with one byte changed gets past the first few checks.
    #[test]
    fn no_changed_body_makes_the_decoder_panic(
        delta in strategies::delta(),
        at in any::<Index>(),
        byte in any::<u8>(),
    ) {
        let mut body = body::encode(&delta);
        let at = at.index(body.len());
        body[at] = byte;
        if let Ok(delta) = decode_raw(delta.rows.len() as u64, &body) {
            let batch = encode(DATABASE, SITE, &delta).unwrap();
            prop_assert_eq!(decode(&batch).unwrap().1, [delta]);
        }
    }
}
