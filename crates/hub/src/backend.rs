//! What a hub's store must do.
//!
//! The promise: an object is listed once it is durable; sequences grow over all places; no object of
//! a place ever appears below one that was listed before; of several puts of one name the first
//! wins. Content is opaque. The tests in `tests/it` are run on every kind of store.

use crate::error::{Error, Result};
use crate::place::Place;
use bytes::Bytes;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use synqlite_objects::ObjectName;
use synqlite_wire::{DatabaseId, Id, SiteId};
use tokio::sync::mpsc;

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// Names the order that sequences have, and no other.
pub type Epoch = Id;

/// Names a token; says nothing about its secret. 0 is nobody.
pub type TokenId = u64;

/// What a backend will answer.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Longest part of an object that travels with a list, in bytes.
pub const LONGEST_PREFIX: u64 = 64 << 10;
/// Bytes of an object that does not come whole with a list: its header, mostly.
pub const HEAD: u64 = 1 << 10;

/// Largest text of a list, in bytes; a single line may exceed it.
const LARGEST_PAGE: usize = 4 << 20;

/// An object that a site puts.
#[derive(Debug)]
pub struct Incoming {
    /// Where.
    pub place: Place,
    /// Its name.
    pub name: ObjectName,
    /// Its bytes, at least one.
    pub content: Content,
    /// A snapshot holds everything of its database up to here; 0 if it does not say so.
    pub covers: u64,
    /// Who puts it.
    pub token: TokenId,
    /// Bytes that the token may store in all.
    pub quota: Option<u64>,
    /// When it came.
    pub at: Millis,
}

/// Bytes of an object that is put.
#[derive(Debug)]
pub enum Content {
    /// In memory: small.
    Bytes(Bytes),
    /// In a file of the hub's own.
    File(Staged),
    /// In the store already, but nothing leads there: the store's own id, and the bytes.
    Kept(Id, u64),
}

impl Content {
    /// Number of bytes.
    pub fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(file) => file.size,
            Content::Kept(_, size) => *size,
        }
    }

    /// The store's id of what it has already.
    pub fn kept(&self) -> Option<Id> {
        if let Content::Kept(id, _) = self { Some(*id) } else { None }
    }
}

/// A synced file that becomes an object, or goes.
#[derive(Debug)]
pub struct Staged {
    path: PathBuf,
    size: u64,
    kept: bool,
}

impl Staged {
    /// Takes over a file that is on the device.
    pub fn new(path: PathBuf, size: u64) -> Staged {
        Staged { path, size, kept: false }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whoever has renamed it says so.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.kept {
            // If this fails, the next start of the hub removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What became of a put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The object's sequence.
    pub sequence: u64,
    /// Whether it was absent.
    pub created: bool,
}

/// What a list should hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Sequences above this one.
    pub after: u64,
    /// Objects of at most so many bytes whole, and of longer ones [`HEAD`]; at most
    /// [`LONGEST_PREFIX`].
    pub prefix: u64,
    /// At most so many lines, at least 1.
    pub limit: u64,
}

/// Lines of a list, as they travel.
#[derive(Debug)]
pub struct Page {
    /// The lines.
    pub text: Vec<u8>,
    /// The list is complete up to this sequence.
    pub upto: u64,
    /// Whether there is more.
    pub more: bool,
    lines: u64,
    wanted: Wanted,
}

impl Page {
    /// Without lines.
    pub fn new(wanted: Wanted) -> Page {
        Page { text: Vec::new(), upto: wanted.after, more: false, lines: 0, wanted }
    }

    /// How much of an object of this size a line holds.
    pub fn prefix_of(&self, size: u64) -> u64 {
        let prefix = self.wanted.prefix;
        if size <= prefix { size } else { prefix.min(HEAD) }
    }

    /// Whether another line would be too much; then there is [`more`](Page::more).
    pub fn is_full(&mut self) -> bool {
        self.more = self.lines >= self.wanted.limit || self.text.len() >= LARGEST_PAGE;
        self.more
    }

    /// Adds a line. `prefix` begins with the first [`prefix_of`](Page::prefix_of) bytes.
    pub fn line(&mut self, sequence: u64, size: u64, name: &ObjectName, prefix: &[u8]) {
        // Writing to a vector cannot fail.
        let _ = write!(self.text, "{sequence} {size} {name}");
        if self.wanted.prefix > 0 {
            let prefix = &prefix[..prefix.len().min(self.prefix_of(size) as usize)];
            let _ = writeln!(self.text, " {}", prefix.len());
            self.text.extend_from_slice(prefix);
        }
        self.text.push(b'\n');
        self.upto = sequence;
        self.lines += 1;
    }
}

/// Which part of an object is asked for, as in the header `Range`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// From one byte to another, both inclusive.
    Between(u64, u64),
    /// From a byte on.
    From(u64),
    /// The last so many bytes.
    Last(u64),
}

impl Part {
    /// The bytes of an object of that size; `None` if it has none of them.
    pub fn of(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Part::Whole => 0..size,
            Part::Between(from, to) => from..to.saturating_add(1).min(size),
            Part::From(from) => from..size,
            Part::Last(n) => size.saturating_sub(n)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// A part of an object that is there.
#[derive(Debug)]
pub struct Reading {
    /// Bytes of the whole object.
    pub size: u64,
    /// Which of them are here; `None` if the object has none of those that were asked for.
    pub range: Option<Range<u64>>,
    /// They.
    pub bytes: Source,
}

/// Where bytes come from.
#[derive(Debug)]
pub enum Source {
    /// From memory.
    Bytes(Bytes),
    /// From a file, which stands where they begin.
    File(File),
    /// As they arrive, in order.
    Stream(mpsc::Receiver<std::io::Result<Bytes>>),
}

/// A place, as the overview shows it.
#[derive(Clone, Debug)]
pub struct PlaceInfo {
    /// Its name.
    pub place: Place,
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sequence of the newest that was put.
    pub latest: u64,
    /// When that was.
    pub changed: Millis,
    /// Sites that said how far they have read, and how many objects of the place each lacks, counted
    /// up to [`MOST_BEHIND`].
    pub sites: Vec<(SiteInfo, u64)>,
}

/// So far is counted what a site lacks.
pub const MOST_BEHIND: usize = 1000;

/// A site of a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteInfo {
    /// The digits of its choice.
    pub site: SiteId,
    /// It has everything up to here.
    pub upto: u64,
    /// When it said so last.
    pub seen: Millis,
    /// What people call it, as it says; empty if it never said.
    pub name: String,
}

/// What a store holds in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Places with objects, or that had some.
    pub places: u64,
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A hub's store.
pub trait Backend: Send + Sync {
    /// The order that its sequences belong to.
    fn epoch(&self) -> Epoch;

    /// Puts an object unless one of that name is there. Answers when it is durable.
    /// [`Error::Full`], [`Error::Quota`].
    fn put(&self, object: Incoming) -> Later<'_, Done>;

    /// Objects of a place in order of their sequences.
    fn list<'a>(&'a self, place: &'a Place, wanted: Wanted) -> Later<'a, Page>;

    /// Sequence of the newest object of a place, 0 if there is none.
    fn latest<'a>(&'a self, place: &'a Place) -> Later<'a, u64>;

    /// Sequence of an object, `None` if it is absent.
    fn find<'a>(&'a self, place: &'a Place, name: &'a ObjectName) -> Later<'a, Option<u64>>;

    /// A part of an object, `None` if the object is absent.
    fn read<'a>(
        &'a self,
        place: &'a Place,
        name: &'a ObjectName,
        part: Part,
    ) -> Later<'a, Option<Reading>>;

    /// Removes an object; whether it was there.
    fn remove<'a>(&'a self, place: &'a Place, name: &'a ObjectName) -> Later<'a, bool>;

    /// Removes all that a place holds; the number of objects. Not atomic: it may be repeated.
    fn clear<'a>(&'a self, place: &'a Place) -> Later<'a, u64>;

    /// Databases of which a place has objects, in order.
    fn databases<'a>(&'a self, place: &'a Place) -> Later<'a, Vec<DatabaseId>>;

    /// A site has everything of a place up to a sequence, and may say its name. What is retired from now on minds
    /// that. Of too many sites of a place those are forgotten that were seen longest ago.
    fn seen<'a>(&'a self, place: &'a Place, site: SiteInfo) -> Later<'a, ()>;

    /// Removes what newer snapshots cover and every site has that was seen at `since` or later;
    /// forgets sites that were not. The number of objects.
    fn retire(&self, since: Millis) -> Later<'_, u64>;

    /// Places after `after` in order of their names, at most `limit`.
    fn places<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> Later<'a, Vec<PlaceInfo>>;

    /// Bytes that a token has stored.
    fn stored(&self, token: TokenId) -> Later<'_, u64>;

    /// What it holds in all.
    fn totals(&self) -> Later<'_, Totals>;

    /// Why nothing can be written any more, until the hub is started anew.
    fn lost(&self) -> Option<Error> {
        None
    }

    /// Whether it takes writes.
    fn health(&self) -> Later<'_, ()>;

    /// Counters of its own: name, value.
    fn counters(&self) -> Vec<(&'static str, f64)>;

    /// Finishes what it has begun. Nothing is put after it.
    fn close(&self) -> Later<'_, ()>;
}

/// Sixteen random bytes.
pub(crate) fn random_id() -> Result<Id> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| Error::away(e.to_string()))?;
    Ok(Id(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_to_the_object() {
        assert_eq!(Part::Whole.of(10), Some(0..10));
        assert_eq!(Part::Between(2, 4).of(10), Some(2..5));
        assert_eq!(Part::Between(2, u64::MAX).of(10), Some(2..10));
        assert_eq!(Part::Between(4, 2).of(10), None);
        assert_eq!(Part::From(9).of(10), Some(9..10));
        assert_eq!(Part::From(10).of(10), None);
        assert_eq!(Part::Last(3).of(10), Some(7..10));
        assert_eq!(Part::Last(30).of(10), Some(0..10));
        assert_eq!(Part::Last(0).of(10), None);
    }

    #[test]
    fn lines_carry_what_was_asked_for() {
        let name = ObjectName::batch(Id([1; 16]), Id([2; 16]), 0, 7);
        let mut page = Page::new(Wanted { after: 3, prefix: 4, limit: 2 });
        assert!(!page.is_full() && page.upto == 3);
        page.line(5, 3, &name, b"abc");
        page.line(6, 9, &name, b"abcdefghi");
        assert!(page.is_full() && page.more && page.upto == 6);
        let want = format!("5 3 {name} 3\nabc\n6 9 {name} 4\nabcd\n");
        assert_eq!(String::from_utf8(page.text).unwrap(), want);
        let page = Page::new(Wanted { after: 0, prefix: 4 << 10, limit: 2 });
        let sizes = [1 << 10, 4 << 10, (4 << 10) + 1];
        assert_eq!(sizes.map(|size| page.prefix_of(size)), [1 << 10, 4 << 10, HEAD]);
        let mut page = Page::new(Wanted { after: 0, prefix: 0, limit: 2 });
        page.line(5, 3, &name, b"");
        assert_eq!(String::from_utf8(page.text).unwrap(), format!("5 3 {name}\n"));
    }
}
