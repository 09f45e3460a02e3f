use super::*;
use crate::conformance::conformance;
use crate::folder::Folder;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;

const DATABASE: Id = Id([0xd0; 16]);
const SITE: Id = Id([0x51; 16]);

struct Lab {
    dir: tempfile::TempDir,
    store: Sealed,
}

fn lab() -> Lab {
    let dir = tempfile::tempdir().unwrap();
    let store = Sealed::new(Arc::new(Folder::new(dir.path())), &Key::new([1; 32]));
    Lab { dir, store }
}

impl Lab {
    fn with_key(&self, key: u8) -> Sealed {
        Sealed::new(Arc::new(Folder::new(self.dir.path())), &Key::new([key; 32]))
    }

    fn put(&self, n: u64, bytes: &[u8]) -> (ObjectName, PathBuf) {
        let name = ObjectName::batch(DATABASE, SITE, n, n + 1);
        assert_eq!(self.store.put_if_absent(&name, bytes).unwrap(), Put::Created);
        (name, self.dir.path().join(self.store.hide(&name).to_string()))
    }

    /// It is refused however it is read, and both its names are told.
    fn assert_refused(&self, name: &ObjectName) {
        let whole = self.store.read(name).unwrap_err().to_string();
        let prefix = self.store.read_prefix(name, 1).unwrap_err().to_string();
        let kept = self.store.hide(name).to_string();
        for told in [whole, prefix] {
            assert!(told.contains(&name.to_string()) && told.contains("altered"), "{told}");
            assert!(told.contains(&kept), "{told}");
        }
    }
}

#[test]
fn a_sealed_store_keeps_the_promise_of_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    conformance(|| {
        count.set(count.get() + 1);
        let folder = Folder::new(dir.path().join(count.get().to_string()));
        Box::new(Sealed::new(Arc::new(folder), &Key::new([count.get() as u8; 32])))
    });
}

#[test]
fn every_length_reads_back_and_is_told() {
    let lab = lab();
    let lengths = [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5];
    for (n, length) in (0..).zip(lengths) {
        let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let (name, file) = lab.put(n, &bytes);
        assert_eq!(lab.store.read(&name).unwrap(), bytes);
        let sealed = fs::metadata(&file).unwrap().len();
        assert_eq!(plain_size(sealed), length as u64);
        for max in [1, CHUNK, CHUNK + 1, length] {
            let prefix = lab.store.read_prefix(&name, max as u64).unwrap();
            assert_eq!(prefix, bytes[..max.min(length)], "{max} of {length}");
        }
    }
}

#[test]
fn neither_names_nor_content_can_be_read() {
    let lab = lab();
    let (name, file) = lab.put(5, b"a secret that is long enough to be found");
    let kept = fs::read(&file).unwrap();
    assert!(!kept.windows(6).any(|window| window == b"secret"));
    let path = file.display().to_string();
    for part in [name.database.to_string(), name.site.to_string(), format!("{:016x}", name.from)] {
        assert!(!path.contains(&part), "{path}");
    }
    // The same content is never sealed alike, and names of one site have nothing in common.
    let (other, file) = lab.put(6, b"a secret that is long enough to be found");
    assert_ne!(fs::read(&file).unwrap()[HEAD..], kept[HEAD..]);
    assert_ne!(lab.store.hide(&name).site, lab.store.hide(&other).site);
}

#[test]
fn what_a_keeper_changes_is_noticed() {
    let lab = lab();
    let (name, file) = lab.put(0, &[7; 3 * CHUNK]);
    let whole = fs::read(&file).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let first = HEAD + CHUNK + TAG;
    for altered in [flipped(20), flipped(HEAD), flipped(first - 1)] {
        fs::write(&file, altered).unwrap();
        lab.assert_refused(&name);
    }
    let (one, two) = (&whole[HEAD..first], &whole[first..first + CHUNK + TAG]);
    let head = &whole[..HEAD];
    for altered in [
        flipped(whole.len() - 1),
        whole[..whole.len() - 1].to_vec(),
        whole[..first].to_vec(),
        [head, one].concat(),
        [head, two, one, &whole[first + CHUNK + TAG..]].concat(),
        [&whole, one].concat(),
    ] {
        fs::write(&file, altered).unwrap();
        assert!(lab.store.read(&name).is_err());
    }
    fs::write(&file, &whole).unwrap();
    assert_eq!(lab.store.read(&name).unwrap(), [7; 3 * CHUNK]);
}

#[test]
fn objects_that_were_swapped_or_renamed_are_noticed() {
    let lab = lab();
    let ((one, file), (two, other)) = (lab.put(0, b"one"), lab.put(1, b"two"));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, fs::read(&other).unwrap()).unwrap();
    fs::write(&other, bytes).unwrap();
    lab.assert_refused(&one);
    lab.assert_refused(&two);
    let new = ObjectName::batch(DATABASE, SITE, 1, 9);
    let address = lab.dir.path().join(lab.store.hide(&new).to_string());
    fs::create_dir_all(address.parent().unwrap()).unwrap();
    fs::copy(&other, address).unwrap();
    lab.assert_refused(&new);
}

#[test]
fn a_wrong_key_and_none_are_told_apart() {
    let lab = lab();
    lab.put(0, b"one");
    let wrong = lab.with_key(2);
    assert!(matches!(wrong.databases(), Err(Error::WrongKey { .. })));
    let ask = Ask { database: DATABASE, after: None, prefix: 9, site: None, name: "" };
    assert!(matches!(wrong.changes(ask), Err(Error::WrongKey { .. })));
    let plain = Folder::new(lab.dir.path().join("plain"));
    plain.put_if_absent(&ObjectName::batch(DATABASE, SITE, 0, 1), b"plain").unwrap();
    let sealed = Sealed::new(Arc::new(plain), &Key::new([1; 32]));
    assert!(matches!(sealed.databases(), Err(Error::NotSealed { .. })));
    assert!(matches!(sealed.changes(ask), Err(Error::NotSealed { .. })));
}

#[test]
fn an_object_that_is_cut_short_is_told_from_one_that_was_altered() {
    let lab = lab();
    // Content that says after a mark how long it is.
    const MARK: &[u8] = b"content ";
    let least = |beginning: &[u8]| match beginning.strip_prefix(MARK) {
        Some(rest) => Some(rest.first_chunk().map_or(10, |n| u16::from_be_bytes(*n).into())),
        None => MARK.starts_with(beginning).then_some(10),
    };
    for length in [40_u16, 20_000] {
        let mut bytes = [MARK, &length.to_be_bytes()].concat();
        bytes.resize(length.into(), 7);
        let (name, file) = lab.put(length.into(), &bytes);
        let whole = fs::read(&file).unwrap();
        let is_cut = || lab.store.is_cut(&name, &least).unwrap();
        for left in [1, HEAD - 1, HEAD, HEAD + 1, HEAD + 30, HEAD + TAG + 39] {
            fs::write(&file, &whole[..left]).unwrap();
            assert!(is_cut(), "{left} of {}", whole.len());
            let entries = lab.store.list(DATABASE, Kind::Batch).unwrap();
            assert!(entries.iter().any(|e| e.name == name && e.size < u64::from(length)));
        }
        for at in [0, 9, HEAD - 1, HEAD + 5] {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            fs::write(&file, altered).unwrap();
            assert!(!is_cut(), "byte {at} of {}", whole.len());
            lab.assert_refused(&name);
        }
        fs::write(&file, &whole).unwrap();
    }
}

#[test]
fn one_damaged_object_does_not_say_that_the_store_has_another_key_or_none() {
    let lab = lab();
    let files = [lab.put(0, b"one"), lab.put(1, b"two")].map(|(_, file)| file);
    for file in &files {
        let whole = fs::read(file).unwrap();
        for at in [0, 12] {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            fs::write(file, altered).unwrap();
            assert_eq!(lab.store.databases().unwrap(), [DATABASE]);
        }
        fs::write(file, &whole[..5]).unwrap();
        assert_eq!(lab.store.databases().unwrap(), [DATABASE]);
        fs::write(file, whole).unwrap();
    }
}

proptest! {
    #[test]
    fn names_are_hidden_one_to_one(
        id in proptest::array::uniform16(any::<u8>()),
        site in proptest::array::uniform16(any::<u8>()),
        from in any::<u64>(),
        upto in any::<u64>(),
        snapshot in any::<bool>(),
    ) {
        let store = lab().store;
        let name = match snapshot {
            true => ObjectName::snapshot(Id(id), Id(site), upto),
            false => ObjectName::batch(Id(id), Id(site), from, upto),
        };
        let hidden = store.hide(&name);
        prop_assert_eq!(store.unhide(&hidden), name);
        prop_assert_eq!(hidden.kind, name.kind);
        prop_assert!(hidden.database != name.database && hidden.site != name.site);
        prop_assert!(!snapshot || hidden.from == 0);
    }
}
