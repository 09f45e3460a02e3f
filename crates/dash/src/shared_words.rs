//! The words of a registry, as mapped memory that is only read.
//!
//! Each transaction looks three times which file is current, and a look at memory costs no call of
//! the system. The words are written to the file like everything else: a full device then is an
//! error, where a store into mapped memory could end the process. On the file systems that are not
//! refused, a mapping shows what was written to the file as soon as the write is done.
//!
//! A registry that somebody cuts while it is open ends the processes that read it, like the shared
//! memory of SQLite's write-ahead log. Nothing here cuts one.
#![allow(unsafe_code)]

use crate::disk::Handle;
use memmap2::{MmapOptions, MmapRaw};
use std::io;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

/// How much is mapped: no more than the shortest page of memory, of which all is there as soon as the
/// file has one byte. What lies behind its end reads as zeros.
const LENGTH: usize = 4096;

/// A mapped registry.
#[derive(Debug)]
pub(crate) struct SharedWords(MmapRaw);

impl SharedWords {
    /// Maps a registry.
    pub(crate) fn of(registry: &Handle) -> io::Result<SharedWords> {
        MmapOptions::new().len(LENGTH).map_raw_read_only(&registry.file).map(SharedWords)
    }

    /// The `N` words from byte `at` on, each whole, together perhaps of two moments. What is read
    /// after this call is not older than they are. The registry must not be empty.
    pub(crate) fn read<const N: usize>(&self, at: usize) -> [u64; N] {
        assert!(at.is_multiple_of(8) && at + 8 * N <= LENGTH, "the words lie in the registry");
        let first = self.0.as_ptr().wrapping_add(at).cast::<u64>();
        // SAFETY: a map begins on a page, so that each word is aligned, and is there as long as
        // `self`. Others write to it meanwhile, which a volatile read may meet: no reference to
        // the memory is made.
        let words = std::array::from_fn(|n| unsafe { ptr::read_volatile(first.wrapping_add(n)) });
        fence(Ordering::Acquire);
        words.map(u64::from_le)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Machine, Open};

    #[test]
    fn shows_what_is_written_to_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = Machine.open(&folder.path().join("r"), Open::Create).expect("opens");
        Machine.write(&file, 0, &[1]).expect("writes");
        let words = SharedWords::of(&file).expect("maps");
        assert_eq!(words.read(512), [0, 0]);
        for n in 1..100_u64 {
            let again = Machine.open(&folder.path().join("r"), Open::Write).expect("opens");
            let bytes = [n.to_le_bytes(), (n << 40).to_le_bytes()].concat();
            Machine.write(&again, 512, &bytes).expect("writes");
            assert_eq!(words.read(512), [n, n << 40]);
        }
    }
}
