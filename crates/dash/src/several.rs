//! Commits of several files. SQLite names the rollback journals of all of them in a super-journal;
//! each file is prepared with a trailer that names it; its removal commits them all at once.
//!
//! A commit that died before that leaves the super-journal. It may be removed only when no trailer
//! names it any more, or the transaction would count in that file.

use crate::disk::{Disk, Handle, Open, Sync, folder};
use crate::error::{Context, Result};
use crate::image;
use crate::pair::{Names, Pair};
use crate::trailer;
use libsqlite3_sys as ffi;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Gives up a prepared version whose writer died before the super-journal was removed, and removes
/// that when it was the last to name it. The caller is the only one who may write to the pair.
pub(crate) fn give_up(pair: &Pair, shadow: &Handle) -> Result<()> {
    let length = image::length_of(shadow)?;
    let Some(prepared) = image::read_trailer(shadow, length)? else { return Ok(()) };
    let disk = pair.disk.as_ref();
    let super_journal = folder(&pair.names.main).join(&prepared.commits_with);
    if prepared.commits_with.is_empty() || !super_journal.exists() {
        return Ok(());
    }
    let nothing = [0; trailer::LENGTH as usize];
    let at = length - trailer::LENGTH;
    disk.write(shadow, at, &nothing).writing("giving up a commit of several files")?;
    disk.sync(shadow, Sync::Bytes).syncing("giving up a commit of several files")?;
    if others(&super_journal).all(|main| !names(disk, &main, &super_journal)) {
        let removed = disk.remove(&super_journal);
        removed.when("removing a super-journal", ffi::SQLITE_IOERR_DELETE)?;
    }
    Ok(())
}

/// The databases whose journals a super-journal names. Their folder may have been moved with it.
fn others(super_journal: &Path) -> impl Iterator<Item = PathBuf> {
    let bytes = std::fs::read(super_journal).unwrap_or_default();
    let moved = |path: PathBuf| {
        let beside = folder(super_journal).join(path.file_name().unwrap_or_default());
        if path.exists() || !beside.exists() { path } else { beside }
    };
    let names: Vec<PathBuf> = bytes
        .split(|byte| *byte == 0)
        .filter_map(|name| name.strip_suffix(b"-journal"))
        .map(|name| moved(PathBuf::from(OsStr::from_bytes(name))))
        .collect();
    names.into_iter()
}

/// Whether a database is prepared with this super-journal, here or on another file system of
/// SQLite. What cannot be found or read may be.
fn names(disk: &dyn Disk, main: &Path, super_journal: &Path) -> bool {
    let its = Names::of(main);
    if its.journal.exists() || !main.exists() {
        return true;
    }
    [&its.main, &its.shadow].into_iter().filter(|path| path.exists()).any(|path| {
        let trailer = disk.open(path, Open::Read).map_err(|_| ()).and_then(|file| {
            let length = image::length_of(&file).map_err(|_| ())?;
            image::read_trailer(&file, length).map_err(|_| ())
        });
        trailer.is_err()
            || trailer.is_ok_and(|trailer| {
                let named = trailer.map(|trailer| folder(main).join(trailer.commits_with));
                named.is_some_and(|named| named.file_name() == super_journal.file_name())
            })
    })
}
