//! R-REMAP: who keeps an integer key that several rows ask for, and what the others get.
//!
//! What a row gets depends on nothing but the joined state: who asks, in which order, and which
//! numbers any known row asks for. Which of these rows a merge decides on must not matter, so those
//! that are not affected are looked up.

use crate::Result;
use crate::facts::{Except, Facts};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Stamp};

/// A visible row's wish for a key; in the order in which wishes are granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// When the key was written, or the row yielded.
    pub claim: Stamp,
    /// The row.
    pub rid: Rid,
    /// The row, among the affected ones.
    pub item: usize,
    /// The key.
    pub id: i64,
}

/// The numbers that the rows of a table ask for, visible, hidden or dead.
pub trait Numbers {
    /// The largest; 0 if there is none above.
    fn highest(&self) -> Result<i64>;
    /// Whether any row asks for this one.
    fn asked(&self, id: i64) -> Result<bool>;
}

/// The key of each case. The earliest claim keeps the key. The others get, in the order of their
/// claims, the numbers past all that are asked for; when these are used up, the largest that nobody
/// asks for. `numbers` is asked for only if there are others.
pub fn grant<N: Numbers>(
    mut wishes: Vec<Wish>,
    numbers: impl FnOnce() -> N,
) -> Result<BTreeMap<usize, i64>> {
    wishes.sort();
    let (mut taken, mut ids, mut losers) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for wish in wishes {
        match taken.insert(wish.id) {
            true => drop(ids.insert(wish.item, wish.id)),
            false => losers.push(wish),
        }
    }
    past_all(losers, taken, &mut ids, |_| Ok(true), numbers)?;
    Ok(ids)
}

/// R-OWN: the numbers of rows that this site has not shown yet, where each site has its own. They get
/// those that they ask for, in the order of their claims, as long as no row here has them, and else
/// numbers past all that are known. `shown`: those of rows that stay as they are; `free`: whether no other
/// row has one, and no reference shows it that means nobody.
pub fn give<N: Numbers>(
    shown: BTreeSet<i64>,
    mut wishes: Vec<Wish>,
    free: impl Fn(i64) -> Result<bool>,
    numbers: impl FnOnce() -> N,
) -> Result<BTreeMap<usize, i64>> {
    wishes.sort();
    let (mut taken, mut ids, mut losers) = (shown, BTreeMap::new(), Vec::new());
    for wish in wishes {
        match !taken.contains(&wish.id) && free(wish.id)? {
            true => {
                taken.insert(wish.id);
                ids.insert(wish.item, wish.id);
            }
            false => losers.push(wish),
        }
    }
    past_all(losers, taken, &mut ids, free, numbers)?;
    Ok(ids)
}

/// Gives rows, in their order, the numbers past all that are known; when these are used up, the largest
/// that nobody has or asks for.
fn past_all<N: Numbers>(
    losers: Vec<Wish>,
    mut taken: BTreeSet<i64>,
    ids: &mut BTreeMap<usize, i64>,
    free: impl Fn(i64) -> Result<bool>,
    numbers: impl FnOnce() -> N,
) -> Result<()> {
    if losers.is_empty() {
        return Ok(());
    }
    let numbers = numbers();
    let highest = taken.last().copied().unwrap_or(0).max(numbers.highest()?);
    let mut next = highest.checked_add(1);
    let mut down = i64::MAX;
    for wish in losers {
        while let Some(id) = next
            && !free(id)?
        {
            next = id.checked_add(1);
        }
        let id = match next {
            Some(id) => {
                next = id.checked_add(1);
                id
            }
            None => {
                while taken.contains(&down) || numbers.asked(down)? || !free(down)? {
                    down -= 1;
                }
                down
            }
        };
        taken.insert(id);
        ids.insert(wish.item, id);
    }
    Ok(())
}

/// The numbers of a table, some of whose rows are affected.
pub struct Known<'a> {
    pub facts: &'a dyn Facts,
    /// Position of the table.
    pub table: usize,
    /// The affected rows: they need not stay where they are.
    pub except: Except,
    /// What affected rows ask for, visible or not.
    pub wanted: BTreeSet<i64>,
}

impl Numbers for Known<'_> {
    fn highest(&self) -> Result<i64> {
        let others = self.facts.highest(self.table, &self.except)?;
        Ok(self.wanted.last().copied().max(others).unwrap_or(0).max(0))
    }

    fn asked(&self, id: i64) -> Result<bool> {
        Ok(self.wanted.contains(&id) || self.facts.has_number(self.table, id, &self.except)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synqlite_wire::{Hlc, Id};

    fn wish(item: usize, at: i64, id: i64) -> Wish {
        let site = Id([1; 16]);
        Wish {
            claim: Stamp { hlc: Hlc(at), site },
            rid: Rid::Birth { site, n: item as u64 },
            item,
            id,
        }
    }

    /// Numbers of rows that are not affected.
    struct Others(Vec<i64>);

    impl Numbers for Others {
        fn highest(&self) -> Result<i64> {
            Ok(self.0.iter().copied().max().unwrap_or(0))
        }

        fn asked(&self, id: i64) -> Result<bool> {
            Ok(self.0.contains(&id))
        }
    }

    #[test]
    fn the_earliest_claim_keeps_the_key() {
        let wishes = vec![wish(0, 5, 1), wish(1, 3, 1), wish(2, 4, 1), wish(3, 9, 2)];
        let ids = grant(wishes, || Others(vec![7])).unwrap();
        assert_eq!(ids, BTreeMap::from([(1, 1), (3, 2), (2, 8), (0, 9)]));
    }

    #[test]
    fn a_number_that_is_shown_stays_whoever_asks_for_it() {
        let wishes = vec![wish(0, 5, 1), wish(1, 3, 4), wish(2, 4, 4), wish(3, 1, 2)];
        let ids =
            give(BTreeSet::from([1, 9]), wishes, |id| Ok(id != 2), || Others(vec![7])).unwrap();
        assert_eq!(ids, BTreeMap::from([(0, 12), (1, 4), (2, 11), (3, 10)]));
    }

    #[test]
    fn past_63_bits_numbers_come_from_above() {
        let max = i64::MAX;
        let wishes = vec![wish(0, 1, max), wish(1, 2, max), wish(2, 3, max), wish(3, 1, max - 1)];
        let others = Others(vec![max, max - 2, max - 4]);
        let ids = grant(wishes, || others).unwrap();
        assert_eq!((ids[&1], ids[&2]), (max - 3, max - 5));
    }
}
