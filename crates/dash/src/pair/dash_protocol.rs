//! What only the paper's protocols do: version numbers as the whole truth about the two files
//! (figure 11), Version Update, Version Reset, Header Reset, and an exchange by three renames.
//!
//! ```text
//!   (n, 0) ──Version Update──> (n, n+1) ──Atomic Exchange──> (n+1, n) ──Version Reset──> (n+1, 0)
//!                                 │                                                        ▲
//!                                 └──Version Reset is durable first──> (0, n+1) ──redo─────┘
//! ```
//!
//! The first number is the version of the main file, the second that of the shadow. `(n, n+1)` is
//! undone, from the page lists of both files; `(n+1, n)` and `(0, n+1)` are finished.
//!
//! As printed, the exchange of one transaction may not be durable when the next overwrites the file
//! that the durable name of the database still leads to. `(n+1, n)` then means a half-written main
//! file. The modes `shadow` and `shadow-x` synchronize the folder before each Version Update.

use super::{Names, Pair};
use crate::disk::{Disk, Handle, Sync};
use crate::error::{Context, Result};
use crate::image::{self, Image};
use crate::mode::{Evidence, Mode};
use crate::trailer::Trailer;
use libsqlite3_sys as ffi;
use std::io;
use std::path::Path;

/// Length of a database header.
const HEADER: usize = 100;

/// What the shadow is, beside a current file of a known version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shadow {
    /// The version before: fit to be written.
    Behind,
    /// The same, but its Version Reset is missing.
    Unreset,
    /// The next version, begun and never acknowledged.
    Ahead,
    /// None of these.
    Unknown,
}

/// What the shadow is beside a current file whose version is known.
pub(crate) fn shadow_is(mode: Mode, current: &Image, seen: &Image) -> Shadow {
    let (Some(current), Some(there)) = (&current.trailer, &seen.trailer) else {
        return Shadow::Unknown;
    };
    let (before, next) = (there.id == current.after, there.after == current.id);
    let by_versions = mode.evidence() == Evidence::Version;
    match there.version {
        // Its pages may be in any state: only the trailer was durable before they were written.
        n if next && n == current.version + 1 && (by_versions || seen.version().is_some()) => {
            Shadow::Ahead
        }
        0 if before && by_versions => Shadow::Behind,
        n if before && by_versions && n + 1 == current.version => Shadow::Unreset,
        n if before && n + 1 == current.version && seen.version().is_some() => Shadow::Behind,
        _ => Shadow::Unknown,
    }
}

/// Makes the last exchange durable, before the file that was the database before it is overwritten.
/// The paper lacks this.
pub(crate) fn settle_names(pair: &Pair) -> Result<()> {
    if pair.mode.evidence() != Evidence::Version || !pair.mode.is_safe() {
        return Ok(());
    }
    if pair.mode.is_alone() && is_reset(pair)? {
        // The exchange was made durable before the header was reset.
        return Ok(());
    }
    let synced = pair.disk.sync_folder(&pair.names.main);
    synced.syncing("making the last exchange durable")
}

/// Notes in the shadow that a version begins and which pages it is about.
pub(crate) fn update_version(pair: &Pair, trailer: &Trailer) -> Result<()> {
    image::write_trailer(pair.disk.as_ref(), pair.shadow(), trailer)?;
    if pair.mode.is_alone() {
        return Ok(());
    }
    pair.sync_shadow(Sync::Bytes, "making a Version Update durable")
}

/// Sets the version in a file to 0: the transaction that made it the shadow is durable.
pub(crate) fn reset_version(pair: &Pair, file: &Handle) -> Result<()> {
    match image::read_trailer(file, image::length_of(file)?)? {
        Some(old) => {
            let reset = Trailer { version: 0, ..old };
            image::write_trailer(pair.disk.as_ref(), file, &reset).map(drop)
        }
        // Without a trailer the file is made anew before it is written to.
        None => Ok(()),
    }
}

/// Fills the header of the shadow with zeros: the connection that had the database alone is closed
/// and left nothing to recover.
pub(crate) fn reset_header(pair: &Pair) -> Result<()> {
    pair.disk.write(pair.shadow(), 0, &[0; HEADER]).writing("resetting the header of the shadow")
}

/// Whether the header of the shadow was reset, so that it is whole whatever else happened.
pub(crate) fn is_reset(pair: &Pair) -> Result<bool> {
    let mut header = [1; HEADER];
    image::read_up_to(pair.shadow(), &mut header, 0).reading("reading the shadow")?;
    Ok(header == [0; HEADER])
}

/// Gives the shadow its header again. The current file's will do: if it is another one, then its
/// page was written by the last transaction and will be copied.
pub(crate) fn take_header_back(pair: &Pair) -> Result<()> {
    let mut header = [0; HEADER];
    image::read_up_to(pair.main(), &mut header, 0).reading("reading the database")?;
    let disk = pair.disk.as_ref();
    disk.write(pair.shadow(), 0, &header).writing("writing the header of the shadow")?;
    pair.sync_shadow(Sync::Bytes, "making the shadow durable")
}

/// Exchanges the names of both files by three renames (figure 9).
pub(crate) fn rename_thrice(disk: &dyn Disk, names: &Names) -> io::Result<()> {
    disk.rename(&names.shadow, &names.passing)?;
    disk.rename(&names.main, &names.shadow)?;
    disk.rename(&names.passing, &names.main)
}

/// Finishes an exchange that was interrupted between its renames.
pub(crate) fn finish_renames(disk: &dyn Disk, names: &Names) -> Result<()> {
    let there = |path: &Path| -> Result<bool> {
        Ok(disk.identity_at(path).reading("looking for the database")?.is_some())
    };
    if !there(&names.passing)? {
        return Ok(());
    }
    let finished = match (there(&names.main)?, there(&names.shadow)?) {
        (true, false) => disk
            .rename(&names.main, &names.shadow)
            .and_then(|()| disk.rename(&names.passing, &names.main)),
        (false, true) => disk.rename(&names.passing, &names.main),
        _ => Ok(()),
    };
    finished.when("finishing an exchange", ffi::SQLITE_CANTOPEN)
}
