//! What the targets of the store share: a disk in memory, and the store's files written as
//! `docs/formats/lsm.md` describes them, with right checksums around any content.

mod disk;
pub mod format;

pub use disk::Memory;
use std::sync::Arc;
use synqlite_lsm::{Db, Error, Options, repair_on, verify_on};

/// Where the store is on every [`Memory`].
pub const DIR: &str = "store";

/// Opens a store whatever its files are, reads all of it, and salvages it if it is damaged. Nothing
/// of that may panic, and what once opened opens again and is the same.
pub fn exercise(disk: Memory) {
    let options = Options { background: false, idle: None, ..Options::default() };
    let shared = Arc::new(disk.clone());
    let opened = Db::open_on(shared.clone(), DIR, options.clone());
    match opened.and_then(|db| read(&db)) {
        Ok(all) => {
            let again = Db::open_on(shared.clone(), DIR, options.clone());
            let again = again.expect("what opened once opens again");
            assert_eq!(read(&again).expect("it was readable"), all);
        }
        Err(Error::Io { source, .. }) => panic!("the disk never fails: {source}"),
        Err(_) => {
            let _ = verify_on(shared.clone(), DIR);
            if repair_on(shared.clone(), DIR).is_ok() {
                let found = verify_on(shared.clone(), DIR).expect("it was repaired");
                assert!(found.problems.is_empty(), "{:?}", found.problems);
                let db = Db::open_on(shared, DIR, options).expect("it was repaired");
                read(&db).expect("it was repaired");
            }
        }
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Everything, forward; backward and key by key it must be readable, too.
fn read(db: &Db) -> Result<Pairs, Error> {
    let mut all = Vec::new();
    let mut scan = db.scan(..)?;
    while scan.advance()? {
        all.push((scan.key().to_vec(), scan.value().to_vec()));
    }
    let mut scan = db.scan_back(..)?;
    while scan.advance()? {}
    for (key, _) in &all {
        db.get(key)?;
    }
    for change in db.changes_since(0)? {
        change?;
    }
    db.close()?;
    Ok(all)
}
