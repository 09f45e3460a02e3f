//! A write transaction: pages are collected in memory, written to the shadow together with those of
//! the transaction before, and made the database by exchanging two names.
//!
//! ```text
//!  collecting ──prepare──> prepared ──exchange──> done
//!      │ ▲                     │
//!      │ └── a write: SQLite rolls back
//!      └───────────── unlock ──┴──> discarded: the shadow is made what it was
//! ```

use crate::checksum;
use crate::disk::Sync;
use crate::error::{Context, Error, Result};
use crate::image::{self, Header, Image, MARKED};
use crate::mode::Evidence;
use crate::pair::{self, Left, Pages, Pair, copy_page, dash_protocol, wrote};
use crate::ranges::Ranges;
use crate::registry::{Durable, State};
use crate::trailer::{self, Trailer};
use libsqlite3_sys as ffi;
use std::io;

/// How many bytes of pages a transaction keeps in memory before it writes them to the shadow, unless
/// the database's name asks for another number.
pub(crate) const KEPT: usize = 8 << 20;

/// How many bytes of pages a connection keeps of its last transaction: the next one writes them too.
const KEPT_OF_LAST: usize = 64 << 10;

/// The smallest page that SQLite has.
const SMALLEST: usize = 512;

/// A write transaction under way.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// All of `page` bytes.
    pages: Pages,
    page: usize,
    /// How many bytes of them there may be.
    memory: usize,
    /// What is in the shadow already.
    spilled: Ranges,
    /// What was written to the shadow, whatever became of it.
    spoiled: Ranges,
    /// Length of the database as the transaction sees it, and as it was before.
    size: u64,
    before: u64,
    /// What the current file says; known since the shadow is ready.
    ready: Option<Ready>,
    prepared: bool,
    /// What the prepared version says of itself, where that alone decides.
    image: Option<Image>,
    /// Whether the prepared version is on the device.
    synced: bool,
}

#[derive(Debug)]
struct Ready {
    base: Image,
    durable: Durable,
    /// The first commit of a new pair.
    first: bool,
    /// Numbers of the version before and of this one.
    ids: [u64; 2],
    /// How long the shadow is, unless pages were written to it since.
    length: Option<u64>,
    /// Pages of the current file that are known, by offset.
    pages: Pages,
    /// What the shadow begins with as long as it is being written; the bytes, until it does.
    mark: Option<[u8; MARKED]>,
    /// Whether the paper's Version Update was made.
    updated: bool,
}

impl Ready {
    /// The version that this transaction makes.
    fn version(&self) -> u64 {
        self.base.version().filter(|_| !self.first).unwrap_or(0) + 1
    }

    /// Whether the paper's Version Update is still to be made.
    fn updates_version(&self, pair: &Pair) -> bool {
        pair.mode.evidence() == Evidence::Version && !self.first && !self.updated
    }

    fn update_version(&mut self, pair: &Pair, trailer: &Trailer) -> Result<()> {
        self.updated = true;
        dash_protocol::update_version(pair, trailer)
    }
}

impl Transaction {
    /// A transaction on a database of `size` bytes.
    pub(crate) fn new(size: u64, memory: usize) -> Transaction {
        Transaction {
            pages: Pages::new(),
            page: 0,
            memory,
            spilled: Ranges::default(),
            spoiled: Ranges::default(),
            size,
            before: size,
            ready: None,
            prepared: false,
            image: None,
            synced: false,
        }
    }

    /// Length of the database as the transaction sees it.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether it only has to be exchanged.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// Whether a page goes to memory; otherwise [`Transaction::spill`] has to be called first.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.pages.len() * self.page + length <= self.memory
    }

    /// Puts a page into memory.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if self.pages.is_empty() {
            self.page = bytes.len();
        }
        if bytes.len() != self.page {
            // The size of pages changes: from here on all are kept in the smallest pieces.
            let pages = std::mem::take(&mut self.pages);
            self.page = SMALLEST;
            pages.iter().for_each(|(&offset, page)| self.insert(offset, page));
        }
        self.insert(offset, bytes);
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    fn insert(&mut self, offset: u64, bytes: &[u8]) {
        for (at, piece) in bytes.chunks(self.page).enumerate() {
            self.pages.insert(offset + (at * self.page) as u64, piece.to_vec());
        }
    }

    /// Cuts the database.
    pub(crate) fn truncate(&mut self, size: u64) {
        self.size = size;
        self.pages.retain(|&offset, _| offset < size);
        self.spilled = self.spilled.clipped(size);
    }

    /// Reads what the transaction sees: how much of the buffer lies within the database.
    pub(crate) fn read(&self, pair: &Pair, offset: u64, into: &mut [u8]) -> Result<usize> {
        let end = self.size.min(offset + into.len() as u64);
        let mut at = offset;
        while at < end {
            let piece = &mut into[(at - offset) as usize..(end - offset) as usize];
            at += self.read_run(pair, at, piece)?.0;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    /// Fills the beginning of `into` from the one place that holds it: how much, and whether that
    /// is the shadow.
    fn read_run(&self, pair: &Pair, at: u64, into: &mut [u8]) -> Result<(u64, bool)> {
        let end = at + into.len() as u64;
        if let Some(length) = copy_page(&self.pages, at, into) {
            return Ok((length, false));
        }
        let end = self.pages.range(at..end).next().map_or(end, |(start, _)| *start);
        let (length, spilled) = self.spilled.run(at, end);
        let into = &mut into[..length as usize];
        let old = self.ready.as_ref().filter(|_| !spilled).map(|ready| &ready.pages);
        if let Some(length) = old.and_then(|old| copy_page(old, at, into)) {
            return Ok((length, false));
        }
        // Behind the database lie padding and trailer.
        let (file, end) = match spilled {
            true => (pair.shadow(), at + length),
            false => (pair.main(), (at + length).min(self.before.max(at))),
        };
        let wanted = &mut into[..(end - at) as usize];
        let got = image::read_up_to(file, wanted, at).reading("reading a page")?;
        into[got..].fill(0);
        Ok((length, spilled))
    }

    /// Makes the shadow ready, once.
    fn ready(&mut self, pair: &mut Pair) -> Result<&mut Ready> {
        if self.ready.is_none() {
            dash_protocol::settle_names(pair)?;
            let id = image::number(&pair::new_id()?);
            let safe = pair.mode.is_safe();
            let mark = |head| safe.then(|| image::marked(head));
            // From here on nobody trusts what a commit of his left, and who finds this without a
            // writer knows that one died.
            pair.publish(true, pair.live().stale)?;
            self.ready = Some(match pair.left.take() {
                Some(Left { durable, current, shadow, pages }) => Ready {
                    ids: [current.id(), id],
                    base: current,
                    durable,
                    first: false,
                    length: Some(shadow.length),
                    pages,
                    mark: mark(shadow.head),
                    updated: false,
                },
                None => {
                    let mut durable = pair.durable()?;
                    let (base, first) = pair.ready(&mut durable)?;
                    Ready {
                        ids: [base.id(), id],
                        base,
                        durable,
                        first,
                        length: None,
                        pages: Pages::new(),
                        mark: mark(image::head(pair.shadow())?),
                        updated: false,
                    }
                }
            });
        }
        self.ready.as_mut().ok_or(Error::Busy)
    }

    /// Writes the pages in memory to the shadow, all but the first one, which comes last.
    pub(crate) fn spill(&mut self, pair: &mut Pair) -> Result<()> {
        let ready = self.ready(pair)?;
        if ready.updates_version(pair) {
            let (all, version) = (Ranges::one(0, ready.base.size), ready.version());
            let counter = ready.base.header.map_or(0, |header| header.counter);
            let label = image::label(ready.durable.pair, version, ready.base.size, counter);
            let [after, id] = ready.ids;
            let trailer = Trailer { id, after, wrote: all.clone(), here: all, ..label };
            ready.update_version(pair, &trailer)?;
        }
        ready.length = None;
        if let Some(mark) = ready.mark.take() {
            pair.disk.write(pair.shadow(), 0, &mark).writing("marking the shadow")?;
        }
        let first = self.pages.remove(&0);
        for (&offset, page) in &self.pages {
            pair.disk.write(pair.shadow(), offset, page).writing("writing a page")?;
            self.spilled.add(offset, offset + page.len() as u64);
            self.spoiled.add(offset, offset + page.len() as u64);
        }
        self.pages.clear();
        self.pages.extend(first.map(|page| (0, page)));
        Ok(())
    }

    /// Writes the version to the shadow: the pages of this transaction and of the one before, then
    /// the header, then the trailer. `commits_with` names the super-journal of a commit of several
    /// files.
    pub(crate) fn prepare(
        &mut self,
        pair: &mut Pair,
        commits_with: &str,
        durably: bool,
    ) -> Result<()> {
        self.ready(pair)?;
        let Some(ready) = &self.ready else { return Ok(()) };
        let room = Trailer::room(commits_with.len()).ok_or_else(|| {
            Error::Refused(format!("the name {commits_with} is too long for a trailer"))
        })?;
        let mut header = [0; 100];
        self.read(pair, 0, &mut header)?;
        let parsed = Header::parse(&header);
        let size = parsed.and_then(|header| header.size).unwrap_or(self.size);
        if size > trailer::LARGEST {
            return Err(too_large());
        }
        let mut written = self.spoiled.clone();
        for (&offset, page) in &self.pages {
            written.add(offset, offset + page.len() as u64);
        }
        let written = written.clipped(size).at_most(room);
        let here = wrote(&ready.base).clipped(size).union(&written).at_most(room);
        let first = ready.first;
        let counter = parsed.map_or(0, |header| header.counter);
        let label = image::label(ready.durable.pair, ready.version(), size, counter);
        let commits_with = commits_with.to_owned();
        let [after, id] = ready.ids;
        let mut trailer = Trailer { id, after, wrote: written, here, commits_with, ..label };
        // The trailer may come to lie within the database as it was, and the rest be cut off.
        let now = match ready.length {
            Some(length) => length,
            None => image::length_of(pair.shadow())?,
        };
        let length = image::length_for(size, now);
        self.spoiled.add(length - trailer::LENGTH, self.before);
        let updates_version = ready.updates_version(pair);
        let mut mark = None;
        if let Some(ready) = self.ready.as_mut() {
            if updates_version {
                ready.update_version(pair, &trailer)?;
            }
            mark = ready.mark.take();
        }
        trailer.pages = self.write_pages(pair, trailer.id, &trailer.here, mark)?;
        pair.disk
            .write(pair.shadow(), 0, &header[..MARKED])
            .writing("writing the header of the shadow")?;
        if !updates_version {
            image::write_trailer_at(pair.disk.as_ref(), pair.shadow(), now, &trailer)?;
            let alone = trailer.commits_with.is_empty();
            self.image = alone.then(|| Image::of(length, &header, Some(trailer.clone())));
        }
        self.prepared = true;
        self.size = size;
        if durably {
            // The exchange of a commit of one file brings the rest to the device, where it can.
            let alone = pair.mode.evidence() == Evidence::Name
                && !pair.mode.needs_folder(pair.kind)
                && trailer.commits_with.is_empty()
                && !first;
            let how = if alone { Sync::Hand } else { Sync::Bytes };
            pair.sync_shadow(how, "making a transaction durable")?;
            self.synced = true;
        }
        Ok(())
    }

    /// Writes everything in `here` to the shadow, but for the mark at the beginning, which comes
    /// first if it is not there yet: the checksum of the version with the number `id`.
    fn write_pages(
        &self,
        pair: &Pair,
        id: u64,
        here: &Ranges,
        mut mark: Option<[u8; MARKED]>,
    ) -> Result<[u8; checksum::LENGTH]> {
        let write = |at: u64, bytes: &[u8]| {
            pair.disk.write(pair.shadow(), at, bytes).writing("writing a page")
        };
        let begins = here.iter().next().is_some_and(|(start, _)| start == 0);
        if let Some(mark) = mark.take_if(|_| !begins) {
            write(0, &mark)?;
        }
        let mut pages = checksum::Pages::new(id);
        let mut buffer = Vec::new();
        for (start, end) in here.iter() {
            for (at, length) in image::pieces(start, end) {
                buffer.resize(length, 0);
                let (mut new, mut done) = (Ranges::default(), 0);
                while done < length as u64 {
                    let from = at + done;
                    let (read, there) = self.read_run(pair, from, &mut buffer[done as usize..])?;
                    // The beginning is the mark's until all else is written.
                    let skip = if from == 0 && mark.is_none() { MARKED as u64 } else { 0 };
                    if !there {
                        new.add(done + skip, done + read);
                    }
                    done += read;
                }
                pages.add(&buffer);
                if let Some(mark) = mark.take() {
                    buffer[..MARKED].copy_from_slice(&mark);
                }
                for (from, to) in new.iter() {
                    write(at + from, &buffer[from as usize..to as usize])?;
                }
            }
        }
        Ok(pages.sum())
    }

    /// Makes the prepared version the database. After an error the one before still is, unless it
    /// is part of a commit of several files, which the removal of the super-journal has decided.
    pub(crate) fn exchange(&mut self, pair: &mut Pair, alone: bool) -> Result<()> {
        let old = pair.current;
        let done = pair.exchange_names().and_then(|()| self.conclude(pair));
        if done.is_err() && alone {
            // Nobody knows what the device has now. The version before is in the other file, and
            // this one is not touched until the names are durable and it can be made anew.
            let ready = self.ready.take();
            pair.current = old;
            pair.give_name_back()?;
            if let Some(Ready { base: Image { trailer: Some(trailer), .. }, .. }) = &ready {
                // A Version Reset may have been made.
                image::write_trailer(pair.disk.as_ref(), pair.main(), trailer)?;
            }
            pair.publish(false, true)?;
        }
        done
    }

    /// Makes the exchange durable and tells it to the others.
    fn conclude(&mut self, pair: &mut Pair) -> Result<()> {
        let Some(ready) = &mut self.ready else { return Ok(()) };
        let disk = pair.disk.as_ref();
        let durable = match self.synced {
            false => Ok(()),
            true if ready.first || pair.mode.needs_folder(pair.kind) => {
                disk.sync_folder(&pair.names.main)
            }
            true if pair.mode.evidence() == Evidence::Name => disk.sync(pair.shadow(), Sync::Names),
            true => Ok(()),
        };
        durable.syncing("making a transaction durable")?;
        pair.current = 1 - pair.current;
        if ready.first {
            let old = &ready.base;
            let counter = old.header.map_or(0, |header| header.counter);
            let label = image::label(ready.durable.pair, 0, old.size, counter);
            let label = Trailer { id: ready.ids[0], ..label };
            ready.durable.state = State::Open;
            // It is durable by its name. Without label or registry the shadow is made anew.
            let _ = image::write_trailer(pair.disk.as_ref(), pair.shadow(), &label)
                .and_then(|_| pair.register(&ready.durable, self.synced));
        } else if pair.mode.evidence() == Evidence::Version {
            dash_protocol::reset_version(pair, pair.shadow())?;
            if self.synced {
                pair.sync_shadow(Sync::Bytes, "making a Version Reset durable")?;
            }
        }
        let left = match (self.ready.take(), self.image.take()) {
            (Some(ready), Some(image)) if !ready.first && image.version().is_some() => {
                self.truncate(self.size);
                let few = self.pages.len() * self.page <= KEPT_OF_LAST;
                let pages = if few { std::mem::take(&mut self.pages) } else { Pages::new() };
                let Ready { durable, base, .. } = ready;
                Some(Left { durable, current: image, shadow: base, pages })
            }
            _ => None,
        };
        // It is done. If this cannot be written, the next to look finds that out by itself.
        let version = left.as_ref().map_or(0, |left| left.current.id());
        let published = pair.publish_version(version);
        pair.left = left.filter(|_| published.is_ok());
        Ok(())
    }

    /// Makes the shadow what it was before.
    pub(crate) fn discard(self, pair: &Pair) -> Result<()> {
        let live = pair.live();
        let Some(ready) = self.ready.filter(|ready| !ready.first) else {
            return if live.unsettled { pair.publish(false, live.stale) } else { Ok(()) };
        };
        // What was copied from the transaction before is equal in both files, so the shadow ends
        // up closer to the current file than it was.
        let base = &ready.base;
        let shadow = Image::read(pair.shadow(), &ready.durable.pair)?;
        let mut touched = self.spoiled.union(&wrote(base));
        for (&offset, page) in &self.pages {
            touched.add(offset, offset + page.len() as u64);
        }
        if let Some(trailer) = shadow.trailer {
            touched = touched.union(&trailer.differs(base.size));
        }
        let version = base.version().unwrap_or(1);
        pair.restore(base, version, &touched.clipped(base.size), false)?;
        if pair.mode.evidence() != Evidence::Version {
            // The device may have the trailer of this version, and the next one to write here may
            // spoil pages that its checksum does not cover. Or it may have the label and not what
            // was restored, and the registry say that all was closed properly.
            pair.sync_shadow(Sync::Bytes, "making a rollback durable")?;
        }
        pair.publish(false, live.stale)
    }
}

fn too_large() -> Error {
    let error = io::Error::from(io::ErrorKind::StorageFull);
    Error::Io { what: "a database under vfs=dash ends at 2 TiB", code: ffi::SQLITE_FULL, error }
}
