//! What readers see: the memtables and the tables of each level, as one immutable value.

use std::sync::Arc;

use crate::codec::{hash, prefix};
use crate::error::Result;
use crate::manifest::LEVELS;
use crate::memtable::Memtable;
use crate::merge::{MemSource, Merge, Position, RunSource, Source};
use crate::table::{Meta, Table};

/// Tables in key order that do not overlap.
#[derive(Clone, Default)]
pub(crate) struct Run {
    pub(crate) tables: Arc<[Arc<Table>]>,
    /// Prefixes of the tables' last keys: a search that touches no table.
    lasts: Arc<[u128]>,
}

impl Run {
    fn new(tables: Vec<Arc<Table>>) -> Run {
        let lasts = tables.iter().map(|t| prefix(&t.meta.last)).collect();
        Run { tables: tables.into(), lasts }
    }

    /// The one table that may hold a key.
    fn holder(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let wanted = prefix(key);
        let at = self.lasts.partition_point(|last| *last < wanted);
        // Tables whose last keys share the prefix are told apart by the keys themselves.
        let mut rest = self.tables[at..].iter().zip(&self.lasts[at..]);
        let holds =
            |(t, last): &(&Arc<Table>, &u128)| **last != wanted || t.meta.last.as_slice() >= key;
        rest.find(holds).map(|(table, _)| table)
    }
}

/// Puts tables, newest first, into as few runs as keep the newer of two that overlap in front.
pub(crate) fn runs<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> Vec<Run> {
    let mut runs: Vec<Vec<Arc<Table>>> = Vec::new();
    for table in tables {
        let Meta { first, last, .. } = &table.meta;
        let place = |run: &Vec<Arc<Table>>| run.partition_point(|t| t.meta.last < *first);
        let overlaps =
            |run: &Vec<Arc<Table>>| run.get(place(run)).is_some_and(|t| t.meta.first <= *last);
        let behind = runs.iter().rposition(overlaps).map_or(0, |i| i + 1);
        if behind == runs.len() {
            runs.push(Vec::new());
        }
        let at = place(&runs[behind]);
        runs[behind].insert(at, table.clone());
    }
    runs.into_iter().map(Run::new).collect()
}

/// The tables of a store. Level 0 overlaps, newest first; deeper levels are sorted runs, each
/// older than the one above.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) levels: [Arc<[Arc<Table>]>; LEVELS],
    /// The same as runs: what is newer comes first.
    pub(crate) runs: [Arc<[Run]>; LEVELS],
}

impl Default for Version {
    fn default() -> Version {
        Version {
            levels: std::array::from_fn(|_| Arc::from([])),
            runs: std::array::from_fn(|_| Arc::from([])),
        }
    }
}

impl Version {
    /// This version without some tables and with others.
    pub(crate) fn change(&self, removed: &[u64], added: &[(usize, Arc<Table>)]) -> Version {
        let mut next = self.clone();
        for (level, run) in next.levels.iter_mut().enumerate() {
            let touched = run.iter().any(|t| removed.contains(&t.meta.number))
                || added.iter().any(|(l, _)| *l == level);
            if !touched {
                continue;
            }
            let mut tables: Vec<Arc<Table>> =
                run.iter().filter(|t| !removed.contains(&t.meta.number)).cloned().collect();
            tables.extend(added.iter().filter(|(l, _)| *l == level).map(|(_, t)| t.clone()));
            if level == 0 {
                tables.sort_by_key(|t| std::cmp::Reverse((t.meta.newest, t.meta.number)));
            } else {
                tables.sort_by(|a, b| a.meta.first.cmp(&b.meta.first));
            }
            next.runs[level] = runs(tables.iter()).into();
            *run = tables.into();
        }
        next
    }

    /// Tables of a level that may hold keys from `first` to `last`.
    pub(crate) fn overlapping(&self, level: usize, first: &[u8], last: &[u8]) -> Vec<Arc<Table>> {
        self.levels[level].iter().filter(|t| t.meta.overlaps(first, last)).cloned().collect()
    }

    /// Bytes of a level.
    pub(crate) fn bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|t| t.meta.size).sum()
    }

    /// All tables, newest first for any key.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels.iter().enumerate().flat_map(|(level, run)| run.iter().map(move |t| (level, t)))
    }
}

/// Everything a read needs, newest first.
pub(crate) struct State {
    pub(crate) active: Arc<Memtable>,
    /// Full memtables that wait for their flush, newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

impl State {
    /// The value of a key as of `seq`.
    pub(crate) fn get(&self, key: &[u8], seq: u64) -> Result<Option<Vec<u8>>> {
        let hash = hash(key);
        for table in std::iter::once(&self.active).chain(&self.sealed) {
            if let Some(found) = table.get(key, hash, seq) {
                return Ok(found);
            }
        }
        for run in self.version.runs.iter().flat_map(|level| level.iter()) {
            if let Some(table) = run.holder(key)
                && let Some(found) = table.get(key, hash, seq)?
            {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// All entries from a position on; only what may be newer than `after`.
    pub(crate) fn merge(&self, from: Position<'_>, back: bool, after: u64) -> Result<Merge> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for table in std::iter::once(&self.active).chain(&self.sealed) {
            if !table.is_empty() {
                sources.push(Box::new(MemSource::new(table.clone(), from, back)));
            }
        }
        for run in self.version.runs.iter().flat_map(|level| level.iter()) {
            let tables = if after == 0 {
                run.tables.clone()
            } else {
                run.tables.iter().filter(|t| t.meta.newest > after).cloned().collect()
            };
            sources.push(Box::new(RunSource::new(tables, from, back, true, after)?));
        }
        Ok(Merge::new(sources, back))
    }
}
