//! The write-ahead log: one file a memtable, one checksummed record a batch.
//!
//! Invariant: the records of a log, and of the logs that follow it, carry consecutive sequence
//! numbers. After the newest record stands an end marker, a value that only this offset of this
//! log can have; the next record overwrites it. So a record that is bad although a marker or a
//! valid record follows was complete once: it is damage, not a write cut short. One exception is
//! honest: after a power failure sectors written without a force may be missing in any order.
//! Such a hole is told from damage by the boot identity in the header, by the forced offset that
//! every record carries, and by its look (a sector that fell back to zeros or to an older end).
//!
//! Bytes: see `docs/formats/lsm.md`, "Log".

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::codec::{Reader, checksum, put_varint};
use crate::disk::{Force, LogFile};
use crate::error::{At, Error, Result};
use crate::folder::Folder;

const MAGIC: &[u8; 8] = b"SYNQLLOG";
const VERSION: u32 = 1;
pub(crate) const HEADER: usize = 48;
const RECORD: usize = 20;
const MARKER: usize = 8;
pub(crate) const SECTOR: usize = 512;
const STEP: u64 = 1 << 20;

/// The name of log `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:08}.log")
}

/// One change of a batch, as records and memtables hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) key: &'a [u8],
    /// `None` deletes the key.
    pub(crate) value: Option<&'a [u8]>,
}

/// Appends an encoded change to a record's payload.
pub(crate) fn put_op(out: &mut Vec<u8>, op: Op<'_>) {
    out.push(u8::from(op.value.is_none()));
    put_varint(out, op.key.len() as u64);
    out.extend_from_slice(op.key);
    if let Some(value) = op.value {
        put_varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

/// Reads the next change; `None` at the end or where the bytes do not fit.
pub(crate) fn take_op<'a>(r: &mut Reader<'a>) -> Option<Op<'a>> {
    let kind = r.u8()?;
    let key = r.bytes()?;
    match kind {
        0 => Some(Op { key, value: Some(r.bytes()?) }),
        1 => Some(Op { key, value: None }),
        _ => None,
    }
}

fn marker(number: u64, end: usize) -> [u8; MARKER] {
    let n = (number << 36) ^ end as u64;
    ((n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
        | 1)
    .to_le_bytes()
}

/// How far a log is forced to the device, shared between writers and whoever forces.
pub(crate) struct Forced {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    force: Force,
    /// Bytes written.
    written: AtomicU64,
    /// Bytes known to be on the device, and with the first ones the folder entry.
    synced: AtomicU64,
}

impl Forced {
    fn new(number: u64, path: PathBuf, written: usize, force: Force) -> Forced {
        let (written, synced) = (AtomicU64::new(written as u64), AtomicU64::new(0));
        Forced { number, path, force, written, synced }
    }

    /// A file of an earlier session, whose bytes may still be in the kernel only: it must be forced
    /// before a later log may count as forced.
    pub(crate) fn reopened(folder: &Folder, name: &str, number: u64) -> Forced {
        let (disk, path) = (folder.disk.clone(), folder.path(name));
        let file = path.clone();
        Forced::new(number, path, 1, Box::new(move || disk.sync_file(&file)))
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Forces everything written so far, and the folder entry the first time.
    pub(crate) fn sync(&self, folder: &Folder) -> Result<()> {
        let (synced, end) = (self.synced.load(Ordering::Acquire), self.written());
        if synced < end {
            (self.force)().at("sync", &self.path)?;
        }
        if synced == 0 {
            folder.sync()?;
        }
        self.synced.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }
}

/// The log being written.
pub(crate) struct Log {
    file: Box<dyn LogFile>,
    pub(crate) forced: Arc<Forced>,
    end: u64,
    grown: u64,
    scratch: Vec<u8>,
}

impl Log {
    /// Starts log `number`, whose first record will carry sequence `first`.
    pub(crate) fn create(folder: &Folder, number: u64, first: u64) -> Result<Log> {
        let mut head = Vec::with_capacity(HEADER + MARKER);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&number.to_le_bytes());
        head.extend_from_slice(&first.to_le_bytes());
        head.extend_from_slice(&folder.disk.boot());
        head.extend_from_slice(&checksum(number as u32, &head).to_le_bytes());
        head.extend_from_slice(&marker(number, HEADER));
        // Under its own name a log always has a header.
        let name = file_name(number);
        let unnamed = format!("{name}.new");
        let path = folder.path(&unnamed);
        let mut file = folder.disk.create_log(&path).at("create", &path)?;
        let grown = STEP / 64;
        file.grow(grown).at("allocate", &path)?;
        file.write_at(0, &head, true).at("write", &path)?;
        folder.rename(&unnamed, &name)?;
        let forced = Arc::new(Forced::new(number, folder.path(&name), HEADER, file.force()));
        Ok(Log { file, forced, end: HEADER as u64, grown, scratch: Vec::new() })
    }

    /// Appends one record of `count` changes, the first with sequence `seq`. `fill` writes them.
    /// An error before the record is written leaves the log as it was.
    pub(crate) fn append(
        &mut self,
        seq: u64,
        count: u64,
        force_follows: bool,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let out = &mut self.scratch;
        out.clear();
        out.extend_from_slice(&[0; 8]);
        let synced = self.forced.synced.load(Ordering::Relaxed).min(u64::from(u32::MAX));
        out.extend_from_slice(&(synced as u32).to_le_bytes());
        out.extend_from_slice(&seq.to_le_bytes());
        put_varint(out, count);
        fill(out);
        let len = (out.len() - RECORD) as u32;
        out[4..8].copy_from_slice(&len.to_le_bytes());
        let crc = checksum(self.forced.number as u32, &out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        let end = self.end + out.len() as u64;
        out.extend_from_slice(&marker(self.forced.number, end as usize));
        let need = end + MARKER as u64;
        if need > self.grown {
            let len = need.max(self.grown + self.grown.min(STEP));
            self.file.grow(len).at("allocate", &self.forced.path)?;
            self.grown = len;
        }
        self.file.write_at(self.end, out, force_follows).at("write", &self.forced.path)?;
        self.end = end;
        self.forced.written.store(end, Ordering::Release);
        if out.capacity() > 1 << 20 {
            *out = Vec::new();
        }
        Ok(())
    }
}

/// A record read back.
pub(crate) struct Record<'a> {
    /// Sequence of the first change.
    pub(crate) seq: u64,
    /// Number of changes.
    pub(crate) count: u64,
    /// Bytes of the log that were known to be on the device when this was written.
    pub(crate) synced: u32,
    /// The encoded changes.
    pub(crate) ops: &'a [u8],
}

/// Why reading a log stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// After the newest record nothing was written.
    End,
    /// A record was begun and never finished; it was not acknowledged.
    Torn,
    /// A bad record, though `newer` shows that it was complete once.
    Bad {
        /// Offset of the newest sign of later writing.
        newer: usize,
        /// Whether a force after the bad record is proven.
        forced: bool,
        /// Whether it looks like a lost sector.
        hole: bool,
    },
}

/// Reads the records of a log from its bytes. Bytes past the end count as zeros.
pub(crate) struct LogReader<'a> {
    bytes: &'a [u8],
    number: u64,
    /// Sequence of the first record; 0 if the header was never forced.
    pub(crate) first: u64,
    /// Boot identity of the writer; `None` if the header was never forced.
    pub(crate) boot: Option<[u8; 16]>,
    /// Where the next record starts.
    pub(crate) offset: usize,
    /// Sequence of the next record; 0 accepts any.
    pub(crate) next: u64,
}

impl<'a> LogReader<'a> {
    /// Checks the header. One that is all zeros was lost with the power: `first` is 0 then.
    pub(crate) fn new(bytes: &'a [u8], number: u64, path: &Path) -> Result<LogReader<'a>> {
        let mut reader = LogReader::headless(bytes, number);
        let head = bytes.get(..HEADER).unwrap_or(bytes);
        if head.iter().all(|b| *b == 0) {
            return Ok(reader);
        }
        match reader.header(head) {
            Err(what) => Err(Error::corrupt(path, 0, what)),
            Ok(version) if version > VERSION => Err(Error::NewerFormat {
                path: path.to_owned(),
                found: version,
                supported: VERSION,
            }),
            Ok(_) => Ok(reader),
        }
    }

    /// Reads a log as if its header had been lost.
    pub(crate) fn headless(bytes: &'a [u8], number: u64) -> LogReader<'a> {
        LogReader { bytes, number, first: 0, boot: None, offset: HEADER, next: 0 }
    }

    /// Goes on at the next whole record after a bad one; `false` if there is none.
    pub(crate) fn resume(&mut self) -> bool {
        let next = (self.offset + 1..self.bytes.len())
            .find(|at| self.record_at(*at, 1..=u64::MAX).is_some());
        self.next = 0;
        self.offset = next.unwrap_or(self.bytes.len());
        next.is_some()
    }

    /// Takes over what the header says; returns the format version.
    fn header(&mut self, head: &[u8]) -> std::result::Result<u32, &'static str> {
        let mut r = Reader(head);
        if r.take(8) != Some(MAGIC) {
            return Err("the log header is wrong");
        }
        let cut = "the log header is cut short";
        let (version, stated, first) =
            (r.u32().ok_or(cut)?, r.u64().ok_or(cut)?, r.u64().ok_or(cut)?);
        let boot = r.chunk().ok_or(cut)?;
        if r.u32().ok_or(cut)? != checksum(self.number as u32, &head[..HEADER - 4]) {
            return Err("the log header's checksum is wrong");
        }
        if stated != self.number {
            return Err("the log carries another number than its name");
        }
        (self.first, self.next, self.boot) = (first, first, Some(boot));
        Ok(version)
    }

    /// The record at `at` with its forced offset and end, if it is whole.
    fn record_at(&self, at: usize, seqs: RangeInclusive<u64>) -> Option<(Record<'a>, usize)> {
        let mut r = Reader(self.bytes.get(at..)?);
        let (crc, len, synced, seq) = (r.u32()?, r.u32()? as usize, r.u32()?, r.u64()?);
        if len == 0 || !seqs.contains(&seq) {
            return None;
        }
        r.take(len)?;
        let end = at + RECORD + len;
        if checksum(self.number as u32, &self.bytes[at + 4..end]) != crc {
            return None;
        }
        let mut r = Reader(&self.bytes[at + RECORD..end]);
        let count = r.varint()?;
        Some((Record { seq, count, synced, ops: r.0 }, end))
    }

    fn marker_at(&self, at: usize) -> bool {
        self.bytes.get(at..at + MARKER) == Some(&marker(self.number, at))
    }

    /// The sequences that a record may have if at most this many changes stand before it.
    fn seqs(&self, changes: usize) -> RangeInclusive<u64> {
        match self.next {
            0 => 1..=u64::MAX,
            next => next..=next.saturating_add(changes as u64),
        }
    }

    /// The next record, or why there is none. After a stop the reader stays where it is.
    pub(crate) fn read(&mut self) -> std::result::Result<Record<'a>, Stop> {
        let Some((record, end)) = self.record_at(self.offset, self.seqs(0)) else {
            return Err(self.why());
        };
        self.offset = end;
        self.next = record.seq.saturating_add(record.count);
        Ok(record)
    }

    fn why(&self) -> Stop {
        let at = self.offset;
        let rest = self.bytes.get(at..).unwrap_or_default();
        let skip = if self.marker_at(at) { MARKER } else { 0 };
        if rest[skip..].iter().all(|b| *b == 0) {
            return Stop::End;
        }
        let mut newer = None;
        let mut synced = 0;
        let mut p = at + 1;
        while p < self.bytes.len() {
            if self.bytes[p] == 0 && self.bytes[p..].iter().take(64).all(|b| *b == 0) {
                p += 64.min(self.bytes.len() - p).saturating_sub(RECORD).max(1);
                continue;
            }
            // Each change takes at least two bytes, which bounds the sequence of a later record.
            if let Some((record, end)) = self.record_at(p, self.seqs(p - at)) {
                newer = Some(p);
                synced = synced.max(record.synced as usize);
                p = end;
            } else {
                if self.marker_at(p) {
                    newer = Some(p);
                }
                p += 1;
            }
        }
        match newer {
            None => Stop::Torn,
            Some(newer) => Stop::Bad { newer, forced: synced > at, hole: self.hole(newer) },
        }
    }

    /// Whether the file ends before the space that was made for the newest record: on the same
    /// boot only damage can do that.
    pub(crate) fn cut(&self) -> bool {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        if self.marker_at(self.offset) || rest.len() < MARKER {
            return rest.len() < MARKER;
        }
        let claimed = rest[4..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b) as usize);
        // A record of which only the start overwrote the marker claims anything.
        let begun = rest[MARKER..].iter().any(|b| *b != 0);
        rest.len() <= RECORD + MARKER || begun && rest.len() < RECORD + claimed + MARKER
    }

    /// Whether a sector between the bad record and `upto` fell back to an older state: an older
    /// end marker at the bad record's place, or zeros at a sector's end.
    pub(crate) fn hole(&self, upto: usize) -> bool {
        let at = self.offset;
        let cut = at.next_multiple_of(SECTOR).min(at + MARKER).min(self.bytes.len());
        if cut > at && self.bytes.get(at..cut) == Some(&marker(self.number, at)[..cut - at]) {
            return true;
        }
        let mut sector = (at + MARKER).next_multiple_of(SECTOR);
        while sector < upto + SECTOR {
            match self.bytes.get(sector - MARKER..sector) {
                Some(tail) if tail.iter().any(|b| *b != 0) => sector += SECTOR,
                _ => return true,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Real;
    use proptest::prelude::*;

    fn sample(dir: &Path, values: &[usize]) -> Vec<u8> {
        let folder = Folder::new(Arc::new(Real), dir);
        let mut log = Log::create(&folder, 1, 1).unwrap();
        for (i, len) in values.iter().enumerate() {
            let value = vec![b'a' + (i % 26) as u8; *len];
            let key = format!("key{i}");
            let op = Op { key: key.as_bytes(), value: Some(&value) };
            log.append(i as u64 + 1, 1, i % 3 == 0, |out| put_op(out, op)).unwrap();
        }
        folder.read(&file_name(1)).unwrap()
    }

    fn read(bytes: &[u8]) -> Result<(u64, usize, Stop)> {
        let mut reader = LogReader::new(bytes, 1, Path::new("1.log"))?;
        let mut n = 0;
        loop {
            match reader.read() {
                Ok(record) => {
                    let mut r = Reader(record.ops);
                    assert!(take_op(&mut r).is_some());
                    n += 1;
                }
                Err(stop) => return Ok((n, reader.offset, stop)),
            }
        }
    }

    #[test]
    fn records_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = sample(dir.path(), &[0, 10, 100, 1000, 70_000, 2_000_000, 5]);
        let (n, _, stop) = read(&bytes).unwrap();
        assert_eq!((n, stop), (7, Stop::End));
    }

    #[test]
    fn every_flipped_bit_is_noticed_or_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = sample(dir.path(), &[30, 0, 500, 7, 64]);
        let (all, end, _) = read(&bytes).unwrap();
        for bit in 0..(end + 40) * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match read(&bad) {
                Err(_) => assert!(bit / 8 < HEADER, "only the header fails at once"),
                Ok((n, _, Stop::End | Stop::Torn)) => {
                    assert_eq!(n, all, "bit {bit} shortened the log in silence")
                }
                Ok((_, offset, Stop::Bad { .. })) => assert!(offset <= bit / 8),
            }
        }
    }

    #[test]
    fn a_write_cut_short_is_not_damage() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = sample(dir.path(), &[30, 600, 500]);
        let (_, end, _) = read(&bytes).unwrap();
        let start = end - 500;
        for cut in start..end {
            let mut torn = bytes.clone();
            torn[cut..].fill(0);
            let (n, _, stop) = read(&torn).unwrap();
            assert!(n == 2 && matches!(stop, Stop::Torn | Stop::End), "cut at {cut}: {n} {stop:?}");
        }
    }

    #[test]
    fn a_lost_sector_looks_like_a_hole() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = sample(dir.path(), &[100; 40]);
        for sector in 1..7 {
            let mut lost = bytes.clone();
            lost[sector * 512..(sector + 1) * 512].fill(0);
            let (_, _, stop) = read(&lost).unwrap();
            assert!(matches!(stop, Stop::Bad { hole: true, .. }), "{sector}: {stop:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), keep: bool) {
            if keep {
                let dir = tempfile::tempdir().unwrap();
                let good = sample(dir.path(), &[3, 30]);
                bytes.splice(..0, good[..120].iter().copied());
            }
            let _ = read(&bytes);
        }
    }
}
