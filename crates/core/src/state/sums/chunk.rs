//! Bytes of sums, and the hash that they are made of.

use crate::Result;
use crate::catalog::Tracked;
use crate::schema::Affinity;
use rusqlite::types::ValueRef;

/// So many places share an entry of `synqlite_sum`.
pub const CHUNK: i64 = 64;

/// Bytes of a sum beside those of its columns.
pub const CHECK: usize = 2;

/// More bytes, at the end of a sum, of each column that is declared to hold blobs, where rows have rowids: those a
/// program can overwrite with no trigger noting it, so their one byte has to tell without the check.
const MORE: usize = 3;

/// Columns of which sums are.
pub type Layout = Vec<Summed>;

/// A column of which sums are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summed {
    /// Its number.
    pub no: u32,
    /// How SQLite converted what is stored in it.
    pub affinity: Affinity,
    /// Whether there are [`MORE`] bytes of it.
    wide: bool,
}

impl Summed {
    /// Whether it is a column of that number and affinity.
    pub fn is(&self, no: u32, affinity: Affinity) -> bool {
        self.no == no && self.affinity == affinity
    }
}

/// Whether a column, by position, is one whose values a program may overwrite with no trigger noting it.
pub fn holds_blobs(t: &Tracked, c: usize) -> bool {
    let column = &t.table.columns[c];
    let declared = column.declared_type.to_ascii_uppercase();
    t.has_rowid() && column.affinity == Affinity::Blob && declared.contains("BLOB")
}

/// Positions of the columns that are in sums.
pub fn summed(t: &Tracked) -> Vec<usize> {
    (0..t.table.columns.len()).filter(|&c| t.table.rowid_alias() != Some(c)).collect()
}

pub fn layout(t: &Tracked) -> Layout {
    let column = |c: usize| {
        let affinity = t.table.columns[c].affinity;
        Summed { no: t.column_nos[c], affinity, wide: holds_blobs(t, c) }
    };
    summed(t).into_iter().map(column).collect()
}

/// Sums of the rows at [`CHUNK`] places.
pub struct Chunk {
    /// Its number: that of its first place, divided by [`CHUNK`].
    pub no: i64,
    /// What columns the sums are of.
    pub layout: Layout,
    /// Bytes of each.
    width: usize,
    /// A bit for each place that has a sum.
    present: u64,
    /// The sums, one after another.
    sums: Vec<u8>,
}

impl Chunk {
    /// One without sums.
    pub fn new(no: i64, layout: &Layout) -> Chunk {
        let width = width(layout);
        let sums = vec![0; CHUNK as usize * width];
        Chunk { no, layout: layout.clone(), width, present: 0, sums }
    }

    /// The sum of a place.
    pub fn get(&self, place: i64) -> Option<&[u8]> {
        let (at, width) = (place.rem_euclid(CHUNK) as usize, self.width);
        (self.present >> at & 1 == 1).then(|| &self.sums[at * width..(at + 1) * width])
    }

    /// Gives a place its sum.
    pub fn set(&mut self, place: i64, sum: &[u8]) {
        let (at, width) = (place.rem_euclid(CHUNK) as usize, sum.len());
        self.present |= 1 << at;
        self.sums[at * width..(at + 1) * width].copy_from_slice(sum);
    }

    /// Takes the sum of a place away.
    pub fn clear(&mut self, place: i64) {
        self.present &= !(1 << place.rem_euclid(CHUNK));
    }

    /// Whether no place has a sum.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Places that have a sum.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CHUNK as usize).filter(|at| self.present >> at & 1 == 1)
    }

    /// The same, in the table.
    pub fn rowids(&self) -> impl Iterator<Item = i64> + '_ {
        self.places().map(|at| self.no * CHUNK + at as i64)
    }

    /// The bytes of sums that stand at the same place in them are kept together: once, if all are the
    /// same.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.sums.len() + 3 * self.layout.len() + 12);
        put(&mut out, self.layout.len() as u64);
        for &Summed { no, affinity, wide } in &self.layout {
            let kind = if wide { WIDE } else { affinity as u64 };
            put(&mut out, u64::from(no) << 3 | kind);
        }
        out.extend(self.present.to_le_bytes());
        let width = self.width;
        for i in 0..width {
            let mut column = self.places().map(|at| self.sums[at * width + i]);
            let first = column.next().unwrap_or_default();
            let all_same = column.all(|byte| byte == first);
            out.push(u8::from(all_same));
            match all_same {
                true => out.push(first),
                false => out.extend(self.places().map(|at| self.sums[at * width + i])),
            }
        }
        out
    }

    /// `None` if the bytes are of no chunk.
    pub fn from_bytes(no: i64, mut bytes: &[u8]) -> Option<Chunk> {
        let columns = get(&mut bytes)?;
        let mut layout = Layout::new();
        for _ in 0..columns {
            let column = get(&mut bytes)?;
            let wide = column & 7 == WIDE;
            let affinity = if wide { Affinity::Blob } else { affinity(column & 7)? };
            layout.push(Summed { no: u32::try_from(column >> 3).ok()?, affinity, wide });
        }
        let (present, mut rest) = bytes.split_first_chunk::<8>()?;
        let mut chunk = Chunk::new(no, &layout);
        chunk.present = u64::from_le_bytes(*present);
        let width = chunk.width;
        let places: Vec<usize> = chunk.places().collect();
        for i in 0..width {
            let (all_same, after) = rest.split_first()?;
            let count = if *all_same == 1 { 1 } else { places.len() };
            let (column, after) = after.split_at_checked(count)?;
            for (&at, byte) in places.iter().zip(column.iter().cycle()) {
                chunk.sums[at * width + i] = *byte;
            }
            rest = after;
        }
        rest.is_empty().then_some(chunk)
    }
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn get(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

/// What stands for the affinity of a column of which a sum has [`MORE`] bytes.
const WIDE: u64 = 5;

fn affinity(number: u64) -> Option<Affinity> {
    let all =
        [Affinity::Blob, Affinity::Text, Affinity::Numeric, Affinity::Integer, Affinity::Real];
    all.into_iter().find(|affinity| *affinity as u64 == number)
}

/// Bytes of a sum of these columns.
pub fn width(layout: &Layout) -> usize {
    CHECK + layout.len() + MORE * layout.iter().filter(|column| column.wide).count()
}

fn more(hash: u64) -> [u8; MORE] {
    [24, 32, 40].map(|bits| (hash >> bits) as u8)
}

/// Whether the column at `i` of a layout showed something else than what has this hash, when the sum was taken.
pub fn differs(layout: &Layout, i: usize, sum: &[u8], hash: u64) -> bool {
    let before = layout[..i].iter().filter(|column| column.wide).count();
    let at = CHECK + layout.len() + MORE * before;
    let more_differs = || sum.get(at..at + MORE).is_some_and(|known| known != more(hash));
    sum[CHECK + i] != hash as u8 || layout[i].wide && more_differs()
}

/// Writes the sum of a row, whose summed columns `value` gives, to `out`: as much of it as has room there.
pub fn sum_of<'r>(
    layout: &Layout,
    value: impl Fn(usize) -> rusqlite::Result<ValueRef<'r>>,
    out: &mut [u8],
) -> Result<()> {
    let mut check = 0u16;
    let (sum, rest) = out.split_at_mut(CHECK + layout.len());
    let mut rest = rest.chunks_exact_mut(MORE);
    for (i, &Summed { no, wide, .. }) in layout.iter().enumerate() {
        let hash = hash(no, value(i)?);
        sum[CHECK + i] = hash as u8;
        check = check.wrapping_add(part(hash));
        if wide && let Some(rest) = rest.next() {
            rest.copy_from_slice(&more(hash));
        }
    }
    out[..CHECK].copy_from_slice(&check.to_le_bytes());
    Ok(())
}

/// The part of a hash that is added up.
pub fn part(hash: u64) -> u16 {
    (hash >> 8) as u16
}

/// Hash of what column `no` shows, by storage class and bytes. It is stored, so it never changes.
pub fn hash(no: u32, value: ValueRef<'_>) -> u64 {
    const A: u64 = 0x9e37_79b9_7f4a_7c15;
    const B: u64 = 0xd6e8_feb8_6659_fd93;
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let seed = |class: u64| u64::from(no).wrapping_mul(A) ^ class;
    let bytes = |class: u64, bytes: &[u8]| {
        let mut h = mix(seed(class) ^ A, bytes.len() as u64 ^ B);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            h = mix(h ^ u64::from_le_bytes(*word), B);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(h ^ u64::from_le_bytes(last), A)
    };
    match value {
        ValueRef::Null => mix(seed(1) ^ A, B),
        ValueRef::Integer(i) => mix(mix(seed(2) ^ A, i as u64 ^ B), A),
        // SQLite may store -0.0 as 0.
        ValueRef::Real(r) => mix(mix(seed(3) ^ A, (r + 0.0).to_bits() ^ B), A),
        ValueRef::Text(text) => bytes(4, text),
        ValueRef::Blob(blob) => bytes(5, blob),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlvalue::as_ref;
    use std::collections::BTreeSet;
    use synqlite_wire::Value;

    fn column((no, affinity): (u32, Affinity)) -> Summed {
        Summed { no, affinity, wide: affinity == Affinity::Blob }
    }

    fn sum(layout: &Layout, row: &[Value]) -> Vec<u8> {
        let mut sum = vec![0; width(layout)];
        sum_of(layout, |i| Ok(as_ref(&row[i])), &mut sum).unwrap();
        sum
    }

    #[test]
    fn bytes_of_a_chunk_are_read_back() {
        let layout =
            [(0, Affinity::Text), (300, Affinity::Real), (2, Affinity::Blob)].map(column).to_vec();
        let mut chunk = Chunk::new(-2, &layout);
        for bytes in [0, 1, 2] {
            let read = Chunk::from_bytes(-2, &chunk.bytes()).unwrap();
            assert_eq!(
                (read.layout, read.present, read.sums),
                (layout.clone(), chunk.present, chunk.sums.clone())
            );
            let row = [Value::from("same"), Value::Real(0.5), Value::Integer(bytes)];
            chunk.set(-128 + 7 * bytes, &sum(&layout, &row));
        }
        assert_eq!(chunk.get(-127), None);
        let whole = chunk.bytes();
        for end in 0..whole.len() {
            assert!(Chunk::from_bytes(-2, &whole[..end]).is_none(), "{end} bytes");
        }
    }

    #[test]
    fn values_of_all_classes_differ() {
        let all = [
            Value::Null,
            Value::Integer(0),
            Value::Integer(1),
            Value::Real(0.0),
            Value::Real(1.0),
            Value::from(""),
            Value::from("\0"),
            Value::from("1"),
            Value::from("12345678"),
            Value::from("12345678\0"),
            Value::Blob(vec![]),
            Value::Blob(b"1".to_vec()),
        ];
        let hashes: BTreeSet<u64> = all.iter().map(|value| hash(3, as_ref(value))).collect();
        assert_eq!(hashes.len(), all.len());
        assert_ne!(hash(3, ValueRef::Null), hash(4, ValueRef::Null));
        assert_eq!(hash(3, ValueRef::Real(-0.0)), hash(3, ValueRef::Real(0.0)));
    }

    /// The hashes are in files: these must never change.
    #[test]
    fn hashes_stay_what_they_are() {
        let layout = [(1, Affinity::Text), (2, Affinity::Integer)].map(column).to_vec();
        let row = [Value::from("a text of some length"), Value::Integer(-7)];
        println!("{:?}", sum(&layout, &row));
    }
}
