//! One file of a pair as it lies on the disk: pages, padding, trailer. What it is, what it says of
//! itself, and how one is made like the other.

use crate::checksum;
use crate::disk::{Disk, Handle};
use crate::error::{Context, Result};
use crate::ranges::Ranges;
use crate::trailer::{self, Trailer};
use std::io;
use std::os::unix::fs::FileExt;

/// Files grow by this, so that most commits leave their lengths alone.
const CHUNK: u64 = 32 << 10;
/// What stands at the beginning of a database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What stands there instead while a shadow is written, so that a program that still has that file
/// open from the time when it was the database takes it for none.
const POISON: &[u8; 16] = b"SynQDash writing";
/// How far the mark of a shadow that is being written reaches: to the end of the change counter.
/// While the counter stays the same, a program trusts the pages in its cache and looks at no header.
pub(crate) const MARKED: usize = 28;
/// How much is copied at once.
const COPY: u64 = 64 << 10;

/// The fields of a database header that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Length of the database by its own account, if that can be relied on.
    pub size: Option<u64>,
    /// Change counter.
    pub counter: u32,
    /// Whether the database expects a write-ahead log.
    pub wal: bool,
}

impl Header {
    /// The header in the first 100 bytes of a database.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Header> {
        if bytes.len() < 100 || &bytes[..16] != MAGIC {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let page = match u16::from_be_bytes([bytes[16], bytes[17]]) {
            1 => 65536,
            size => u64::from(size),
        };
        let relied = word(24) == word(92) && word(28) != 0;
        Some(Header {
            size: relied.then(|| u64::from(word(28)) * page),
            counter: word(24),
            wal: bytes[18] == 2 || bytes[19] == 2,
        })
    }

    /// The header of a file, if it has one.
    pub(crate) fn read(file: &Handle) -> Result<Option<Header>> {
        let mut bytes = [0; 100];
        let length = read_up_to(file, &mut bytes, 0).reading("reading a database header")?;
        Ok(Header::parse(&bytes[..length]))
    }
}

/// What a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// Length of the file.
    pub length: u64,
    /// Length of the database in it.
    pub size: u64,
    /// Its header, unless it is empty or no database.
    pub header: Option<Header>,
    /// Its trailer, if it is whole and belongs to the pair.
    pub trailer: Option<Trailer>,
    /// A checksum of the header: what tells a file without a version from what it was before.
    pub mark: u64,
    /// Its first bytes, as far as a mark reaches; zeros where there are none.
    pub head: [u8; MARKED],
}

impl Image {
    /// Looks at a file. Trailers of other pairs count for nothing.
    pub(crate) fn read(file: &Handle, pair: &[u8; 16]) -> Result<Image> {
        let length = length_of(file)?;
        let mut bytes = [0; 100];
        let got = read_up_to(file, &mut bytes, 0).reading("reading a database header")?;
        let trailer = read_trailer(file, length)?.filter(|trailer| &trailer.pair == pair);
        Ok(Image::of(length, &bytes[..got], trailer))
    }

    /// A file of this length that begins with `bytes`, at most 100, and has this trailer.
    pub(crate) fn of(length: u64, bytes: &[u8], trailer: Option<Trailer>) -> Image {
        let header = Header::parse(bytes);
        let mark = checksum::short(bytes);
        let by_trailer = trailer.as_ref().map(|trailer| trailer.size);
        let by_header = header.and_then(|header| header.size);
        let size = by_header.or(by_trailer).unwrap_or(length).min(length);
        let mut head = [0; MARKED];
        let known = bytes.len().min(MARKED);
        head[..known].copy_from_slice(&bytes[..known]);
        Image { length, size, header, trailer, mark, head }
    }

    /// The version of the file, if nobody else wrote to it since.
    pub(crate) fn version(&self) -> Option<u64> {
        let trailer = self.trailer.as_ref()?;
        let counter = self.header.map_or(0, |header| header.counter);
        (trailer.counter == counter && trailer.size == self.size).then_some(trailer.version)
    }

    /// The number by which a version that follows this one names it.
    pub(crate) fn id(&self) -> u64 {
        let ours = self.trailer.as_ref().filter(|_| self.version().is_some());
        ours.map_or(self.mark, |trailer| trailer.id)
    }

    /// Whether every byte that the commit of this version wrote is there.
    pub(crate) fn is_whole(&self, file: &Handle) -> Result<bool> {
        let Some(trailer) = &self.trailer else { return Ok(false) };
        let mut pages = checksum::Pages::new(trailer.id);
        let mut buffer = vec![0; COPY as usize];
        for (start, end) in trailer.here.iter() {
            for (at, length) in pieces(start, end) {
                let got = read_up_to(file, &mut buffer[..length], at).reading("reading pages")?;
                buffer[got..length].fill(0);
                pages.add(&buffer[..length]);
            }
        }
        Ok(self.version().is_some() && pages.sum() == trailer.pages)
    }
}

/// The trailer at the end of a file of this length, whatever pair it belongs to.
pub(crate) fn read_trailer(file: &Handle, length: u64) -> Result<Option<Trailer>> {
    let Some(at) = length.checked_sub(trailer::LENGTH) else { return Ok(None) };
    let mut bytes = vec![0; trailer::LENGTH as usize];
    let got = read_up_to(file, &mut bytes, at).reading("reading a trailer")?;
    Ok(Trailer::decode(&bytes[..got]))
}

/// The first eight bytes as a number.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// How long a file is.
pub(crate) fn length_of(file: &Handle) -> Result<u64> {
    Ok(file.file.metadata().reading("asking for the length of a file")?.len())
}

/// Whether a file begins like a database.
pub(crate) fn is_database(file: &Handle) -> Result<bool> {
    let mut bytes = [0; 16];
    let got = read_up_to(file, &mut bytes, 0).reading("reading a database header")?;
    Ok(&bytes[..got] == MAGIC)
}

/// How long a file with a database of `size` bytes is to be, if it is `length` long now.
pub(crate) fn length_for(size: u64, length: u64) -> u64 {
    let least = (size + trailer::LENGTH).next_multiple_of(CHUNK);
    let most = least + least / 2 + (1 << 20);
    if (least..=most).contains(&length) && length.is_multiple_of(trailer::LENGTH) {
        length
    } else {
        least
    }
}

/// Puts a trailer at the end of a file and gives the file its length: which.
pub(crate) fn write_trailer(disk: &dyn Disk, file: &Handle, trailer: &Trailer) -> Result<u64> {
    write_trailer_at(disk, file, length_of(file)?, trailer)
}

/// The same, of a file that is `now` bytes long, or shorter than it is to become.
pub(crate) fn write_trailer_at(
    disk: &dyn Disk,
    file: &Handle,
    now: u64,
    trailer: &Trailer,
) -> Result<u64> {
    let length = length_for(trailer.size, now);
    if length < now {
        disk.set_len(file, length)
            .when("shortening a file", libsqlite3_sys::SQLITE_IOERR_TRUNCATE)?;
    }
    disk.write(file, length - trailer::LENGTH, &trailer.encode()).writing("writing a trailer")?;
    Ok(length)
}

/// A trailer for a file that equals a database of which no transaction is remembered, without a
/// place in any history.
pub(crate) fn label(pair: [u8; 16], version: u64, size: u64, counter: u32) -> Trailer {
    let pages = checksum::NO_PAGES;
    let (wrote, here, commits_with) = Default::default();
    Trailer { pair, version, id: 0, after: 0, size, counter, wrote, here, pages, commits_with }
}

/// The first bytes of the shadow.
pub(crate) fn head(shadow: &Handle) -> Result<[u8; MARKED]> {
    let mut head = [0; MARKED];
    read_up_to(shadow, &mut head, 0).reading("reading the header of the shadow")?;
    Ok(head)
}

/// What marks a file that begins with `head` as being written, until somebody writes its first
/// [`MARKED`] bytes.
pub(crate) fn marked(mut head: [u8; MARKED]) -> [u8; MARKED] {
    // A dead writer may have marked it already, and twice inverted is what it was.
    if &head[..16] != POISON {
        head[..16].copy_from_slice(POISON);
        head[24..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    head
}

/// Marks the shadow as being written.
pub(crate) fn mark(disk: &dyn Disk, shadow: &Handle) -> Result<()> {
    disk.write(shadow, 0, &marked(head(shadow)?)).writing("marking the shadow")
}

/// Makes `to` equal to `from` within `ranges`, of which nothing lies behind `size`; the header comes
/// last and the mark first, so that `to` is taken for no database meanwhile. Bytes that are equal
/// already are not written, unless `forced`: after a failed synchronization nobody knows whether
/// what the page cache holds will ever reach the device.
pub(crate) fn copy(
    disk: &dyn Disk,
    from: &Handle,
    to: &Handle,
    ranges: &Ranges,
    forced: bool,
) -> Result<()> {
    let mut head = [0; MARKED];
    let got = read_up_to(from, &mut head, 0).reading("reading a database header")?;
    if got > 0 {
        mark(disk, to)?;
    }
    let (mut old, mut new) = (vec![0; COPY as usize], vec![0; COPY as usize]);
    for (start, end) in ranges.iter() {
        for (at, length) in pieces(start, end) {
            let got = read_up_to(from, &mut new[..length], at).reading("reading the database")?;
            let there = read_up_to(to, &mut old[..got], at).reading("reading the shadow")?;
            for (page, bytes) in new[..got].chunks(trailer::LENGTH as usize).enumerate() {
                let from = page * trailer::LENGTH as usize;
                let equal = there >= from + bytes.len() && &old[from..from + bytes.len()] == bytes;
                if forced || !equal {
                    let skip = if at == 0 && page == 0 { got.min(MARKED) } else { 0 };
                    let to_offset = at + (from + skip) as u64;
                    disk.write(to, to_offset, &bytes[skip..]).writing("writing the shadow")?;
                }
            }
        }
    }
    if got > 0 {
        disk.write(to, 0, &head[..got]).writing("writing the header of the shadow")?;
    }
    Ok(())
}

/// A range in pieces that fit the copying buffer: offsets and lengths.
pub(crate) fn pieces(start: u64, end: u64) -> impl Iterator<Item = (u64, usize)> {
    (start..end).step_by(COPY as usize).map(move |at| (at, (end - at).min(COPY) as usize))
}

/// Fills `buffer` from `offset` on, as far as the file goes: how many bytes were read.
pub(crate) fn read_up_to(file: &Handle, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
