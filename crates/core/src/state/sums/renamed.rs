//! Columns that a rebuild gave another name, told by what rows show (R-MIG-RENAME).
//!
//! The byte of a column in the sum of a row is that of its number and its value. So if the values of a new column have,
//! row for row, the bytes of one that is gone, it is that one. Rows are looked for by what the other columns show,
//! for a rebuild may have given them other places.

use super::chunk::{CHECK, Layout, Summed, hash, part};
use super::compare::Sums;
use crate::Result;
use crate::catalog::Tracked;
use crate::equal::converted;
use crate::schema::Affinity;
use crate::sqlvalue::{as_ref, values};
use rusqlite::Connection;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::Value;

/// So many rows are looked at.
const LOOKED_AT: usize = 10_000;

/// The position of the column that has another name now, by its number.
pub type Renamed = BTreeMap<u32, usize>;

/// Rows that show what they did.
struct Same {
    rows: usize,
    /// Whether one of them shows something in each renamed column that is not there by itself.
    telling: bool,
    /// How many different things they show in the renamed columns.
    different: usize,
}

impl Same {
    /// Whether they say that columns were renamed, where `others` rows show what they did in the other columns and
    /// `written` rows at most were written since. Without triggers nobody knows what was written. Then nine in ten will
    /// do, or two in three where what they show tells them apart: in few rows, or of few different values, two columns
    /// may be alike by chance, and values would go where they do not belong.
    fn tell(&self, others: usize, written: usize) -> bool {
        let tells_apart = self.different >= 3 && 2 * self.different >= self.rows;
        let apart = tells_apart && 3 * self.rows >= 2 * others;
        let nearly_all = 10 * self.rows >= 9 * others;
        let all = self.rows + written >= others;
        self.telling && 2 * self.rows >= others && (all || nearly_all || apart)
    }
}

impl Sums {
    /// Which of the columns that are gone, by number, are there as `fresh` ones, by position. `written`: so many
    /// rows at most were written since. A column that holds nothing but its default tells nothing, nor do two that
    /// hold the same.
    pub fn renamed(
        &self,
        conn: &Connection,
        t: &Tracked,
        lost: impl IntoIterator<Item = u32>,
        fresh: &[usize],
        written: usize,
    ) -> Result<Renamed> {
        let sql = format!("SELECT {} FROM {} LIMIT {LOOKED_AT}", t.column_list(), t.target());
        let mut statement = conn.prepare(&sql)?;
        let count = t.table.columns.len();
        let rows = statement.query_map([], |row| values(row, 0, count))?;
        let rows: Vec<Vec<Value>> = rows.collect::<rusqlite::Result<_>>()?;
        let others = self.same(t, &rows, &Renamed::new()).rows;
        let is = |renamed: &Renamed| self.same(t, &rows, renamed).tell(others, written);
        let mut pairs = Vec::new();
        for no in lost {
            pairs.extend(fresh.iter().map(|&c| (no, c)).filter(|pair| is(&Renamed::from([*pair]))));
        }
        let alone = |&(no, c): &(u32, usize)| {
            pairs.iter().filter(|(other, at)| *other == no || *at == c).count() == 1
        };
        let renamed: Renamed = pairs.iter().copied().filter(alone).collect();
        Ok(if is(&renamed) { renamed } else { Renamed::new() })
    }

    /// How many of these rows show what one did, in the columns that are still there and in those that are renamed.
    fn same(&self, t: &Tracked, rows: &[Vec<Value>], renamed: &Renamed) -> Same {
        let mut kinds: Vec<(&Layout, HashMap<Vec<u8>, usize>)> = Vec::new();
        for (layout, sum) in self.all().take(LOOKED_AT) {
            if !renamed.keys().all(|no| layout.iter().any(|of| of.no == *no)) {
                continue;
            }
            let at = kinds.iter().position(|(of, _)| *of == layout).unwrap_or_else(|| {
                kinds.push((layout, HashMap::new()));
                kinds.len() - 1
            });
            let places = places(t, layout, renamed);
            let whole = places.iter().all(Option::is_some);
            let bytes = places.iter().zip(&sum[CHECK..]).filter(|(place, _)| place.is_some());
            let mut shown: Vec<u8> = bytes.map(|(_, byte)| *byte).collect();
            shown.extend(sum[..CHECK].iter().filter(|_| whole));
            *kinds[at].1.entry(shown).or_default() += 1;
        }
        let mut same = Same { rows: 0, telling: false, different: 0 };
        let mut shows = BTreeSet::new();
        for (layout, sums) in &mut kinds {
            let places = places(t, layout, renamed);
            let whole = places.iter().all(Option::is_some);
            for row in rows {
                let (mut shown, mut check) = (Vec::new(), 0u16);
                for (Summed { no, affinity, .. }, c) in layout.iter().zip(&places) {
                    let Some(c) = *c else { continue };
                    let hash = hash(*no, as_ref(&former(&row[c], *affinity)));
                    shown.push(hash as u8);
                    check = check.wrapping_add(part(hash));
                }
                shown.extend(check.to_le_bytes().iter().filter(|_| whole));
                if let Some(left) = sums.get_mut(&shown).filter(|left| **left > 0) {
                    *left -= 1;
                    same.rows += 1;
                    let tells = |&c: &usize| !row[c].is_null() && row[c] != t.default_of(c);
                    same.telling |= renamed.values().all(tells);
                    let shown = |(no, c): (&u32, &usize)| hash(*no, as_ref(&row[*c]));
                    shows.insert(renamed.iter().map(shown).collect::<Vec<_>>());
                }
            }
        }
        same.different = shows.len();
        same
    }
}

/// What a value was before its column got another type than this one.
fn former(value: &Value, affinity: Affinity) -> Cow<'_, Value> {
    let was = match (affinity, value) {
        (Affinity::Text, Value::Real(_)) => converted(value, Affinity::Integer)
            .and_then(|whole| converted(&whole, affinity))
            .or_else(|| converted(value, affinity)),
        _ => converted(value, affinity),
    };
    was.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Where the columns of sums are now.
fn places(t: &Tracked, layout: &Layout, renamed: &Renamed) -> Vec<Option<usize>> {
    let place =
        |no: &u32| renamed.get(no).copied().or_else(|| t.column_nos.iter().position(|of| of == no));
    layout.iter().map(|of| place(&of.no)).collect()
}
