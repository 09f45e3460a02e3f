//! Commits of several files. SQLite names the rollback journals of all of them in a super-journal;
//! each file is prepared with a trailer that names it; its removal commits them all at once.
//!
//! A commit that died before that leaves the super-journal. It may be removed only when no trailer
//! names it any more, or the transaction would count in that file. SQLite would remove it earlier
//! when it gives a commit up, because it finds no rollback journals; so that is done here instead,
//! after every file was rolled back.

use super::{Names, Pair};
use crate::disk::{Disk, Handle, Open, Sync, folder};
use crate::error::{Context, Result};
use crate::image;
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
    void(disk, shadow)?;
    remove(disk, &super_journal)
}

/// Makes sure that the shadow does not count any more, whatever becomes of the super-journal.
pub(crate) fn withdraw(pair: &Pair, super_journal: &Path) -> Result<()> {
    if prepared(pair.disk.as_ref(), &pair.names.shadow, super_journal, Open::Read)?.is_some() {
        void(pair.disk.as_ref(), pair.shadow())
    } else {
        pair.sync_shadow(Sync::Bytes, "giving up a commit of several files")
    }
}

/// Removes the super-journal of a commit that was given up, if no file names it any more.
pub(crate) fn remove(disk: &dyn Disk, super_journal: &Path) -> Result<()> {
    if others(super_journal).all(|main| !names(disk, &main, super_journal)) {
        match disk.remove(super_journal) {
            // Whoever settles another file of the same commit may be as far.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.when("removing a super-journal", ffi::SQLITE_IOERR_DELETE)?,
        }
    }
    Ok(())
}

/// Removes the super-journals beside a database that name it and that no file names: a writer died
/// before it prepared a file, or after all were given up. The caller is the only one who may write to
/// the pair, as whoever made such a super-journal was, so that one is dead. One that stays harms
/// nobody.
pub(crate) fn sweep(pair: &Pair) {
    let folder = folder(&pair.names.main);
    let names = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    for super_journal in names.map(|entry| entry.file_name()).filter(|name| is_super(name)) {
        let super_journal = folder.join(super_journal);
        if others(&super_journal).any(|main| main == pair.names.main) {
            let _ = remove(pair.disk.as_ref(), &super_journal);
        }
    }
}

/// Whether SQLite gives super-journals such names: `NAME-mjXXXXXX9XX`, in hexadecimal digits.
fn is_super(name: &OsStr) -> bool {
    let Some((rest, random)) = name.as_bytes().split_last_chunk::<9>() else { return false };
    rest.ends_with(b"-mj") && random[6] == b'9' && random.iter().all(u8::is_ascii_hexdigit)
}

/// Makes sure that the version in a file does not count.
fn void(disk: &dyn Disk, file: &Handle) -> Result<()> {
    let nothing = [0; trailer::LENGTH as usize];
    let at = image::length_of(file)?.saturating_sub(trailer::LENGTH);
    disk.write(file, at, &nothing).writing("giving up a commit of several files")?;
    disk.sync(file, Sync::Bytes).syncing("giving up a commit of several files")
}

/// A file, if it is there and is prepared with this super-journal.
fn prepared(
    disk: &dyn Disk,
    path: &Path,
    super_journal: &Path,
    how: Open,
) -> Result<Option<Handle>> {
    if !path.exists() {
        return Ok(None);
    }
    let file = disk.open(path, how).when("looking for a super-journal", ffi::SQLITE_CANTOPEN)?;
    let trailer = image::read_trailer(&file, image::length_of(&file)?)?;
    let named = trailer.map(|trailer| folder(path).join(trailer.commits_with));
    let named = named.is_some_and(|named| named.file_name() == super_journal.file_name());
    Ok(named.then_some(file))
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
    [&its.main, &its.shadow]
        .into_iter()
        .any(|path| !matches!(prepared(disk, path, super_journal, Open::Read), Ok(None)))
}
