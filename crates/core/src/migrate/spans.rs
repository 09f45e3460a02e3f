//! Columns of rows that lie together, of which the same is said.
//!
//! Where a foreign key comes or goes, something is said of every row of a table. Rows that follow one
//! another take no more room together than one of them.

use super::unsure::{Columns, Ticks};
use std::ops::RangeInclusive;

/// Columns, by position, of rows of one table that has rowids.
#[derive(Debug, Default)]
pub(super) struct Spans(Vec<List>);

/// Rows of which something is said of the same columns, in ascending order.
#[derive(Debug)]
struct List {
    columns: Vec<usize>,
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    lo: i64,
    hi: i64,
    ticks: Ticks,
}

impl Spans {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|list| list.spans.is_empty())
    }

    /// What is added next is of these columns. What is said of a column later counts.
    pub fn begin(&mut self, columns: &[usize]) {
        self.0.push(List { columns: columns.to_vec(), spans: vec![] });
    }

    /// Adds a row past those added since [`Spans::begin`].
    pub fn add(&mut self, rowid: i64, ticks: Ticks) {
        let Some(list) = self.0.last_mut() else { return };
        match list.spans.last_mut() {
            Some(span) if span.ticks == ticks && span.hi.checked_add(1) == Some(rowid) => {
                span.hi = rowid;
            }
            _ => list.spans.push(Span { lo: rowid, hi: rowid, ticks }),
        }
    }

    /// Ranges of rows, in ascending order, of which the same is said, and what.
    pub fn ranges(&self) -> Ranges<'_> {
        let lists = self.0.iter().map(|list| (&list.columns[..], &list.spans[..]));
        Ranges { lists: lists.collect(), from: Some(i64::MIN) }
    }
}

/// See [`Spans::ranges`].
pub(super) struct Ranges<'a> {
    /// Columns, and the spans that are not passed.
    lists: Vec<(&'a [usize], &'a [Span])>,
    /// The first rowid that is not passed.
    from: Option<i64>,
}

impl Iterator for Ranges<'_> {
    type Item = (RangeInclusive<i64>, Columns);

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.from?;
        for (_, spans) in &mut self.lists {
            while let [first, rest @ ..] = spans
                && first.hi < from
            {
                *spans = rest;
            }
        }
        let firsts =
            self.lists.iter().filter_map(|(columns, spans)| Some((columns, spans.first()?)));
        let firsts: Vec<_> = firsts.collect();
        let lo = firsts.iter().map(|(_, span)| span.lo.max(from)).min()?;
        let ends = firsts.iter().map(|(_, span)| if span.lo <= lo { span.hi } else { span.lo - 1 });
        let hi = ends.min()?;
        let mut said = Columns::new();
        for (columns, span) in firsts.iter().filter(|(_, span)| span.lo <= lo) {
            said.extend(columns.iter().map(|&c| (c, span.ticks)));
        }
        self.from = hi.checked_add(1);
        Some((lo..=hi, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_which_the_same_is_said_are_one_range() {
        let mut spans = Spans::default();
        assert!(spans.is_empty() && spans.ranges().next().is_none());
        spans.begin(&[1]);
        (1..=6).for_each(|rowid| spans.add(rowid, 2));
        spans.add(i64::MAX, 2);
        spans.begin(&[1, 2]);
        for (rowid, ticks) in [(-3, 1), (3, 1), (4, 1), (5, 7), (9, 1)] {
            spans.add(rowid, ticks);
        }
        let said: Vec<_> = spans.ranges().collect();
        let one = |ticks| Columns::from([(1, ticks)]);
        let both = |ticks| Columns::from([(1, ticks), (2, ticks)]);
        let expected = [
            (-3..=-3, both(1)),
            (1..=2, one(2)),
            (3..=4, both(1)),
            (5..=5, both(7)),
            (6..=6, one(2)),
            (9..=9, both(1)),
            (i64::MAX..=i64::MAX, one(2)),
        ];
        assert_eq!(said, expected);
    }
}
