//! The registry, `app.db-dash`: a small file beside the pair that is never renamed. It carries the
//! locks of writers and openers, says which two files are the pair, and what recovery may trust.
//!
//! Its first sector is durable and changes when a session begins or ends to write. The words
//! behind it are for the processes that have the database open now, and mean nothing after all
//! of them are gone.

use crate::disk::{Disk, Handle, Sync};
use crate::mode::Mode;
use crate::shared_words::SharedWords;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 8] = b"SynQPair";
const FORMAT: u32 = 1;
const SECTOR: usize = 512;
const SEAL: usize = SECTOR - 32;
/// Offset of the words for living processes.
const LIVE: u64 = SECTOR as u64;

/// The byte that every opener shares, and that a first or last one takes alone.
pub(crate) const OPEN: Range<i64> = 0..1;
/// The byte that the one writer holds.
pub(crate) const WRITER: Range<i64> = 1..2;

/// What the files on the device may be trusted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Only the file that has the database's name counts.
    MainOnly,
    /// Transactions may be under way: the versions of both files decide.
    Open,
    /// Everything is durable and the shadow is the transaction before.
    Clean,
}

/// The durable sector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Durable {
    /// What may be trusted.
    pub state: State,
    /// The mode of whoever wrote last: its promise is the one to rely on.
    pub mode: Mode,
    /// Ties both files together; trailers with another number are void.
    pub pair: [u8; 16],
    /// When the machine was started, as [`Disk::boot`] told.
    pub boot: [u8; 16],
    /// The two files, in no order.
    pub files: [u64; 2],
}

impl Durable {
    /// The sector as bytes.
    pub(crate) fn encode(&self) -> [u8; SECTOR] {
        let mut out = [0; SECTOR];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        out[12] = self.state as u8;
        out[13] = self.mode as u8;
        out[16..32].copy_from_slice(&self.pair);
        out[32..48].copy_from_slice(&self.boot);
        out[48..56].copy_from_slice(&self.files[0].to_le_bytes());
        out[56..64].copy_from_slice(&self.files[1].to_le_bytes());
        let seal = blake3::hash(&out[..SEAL]);
        out[SEAL..].copy_from_slice(seal.as_bytes());
        out
    }

    /// What these bytes say, or `None` if they are no whole sector of this format.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Durable> {
        let sealed = bytes.len() == SECTOR
            && &bytes[..8] == MAGIC
            && bytes[8..12] == FORMAT.to_le_bytes()
            && blake3::hash(&bytes[..SEAL]).as_bytes() == &bytes[SEAL..];
        if !sealed {
            return None;
        }
        let state = [State::MainOnly, State::Open, State::Clean];
        Some(Durable {
            state: state.into_iter().find(|s| *s as u8 == bytes[12])?,
            mode: Mode::ALL.into_iter().find(|m| *m as u8 == bytes[13])?,
            pair: bytes[16..32].try_into().ok()?,
            boot: bytes[32..48].try_into().ok()?,
            files: [
                u64::from_le_bytes(bytes[48..56].try_into().ok()?),
                u64::from_le_bytes(bytes[56..64].try_into().ok()?),
            ],
        })
    }

    /// What the registry says, or `None` if it is new or damaged.
    pub(crate) fn read(registry: &Handle) -> io::Result<Option<Durable>> {
        let mut bytes = [0; SECTOR];
        match registry.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Durable::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the sector, and brings it to the device if `durably`.
    pub(crate) fn write(&self, disk: &dyn Disk, to: &Handle, durably: bool) -> io::Result<()> {
        disk.write(to, 0, &self.encode())?;
        if durably {
            disk.sync(to, Sync::Bytes)?;
        }
        Ok(())
    }
}

/// What living processes tell each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Live {
    /// The file that holds the latest transaction that a process acknowledged or is about to.
    pub current: u64,
    /// The mode of all that have it open.
    pub mode: u8,
    /// A transaction is being written to the shadow, or committed: whoever finds this without a
    /// writer has to settle the pair first.
    pub unsettled: bool,
    /// The shadow must be made anew before it is written to.
    pub stale: bool,
    /// The number of the version in `current`, if nothing was published since its commit; 0
    /// otherwise. Whoever made that version knows the two files without a look at them.
    pub version: u64,
}

impl Live {
    /// Reads the words. They are written with one call of 24 bytes; `current` has one of two
    /// values, so a mixture of both is neither and is noticed. Only who holds the writer's lock
    /// reads all of them as of one moment.
    pub(crate) fn read(words: &SharedWords) -> Live {
        let [current, flags, version] = words.read(LIVE as usize);
        let [mode, unsettled, stale, ..] = flags.to_le_bytes();
        Live { current, mode, unsettled: unsettled != 0, stale: stale != 0, version }
    }

    /// Writes the words.
    pub(crate) fn write(&self, disk: &dyn Disk, registry: &Handle) -> io::Result<()> {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.current.to_le_bytes());
        bytes[16..].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..11].copy_from_slice(&[self.mode, self.unsettled.into(), self.stale.into()]);
        disk.write(registry, LIVE, &bytes)
    }
}
