//! The functions. Each answers the JSON that the command of its name prints with `--json`, and fails with a text
//! `synqlite: KIND: what happened. What to do`, which `synqlite_failure` gives in parts.

use crate::call::Use::{Reads, Writes};
use crate::call::{Call, Result, usage};
use crate::wait::{self, Waits};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error};
use serde_json::{Value as Json, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use synqlite_core::{InitOptions, LogQuery, Policy, Replica, Verb};
use synqlite_front::answer::{self, State};
use synqlite_front::undo::Said;
use synqlite_front::{Failure, Kind, remotes};
use synqlite_remote::{Outcome, Remote, Session, SyncError};

/// A function: its name, how many arguments it takes at most beside the options, its own options.
type Function = (&'static str, usize, &'static [&'static str], fn(&Call<'_, '_>) -> Result<Json>);

const EXCHANGE: &[&str] = &["token", "key_file", "whole", "force"];

const FUNCTIONS: &[Function] = &[
    ("synqlite_version", 0, &[], version),
    ("synqlite_init", 0, &["policies", "history", "tables", "exclude", "new_site", "name"], init),
    ("synqlite_deinit", 0, &[], deinit),
    ("synqlite_clone", 2, &["token", "key_file", "keep", "name"], clone),
    ("synqlite_push", 1, EXCHANGE, |call| exchange(call, Remote::push)),
    ("synqlite_pull", 1, EXCHANGE, |call| exchange(call, Remote::pull)),
    ("synqlite_sync", 1, EXCHANGE, |call| exchange(call, Remote::sync)),
    ("synqlite_fold", 0, &[], fold),
    ("synqlite_status", 0, &[], status),
    ("synqlite_digest", 0, &[], |call| Ok(answer::digest(&call.replica(Reads)?.digest()?))),
    ("synqlite_verify", 1, &[], verify),
    ("synqlite_policy", 2, &[], policy),
    ("synqlite_remotes", 0, &[], |call| list(&call.replica(Reads)?)),
    ("synqlite_remote_add", 2, &["token", "key_file"], remote_add),
    ("synqlite_remote_remove", 1, &[], remote_remove),
    ("synqlite_conflicts", 1, &[], conflicts),
    ("synqlite_settle", 2, &[], settle),
    ("synqlite_log", 1, &["table", "row"], log),
    ("synqlite_undo", 0, &["since", "until", "at", "table", "row", "dry_run"], undo),
    ("synqlite_changes", 2, &[], changes),
    ("synqlite_wait", 2, &["token", "key_file"], wait::wait),
];

/// Makes the functions known to a connection. A schema cannot call them: a file from somebody else must not
/// synchronize what it likes.
pub fn register(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    let (waits, last) = (Arc::new(Waits::default()), Arc::new(Last::default()));
    for &(name, most, options, run) in FUNCTIONS {
        let (waits, last) = (waits.clone(), last.clone());
        db.create_scalar_function(name, -1, flags, move |ctx| {
            answered(ctx, &last, |ctx| run(&Call::read((ctx, &waits), most, options)?))
        })?;
    }
    db.create_scalar_function("synqlite_failure", 0, flags, move |_| Ok(last.get()))
}

/// The last failure on a connection, as the document that the command prints: one text has no mark where what
/// happened ends and what to do begins.
#[derive(Default)]
struct Last(Mutex<Option<String>>);

impl Last {
    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, failure: &Failure) {
        let document = failure.json().to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(document);
    }
}

/// The answer of a call, or its failure as SQLite tells it. No panic may cross into the program.
fn answered(
    ctx: &Context<'_>,
    last: &Last,
    run: impl FnOnce(&Context<'_>) -> Result<Json>,
) -> rusqlite::Result<String> {
    guarded(|| run(ctx)).map(|json| json.to_string()).map_err(|failure| {
        let failure = perhaps_of_this_program(failure);
        last.set(&failure);
        Error::UserFunctionError(told(&failure).into())
    })
}

/// For the engine every other connection is another program's. Here it may be one of the program that calls.
fn perhaps_of_this_program(failure: Failure) -> Failure {
    match (failure.kind, &failure.object, &failure.hint) {
        (Kind::Locked, Some(_), Some(hint)) => {
            let hint = format!("{hint}; if it is this program, commit its transaction first");
            Failure { hint: Some(hint), ..failure }
        }
        _ => failure,
    }
}

/// A panic is a failure of its own kind.
pub fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let what = "this call ended in a defect of synqlite; the database is as it was";
        let hint = "Keep a copy of the files, and report it";
        Err(Failure::new(what).hint(hint).of(Kind::Defect, None))
    })
}

/// A failure in one line, which programs can take apart.
pub fn told(failure: &Failure) -> String {
    format!("synqlite: {}: {failure}", failure.kind.code())
}

fn version(_: &Call<'_, '_>) -> Result<Json> {
    Ok(json!({"synqlite": env!("CARGO_PKG_VERSION"), "sqlite": rusqlite::version()}))
}

fn init(call: &Call<'_, '_>) -> Result<Json> {
    let policies =
        call.pairs("policies")?.into_iter().map(|(key, value)| Policy::new(&key, &value));
    let policies = policies.collect::<Result<_, _>>().map_err(synqlite_core::Error::from)?;
    let options = InitOptions {
        tables: call.list("tables")?,
        exclude: call.list("exclude")?,
        policies,
        history: call.flag("history")?.unwrap_or(false),
        new_site: call.flag("new_site")?.unwrap_or(false),
    };
    let (path, name) = (call.path(Writes)?, name(call)?);
    let done = Replica::init(&path, &options, call.env()?)?;
    if let Some(name) = name {
        Replica::open(&path, call.env()?)?.set_name(name)?;
    }
    let (tables, skipped) = (answer::tables(&done.tables), answer::skipped(&done.skipped));
    Ok(json!({
        "site": done.site.to_string(), "tables": tables, "skipped": skipped, "notes": done.notes,
    }))
}

/// How to call a site that is made.
fn name<'c>(call: &'c Call<'_, '_>) -> Result<Option<&'c str>> {
    let name = call.option("name")?;
    name.map_or(Ok(()), synqlite_core::check_site_name)?;
    Ok(name)
}

fn deinit(call: &Call<'_, '_>) -> Result<Json> {
    Ok(json!({"removed": Replica::deinit(&call.path(Writes)?, call.env()?.as_ref())?.removed}))
}

fn clone(call: &Call<'_, '_>) -> Result<Json> {
    let (from, to) = (call.given(0, "the remote")?, call.given(1, "the new file")?);
    call.refuse_inside()?;
    let (since, mut access) = (Instant::now(), call.said()?);
    let remote = Remote::open(from, &remotes::credentials(access.token.as_deref(), &access)?)?;
    if !call.flag("keep")?.unwrap_or(true) {
        // A token that is good for an hour is no use to whoever synchronizes tomorrow.
        access.token = None;
    }
    let session = Session { env: call.env()?, force: false, whole: false };
    let name = name(call)?;
    let cloned = remote.clone_with(Path::new(to), &access, &session)?;
    if let Some(name) = name {
        Replica::open(Path::new(to), call.env()?)?.set_name(name)?;
    }
    Ok(answer::cloned(&cloned, &remote.url(), since.elapsed()))
}

type Exchange = fn(&Remote, &mut Replica, &Session) -> Result<Outcome, SyncError>;

fn exchange(call: &Call<'_, '_>, run: Exchange) -> Result<Json> {
    let since = Instant::now();
    let is = |key| Ok::<_, Failure>(call.flag(key)?.unwrap_or(false));
    let session = Session { env: call.env()?, force: is("force")?, whole: is("whole")? };
    let mut replica = call.replica(Writes)?;
    let remote = remotes::resolve(&replica, call.text(0)?, &call.said()?)?;
    let done = run(&remote, &mut replica, &session)?;
    wait::looked(replica.path(), &remote, done.upto);
    let answer = answer::outcome(&done, replica.open_conflicts()?, since.elapsed());
    Ok(answer::with_paused(answer, &replica.paused()?))
}

fn fold(call: &Call<'_, '_>) -> Result<Json> {
    let since = Instant::now();
    let mut replica = call.replica(Writes)?;
    let folded = replica.fold()?;
    Ok(answer::with_paused(answer::folded(folded, since.elapsed()), &replica.paused()?))
}

fn status(call: &Call<'_, '_>) -> Result<Json> {
    let replica = call.replica(Reads)?;
    Ok(State::of(&replica)?.json(&replica))
}

fn verify(call: &Call<'_, '_>) -> Result<Json> {
    let replica = call.replica(Reads)?;
    let full = call.number(0)?.unwrap_or(0) != 0;
    Ok(answer::problems(&if full { replica.verify_full() } else { replica.verify() }?))
}

fn policy(call: &Call<'_, '_>) -> Result<Json> {
    let key = call.text(0)?;
    let mut replica = call.replica(if key.is_some() { Writes } else { Reads })?;
    if let Some(key) = key {
        let policy = Policy::new(key, call.given(1, "the value")?);
        replica.set_policies(&[policy.map_err(synqlite_core::Error::from)?])?;
    }
    Ok(answer::policies(&replica.policies()?, &replica.idle_policies()?))
}

fn list(replica: &Replica) -> Result<Json> {
    Ok(answer::remotes(&replica.remotes()?)?)
}

fn remote_add(call: &Call<'_, '_>) -> Result<Json> {
    let (name, url) = (call.given(0, "the name")?, call.given(1, "the URL")?);
    let mut replica = call.replica(Writes)?;
    remotes::add(&mut replica, name, url, &call.said()?)?;
    list(&replica)
}

fn remote_remove(call: &Call<'_, '_>) -> Result<Json> {
    let mut replica = call.replica(Writes)?;
    remotes::remove(&mut replica, call.given(0, "the name")?)?;
    list(&replica)
}

fn conflicts(call: &Call<'_, '_>) -> Result<Json> {
    let replica = call.replica(Reads)?;
    match call.number(0)?.unwrap_or(0) {
        0 => Ok(answer::conflicts(&replica.conflicts()?, &replica.site_names()?)),
        _ => Ok(answer::closed(&replica.closed_conflicts()?, &replica.site_names()?)),
    }
}

/// Settles one record, or all of a JSON array of ids.
fn settle(call: &Call<'_, '_>) -> Result<Json> {
    let (ids, verb) = (call.given(0, "the id")?, call.given(1, "what to do")?);
    let verb = match verb {
        "prefer" => Verb::Prefer,
        "discard" => Verb::Discard,
        "restore" => Verb::Restore,
        "accept" => Verb::Accept,
        other => {
            let what = format!("`{other}` is nothing to do with a conflict");
            return Err(usage(what).hint("Say prefer, discard, restore or accept"));
        }
    };
    let mut replica = call.replica(Writes)?;
    if !ids.starts_with('[') {
        let id = replica.settle_conflict(ids, verb)?;
        return Ok(json!({"settled": id, "open": replica.open_questions()?}));
    }
    let ids: Vec<String> = serde_json::from_str(ids)
        .map_err(|e| usage(format!("the ids are no JSON array of texts: {e}")))?;
    let choices: Vec<(String, Verb)> = ids.into_iter().map(|id| (id, verb)).collect();
    let done = replica.settle_conflicts(&choices, false)?;
    let refused = done.refused.iter().map(|(id, why)| json!({"id": id, "why": why}));
    let refused: Vec<Json> = refused.collect();
    Ok(json!({"settled": done.settled, "refused": refused, "open": done.open}))
}

fn changes(call: &Call<'_, '_>) -> Result<Json> {
    let limit = usize::try_from(call.number(1)?.unwrap_or(i64::MAX))
        .map_err(|_| usage("a limit is no negative number"))?;
    let token = call.text(0)?;
    let mut replica = call.replica(Writes)?;
    let found = replica.changes(token, limit)?;
    Ok(answer::changes(&found, &replica.site_names()?))
}

fn log(call: &Call<'_, '_>) -> Result<Json> {
    let limit = usize::try_from(call.number(0)?.unwrap_or(100))
        .map_err(|_| usage("a limit is no negative number"))?;
    let table = call.option("table")?.map(str::to_owned);
    let query = LogQuery { table, row: call.row()?, limit: Some(limit) };
    let replica = call.replica(Reads)?;
    Ok(answer::log(&replica.log(&query)?, &replica.site_names()?))
}

fn undo(call: &Call<'_, '_>) -> Result<Json> {
    let row = call.row()?;
    let said = Said {
        since: call.option("since")?,
        until: call.option("until")?,
        at: call.option("at")?,
        table: call.option("table")?,
        row: row.as_deref(),
    };
    let (what, dry_run) = (said.selection()?, call.flag("dry_run")?.unwrap_or(false));
    let mut replica = call.replica(Writes)?;
    let undone = replica.undo(&what, dry_run)?;
    Ok(answer::undone(&undone, dry_run, &replica.site_names()?))
}
