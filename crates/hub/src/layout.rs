//! Keys and values of the embedded store, byte by byte as `docs/formats/hub-store.md` has them.
//!
//! A key begins with a letter for its kind. A place in a key ends with a zero byte, so no key of one
//! place lies among those of another.

use crate::backend::{Millis, SiteInfo, TokenId};
use crate::error::{Error, Result};
use crate::place::Place;
use synqlite_objects::{Kind, ObjectName};
use synqlite_wire::{DatabaseId, Id, SiteId};

/// The format that this release writes.
pub const FORMAT: u64 = 1;

/// Key of the format's number.
pub const FORMAT_KEY: &[u8] = b"mformat";
/// Key of the epoch.
pub const EPOCH_KEY: &[u8] = b"mepoch";
/// Key of the newest sequence that was given.
pub const SEQUENCE_KEY: &[u8] = b"msequence";

/// First letter of the records of places.
pub const PLACE: u8 = b'p';
/// First letter of what snapshots cover.
pub const COVER: u8 = b'c';

/// Bytes of a name in binary.
const NAME: usize = 49;
/// Bytes of a record before its content.
const HEAD: usize = 1 + NAME + 8 + 8 + 8;

fn in_place(letter: u8, place: &Place, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(place.as_str().len() + rest.len() + 2);
    key.push(letter);
    key.extend_from_slice(place.as_str().as_bytes());
    key.push(0);
    key.extend_from_slice(rest);
    key
}

/// Key of an object by its sequence.
pub fn object(place: &Place, sequence: u64) -> Vec<u8> {
    in_place(b'o', place, &sequence.to_be_bytes())
}

/// The sequence that a key of [`object`] ends with.
pub fn sequence_of(key: &[u8]) -> Result<u64> {
    let end = key.last_chunk().ok_or_else(|| damaged("a key"))?;
    Ok(u64::from_be_bytes(*end))
}

/// Start of the keys of a place's objects by name, below one database if there is one.
pub fn names(place: &Place, database: Option<DatabaseId>) -> Vec<u8> {
    in_place(b'n', place, database.as_ref().map_or(&[], |id| &id.0))
}

/// Key that leads from a name to a sequence.
pub fn name(place: &Place, name: &ObjectName) -> Vec<u8> {
    in_place(b'n', place, &name_bytes(name))
}

/// Key of content that is too large for the list and too small for a file.
pub fn value(sequence: u64) -> [u8; 9] {
    numbered(b'v', sequence)
}

/// Key that says that a file belongs to an object.
pub fn file(id: Id) -> [u8; 17] {
    let mut key = [b'f'; 17];
    key[1..].copy_from_slice(&id.0);
    key
}

/// Key of what a token has stored.
pub fn usage(token: TokenId) -> [u8; 9] {
    numbered(b't', token)
}

fn numbered(letter: u8, n: u64) -> [u8; 9] {
    let mut key = [letter; 9];
    key[1..].copy_from_slice(&n.to_be_bytes());
    key
}

/// Key of the sums of a place.
pub fn place(place: &Place) -> Vec<u8> {
    in_place(PLACE, place, &[])
}

/// The place of a key that begins with it, and what follows.
pub fn split(key: &[u8]) -> Result<(Place, &[u8])> {
    let body = key.get(1..).unwrap_or_default();
    let end = body.iter().position(|b| *b == 0).ok_or_else(|| damaged("a key"))?;
    let text = std::str::from_utf8(&body[..end]).map_err(|_| damaged("a key"))?;
    let place = Place::parse(text).map_err(|_| damaged("the name of a place"))?;
    Ok((place, &body[end + 1..]))
}

/// Start of the keys of a place's sites.
pub fn sites(place: &Place) -> Vec<u8> {
    in_place(b's', place, &[])
}

/// Key of how far a site has read.
pub fn site(place: &Place, site: SiteId) -> Vec<u8> {
    in_place(b's', place, &site.0)
}

/// Value of what a site says of itself: two numbers, and its name.
pub fn site_value(site: &SiteInfo) -> Vec<u8> {
    [&pair(site.upto, site.seen as u64)[..], site.name.as_bytes()].concat()
}

/// Reads it.
pub fn site_info(site: SiteId, value: &[u8]) -> Result<SiteInfo> {
    let (told, name) = value.split_at_checked(16).ok_or_else(|| damaged("what a site says"))?;
    let ([upto, seen], name) = (numbers(told)?, String::from_utf8_lossy(name).into_owned());
    Ok(SiteInfo { site, upto, seen: seen as Millis, name })
}

/// Start of the keys of what a place's snapshots cover.
pub fn covers(place: &Place) -> Vec<u8> {
    in_place(COVER, place, &[])
}

/// Key of what the newest snapshot of a database covers.
pub fn cover(place: &Place, database: DatabaseId) -> Vec<u8> {
    in_place(COVER, place, &database.0)
}

/// Two numbers in a value.
pub fn pair(a: u64, b: u64) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&a.to_be_bytes());
    out[8..].copy_from_slice(&b.to_be_bytes());
    out
}

/// Reads numbers of a value.
pub fn numbers<const N: usize>(bytes: &[u8]) -> Result<[u64; N]> {
    if bytes.len() != 8 * N {
        return Err(damaged("a record of numbers"));
    }
    let mut out = [0; N];
    for (n, bytes) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *n = u64::from_be_bytes(*bytes);
    }
    Ok(out)
}

/// Reads an id.
pub fn id(bytes: &[u8]) -> Result<Id> {
    bytes.try_into().map(Id).map_err(|_| damaged("an id"))
}

fn name_bytes(name: &ObjectName) -> [u8; NAME] {
    let mut out = [0; NAME];
    out[..16].copy_from_slice(&name.database.0);
    out[16] = match name.kind {
        Kind::Batch => 0,
        Kind::Snapshot => 1,
    };
    out[17..33].copy_from_slice(&name.site.0);
    out[33..41].copy_from_slice(&name.from.to_be_bytes());
    out[41..].copy_from_slice(&name.upto.to_be_bytes());
    out
}

/// The name at the end of a key of [`name`], or in a record.
fn read_name(bytes: &[u8; NAME]) -> Result<ObjectName> {
    let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_be_bytes);
    let bad = |_| damaged("a name");
    Ok(ObjectName {
        database: id(&bytes[..16])?,
        kind: match bytes[16] {
            0 => Kind::Batch,
            1 => Kind::Snapshot,
            _ => return Err(damaged("a name")),
        },
        site: id(&bytes[17..33])?,
        from: number(33).map_err(bad)?,
        upto: number(41).map_err(bad)?,
    })
}

/// The database of a key of [`name`], given what follows the place.
pub fn database_of(rest: &[u8]) -> Result<DatabaseId> {
    id(rest.get(..16).unwrap_or_default())
}

/// Where the content of an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rank<'a> {
    /// In the record.
    Here(&'a [u8]),
    /// Under [`value`].
    Value,
    /// In a file.
    File(Id),
}

/// What is kept of an object under its sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Its name.
    pub name: ObjectName,
    /// Its bytes.
    pub size: u64,
    /// When it came.
    pub at: Millis,
    /// Who put it.
    pub token: TokenId,
    /// Its content.
    pub rank: Rank<'a>,
}

impl<'a> Record<'a> {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (letter, content) = match &self.rank {
            Rank::Here(bytes) => (0, *bytes),
            Rank::Value => (1, &[][..]),
            Rank::File(id) => (2, &id.0[..]),
        };
        let mut out = Vec::with_capacity(HEAD + content.len());
        out.push(letter);
        out.extend_from_slice(&name_bytes(&self.name));
        for n in [self.size, self.at as u64, self.token] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        out.extend_from_slice(content);
        out
    }

    /// Reads what [`Record::encode`] wrote.
    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>> {
        let bad = || damaged("the record of an object");
        let (letter, rest) = bytes.split_first().ok_or_else(bad)?;
        let (name, rest) = rest.split_first_chunk::<NAME>().ok_or_else(bad)?;
        let (head, content) = rest.split_at_checked(24).ok_or_else(bad)?;
        let [size, at, token] = numbers(head)?;
        let rank = match letter {
            0 => Rank::Here(content),
            1 => Rank::Value,
            2 => Rank::File(id(content)?),
            _ => return Err(bad()),
        };
        Ok(Record { name: read_name(name)?, size, at: at as i64, token, rank })
    }
}

/// Sums of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sequence of the newest that was put.
    pub latest: u64,
    /// When that was.
    pub changed: Millis,
}

impl Sums {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let numbers = [self.objects, self.bytes, self.latest, self.changed as u64];
        numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    /// Reads what [`Sums::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Sums> {
        let [objects, bytes, latest, changed] = numbers(bytes)?;
        Ok(Sums { objects, bytes, latest, changed: changed as i64 })
    }
}

fn damaged(what: &str) -> Error {
    Error::Damaged { what: format!("{what} in the store"), why: "it is not of the right form" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = ObjectName> {
        let id = || proptest::array::uniform16(any::<u8>()).prop_map(Id);
        let kind = prop_oneof![Just(Kind::Batch), Just(Kind::Snapshot)];
        (id(), kind, id(), any::<u64>(), any::<u64>()).prop_map(
            |(database, kind, site, from, upto)| ObjectName { database, kind, site, from, upto },
        )
    }

    proptest! {
        #[test]
        fn names_sort_and_read_back(a in names(), b in names()) {
            prop_assert_eq!(read_name(&name_bytes(&a)).unwrap(), a);
            prop_assert_eq!(name_bytes(&a).cmp(&name_bytes(&b)), a.cmp(&b));
        }

        #[test]
        fn records_read_back(name in names(), size: u64, at: i64, token: u64, n in 0_u8..3, bytes: [u8; 16]) {
            let rank = match n { 0 => Rank::Here(&bytes), 1 => Rank::Value, _ => Rank::File(Id(bytes)) };
            let record = Record { name, size, at, token, rank };
            let encoded = record.encode();
            prop_assert_eq!(Record::decode(&encoded).unwrap(), record);
            for cut in 0..HEAD {
                prop_assert!(Record::decode(&encoded[..cut]).is_err());
            }
        }
    }

    #[test]
    fn places_do_not_mix() {
        let (a, ab) = (Place::parse("a").unwrap(), Place::parse("a-b").unwrap());
        assert!(!object(&ab, 1).starts_with(&in_place(b'o', &a, &[])));
        assert!(object(&a, u64::MAX) < object(&ab, 0));
        assert_eq!(split(&object(&ab, 5)).unwrap(), (ab.clone(), &5_u64.to_be_bytes()[..]));
        assert_eq!(sequence_of(&object(&ab, 5)).unwrap(), 5);
        let sums = Sums { objects: 1, bytes: 2, latest: 3, changed: -4 };
        assert_eq!(Sums::decode(&sums.encode()).unwrap(), sums);
    }
}
