//! What the history tells of rows: what each of their columns was before what is taken back, and whether they
//! were there.

use crate::Result;
use crate::history::{self, Change, What};
use crate::meta::Meta;
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::{Hlc, Rid, SiteId, Stamp, Value};

/// A row, by the number of its table.
pub(super) type Key = (u32, Rid);

/// Writes of this site in a span of time.
pub(super) struct Span {
    pub site: SiteId,
    pub from: Hlc,
    pub to: Hlc,
    /// Clocks of rows that came with their tables, which are no writes.
    adopted: BTreeSet<Hlc>,
}

impl Span {
    pub fn of(conn: &Connection, meta: &Meta, from: Hlc, to: Hlc) -> Result<Span> {
        let mut adopted = history::adopted(conn)?;
        if adopted.is_empty() {
            // Before that was noted, the line of a site began with it.
            let sql = "SELECT min(hlc) FROM synqlite_line WHERE site = ?1";
            let first = conn.query_row(sql, [meta.known_number(meta.site)], |row| row.get(0));
            adopted.extend(first.optional()?.flatten().map(Hlc));
        }
        Ok(Span { site: meta.site, from, to, adopted })
    }

    pub fn has(&self, stamp: Stamp) -> bool {
        // What nobody wrote is at clock 0.
        stamp.site == self.site
            && stamp.hlc != Hlc::ZERO
            && (self.from..=self.to).contains(&stamp.hlc)
            && !self.adopted.contains(&stamp.hlc)
    }

    /// Whether it is of one millisecond, in which a register is written once.
    pub fn is_moment(&self) -> bool {
        self.from.ms() == self.to.ms()
    }
}

/// What is known of one row.
#[derive(Default)]
pub(super) struct Past {
    /// By number.
    pub columns: BTreeMap<u32, Column>,
    /// When something else last happened to the row as a whole, and whether it was there since.
    pub life: Option<(Stamp, bool)>,
    /// Whether its first insert is among what is taken back.
    pub born: bool,
    /// When else it was inserted, or brought back, the latest first.
    came: Vec<Stamp>,
    /// By the number of the first column of a foreign key: the row to which it referred, and since when.
    refs: BTreeMap<u32, (Stamp, Rid)>,
}

/// What is known of a column.
#[derive(Default)]
pub(super) struct Column {
    /// Whether it was written by what is taken back.
    pub wrote: bool,
    /// The latest write that is not taken back.
    pub former: Option<(Stamp, Value)>,
    /// What this site had added to it until then, as the history tells it.
    pub counted: Option<Value>,
}

impl Past {
    /// The latest write that is not taken back, of all columns but these.
    pub fn latest(&self, but: &BTreeSet<u32>) -> Option<Stamp> {
        let columns = self.columns.iter().filter(|(no, _)| !but.contains(no));
        let former = columns.filter_map(|(_, column)| column.former.as_ref());
        former.map(|(stamp, _)| *stamp).filter(|stamp| stamp.hlc != Hlc::ZERO).max()
    }

    /// Whether any column but these was written by what is taken back.
    pub fn wrote(&self, but: &BTreeSet<u32>) -> bool {
        self.columns.iter().any(|(no, column)| column.wrote && !but.contains(no))
    }

    /// When the life of the row began in which it was before what is taken back. Who brings back a deleted row
    /// begins no other life of it, and has it yield.
    pub fn began(&self, yielded: Stamp) -> Stamp {
        self.came.iter().copied().find(|stamp| *stamp != yielded).unwrap_or(Stamp::ZERO)
    }

    /// When the latest write of any of these columns was that is not taken back.
    pub fn written(&self, columns: impl Iterator<Item = u32>) -> Stamp {
        let former = columns.filter_map(|no| self.columns.get(&no)?.former.as_ref());
        former.map(|(stamp, _)| *stamp).max().unwrap_or(Stamp::ZERO)
    }

    /// The row to which a foreign key referred by the write of this stamp.
    pub fn reference(&self, no: u32, at: Stamp) -> Option<Rid> {
        self.refs.get(&no).filter(|(stamp, _)| *stamp == at).map(|(_, rid)| rid.clone())
    }

    fn note(&mut self, span: &Span, stamp: Stamp, what: What) {
        let taken = span.has(stamp);
        match what {
            What::Row(kind) if taken => self.born |= kind == Change::Insert,
            What::Row(kind) => {
                self.came.extend((kind != Change::Delete).then_some(stamp));
                self.life.get_or_insert((stamp, kind != Change::Delete));
            }
            What::Fell => {}
            What::Column(no, _) if taken => self.columns.entry(no).or_default().wrote = true,
            What::Column(no, value) => {
                let column = self.columns.entry(no).or_default();
                if stamp.site == span.site {
                    column.counted.get_or_insert_with(|| value.clone());
                }
                column.former.get_or_insert((stamp, value));
            }
            What::Reference(no, rid) if !taken => {
                self.refs.entry(no).or_insert((stamp, rid));
            }
            What::Reference(..) => {}
        }
    }
}

/// Rows that this site wrote in a span, and when last.
pub(super) fn written(conn: &Connection, meta: &Meta, span: &Span) -> Result<BTreeMap<Key, Stamp>> {
    let mut rows = BTreeMap::new();
    history::read(conn, meta, |recorded| {
        if span.has(recorded.stamp) {
            rows.entry((recorded.table, recorded.rid)).or_insert(recorded.stamp);
        }
        Ok(recorded.stamp.hlc >= span.from)
    })?;
    Ok(rows)
}

/// What the history tells of these rows.
pub(super) fn of(
    conn: &Connection,
    meta: &Meta,
    span: &Span,
    rows: impl Iterator<Item = Key>,
) -> Result<HashMap<Key, Past>> {
    let mut pasts: HashMap<Key, Past> = rows.map(|key| (key, Past::default())).collect();
    history::read(conn, meta, |recorded| {
        let history::Recorded { stamp, table, rid, what } = recorded;
        if let Some(past) = pasts.get_mut(&(table, rid)) {
            past.note(span, stamp, what);
        }
        Ok(true)
    })?;
    Ok(pasts)
}
