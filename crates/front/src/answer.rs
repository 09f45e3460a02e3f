//! Answers, as JSON.

pub use crate::moment::time;
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use synqlite_core::{
    Advice, Aside, ChangedRow, Changes, Closed, Conflict, Decision, Digest, Error, Folded, Kept,
    LogEntry, NamedRemote, Policies, Replica, SiteId, SiteNames, Skipped, Status, TableReport,
    Undone, Value, Writer,
};
use synqlite_remote::{Access, Cloned, Outcome, SyncError, Traffic, Waiting};

/// What `status` tells.
pub struct State {
    /// What is here.
    pub status: Status,
    /// Remotes, and how many rows were not pushed to each.
    pub remotes: Vec<(NamedRemote, i64)>,
    /// What was set aside, and in which remote.
    pub aside: Vec<(String, Aside)>,
    /// Open conflicts.
    pub conflicts: u64,
    /// Those of them that wait for an answer of their own.
    pub questions: u64,
    /// What was decided without a question.
    pub decided: u64,
    /// What sites are called.
    pub sites: SiteNames,
}

impl State {
    /// Reads it.
    pub fn of(replica: &Replica) -> Result<State, Error> {
        let unpushed = |r: NamedRemote| {
            let rows = replica.changed_since(r.sent.as_ref().map_or(0, |sent| sent.local_seq))?;
            Ok((r, rows))
        };
        Ok(State {
            status: replica.status()?,
            remotes: replica.remotes()?.into_iter().map(unpushed).collect::<Result<_, Error>>()?,
            aside: replica.aside()?,
            conflicts: replica.open_conflicts()?,
            questions: replica.open_questions()?,
            decided: replica.decided_conflicts()?,
            sites: replica.site_names()?,
        })
    }

    /// As JSON.
    pub fn json(&self, replica: &Replica) -> Json {
        let State { status, remotes, aside, conflicts, questions, decided, sites } = self;
        let pending = status.pending.iter().map(|(table, p)| {
            let p = json!({"inserted": p.inserted, "updated": p.updated, "deleted": p.deleted});
            (table.clone(), p)
        });
        let remotes = remotes.iter().map(|(r, unpushed)| {
            json!({
                "name": r.name, "url": r.url, "pushed": r.pushed.map(time),
                "pulled": r.pulled.map(time), "unpushed": unpushed,
            })
        });
        let aside = aside.iter().map(|(url, a)| {
            json!({
                "remote": url, "name": a.name, "site": a.site, "table": a.table, "why": a.why,
                "hint": a.hint,
            })
        });
        json!({
            "site": replica.site().to_string(),
            "site_name": sites.name(replica.site()),
            "database": replica.database().to_string(),
            "pending": pending.collect::<Map<_, _>>(),
            "unfolded": status.unfolded,
            "uncaptured": status.uncaptured,
            "arriving": status.arriving,
            "skipped": skipped(&status.skipped),
            "paused": skipped(&status.paused),
            "kept": kept(&status.kept),
            "remotes": remotes.collect::<Vec<_>>(),
            "set_aside": aside.collect::<Vec<_>>(),
            "conflicts": conflicts,
            "questions": questions,
            "decided": decided,
        })
    }
}

/// A duration in seconds, to the microsecond.
pub fn seconds(time: Duration) -> Json {
    json!((time.as_secs_f64() * 1e6).round() / 1e6)
}

/// What a push, pull or sync did, and how many conflicts are open after it.
pub fn outcome(o: &Outcome, conflicts: u64, time: Duration) -> Json {
    let m = &o.merged;
    let tables = m.tables.iter().map(|(table, s)| {
        let shown = json!({"inserted": s.inserted, "updated": s.updated, "deleted": s.deleted});
        (table.clone(), shown)
    });
    json!({
        "sent": traffic(&o.sent),
        "received": traffic(&o.received),
        "merged": {"inserted": m.inserted, "updated": m.updated, "deleted": m.deleted},
        "kept": m.kept,
        "tables": tables.collect::<Map<_, _>>(),
        "conflicts": conflicts,
        "seconds": seconds(time),
        "decisions": decisions(&m.decisions),
        "waiting": waiting(&o.waiting),
        "set_aside": set_aside(&o.aside),
    })
}

/// An answer that names tables which are not replicated any more, if there are any.
pub fn with_paused(mut answer: Json, paused: &[Skipped]) -> Json {
    if let (Some(answer), false) = (answer.as_object_mut(), paused.is_empty()) {
        answer.insert("paused".to_owned(), skipped(paused));
    }
    answer
}

fn waiting(waiting: &[Waiting]) -> Vec<&str> {
    waiting.iter().map(|w| w.name.as_str()).collect()
}

fn set_aside(aside: &[Aside]) -> Vec<Json> {
    let of = |a: &Aside| json!({"name": a.name, "site": a.site, "table": a.table, "why": a.why, "hint": a.hint});
    aside.iter().map(of).collect()
}

fn traffic(t: &Traffic) -> Json {
    json!({"rows": t.rows, "columns": t.columns, "bytes": t.bytes})
}

/// What was decided against rows.
pub fn decisions(decisions: &[Decision]) -> Json {
    decisions
        .iter()
        .map(|d| json!({"table": d.table, "row": d.row, "name": d.name, "what": d.what}))
        .collect()
}

/// What was cloned, from where.
pub fn cloned(cloned: &Cloned, origin: &str, time: Duration) -> Json {
    json!({
        "site": cloned.site.to_string(), "rows": cloned.rows, "seconds": seconds(time),
        "bytes": cloned.bytes, "origin": origin,
        "waiting": waiting(&cloned.waiting), "set_aside": set_aside(&cloned.aside),
        "kept": kept(&cloned.kept),
    })
}

/// What is kept for tables and columns that are not here.
fn kept(kept: &[Kept]) -> Json {
    kept.iter().map(|k| json!({"table": k.table, "column": k.column, "rows": k.rows})).collect()
}

/// Tables that are replicated.
pub fn tables(tables: &[TableReport]) -> Json {
    let table =
        |t: &TableReport| json!({"name": t.name, "identity": t.identity.name(), "rows": t.rows});
    tables.iter().map(table).collect()
}

/// Tables that are not replicated, and why.
pub fn skipped(skipped: &[Skipped]) -> Json {
    skipped.iter().map(|s| json!({"name": s.name, "why": s.why})).collect()
}

/// What was folded.
pub fn folded(folded: Folded, time: Duration) -> Json {
    json!({"rows": folded.rows, "columns": folded.columns, "seconds": seconds(time)})
}

/// The digest of all, and of each table.
pub fn digest(found: &Digest) -> Json {
    json!({"digest": found.digest, "tables": found.tables})
}

/// Problems that a check has found.
pub fn problems(problems: &[String]) -> Json {
    json!({"ok": problems.is_empty(), "problems": problems})
}

/// Policies that were set; and of those that have no effect, if there are any, why (`idle`).
pub fn policies(policies: &Policies, idle: &[(String, String)]) -> Json {
    let policies: Map<String, Json> =
        policies.iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
    let idle: Map<String, Json> =
        idle.iter().map(|(k, why)| (k.clone(), why.as_str().into())).collect();
    match idle.is_empty() {
        true => json!({"policies": policies}),
        false => json!({"policies": policies, "idle": idle}),
    }
}

/// Remotes, and how each is reached: a token is not told.
pub fn remotes(remotes: &[NamedRemote]) -> Result<Json, SyncError> {
    let json = |r: &NamedRemote| {
        let mut line =
            Map::from_iter([("name".to_owned(), json!(r.name)), ("url".to_owned(), json!(r.url))]);
        let Access { token, key_file } = Access::of(r)?;
        line.extend(token.map(|_| ("token".to_owned(), json!("kept"))));
        line.extend(key_file.map(|path| ("key_file".to_owned(), json!(path))));
        Ok(Json::Object(line))
    };
    let remotes = remotes.iter().map(json).collect::<Result<Vec<_>, SyncError>>()?;
    Ok(json!({"remotes": remotes}))
}

/// What kind of change an entry of the history is, in words.
pub fn change(e: &LogEntry) -> String {
    format!("{}{}", e.change.name(), if e.pending { " (pending)" } else { "" })
}

/// Rows that changed, and with which token to ask the next time.
pub fn changes(found: &Changes, sites: &SiteNames) -> Json {
    let row = |r: &ChangedRow| {
        let written = r.written.map(|(site, at_ms)| write(site, at_ms, sites));
        let mut row = json!({
            "table": r.table, "id": r.id, "row": r.row, "change": r.change.name(), "written": written,
            "columns": r.columns, "values": columns(&r.values),
        });
        let exact =
            r.values.iter().filter_map(|(column, v)| Some((column.clone(), exact(v)?.into())));
        let exact: Map<String, Json> = exact.collect();
        let exact = (!exact.is_empty()).then(|| exact.into());
        for (key, value) in [("former", r.former.map(Json::from)), ("exact", exact)] {
            if let (Some(value), Some(row)) = (value, row.as_object_mut()) {
                row.insert(key.to_owned(), value);
            }
        }
        row
    };
    json!({
        "changes": found.rows.iter().map(row).collect::<Vec<_>>(),
        "token": found.token, "anew": found.anew, "more": found.more,
    })
}

/// The history of changes.
pub fn log(entries: &[LogEntry], sites: &SiteNames) -> Json {
    let entry = |e: &LogEntry| {
        let columns: Map<String, Json> = e
            .columns
            .iter()
            .map(|(column, value)| (column.clone(), value.clone().into()))
            .collect();
        json!({
            "at": time(e.at_ms), "at_ms": e.at_ms, "site": e.site.to_string(),
            "site_name": sites.name(e.site), "table": e.table, "row": e.row, "name": e.name, "kind": change(e), "columns": columns,
        })
    };
    json!({"entries": entries.iter().map(entry).collect::<Vec<_>>()})
}

/// What was taken back, and what was left.
pub fn undone(undone: &Undone, dry_run: bool, sites: &SiteNames) -> Json {
    let taken = undone.taken.iter().map(|t| {
        json!({
            "table": t.table, "row": t.row, "name": t.name, "change": t.change.name(), "columns": columns(&t.columns),
        })
    });
    let left = undone.left.iter().map(|l| {
        let by = l.by.map(|(site, at_ms)| write(site, at_ms, sites));
        json!({
            "table": l.table, "row": l.row, "name": l.name, "columns": l.columns, "why": l.why,
            "written": by,
        })
    });
    json!({
        "taken": taken.collect::<Vec<_>>(), "left": left.collect::<Vec<_>>(), "dry_run": dry_run,
    })
}

/// Open records.
pub fn conflicts(conflicts: &[Conflict], sites: &SiteNames) -> Json {
    json!({"conflicts": conflicts.iter().map(|c| conflict(c, sites)).collect::<Vec<_>>()})
}

/// One of them.
pub fn conflict(conflict: &Conflict, sites: &SiteNames) -> Json {
    let by: Vec<Json> = conflict.sites.iter().map(|(site, at)| write(*site, *at, sites)).collect();
    json!({
        "id": conflict.id,
        "table": conflict.table,
        "row": conflict.row,
        "name": conflict.name,
        "kind": conflict.kind.as_str(),
        "constraint": conflict.constraint,
        "declared": conflict.declared,
        "shown": columns(&conflict.shown),
        "displaced": columns(&conflict.displaced),
        "winner": conflict.winner,
        "winner_name": conflict.winner_name,
        "sites": by,
        "contested": conflict.contested,
        "written": writers(&conflict.writers, sites),
        "rival": conflict.rival.as_ref().map(|rival| {
            json!({"shown": columns(&rival.shown), "written": writers(&rival.writers, sites)})
        }),
        "put_behind": conflict.put_behind.map(|(site, at_ms)| write(site, at_ms, sites)),
        "deleted": conflict.deleted.as_ref().map(|d| json!({
            "table": d.table, "row": d.row, "name": d.name, "values": columns(&d.values),
            "by": d.by.map(|(site, at_ms)| write(site, at_ms, sites)),
            "again": d.again.map(|(site, at_ms)| write(site, at_ms, sites)),
        })),
        "needed": conflict.needed,
        "needed_by": conflict.needed_by.iter().map(|n| json!({
            "table": n.table, "row": n.row, "name": n.name,
        })).collect::<Vec<_>>(),
        "follows": conflict.follows,
        "followers": conflict.followers.iter().map(|f| json!({
            "id": f.id, "table": f.table, "row": f.row, "name": f.name, "kind": f.kind.as_str(),
        })).collect::<Vec<_>>(),
    })
}

/// Policies that would have left less to settle.
pub fn advice(advice: &[Advice]) -> Json {
    let one = |a: &Advice| json!({"policy": a.policy.to_string(), "open": a.open, "told": a.told});
    json!({"advice": advice.iter().map(one).collect::<Vec<_>>()})
}

/// Records that are over, and how they ended.
pub fn closed(records: &[Closed], sites: &SiteNames) -> Json {
    let record = |r: &Closed| {
        let mut record = json!({
            "id": r.id, "table": r.table, "row": r.row, "name": r.name, "kind": r.kind.as_str(),
            "constraint": r.constraint, "what": r.what, "opened_ms": r.opened_ms,
            "closed_ms": r.closed_ms, "how": r.how.name(), "became": r.became,
        });
        if let (Some((from, to)), Some(record)) = (r.renumbered(), record.as_object_mut()) {
            record.insert("from".to_owned(), from.into());
            record.insert("to".to_owned(), to.into());
            let of = r
                .wrote
                .map(|site| json!({"site": site.to_string(), "site_name": sites.name(site)}));
            record.insert("of".to_owned(), json!(of));
        }
        record
    };
    json!({"closed": records.iter().map(record).collect::<Vec<_>>()})
}

/// Who wrote, and when.
fn write(site: SiteId, at_ms: i64, sites: &SiteNames) -> Json {
    json!({"site": site.to_string(), "site_name": sites.name(site), "at_ms": at_ms})
}

/// Who wrote each column and when.
fn writers(writers: &[Writer], sites: &SiteNames) -> Json {
    let one = |w: &Writer| (w.column.clone(), write(w.site, w.at_ms, sites));
    Json::Object(writers.iter().map(one).collect())
}

/// Values by column; `null` if there are none.
fn columns(values: &[(String, Value)]) -> Json {
    if values.is_empty() {
        return Json::Null;
    }
    let object: Map<String, Json> = values.iter().map(|(c, v)| (c.clone(), value(v))).collect();
    Json::Object(object)
}

/// The literal in SQL of a value that JSON cannot tell from others, or not at all.
fn exact(value: &Value) -> Option<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        Value::Blob(blob) => Some(format!("x'{}'", hex(blob))),
        Value::Text(text) if std::str::from_utf8(text).is_err() => {
            Some(format!("CAST(x'{}' AS TEXT)", hex(text)))
        }
        Value::Real(real) if real.is_infinite() => {
            Some(if *real > 0.0 { "9e999" } else { "-9e999" }.to_owned())
        }
        _ => None,
    }
}

/// Blobs as `x'…'`; integers and text as themselves.
fn value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(i) => json!(i),
        Value::Real(r) => json!(r),
        Value::Text(t) => json!(String::from_utf8_lossy(t)),
        Value::Blob(b) => {
            let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
            json!(format!("x'{hex}'"))
        }
    }
}
