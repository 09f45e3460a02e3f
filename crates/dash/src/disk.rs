//! What the protocols do to files, as one trait. Whoever records or fails these operations stands
//! in for the machine that loses its power.
//!
//! Reads are not part of it: they change nothing that a power failure could lose.

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::libc;
use nix::sys::statfs::fstatfs;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

/// An open file and what tells it from others whatever its name becomes.
#[derive(Debug)]
pub struct Handle {
    /// The opened file; reads and locks go to it directly.
    pub file: File,
    /// The file's identity, as [`Disk::identity_at`] gives it.
    pub identity: u64,
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; it is created empty if it does not exist.
    Create,
}

/// How much of a file is brought to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// The written bytes are handed to the device, whose cache may still lose them. They reach it
    /// before any change of a name that follows.
    Hand,
    /// The written bytes and the length (`fdatasync`).
    Bytes,
    /// That, and on the file systems of [`Kind::Journal`] every change of a name before (`fsync`).
    Names,
}

/// What a file system does with names and synchronizations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ext4 with a journal, xfs, btrfs, f2fs: changes of names become durable in their order, and synchronizing a
    /// renamed file brings them along.
    Journal,
    /// Another local one, ext4 without a journal too: names are durable once their folder was synchronized.
    Local,
    /// Of which no promise is known, by the number that `statfs` gives.
    Unknown(i64),
}

/// Operations on files, in the order in which the protocols ask for them.
pub trait Disk: Send + std::marker::Sync + std::fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Handle>;
    /// The identity of the file of this name, or `None` if there is none.
    fn identity_at(&self, path: &Path) -> io::Result<Option<u64>>;
    /// Writes all of `bytes` at `offset`.
    fn write(&self, to: &Handle, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Shortens or lengthens a file.
    fn set_len(&self, of: &Handle, length: u64) -> io::Result<()>;
    /// Brings what was written to the device.
    fn sync(&self, of: &Handle, how: Sync) -> io::Result<()>;
    /// Makes the names in the folder of `path` durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Exchanges two names at once.
    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()>;
    /// Gives a file another name; a file that has it loses it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// What kind of file system holds the file.
    fn kind(&self, of: &Handle) -> io::Result<Kind>;
    /// A number that changes when the machine starts again, so that what only the page cache held
    /// may be gone.
    fn boot(&self) -> [u8; 16];
}

/// The machine's own file systems.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl Disk for Machine {
    fn open(&self, path: &Path, how: Open) -> io::Result<Handle> {
        let mut options = OpenOptions::new();
        options.read(true).write(how != Open::Read).create(how == Open::Create);
        let file = options.truncate(false).open(path)?;
        let identity = identity(&file.metadata()?);
        Ok(Handle { file, identity })
    }

    fn identity_at(&self, path: &Path) -> io::Result<Option<u64>> {
        match identity_of_name(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, to: &Handle, offset: u64, bytes: &[u8]) -> io::Result<()> {
        to.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, of: &Handle, length: u64) -> io::Result<()> {
        of.file.set_len(length)
    }

    fn sync(&self, of: &Handle, how: Sync) -> io::Result<()> {
        match how {
            Sync::Hand => hand_to_device(&of.file),
            Sync::Bytes => of.file.sync_data(),
            Sync::Names => {
                // The call below commits the journal only if the file's own record is in it.
                of.file.set_permissions(of.file.metadata()?.permissions())?;
                of.file.sync_all()
            }
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(folder(path))?.sync_all()
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        Ok(renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn kind(&self, of: &Handle) -> io::Result<Kind> {
        const EXT4: i64 = 0xEF53;
        // xfs, btrfs, f2fs
        const JOURNAL: [i64; 3] = [0x5846_5342, 0x9123_683E, 0xF2F5_2010];
        // tmpfs, ramfs, overlayfs, bcachefs, zfs
        const LOCAL: [i64; 5] = [0x0102_1994, 0x8584_58F6, 0x794C_7630, 0xCA45_1A4E, 0x2FC1_2FC1];
        let number = fstatfs(&of.file)?.filesystem_type().0 as i64 & 0xFFFF_FFFF;
        Ok(match number {
            EXT4 if keeps_journal(&of.file) => Kind::Journal,
            EXT4 => Kind::Local,
            n if JOURNAL.contains(&n) => Kind::Journal,
            n if LOCAL.contains(&n) => Kind::Local,
            n => Kind::Unknown(n),
        })
    }

    fn boot(&self) -> [u8; 16] {
        static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
        *BOOT.get_or_init(|| {
            let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let mut out = [0; 16];
            out.copy_from_slice(&blake3::hash(&id).as_bytes()[..16]);
            out
        })
    }
}

/// Whether an ext4 has a journal. ext2 has its number and none; what the system does not tell is
/// taken for no.
fn keeps_journal(file: &File) -> bool {
    let told = || -> io::Result<String> {
        let device = file.metadata()?.dev();
        let (major, minor) = (libc::major(device), libc::minor(device));
        let device = fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
        let name = device.file_name().unwrap_or_default();
        fs::read_to_string(Path::new("/sys/fs/ext4").join(name).join("journal_task"))
    };
    // The number of its thread, or `<none>`.
    told().is_ok_and(|task| task.trim().parse::<u32>().is_ok())
}

/// The inode's number, mixed with the time of its birth: the number of a file that was deleted goes
/// to the next one that is made.
fn identity(file: &fs::Metadata) -> u64 {
    let born = file.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    mixed(file.ino(), born.map_or(0, |since| since.as_nanos() as u64))
}

fn mixed(inode: u64, born: u64) -> u64 {
    inode ^ born.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Who may do what with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// Its permissions.
    pub mode: u32,
    /// Its user.
    pub owner: u32,
    /// Its group.
    pub group: u32,
}

impl Access {
    /// Who may do what with this one now.
    pub(crate) fn of(file: &File) -> io::Result<Access> {
        use std::os::fd::AsRawFd;
        let mask = libc::STATX_MODE | libc::STATX_UID | libc::STATX_GID;
        let found = ask(file.as_raw_fd(), c"", mask)?;
        let mode = u32::from(found.stx_mode) & 0o7777;
        Ok(Access { mode, owner: found.stx_uid, group: found.stx_gid })
    }
}

/// What is asked of a file: of the one of this name, or of the open one where the name is empty.
/// Nothing about its times: from Linux 6.13 on, who asks for them makes the next write or exchange
/// note an exact one, which is a change of the inode in the file system's journal.
#[allow(unsafe_code)]
fn ask(
    at: std::os::fd::RawFd,
    path: &std::ffi::CStr,
    mask: libc::c_uint,
) -> io::Result<libc::statx> {
    // SAFETY: every field is a number, which may be zero.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero byte, and the call fills in what it has room for.
    match unsafe { libc::statx(at, path.as_ptr(), libc::AT_EMPTY_PATH, mask, &mut found) } {
        0 => Ok(found),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The identity of the file of this name.
fn identity_of_name(path: &Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    if path.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let found = ask(libc::AT_FDCWD, &path, libc::STATX_INO | libc::STATX_BTIME)?;
    let born = match (found.stx_mask & libc::STATX_BTIME, u64::try_from(found.stx_btime.tv_sec)) {
        (0, _) | (_, Err(_)) => 0,
        (_, Ok(seconds)) => {
            seconds.wrapping_mul(1_000_000_000).wrapping_add(found.stx_btime.tv_nsec.into())
        }
    };
    Ok(mixed(found.stx_ino, born))
}

/// The folder that holds `path`.
pub(crate) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[allow(unsafe_code)]
fn hand_to_device(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    const ALL: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the descriptor is open as long as `file` is, and the call takes no pointers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, ALL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_an_open_file_have_one_identity() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b"] {
            let path = folder.path().join(name);
            assert_eq!(Machine.identity_at(&path).expect("asks"), None);
            let file = Machine.open(&path, Open::Create).expect("opens");
            assert_eq!(Machine.identity_at(&path).expect("asks"), Some(file.identity));
        }
    }
}
