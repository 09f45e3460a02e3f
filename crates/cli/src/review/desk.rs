//! What lies on the table: the open records of one replica, and what is decided on them.
//!
//! A decision is about a record as its reader has seen it. A record whose row, values or winner are others
//! since then has the same id; so each decision carries a sum of what was seen, and one on a record that has
//! changed is handed back. What is written, is written in one transaction, with every decision that can be.
//!
//! Between the look at the records and the transaction another program may write. What it settles is refused
//! by the engine, and told as settled; what it changes in these milliseconds is not noticed.

use super::cells::{self, name};
use super::words::{self, Version};
use crate::record::how;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use synqlite_core::{Closed, Conflict, Replica, Result, SiteId, SiteNames, Verb};
use synqlite_front::answer;

/// Records that are sent to the page at once, and bytes of them: the others come when these are settled.
const LISTED: usize = 1_000;
const BYTES: usize = 4 << 20;
/// Columns of a record that are sent to the page.
const COLUMNS: usize = 100;

/// A decision.
#[derive(Clone)]
pub struct Decision {
    /// The record.
    pub id: String,
    /// What to do.
    pub verb: Verb,
    /// The sum of what was seen of it.
    pub seen: String,
}

/// What decisions come to.
#[derive(Default)]
pub struct Came {
    /// Settled, or would be.
    pub settled: Vec<String>,
    /// Settled by somebody else meanwhile, and how.
    pub gone: Vec<(String, String)>,
    /// Not as they were seen.
    pub changed: Vec<String>,
    /// Refused, and why.
    pub refused: Vec<(String, String)>,
    /// Open afterwards, and not before; with the decision that opened it, if that can be told.
    pub opened: Vec<(Conflict, Option<String>)>,
    /// Rows that are deleted.
    pub deleted: Vec<String>,
    /// Open afterwards.
    pub open: u64,
}

/// One replica and who reviews it.
pub struct Desk {
    /// The replica.
    pub replica: Replica,
    /// As its user calls it.
    name: String,
    /// What was closed before is no news.
    since_ms: i64,
    /// How often it was written to from here.
    writes: u64,
    /// Settled from here.
    pub settled: u64,
}

/// A number for what is seen of a record.
pub fn sum(conflict: &Conflict) -> String {
    let mut hash = DefaultHasher::new();
    // What sites are called is not what anybody decides on.
    answer::conflict(conflict, &SiteNames::default()).to_string().hash(&mut hash);
    format!("{:016x}", hash.finish())
}

impl Desk {
    /// A desk for a replica. `now_ms`: the time.
    pub fn new(replica: Replica, name: String, now_ms: i64) -> Desk {
        Desk { replica, name, since_ms: now_ms, writes: 0, settled: 0 }
    }

    /// Changes with what is open, and with nothing else for long.
    fn version(&self) -> Result<String> {
        Ok(format!("{}.{}", self.replica.data_version()?, self.writes))
    }

    /// What is open, for the page; only the version if the page knows that one.
    pub fn records(&self, known: &str) -> Result<Json> {
        // Read first: what is written meanwhile is found at the next look.
        let version = self.version()?;
        if version == known {
            return Ok(json!({"version": version}));
        }
        let (all, sites) = (self.replica.questions()?, self.replica.site_names()?);
        let mut tables = BTreeMap::<&str, usize>::new();
        for conflict in &all {
            *tables.entry(&conflict.table).or_default() += 1;
        }
        let number = |table: &str| tables.keys().position(|t| *t == table).unwrap_or_default();
        let (mut records, mut bytes) = (Vec::new(), 0);
        for conflict in all.iter().take(LISTED) {
            let record = self.record(conflict, number(&conflict.table), &sites);
            bytes += record.to_string().len();
            if bytes > BYTES && !records.is_empty() {
                break;
            }
            records.push(record);
        }
        let tables = tables.iter().map(|(table, n)| json!({"name": name(table), "open": n}));
        let news = self
            .closed()?
            .into_iter()
            .filter_map(|c| Some(json!({"id": c.id.as_ref()?, "how": how(&c)})));
        Ok(json!({
            "version": version, "name": self.name,
            "site": sites.spoken(self.replica.site()), "open": all.len(),
            "tables": tables.collect::<Vec<_>>(), "records": records,
            "closed": news.collect::<Vec<_>>(),
        }))
    }

    /// Records that were closed since this began, the latest first.
    fn closed(&self) -> Result<Vec<Closed>> {
        let mut closed = self.replica.closed_conflicts()?;
        closed.retain(|c| c.was_open && c.closed_ms >= self.since_ms);
        Ok(closed)
    }

    fn record(&self, conflict: &Conflict, table: usize, sites: &SiteNames) -> Json {
        let told = words::tell(conflict, sites);
        let versions = words::versions(conflict, self.replica.site());
        let columns = self.columns(conflict, &versions);
        let choices = told.choices.iter().map(|choice| {
            json!({
                "verb": choice.verb.name(), "label": choice.label, "does": choice.does,
            })
        });
        let versions = versions.iter().map(|version| {
            let Version { title, role, note, .. } = version;
            json!({"title": title, "role": role.name(), "note": note, "by": self.writers(version, sites)})
        });
        json!({
            "id": conflict.id, "seen": sum(conflict), "table": table, "row": told.row,
            "kind": conflict.kind.as_str(), "headline": told.headline, "story": told.story,
            "advice": told.advice, "versions": versions.collect::<Vec<_>>(), "columns": columns,
            "more": conflict.displaced.len().saturating_sub(COLUMNS),
            "choices": choices.collect::<Vec<_>>(),
        })
    }

    /// Who wrote a version and when, the latest first.
    fn writers(&self, version: &Version<'_>, sites: &SiteNames) -> Json {
        let mut by: Vec<(i64, SiteId, Vec<String>)> = Vec::new();
        for w in &version.writers {
            match by.iter_mut().find(|(at, site, _)| (*at, *site) == (w.at_ms, w.site)) {
                Some((_, _, columns)) => columns.push(name(&w.column)),
                None => by.push((w.at_ms, w.site, vec![name(&w.column)])),
            }
        }
        by.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        let here = self.replica.site();
        let one = |(at, site, columns): &(i64, SiteId, Vec<String>)| json!({"site": sites.spoken(*site), "here": *site == here, "at": at, "columns": columns});
        by.iter().map(one).collect()
    }

    /// The cells of a record, a column each.
    fn columns(&self, conflict: &Conflict, versions: &[Version<'_>]) -> Vec<Json> {
        let contested = words::contested(conflict);
        let contested = |column: &String| contested.contains(column);
        let mut order: Vec<&String> = conflict.displaced.iter().map(|(column, _)| column).collect();
        // Of a very wide row at least what it is about.
        if order.len() > COLUMNS {
            order.sort_by_key(|column| !contested(column));
        }
        // A row that has two versions is compared with itself, one that is hidden with the other row.
        let rival = conflict.rival.as_ref().map(|rival| &rival.shown);
        let other = if conflict.shown.is_empty() { rival } else { Some(&conflict.shown) };
        let cells = |column: &&String| {
            let values: Vec<_> = versions.iter().map(|v| words::of(v.values, column)).collect();
            let other = other.and_then(|other| words::of(other, column));
            let differs =
                other.is_some_and(|other| words::of(&conflict.displaced, column) != Some(other));
            json!({
                "name": name(column), "contested": contested(column), "differs": differs,
                "cells": cells::versions(&values),
            })
        };
        order.iter().take(COLUMNS).map(cells).collect()
    }

    /// Carries decisions out, or finds out what they would come to.
    pub fn decide(&mut self, decisions: &[Decision], dry_run: bool) -> Result<Came> {
        // What programs wrote meanwhile counts first: it may have settled some.
        let folded = self.replica.fold()?;
        let before = self.replica.questions()?;
        let before: BTreeMap<&str, &Conflict> = before.iter().map(|c| (&*c.id, c)).collect();
        let mut came = Came::default();
        let mut choices = BTreeMap::new();
        for Decision { id, verb, seen } in decisions {
            match before.get(&**id) {
                None => came.gone.push((id.clone(), String::new())),
                Some(conflict) if sum(conflict) != *seen => came.changed.push(id.clone()),
                Some(_) => drop(choices.insert(id.clone(), *verb)),
            }
        }
        let choices: Vec<(String, Verb)> = choices.into_iter().collect();
        let settling = self.replica.settle_conflicts(&choices, dry_run)?;
        if !dry_run || folded.rows > 0 {
            self.writes += 1;
        }
        (came.settled, came.open) = (settling.settled, settling.open);
        let goes =
            |(id, verb): &&(String, Verb)| *verb == Verb::Discard && came.settled.contains(id);
        let gone = choices.iter().filter(goes).filter_map(|(id, _)| before.get(&**id));
        came.deleted = gone.flat_map(|conflict| words::goes(conflict)).collect();
        // Another program may have been faster by an instant.
        let open = match dry_run || settling.refused.is_empty() {
            true => None,
            false => Some(self.replica.questions()?),
        };
        for (id, why) in settling.refused {
            match open.as_ref().is_none_or(|open| open.iter().any(|c| c.id == id)) {
                true => came.refused.push((id, why)),
                false => came.gone.push((id, String::new())),
            }
        }
        let closed = if came.gone.is_empty() { vec![] } else { self.closed()? };
        for (id, told) in &mut came.gone {
            let found = closed.iter().find(|c| c.id.as_ref() == Some(id));
            *told = found.map_or("it is not open any more".to_owned(), how);
        }
        let by = |opened: &Conflict| {
            let of = |(id, _): &&(String, Verb)| {
                let settled = before.get(&**id);
                settled.is_some_and(|c| {
                    c.table == opened.table && opened.winner.as_ref() == Some(&c.row)
                })
            };
            choices.iter().find(of).map(|(id, _)| id.clone())
        };
        let opened = settling.opened.into_iter();
        came.opened = opened.map(|conflict| (conflict.clone(), by(&conflict))).collect();
        if !dry_run {
            self.settled += came.settled.len() as u64;
        }
        Ok(came)
    }
}

impl Came {
    /// For the page.
    pub fn json(&self) -> Json {
        let told = |(id, why): &(String, String)| json!({"id": id, "why": why});
        let opened = self.opened.iter().map(|(conflict, by)| {
            json!({
                "id": conflict.id, "table": name(&conflict.table), "row": words::row(conflict),
                "becomes": words::aside(conflict), "by": by,
            })
        });
        json!({
            "settled": self.settled, "gone": self.gone.iter().map(told).collect::<Vec<_>>(),
            "changed": self.changed, "refused": self.refused.iter().map(told).collect::<Vec<_>>(),
            "opened": opened.collect::<Vec<_>>(), "open": self.open,
            "deleted": self.deleted, "regret": words::REGRET,
        })
    }
}
