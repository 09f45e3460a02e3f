use super::*;
use crate::folder::Folder;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Bytes that compress somewhat, the same for the same seed.
fn content(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes.chunks_mut(7).skip(1).step_by(2).for_each(|chunk| chunk.fill(seed));
    bytes
}

struct Case {
    dir: TempDir,
    header: SnapshotHeader,
    packed: Vec<u8>,
}

impl Case {
    fn new(content: &[u8]) -> Case {
        let dir = tempfile::tempdir().unwrap();
        let mut vector = VersionVector::default();
        vector.raise(Id([7; 16]), Hlc::at_ms(1_700_000_000_000));
        vector.raise(Id([9; 16]), Hlc(3));
        let mut beyond = VersionVector::default();
        beyond.raise(Id([7; 16]), Hlc::at_ms(1_700_000_000_000));
        let head = SnapshotHead {
            database: Id([1; 16]),
            site: Id([7; 16]),
            upto: 42,
            length: content.len() as u64,
            after: Some(Id([6; 16])),
            beyond,
        };
        let trail = Trail::of(vec![Id([5; 16]), Id([6; 16])]);
        let header = SnapshotHeader { head, vector, trail };
        let source = dir.path().join("source");
        fs::write(&source, content).unwrap();
        let mut packed = Vec::new();
        write_snapshot(&source, &mut packed, &header).unwrap();
        Case { dir, header, packed }
    }

    fn to(&self) -> PathBuf {
        self.dir.path().join("restored")
    }

    /// Reads `packed` and checks that a failure leaves no file behind.
    fn read(&self, packed: &[u8]) -> Result<SnapshotHeader> {
        let read = read_snapshot(&self.header.name(), packed, &self.to());
        if read.is_err() {
            let left: Vec<_> = fs::read_dir(self.dir.path()).unwrap().map(|e| e.unwrap()).collect();
            assert_eq!(left.len(), 1, "only the source is left: {left:?}");
        }
        read
    }
}

#[test]
fn a_file_comes_back_with_its_header() {
    for length in [0, 1, 70_000, 3_000_000] {
        let content = content(length, 5);
        let case = Case::new(&content);
        assert_eq!(case.read(&case.packed).unwrap(), case.header);
        assert_eq!(fs::read(case.to()).unwrap(), content);
    }
}

#[test]
fn the_bytes_are_those_of_the_format_document() {
    let case = Case::new(b"content");
    let packed = &case.packed;
    assert_eq!(&packed[..8], b"SynQSnap");
    assert_eq!(packed[8..10], [0, 1]);
    assert_eq!(packed[10..26], [1; 16]);
    assert_eq!(packed[26..42], [7; 16]);
    assert_eq!(packed[42..50], 42_u64.to_be_bytes());
    assert_eq!(packed[50..58], 7_u64.to_be_bytes());
    assert_eq!(packed[58], 1);
    assert_eq!(packed[59..75], [6; 16]);
    assert_eq!(packed[75..79], [0, 0, 0, 1]);
    assert_eq!(packed[79..95], [7; 16]);
    assert_eq!(packed[95..103], (1_700_000_000_000_i64 << 16).to_be_bytes());
    assert_eq!(packed[103..135], *blake3::hash(&packed[..103]).as_bytes());
    assert_eq!(packed[135..139], [0, 0, 0, 2]);
    assert_eq!(packed[139..155], [7; 16]);
    assert_eq!(packed[155..163], (1_700_000_000_000_i64 << 16).to_be_bytes());
    assert_eq!(packed[163..179], [9; 16]);
    assert_eq!(packed[179..187], 3_i64.to_be_bytes());
    assert_eq!(packed[187..191], [0, 0, 0, 2]);
    assert_eq!(packed[191..207], [5; 16]);
    assert_eq!(packed[207..223], [6; 16]);
    assert_eq!(packed[223..255], *blake3::hash(&packed[..223]).as_bytes());
    let end = packed.len() - 32;
    assert_eq!(zstd::stream::decode_all(&packed[255..end]).unwrap(), b"content");
    assert_eq!(packed[end..], *blake3::hash(&packed[..end]).as_bytes());
}

#[test]
fn every_flipped_bit_is_detected() {
    let case = Case::new(&content(300, 5));
    for at in 0..case.packed.len() {
        for bit in 0..8 {
            let mut packed = case.packed.clone();
            packed[at] ^= 1 << bit;
            let error = case.read(&packed).expect_err("a flipped bit is detected");
            let newer = matches!(error, Error::NewerSnapshot { .. }) && (8..10).contains(&at);
            assert!(newer || matches!(error, Error::BadSnapshot { .. }), "{at}.{bit}: {error}");
        }
    }
}

#[test]
fn every_truncation_is_detected() {
    let case = Case::new(&content(3_000, 5));
    for length in 0..case.packed.len() {
        let error = case.read(&case.packed[..length]).expect_err("a truncation is detected");
        assert!(matches!(error, Error::BadSnapshot { .. }), "{length}: {error}");
    }
    let longer = [case.packed.as_slice(), b"x"].concat();
    assert!(matches!(case.read(&longer), Err(Error::BadSnapshot { .. })));
}

#[test]
fn flips_and_cuts_in_a_large_body_are_detected() {
    let case = Case::new(&content(1_000_000, 5));
    for at in (0..case.packed.len()).step_by(case.packed.len() / 40) {
        let mut packed = case.packed.clone();
        packed[at] ^= 0x10;
        assert!(case.read(&packed).is_err(), "{at}");
        assert!(case.read(&case.packed[..at]).is_err(), "{at}");
    }
}

#[test]
fn the_header_is_verified_without_the_body() {
    let case = Case::new(&content(300, 5));
    let (name, end) = (case.header.name(), 255);
    let read = |bytes: &[u8]| {
        named(&name, &mut Source::new(bytes), SnapshotHeader::decode, |header| header.name())
    };
    assert_eq!(read(&case.packed[..end]).unwrap(), case.header);
    assert_eq!(decode_snapshot_head(&name, &case.packed[..135]).unwrap(), case.header.head);
    for bit in 0..8 * end {
        let mut packed = case.packed.clone();
        packed[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&packed).is_err(), "bit {bit}");
        assert_eq!(decode_snapshot_head(&name, &packed).is_ok(), bit >= 8 * 135, "bit {bit}");
    }
}

/// The header of a case with another length.
fn longer(case: &Case, length: u64) -> SnapshotHeader {
    let mut header = case.header.clone();
    header.head.length = length;
    header
}

/// A container, sealed as it should be, whose header claims another length.
fn lying(case: &Case, length: u64) -> Vec<u8> {
    let mut packed = longer(case, length).encode();
    packed.extend_from_slice(&case.packed[packed.len()..case.packed.len() - 32]);
    packed.extend_from_slice(blake3::hash(&packed.clone()).as_bytes());
    packed
}

#[test]
fn a_length_that_lies_is_refused() {
    let case = Case::new(&content(1_000_000, 5));
    for length in [0, 10, 999_999, 1_000_001, u64::MAX] {
        let error = case.read(&lying(&case, length)).unwrap_err();
        assert!(matches!(error, Error::BadSnapshot { .. }), "{length}: {error}");
    }
    assert!(case.read(&lying(&case, 1_000_000)).is_ok());
}

#[test]
fn reading_stops_at_the_first_byte_too_many() {
    let case = Case::new(&content(4_000_000, 5));
    let packed = lying(&case, 10);
    let error = read_snapshot(&case.header.name(), Breaks(&packed[..1_000_000]), &case.to());
    assert!(matches!(error, Err(Error::BadSnapshot { .. })), "the rest is never asked for");
}

#[test]
fn a_failed_read_leaves_the_file_there_as_it_was() {
    let case = Case::new(b"content");
    let to = case.dir.path().join("precious");
    fs::write(&to, b"before").unwrap();
    let name = case.header.name();
    assert!(read_snapshot(&name, &case.packed[..case.packed.len() - 1], &to).is_err());
    assert_eq!(fs::read(&to).unwrap(), b"before");
    read_snapshot(&name, &case.packed[..], &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"content");
}

/// A connection that breaks after these bytes.
struct Breaks<'a>(&'a [u8]);

impl Read for Breaks<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out)? {
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            n => Ok(n),
        }
    }
}

#[test]
fn a_broken_connection_is_not_called_damage() {
    let case = Case::new(&content(200_000, 5));
    for length in [0, 30, 150, 60_000, case.packed.len() - 1] {
        let broken = Breaks(&case.packed[..length]);
        let read = read_snapshot(&case.header.name(), broken, &case.to());
        assert!(matches!(read, Err(Error::Read { .. })), "{length}: {read:?}");
    }
}

#[test]
fn a_source_of_another_length_is_refused() {
    let case = Case::new(b"content");
    for length in [6, 8] {
        let header = longer(&case, length);
        let source = case.dir.path().join("source");
        let written = write_snapshot(&source, io::sink(), &header);
        assert!(matches!(written, Err(Error::SourceChanged { .. })), "{written:?}");
    }
}

#[test]
fn a_full_destination_is_reported() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let case = Case::new(&content(100_000, 5));
    let source = case.dir.path().join("source");
    for room in [0, 141, 150, case.packed.len() - 1] {
        let written = write_snapshot(&source, Full(room), &case.header);
        assert!(matches!(written, Err(Error::Write { .. })), "{room}: {written:?}");
    }
    write_snapshot(&source, Full(case.packed.len()), &case.header).unwrap();
}

#[test]
fn snapshots_travel_through_a_store() {
    let case = Case::new(&content(500_000, 5));
    let store = Folder::new(case.dir.path().join("store"));
    let name = case.header.name();
    let missing = fetch_snapshot(&store, &name, &case.to());
    assert!(matches!(missing, Err(Error::NotFound { .. })));
    let source = case.dir.path().join("source");
    assert_eq!(
        put_snapshot(&store, &source, &case.header, None, &mut |_, _| {}).unwrap().0,
        Put::Created
    );
    assert_eq!(
        put_snapshot(&store, &source, &case.header, None, &mut |_, _| {}).unwrap().0,
        Put::AlreadyThere
    );
    assert_eq!(store.read(&name).unwrap(), case.packed);
    assert_eq!(peek_snapshot(&store, &name).unwrap(), case.header);
    assert_eq!(fetch_snapshot(&store, &name, &case.to()).unwrap(), case.header);
    assert_eq!(fs::read(case.to()).unwrap(), fs::read(&source).unwrap());
    let files: Vec<_> = fs::read_dir(case.dir.path()).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(files.len(), 3, "source, store, restored: {files:?}");
}

#[test]
fn a_snapshot_under_another_name_is_refused() {
    let case = Case::new(b"content");
    let store = Folder::new(case.dir.path().join("store"));
    let own = case.header.name();
    for name in [
        ObjectName { upto: 43, ..own },
        ObjectName { from: 1, ..own },
        ObjectName { site: Id([8; 16]), ..own },
        ObjectName { database: Id([8; 16]), ..own },
        ObjectName { kind: Kind::Batch, ..own },
    ] {
        store.put_if_absent(&name, &case.packed).unwrap();
        assert!(matches!(peek_snapshot(&store, &name), Err(Error::BadSnapshot { .. })));
        let fetched = fetch_snapshot(&store, &name, &case.to());
        assert!(matches!(fetched, Err(Error::BadSnapshot { .. })));
        assert!(!case.to().exists());
    }
}
