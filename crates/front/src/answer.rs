//! Answers, as JSON.

use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use synqlite_core::{
    Aside, ChangedRow, Changes, Closed, Conflict, Decision, Digest, Error, Folded, LogEntry,
    NamedRemote, Policies, Replica, Skipped, Status, TableReport, Value, Writer,
};
use synqlite_remote::{Access, Cloned, Outcome, SyncError, Traffic};

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
        })
    }

    /// As JSON.
    pub fn json(&self, replica: &Replica) -> Json {
        let State { status, remotes, aside, conflicts } = self;
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
            "database": replica.database().to_string(),
            "pending": pending.collect::<Map<_, _>>(),
            "unfolded": status.unfolded,
            "arriving": status.arriving,
            "skipped": skipped(&status.skipped),
            "remotes": remotes.collect::<Vec<_>>(),
            "set_aside": aside.collect::<Vec<_>>(),
            "conflicts": conflicts,
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
    let names: Vec<_> = o.waiting.iter().map(|w| w.name.as_str()).collect();
    let aside = o.aside.iter().map(
        |a| json!({"name": a.name, "site": a.site, "table": a.table, "why": a.why, "hint": a.hint}),
    );
    json!({
        "sent": traffic(&o.sent),
        "received": traffic(&o.received),
        "merged": {"inserted": m.inserted, "updated": m.updated, "deleted": m.deleted},
        "conflicts": conflicts,
        "seconds": seconds(time),
        "decisions": decisions(&m.decisions),
        "waiting": names,
        "set_aside": aside.collect::<Vec<_>>(),
    })
}

fn traffic(t: &Traffic) -> Json {
    json!({"rows": t.rows, "columns": t.columns, "bytes": t.bytes})
}

/// What was decided against rows.
pub fn decisions(decisions: &[Decision]) -> Json {
    decisions.iter().map(|d| json!({"table": d.table, "row": d.row, "what": d.what})).collect()
}

/// What was cloned, from where.
pub fn cloned(cloned: &Cloned, origin: &str, time: Duration) -> Json {
    json!({
        "site": cloned.site.to_string(), "rows": cloned.rows, "seconds": seconds(time),
        "bytes": cloned.bytes, "origin": origin,
    })
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

/// Policies in force.
pub fn policies(policies: &Policies) -> Json {
    let policies: Map<String, Json> =
        policies.iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
    json!({"policies": policies})
}

/// Remotes, and how each is reached: a token is not told.
pub fn remotes(remotes: &[NamedRemote]) -> Result<Json, SyncError> {
    let json = |r: &NamedRemote| {
        let mut line = json!({"name": r.name, "url": r.url});
        let Access { token, key_file } = Access::of(r)?;
        if token.is_some() {
            line["token"] = json!("kept");
        }
        if let Some(path) = key_file {
            line["key_file"] = json!(path);
        }
        Ok(line)
    };
    let remotes = remotes.iter().map(json).collect::<Result<Vec<_>, SyncError>>()?;
    Ok(json!({"remotes": remotes}))
}

/// What kind of change an entry of the history is, in words.
pub fn change(e: &LogEntry) -> String {
    format!("{}{}", e.change.name(), if e.pending { " (pending)" } else { "" })
}

/// Rows that changed, and with which token to ask the next time.
pub fn changes(found: &Changes) -> Json {
    let row = |r: &ChangedRow| {
        let written =
            r.written.map(|(site, at_ms)| json!({"site": site.to_string(), "at_ms": at_ms}));
        json!({
            "table": r.table, "id": r.id, "row": r.row, "change": r.change.name(), "written": written,
            "columns": r.columns, "values": columns(&r.values),
        })
    };
    json!({
        "changes": found.rows.iter().map(row).collect::<Vec<_>>(),
        "token": found.token, "anew": found.anew, "more": found.more,
    })
}

/// The history of changes.
pub fn log(entries: &[LogEntry]) -> Json {
    let entry = |e: &LogEntry| {
        let columns: Map<String, Json> = e
            .columns
            .iter()
            .map(|(column, value)| (column.clone(), value.clone().into()))
            .collect();
        json!({
            "at": time(e.at_ms), "at_ms": e.at_ms, "site": e.site.to_string(), "table": e.table,
            "row": e.row, "kind": change(e), "columns": columns,
        })
    };
    json!({"entries": entries.iter().map(entry).collect::<Vec<_>>()})
}

/// Open records.
pub fn conflicts(conflicts: &[Conflict]) -> Json {
    json!({"conflicts": conflicts.iter().map(conflict).collect::<Vec<_>>()})
}

/// One of them.
pub fn conflict(conflict: &Conflict) -> Json {
    let site = |(site, at_ms): &(_, i64)| json!({"site": format!("{site}"), "at_ms": at_ms});
    let sites: Vec<Json> = conflict.sites.iter().map(site).collect();
    json!({
        "id": conflict.id,
        "table": conflict.table,
        "row": conflict.row,
        "kind": conflict.kind.as_str(),
        "constraint": conflict.constraint,
        "declared": conflict.declared,
        "shown": columns(&conflict.shown),
        "displaced": columns(&conflict.displaced),
        "winner": conflict.winner,
        "sites": sites,
        "contested": conflict.contested,
        "written": writers(&conflict.writers),
        "rival": conflict.rival.as_ref().map(|rival| {
            json!({"shown": columns(&rival.shown), "written": writers(&rival.writers)})
        }),
    })
}

/// Records that are over, and how they ended.
pub fn closed(records: &[Closed]) -> Json {
    let record = |r: &Closed| {
        json!({
            "id": r.id, "table": r.table, "row": r.row, "kind": r.kind.as_str(),
            "constraint": r.constraint, "what": r.what, "opened_ms": r.opened_ms,
            "closed_ms": r.closed_ms, "how": r.how.name(),
        })
    };
    json!({"closed": records.iter().map(record).collect::<Vec<_>>()})
}

/// Who wrote each column and when.
fn writers(writers: &[Writer]) -> Json {
    let one =
        |w: &Writer| (w.column.clone(), json!({"site": w.site.to_string(), "at_ms": w.at_ms}));
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

/// Milliseconds since 1970 as UTC, such as `2026-11-20 12:18:45.007`.
pub fn time(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Years begin in March here, so that the leap day is the last.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, ms) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000");
        assert_eq!(time(951_827_696_789), "2000-02-29 12:34:56.789");
        assert_eq!(time(1_795_177_125_007), "2026-11-20 12:18:45.007");
        assert_eq!(time(-1), "1969-12-31 23:59:59.999");
    }
}
