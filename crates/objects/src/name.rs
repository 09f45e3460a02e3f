//! Names of objects. A name says exactly what the object holds, so two objects of one name hold the
//! same changes, and a name that is not exactly of this form is none of ours.

use std::fmt;
use synqlite_wire::{DatabaseId, SiteId};

/// What an object holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// What changed on a site between two of its local positions.
    Batch,
    /// Everything a site knew at one of its local positions.
    Snapshot,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 2] = [Kind::Batch, Kind::Snapshot];

    /// Second part of the names of this kind.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Kind::Batch => "batches",
            Kind::Snapshot => "snapshots",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Kind::Batch => "batch",
            Kind::Snapshot => "snapshot",
        }
    }
}

/// Name of an object. Its text form, `DATABASE/batches/SITE/FROM-UPTO.batch` or
/// `DATABASE/snapshots/SITE/FROM-UPTO.snapshot`, has a fixed width within a kind and sorts as the
/// name itself does: by database, kind, site, then range.
///
/// Positions are those that the site gives to its own changes. The batches of a site form a chain:
/// each `from` is the `upto` of the one before. Two processes of a site may write overlapping
/// ranges; a reader may then follow either, because batches are joined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectName {
    /// The database that the object belongs to.
    pub database: DatabaseId,
    /// What it holds.
    pub kind: Kind,
    /// The site that wrote it.
    pub site: SiteId,
    /// It holds what lies after this local position of the site; 0 for a snapshot.
    pub from: u64,
    /// It holds what lies up to this local position, inclusive.
    pub upto: u64,
}

impl ObjectName {
    /// Name of a batch with the changes of `site` after position `from`, up to `upto`.
    pub fn batch(database: DatabaseId, site: SiteId, from: u64, upto: u64) -> ObjectName {
        ObjectName { database, kind: Kind::Batch, site, from, upto }
    }

    /// Name of a snapshot with everything that `site` knew at position `upto`.
    pub fn snapshot(database: DatabaseId, site: SiteId, upto: u64) -> ObjectName {
        ObjectName { database, kind: Kind::Snapshot, site, from: 0, upto }
    }

    /// Reads the text form. `None` for every other text: a folder also holds what file managers and
    /// synchronizing programs leave there, and none of it is an error.
    pub fn parse(text: &str) -> Option<ObjectName> {
        let (database, rest) = text.split_once('/')?;
        let (folder, rest) = rest.split_once('/')?;
        let (site, file) = rest.split_once('/')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.folder() == folder)?;
        let range = file.strip_suffix(kind.suffix())?.strip_suffix('.')?;
        let (from, upto) = range.split_once('-')?;
        let name = ObjectName {
            database: database.parse().ok()?,
            kind,
            site: site.parse().ok()?,
            from: u64::from_str_radix(from, 16).ok()?,
            upto: u64::from_str_radix(upto, 16).ok()?,
        };
        // The parsers above are lenient about capitals, signs and width; the form is not.
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectName { database, kind, site, from, upto } = self;
        let (folder, suffix) = (kind.folder(), kind.suffix());
        write!(f, "{database}/{folder}/{site}/{from:016x}-{upto:016x}.{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use synqlite_wire::Id;

    fn names() -> impl Strategy<Value = ObjectName> {
        let id = || proptest::array::uniform16(any::<u8>()).prop_map(Id);
        let kind = prop_oneof![Just(Kind::Batch), Just(Kind::Snapshot)];
        (id(), kind, id(), any::<u64>(), any::<u64>()).prop_map(
            |(database, kind, site, from, upto)| ObjectName { database, kind, site, from, upto },
        )
    }

    proptest! {
        #[test]
        fn every_name_reads_back(name in names()) {
            prop_assert_eq!(ObjectName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn text_sorts_as_names_do(a in names(), b in names()) {
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }

        #[test]
        fn a_changed_name_is_foreign_or_another(name in names(), at in any::<prop::sample::Index>(), c in any::<char>()) {
            let mut text: Vec<char> = name.to_string().chars().collect();
            let at = at.index(text.len());
            text[at] = c;
            let text: String = text.into_iter().collect();
            if let Some(read) = ObjectName::parse(&text) {
                prop_assert_eq!(read.to_string(), text);
            }
        }
    }

    #[test]
    fn what_other_programs_leave_is_foreign() {
        let name = ObjectName::batch(Id([0xab; 16]), Id([2; 16]), 1, 0x2f);
        let text = name.to_string();
        assert_eq!(
            text,
            "abababababababababababababababab/batches/02020202020202020202020202020202/\
             0000000000000001-000000000000002f.batch"
        );
        for foreign in [
            String::new(),
            ".stfolder".into(),
            "desktop.ini".into(),
            text.replace(".batch", " (conflicted copy).batch"),
            text.replace(".batch", ".sync-conflict-20260101-120000-ABCDEFG.batch"),
            text.replace(".batch", ".snapshot"),
            text.replace(".batch", ".batch.tmp"),
            text.replace("/batches/", "/batch/"),
            text.replace("ab", "AB"),
            text.replace("2f", "2F"),
            text.replace("0000000000000001-", "1-"),
            text.replace("0000000000000001-", "+000000000000001-"),
            text.replace("/0000000000000001", "/.tmp-0000000000000001"),
            format!("{text}/"),
            format!("/{text}"),
        ] {
            assert_eq!(ObjectName::parse(&foreign), None, "{foreign}");
        }
    }
}
