use super::*;
use crate::conformance::conformance;
use crate::store::{find_database, only_database};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

const DATABASE: Id = Id([0xd0; 16]);
const SITE: Id = Id([0x51; 16]);
const NAME: ObjectName =
    ObjectName { database: DATABASE, kind: Kind::Batch, site: SITE, from: 0, upto: 1 };

/// A file system without hard links.
fn no_links(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The folder as it is, and as it would be on a file system without hard links.
fn both(root: &Path) -> [Folder; 2] {
    [Folder::new(root), Folder { link: no_links, ..Folder::new(root) }]
}

/// Every file below `dir`, by its path in it.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(file, bytes)| (name.join(file), bytes)));
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

fn make_old(file: &Path, age: Duration) {
    let file = File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn a_folder_is_a_store() {
    for which in 0..2 {
        let dirs = std::sync::Mutex::new(Vec::<TempDir>::new());
        conformance(|| {
            let dir = tempfile::tempdir().unwrap();
            let [linked, unlinked] = both(&dir.path().join("folder"));
            dirs.lock().unwrap().push(dir);
            Box::new(if which == 0 { linked } else { unlinked })
        });
        for dir in dirs.into_inner().unwrap() {
            for file in files(dir.path()).into_keys() {
                let text = file.strip_prefix("folder").unwrap().to_str().unwrap();
                assert!(ObjectName::parse(text).is_some(), "nothing else is left: {text}");
            }
        }
    }
}

#[test]
fn an_object_is_the_file_that_its_name_spells() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    folder.put_if_absent(&NAME, b"batch").unwrap();
    folder.put_if_absent(&ObjectName::snapshot(DATABASE, SITE, 0x1f), b"snapshot").unwrap();
    let (database, site) = ("d0".repeat(16), "51".repeat(16));
    let file = |path: String, bytes: &[u8]| (PathBuf::from(path), bytes.to_vec());
    assert_eq!(
        files(dir.path()),
        BTreeMap::from([
            file(
                format!("{database}/batches/{site}/0000000000000000-0000000000000001.batch"),
                b"batch"
            ),
            file(
                format!("{database}/snapshots/{site}/0000000000000000-000000000000001f.snapshot"),
                b"snapshot"
            ),
        ])
    );
}

#[test]
fn foreign_files_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    folder.put_if_absent(&NAME, b"batch").unwrap();
    let [root, database, kind, site] = folder.way(&NAME);
    let batch = "0000000000000000-0000000000000001";
    for (at, name) in [
        (&root, ".stignore".to_owned()),
        (&root, "desktop.ini".into()),
        (&root, "README".into()),
        (&root, Id([0xaa; 16]).to_string()),
        (&root, Id([0xaa; 16]).to_string().to_uppercase()),
        (&database, "Thumbs.db".into()),
        (&database, "snapshots".into()),
        (&kind, Id([3; 16]).to_string()),
        (&kind, "._x".into()),
        (&site, format!("{batch} (conflicted copy).batch")),
        (&site, format!("{batch}.sync-conflict-20260101-000000-AAAAAAA.batch")),
        (&site, format!(".~tmp~{batch}.batch")),
        (&site, format!(".syncthing.{batch}.batch.tmp")),
        (&site, format!("{batch}.batch.part")),
        (&site, format!("{batch}.snapshot")),
    ] {
        fs::write(at.join(name), b"foreign").unwrap();
    }
    fs::create_dir(root.join(".stfolder")).unwrap();
    fs::create_dir(root.join(Id([0xbb; 16]).to_string())).unwrap();
    fs::create_dir_all(root.join(Id([0xcc; 16]).to_string()).join("batches")).unwrap();
    fs::create_dir(kind.join("lost+found")).unwrap();
    fs::create_dir(site.join("0000000000000001-0000000000000002.batch")).unwrap();
    let before = files(dir.path());
    assert_eq!(folder.databases().unwrap(), [DATABASE]);
    assert_eq!(folder.list(DATABASE, Kind::Batch).unwrap(), [Entry { name: NAME, size: 5 }]);
    assert_eq!(folder.list(DATABASE, Kind::Snapshot).unwrap(), []);
    assert_eq!(folder.list(Id([0xaa; 16]), Kind::Batch).unwrap(), []);
    let next = ObjectName::batch(DATABASE, SITE, 1, 3);
    folder.put_if_absent(&next, b"next").unwrap();
    let mut after = files(dir.path());
    after.remove(Path::new(&next.to_string()));
    assert_eq!(after, before, "nobody else's file is touched");
}

#[cfg(unix)]
#[test]
fn names_that_are_not_unicode_are_passed_over() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    folder.put_if_absent(&NAME, b"batch").unwrap();
    let foreign = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    for at in folder.way(&NAME) {
        fs::write(at.join(foreign), b"foreign").unwrap();
    }
    assert_eq!(folder.list(DATABASE, Kind::Batch).unwrap().len(), 1);
    assert_eq!(folder.databases().unwrap(), [DATABASE]);
}

#[test]
fn a_missing_folder_is_empty_and_the_first_put_creates_it() {
    let dir = tempfile::tempdir().unwrap();
    for folder in both(&dir.path().join("team")) {
        assert_eq!(folder.databases().unwrap(), []);
        assert!(!find_database(&folder, DATABASE).unwrap());
        assert!(matches!(only_database(&folder), Err(Error::NoDatabase { .. })));
        assert_eq!(folder.list(DATABASE, Kind::Batch).unwrap(), []);
        assert!(matches!(folder.read(&NAME), Err(Error::NotFound { .. })));
        assert!(!folder.path().exists(), "reading creates nothing");
        assert_eq!(folder.put_if_absent(&NAME, b"batch").unwrap(), Put::Created);
        assert_eq!(only_database(&folder).unwrap(), DATABASE);
        fs::remove_dir_all(folder.path()).unwrap();
    }
}

#[test]
fn a_folder_on_an_absent_disk_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().join("stick").join("team"));
    let error = folder.put_if_absent(&NAME, b"batch").unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path == folder.path()), "{error}");
    assert!(error.to_string().contains("mounted"));
    assert!(!dir.path().join("stick").exists());
}

#[test]
fn what_is_no_folder_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("file");
    fs::write(&root, b"a file").unwrap();
    for folder in both(&root) {
        assert!(matches!(folder.databases(), Err(Error::Io { .. })));
        assert!(matches!(folder.list(DATABASE, Kind::Batch), Err(Error::Io { .. })));
        assert!(matches!(folder.put_if_absent(&NAME, b"batch"), Err(Error::Io { .. })));
    }
    assert_eq!(files(dir.path()), BTreeMap::from([(PathBuf::from("file"), b"a file".to_vec())]));
}

/// `/proc` refuses new folders even to the superuser, whom file modes do not stop.
#[cfg(target_os = "linux")]
#[test]
fn an_unwritable_folder_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::write(&source, b"snapshot").unwrap();
    for folder in both(Path::new("/proc")) {
        let error = folder.put_if_absent(&NAME, b"batch").unwrap_err();
        assert!(matches!(&error, Error::Io { path, .. } if path.starts_with("/proc")), "{error}");
        assert!(matches!(
            folder.put_file_if_absent(&NAME, &source, None, &mut |_, _| {}),
            Err(Error::Io { .. })
        ));
        assert!(matches!(folder.read(&NAME), Err(Error::NotFound { .. })));
    }
}

#[test]
fn leftovers_of_dead_writers_go_after_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    folder.put_if_absent(&NAME, b"batch").unwrap();
    let [_, _, _, site] = folder.way(&NAME);
    let hour = Duration::from_secs(3600);
    for (name, age) in [
        (".tmp-1-0-1", 25 * hour),
        (".tmp-1-0-2", 23 * hour),
        (".tmp-1-0-3", Duration::ZERO),
        ("tmp-1-0-4", 25 * hour),
    ] {
        fs::write(site.join(name), b"half an obj").unwrap();
        make_old(&site.join(name), age);
    }
    make_old(&folder.file(&NAME), 48 * hour);
    assert_eq!(folder.list(DATABASE, Kind::Batch).unwrap().len(), 1);
    folder.put_if_absent(&ObjectName::batch(DATABASE, SITE, 1, 2), b"next").unwrap();
    let left: Vec<String> = files(&site).keys().map(|p| p.display().to_string()).collect();
    assert_eq!(
        left,
        [
            ".tmp-1-0-2",
            ".tmp-1-0-3",
            "0000000000000000-0000000000000001.batch",
            "0000000000000001-0000000000000002.batch",
            "tmp-1-0-4",
        ]
    );
}

#[test]
fn an_empty_file_is_a_name_that_a_writer_has_taken() {
    for which in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let folder = &both(dir.path())[which];
        let [_, _, _, site] = folder.way(&NAME);
        fs::create_dir_all(site).unwrap();
        fs::write(folder.file(&NAME), b"").unwrap();
        assert_eq!(folder.list(DATABASE, Kind::Batch).unwrap(), []);
        assert_eq!(folder.databases().unwrap(), []);
        assert!(matches!(folder.read(&NAME), Err(Error::NotFound { .. })));
        assert_eq!(folder.put_if_absent(&NAME, b"batch").unwrap(), Put::AlreadyThere);
        assert_eq!(fs::read(folder.file(&NAME)).unwrap(), b"", "its writer may be at work");
        make_old(&folder.file(&NAME), Duration::from_secs(120));
        assert_eq!(folder.put_if_absent(&NAME, b"batch").unwrap(), Put::Created);
        assert_eq!(folder.read(&NAME).unwrap(), b"batch");
    }
}

#[test]
fn a_half_copied_object_is_left_to_whoever_copies_it() {
    for which in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let folder = &both(dir.path())[which];
        let [_, _, _, site] = folder.way(&NAME);
        fs::create_dir_all(site).unwrap();
        fs::write(folder.file(&NAME), b"ba").unwrap();
        make_old(&folder.file(&NAME), Duration::from_secs(48 * 3600));
        assert_eq!(folder.put_if_absent(&NAME, b"batch").unwrap(), Put::AlreadyThere);
        assert_eq!(folder.read(&NAME).unwrap(), b"ba", "readers verify what they read");
        let longer = ObjectName::batch(DATABASE, SITE, 0, 2);
        assert_eq!(folder.put_if_absent(&longer, b"batch and more").unwrap(), Put::Created);
    }
}

#[test]
fn a_failed_put_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    let failed = folder.put(&NAME, |file| {
        file.write_all(b"half").unwrap();
        Err(Error::io("write", Path::new("x"))(io::ErrorKind::StorageFull.into()))
    });
    assert!(matches!(failed, Err(Error::Io { .. })));
    assert_eq!(files(dir.path()), BTreeMap::new());
}

#[test]
fn urls_name_folders() {
    let dir = tempfile::tempdir().unwrap();
    let encoded = dir.path().display().to_string().replace('/', "%2F").replacen("%2F", "/", 1);
    let folder = Folder::from_url(&format!("file://{encoded}/a%20b/")).unwrap();
    assert_eq!(folder.path(), dir.path().join("a b"));
    folder.put_if_absent(&NAME, b"batch").unwrap();
    assert!(folder.address().contains("a b") && dir.path().join("a b").is_dir());
    assert!(matches!(Folder::from_url("team"), Err(Error::NotAFolderUrl { .. })));
}

/// Content that an object of this name, and only of this name, has.
fn content(name: &ObjectName) -> Vec<u8> {
    let mut bytes = vec![0; 1 + (name.upto as usize * 7919) % 60_000];
    blake3::Hasher::new().update(name.to_string().as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

const FOLDER: &str = "SYNQLITE_TEST_FOLDER";
const NAMES: u64 = 2_000;

fn name(n: u64) -> ObjectName {
    ObjectName::batch(DATABASE, SITE, n, n + 1)
}

/// Puts objects until it is killed; started by the test below.
#[test]
#[ignore = "the process that the next test kills"]
fn writer() {
    let Ok(setting) = std::env::var(FOLDER) else { return };
    let (which, root) = setting.split_once(' ').unwrap();
    let folder = &both(Path::new(root))[which.parse::<usize>().unwrap()];
    for n in 0..NAMES {
        folder.put_if_absent(&name(n), &content(&name(n))).unwrap();
    }
}

fn start_writer(which: usize, root: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "folder::tests::writer", "--ignored"])
        .env(FOLDER, format!("{which} {}", root.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn killed_writers_leave_whole_objects_or_none() {
    for which in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let folder = &both(dir.path())[which];
        let mut listed = 0;
        for round in 0..12 {
            let mut writers = [start_writer(which, dir.path()), start_writer(which, dir.path())];
            let begun = Instant::now();
            while folder.list(DATABASE, Kind::Batch).unwrap().len() == listed {
                assert!(begun.elapsed() < Duration::from_secs(60), "the writers get somewhere");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_micros(700 * round));
            for writer in &mut writers {
                writer.kill().unwrap();
                writer.wait().unwrap();
            }
            let entries = folder.list(DATABASE, Kind::Batch).unwrap();
            assert!(entries.len() >= listed, "objects stay");
            listed = entries.len();
            for Entry { name, size } in entries {
                let bytes = folder.read(&name).unwrap();
                assert!(bytes == content(&name) && bytes.len() as u64 == size, "{name} is whole");
            }
        }
        for file in files(dir.path()).into_keys() {
            make_old(&dir.path().join(file), Duration::from_secs(48 * 3600));
        }
        let end = name(listed as u64 + 5);
        for n in 0..end.upto {
            folder.put_if_absent(&name(n), &content(&name(n))).unwrap();
            assert_eq!(folder.read(&name(n)).unwrap(), content(&name(n)));
        }
        for file in files(dir.path()).into_keys() {
            let text = file.to_str().unwrap();
            assert!(ObjectName::parse(text).is_some(), "leftovers are gone: {text}");
        }
    }
}
