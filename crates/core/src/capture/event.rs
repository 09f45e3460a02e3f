//! What an entry of the journal says, as one number in its column `ev`.
//!
//! The low three bits say of which kind it is, the 32 above them of which table. Kinds past the eighth
//! go on above those, so that one more needs no other format. A kind that is not known was written by
//! triggers of a later version, and nothing may be folded without it.

use crate::{Error, Result};

/// Bits of a kind below the table's number.
const KIND_BITS: u32 = 3;
/// Bits of the table's number.
const TABLE_BITS: u32 = 32;

/// What happened, or was about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A row was inserted.
    Insert,
    /// A row was updated.
    Update,
    /// A row was deleted, with what it was.
    Delete,
    /// Goes on with what a row was, of the entry before it.
    More,
    /// A row that is about to be inserted has the primary key of this one.
    Replace,
    /// What is about to be written has another unique key of this row.
    Rival,
    /// A row is about to be updated, with what it was.
    Previous,
    /// A row is about to be deleted.
    Leaving,
}

impl Event {
    pub const ALL: [Event; 8] = [
        Event::Insert,
        Event::Update,
        Event::Delete,
        Event::More,
        Event::Replace,
        Event::Rival,
        Event::Previous,
        Event::Leaving,
    ];

    /// Column `ev` of an entry of this kind for table `no`.
    pub const fn of_table(self, no: u32) -> i64 {
        (no as i64) << KIND_BITS | self as i64
    }

    /// The table's number and the kind.
    ///
    /// # Errors
    /// [`Error::NewerJournal`] if this version knows no such kind.
    pub fn read(ev: i64) -> Result<(u32, Event)> {
        let low = ev & ((1 << KIND_BITS) - 1);
        let kind = ev >> (KIND_BITS + TABLE_BITS) << KIND_BITS | low;
        let event = usize::try_from(kind).ok().and_then(|kind| Event::ALL.get(kind));
        let event = event.ok_or(Error::NewerJournal { kind })?;
        Ok(((ev >> KIND_BITS) as u32, *event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for event in Event::ALL {
            for no in [0, 1, 7, 1 << 20, u32::MAX] {
                assert_eq!(Event::read(event.of_table(no)).unwrap(), (no, event));
            }
        }
        assert_eq!(Event::Leaving.of_table(2), 23);
    }

    #[test]
    fn a_kind_that_is_not_known_is_named() {
        for (ev, kind) in [(1 << 35 | 5 << 3 | 1, 9), (-1, -1), (i64::MAX, (1 << 31) - 1)] {
            let Err(Error::NewerJournal { kind: named }) = Event::read(ev) else { panic!("{ev}") };
            assert_eq!(named, kind);
        }
    }
}
