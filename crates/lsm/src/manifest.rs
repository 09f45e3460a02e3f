//! The manifest: which tables make up the store, as a log of edits.
//!
//! Each session that changes anything starts a new manifest file with one edit that states
//! everything, forces it, and then points `CURRENT` at it by an atomic rename. Every later edit is
//! forced before anyone relies on it. A last edit that is cut short was never relied upon; if it
//! is damaged instead, a file it speaks of is missing and opening says so.
//!
//! Bytes: see `docs/formats/lsm.md`, "Manifest".

use std::path::{Path, PathBuf};

use crate::codec::{Reader, checksum, put_bytes, put_varint};
use crate::disk::WriteFile;
use crate::error::{At, Error, Result};
use crate::folder::Folder;
use crate::table::Meta;

const MAGIC: &[u8; 8] = b"SYNQLMAN";
const VERSION: u32 = 1;
const HEADER: usize = 12;
const FRAME: usize = 8;
/// A manifest larger than this is started afresh.
pub(crate) const LIMIT: u64 = 4 << 20;
/// Levels of tables.
pub(crate) const LEVELS: usize = 7;

pub(crate) const CURRENT: &str = "CURRENT";
/// What becomes [`CURRENT`] by a rename.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";

/// The name of manifest `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:08}.manifest")
}

/// A change of the store's shape. Numbers always state the new value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Changes up to this sequence are in tables.
    pub(crate) seq: u64,
    /// Files with this number and above do not exist yet.
    pub(crate) next_file: u64,
    /// The oldest log still needed.
    pub(crate) log: u64,
    /// Whether that log exists; after an orderly close it does not.
    pub(crate) open: bool,
    /// Newest deletion that no table remembers any more.
    pub(crate) forgotten: u64,
    /// Boot identity of the writer.
    pub(crate) boot: [u8; 16],
    /// Level and description of new tables.
    pub(crate) added: Vec<(usize, Meta)>,
    /// Numbers of tables that left.
    pub(crate) removed: Vec<u64>,
}

impl Edit {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for n in [self.seq, self.next_file, self.log, u64::from(self.open), self.forgotten] {
            put_varint(&mut out, n);
        }
        out.extend_from_slice(&self.boot);
        put_varint(&mut out, self.added.len() as u64);
        for (level, m) in &self.added {
            for n in [*level as u64, m.number, m.size, m.entries, m.deletions, m.base, m.newest] {
                put_varint(&mut out, n);
            }
            put_bytes(&mut out, &m.first);
            put_bytes(&mut out, &m.last);
        }
        put_varint(&mut out, self.removed.len() as u64);
        for number in &self.removed {
            put_varint(&mut out, *number);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Edit> {
        let mut r = Reader(bytes);
        let (seq, next_file, log) = (r.varint()?, r.varint()?, r.varint()?);
        let (open, forgotten) = (r.varint()? != 0, r.varint()?);
        let boot = r.chunk()?;
        let mut edit = Edit { seq, next_file, log, open, forgotten, boot, ..Edit::default() };
        for _ in 0..r.len()? {
            let level = r.len().filter(|l| *l < LEVELS)?;
            let (number, size, entries, deletions) =
                (r.varint()?, r.varint()?, r.varint()?, r.varint()?);
            let (base, newest) = (r.varint()?, r.varint()?);
            let (first, last) = (r.bytes()?.to_vec(), r.bytes()?.to_vec());
            edit.added.push((
                level,
                Meta { number, size, entries, deletions, base, newest, first, last },
            ));
        }
        for _ in 0..r.len()? {
            edit.removed.push(r.varint()?);
        }
        r.0.is_empty().then_some(edit)
    }

    /// Takes over a later edit. `false` if it removes a table that is not there.
    pub(crate) fn apply(&mut self, later: Edit) -> bool {
        let mut added = std::mem::take(&mut self.added);
        let before = added.len();
        added.retain(|(_, m)| !later.removed.contains(&m.number));
        let fits = before - added.len() == later.removed.len();
        added.extend(later.added);
        *self = Edit { added, removed: Vec::new(), ..later };
        fits
    }
}

fn frame(payload: &[u8], number: u64, offset: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME + payload.len());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
    let crc = checksum(seed(number, offset), &out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

fn seed(number: u64, offset: u64) -> u32 {
    (number as u32).rotate_left(8) ^ offset as u32
}

fn frame_at(bytes: &[u8], number: u64, at: usize) -> Option<(&[u8], usize)> {
    let mut r = Reader(bytes.get(at..)?);
    let (crc, len) = (r.u32()?, r.u32()? as usize);
    let payload = r.take(len)?;
    let end = at + FRAME + len;
    (len > 0 && checksum(seed(number, at as u64), &bytes[at + 4..end]) == crc)
        .then_some((payload, end))
}

/// What a manifest says.
#[derive(Debug)]
pub(crate) struct Contents {
    /// All edits taken together.
    pub(crate) state: Edit,
    /// Offset of an edit that was cut short at the end, if there is one.
    pub(crate) torn: Option<u64>,
}

/// Decodes the bytes of manifest `number`.
pub(crate) fn decode(bytes: &[u8], number: u64, path: &Path) -> Result<Contents> {
    let mut r = Reader(bytes);
    if r.take(8) != Some(MAGIC) {
        return Err(Error::corrupt(path, 0, "the manifest header is wrong"));
    }
    match r.u32() {
        Some(VERSION) => {}
        Some(found) if found > VERSION && frame_at(bytes, number, HEADER).is_some() => {
            return Err(Error::NewerFormat { path: path.to_owned(), found, supported: VERSION });
        }
        _ => return Err(Error::corrupt(path, 8, "the manifest version is wrong")),
    }
    let mut state: Option<Edit> = None;
    let mut at = HEADER;
    while let Some((payload, end)) = frame_at(bytes, number, at) {
        let edit = Edit::decode(payload)
            .ok_or_else(|| Error::corrupt(path, at as u64, "an edit does not fit the format"))?;
        if !state.get_or_insert_default().apply(edit) {
            let what = "an edit removes a table that is not there";
            return Err(Error::corrupt(path, at as u64, what));
        }
        at = end;
    }
    if (at + 1..bytes.len()).any(|later| frame_at(bytes, number, later).is_some()) {
        return Err(Error::corrupt(path, at as u64, "an edit is damaged, and valid ones follow"));
    }
    let state =
        state.ok_or_else(|| Error::corrupt(path, HEADER as u64, "the first edit is damaged"))?;
    Ok(Contents { state, torn: (at < bytes.len()).then_some(at as u64) })
}

/// The manifest being written.
pub(crate) struct Manifest {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    pub(crate) number: u64,
    pub(crate) size: u64,
}

impl Manifest {
    /// Starts manifest `number` with the whole state and makes it the current one.
    pub(crate) fn start(folder: &Folder, number: u64, state: &Edit) -> Result<Manifest> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&frame(&state.encode(), number, HEADER as u64));
        let name = file_name(number);
        let file = folder.write(&name, &bytes)?;
        // The pointer must not become durable before what it points to.
        folder.sync()?;
        folder.write(CURRENT_NEW, pointer(number).as_bytes())?;
        folder.rename(CURRENT_NEW, CURRENT)?;
        folder.sync()?;
        Ok(Manifest { file, path: folder.path(&name), number, size: bytes.len() as u64 })
    }

    /// Appends an edit and forces it.
    pub(crate) fn append(&mut self, edit: &Edit) -> Result<()> {
        let bytes = frame(&edit.encode(), self.number, self.size);
        self.file.append(&bytes).at("write", &self.path)?;
        self.file.sync().at("sync", &self.path)?;
        self.size += bytes.len() as u64;
        Ok(())
    }
}

/// The text of `CURRENT`: the manifest's name and a checksum of it.
fn pointer(number: u64) -> String {
    let name = file_name(number);
    let crc = crc32fast::hash(name.as_bytes());
    format!("{name} {crc:08x}\n")
}

/// The number of the current manifest from the bytes of `CURRENT`.
pub(crate) fn parse_pointer(bytes: &[u8], path: &Path) -> Result<u64> {
    let number = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.split('.').next())
        .and_then(|n| n.parse().ok());
    number
        .filter(|n| pointer(*n).as_bytes() == bytes)
        .ok_or_else(|| Error::corrupt(path, 0, "it does not name a manifest"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Real;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn sample(folder: &Folder) -> (Vec<u8>, Edit) {
        let meta = |number| Meta {
            number,
            size: 9,
            first: b"a".to_vec(),
            last: b"b".to_vec(),
            ..Meta::default()
        };
        let mut state = Edit { next_file: 3, log: 1, open: true, ..Edit::default() };
        let mut manifest = Manifest::start(folder, 2, &state).unwrap();
        let edits = [
            Edit {
                seq: 5,
                next_file: 5,
                log: 2,
                open: true,
                added: vec![(0, meta(3)), (0, meta(4))],
                ..Edit::default()
            },
            Edit {
                seq: 9,
                next_file: 6,
                log: 2,
                open: true,
                added: vec![(1, meta(5))],
                removed: vec![3, 4],
                forgotten: 4,
                ..Edit::default()
            },
        ];
        for edit in edits {
            manifest.append(&edit).unwrap();
            assert!(state.apply(edit));
        }
        (folder.read(&file_name(2)).unwrap(), state)
    }

    #[test]
    fn edits_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(Arc::new(Real), dir.path());
        let (bytes, state) = sample(&folder);
        let read = decode(&bytes, 2, Path::new("m")).unwrap();
        assert_eq!((read.state, read.torn), (state, None));
        let current = folder.read(CURRENT).unwrap();
        assert_eq!(parse_pointer(&current, Path::new("CURRENT")).unwrap(), 2);
    }

    #[test]
    fn only_the_last_edit_can_be_torn() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(Arc::new(Real), dir.path());
        let (bytes, state) = sample(&folder);
        let last = (0..bytes.len()).rev().find(|at| frame_at(&bytes, 2, *at).is_some()).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match decode(&bad, 2, Path::new("m")) {
                Ok(read) => {
                    assert!(bit / 8 >= last, "bit {bit} went unnoticed");
                    assert!(read.torn == Some(last as u64) && read.state != state);
                }
                Err(Error::Corruption { .. } | Error::NewerFormat { .. }) => {
                    assert!(bit / 8 < last)
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(tail: Vec<u8>, header: bool, seal: bool) {
            let mut bytes = if header { [MAGIC.as_slice(), &1u32.to_le_bytes()].concat() } else { Vec::new() };
            if seal { bytes.extend(frame(&tail, 1, HEADER as u64)) } else { bytes.extend(tail) }
            let _ = decode(&bytes, 1, Path::new("m"));
            let _ = parse_pointer(&bytes, Path::new("c"));
        }
    }
}
