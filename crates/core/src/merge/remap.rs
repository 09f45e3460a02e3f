//! R-REMAP: who keeps an integer key that several rows ask for, and what the others get.

use crate::Result;
use crate::catalog::{Loc, Tracked, loc_sql};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Stamp};

/// A visible row's wish for a key; in the order in which wishes are granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wish {
    /// When the key was written, or the row demoted.
    pub claim: Stamp,
    /// The row.
    pub rid: Rid,
    /// Its case.
    pub case: usize,
    /// The key.
    pub id: i64,
}

/// The key of each case. The earliest claim keeps the key; the others get numbers past `highest`,
/// which is asked for only if there are any.
pub(super) fn grant(
    mut wishes: Vec<Wish>,
    highest: impl FnOnce() -> Result<i64>,
) -> Result<BTreeMap<usize, i64>> {
    wishes.sort();
    let (mut taken, mut ids, mut losers) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for wish in wishes {
        match taken.insert(wish.id) {
            true => drop(ids.insert(wish.case, wish.id)),
            false => losers.push(wish),
        }
    }
    if losers.is_empty() {
        return Ok(ids);
    }
    let mut next = highest()?.checked_add(1);
    let mut down = i64::MAX;
    for wish in losers {
        let id = match next {
            Some(id) => {
                next = id.checked_add(1);
                id
            }
            // All of 63 bits are used up: take the largest free number.
            None => loop {
                down -= 1;
                if taken.insert(down) {
                    break down;
                }
            },
        };
        ids.insert(wish.case, id);
    }
    Ok(ids)
}

/// The largest key that any known row asks for, visible or not, except the rows at `places` and
/// those of `entries`.
pub(super) fn highest(
    conn: &Connection,
    t: &Tracked,
    places: &BTreeSet<Loc>,
    entries: &BTreeSet<i64>,
) -> Result<i64> {
    let sql = "SELECT wants, id FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL \
               ORDER BY wants DESC";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([t.no])?;
    let mut highest = 0;
    while let Some(row) = rows.next()? {
        if !entries.contains(&row.get(1)?) {
            highest = row.get(0)?;
            break;
        }
    }
    let loc = loc_sql(&t.table, "o.");
    let sql = format!("SELECT {loc} FROM {} AS o ORDER BY {loc} DESC", t.target());
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let rowid: i64 = row.get(0)?;
        if !places.contains(&Loc::Row(rowid)) {
            highest = highest.max(rowid);
            break;
        }
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use synqlite_wire::{Hlc, Id};

    fn wish(case: usize, at: i64, id: i64) -> Wish {
        let site = Id([1; 16]);
        Wish {
            claim: Stamp { hlc: Hlc(at), site },
            rid: Rid::Birth { site, n: case as u64 },
            case,
            id,
        }
    }

    #[test]
    fn the_earliest_claim_keeps_the_key() {
        let wishes = vec![wish(0, 5, 1), wish(1, 3, 1), wish(2, 4, 1), wish(3, 9, 2)];
        let ids = grant(wishes, || Ok(7)).unwrap();
        assert_eq!(ids, BTreeMap::from([(1, 1), (3, 2), (2, 8), (0, 9)]));
    }

    #[test]
    fn past_63_bits_numbers_come_from_above() {
        let wishes = vec![wish(0, 1, i64::MAX), wish(1, 2, i64::MAX), wish(2, 1, i64::MAX - 1)];
        let ids = grant(wishes, || Ok(i64::MAX)).unwrap();
        assert_eq!(ids[&1], i64::MAX - 2);
    }
}
