//! Waiting, and what a connection keeps from one wait to the next: a connection of its own to the file, on which it
//! sees what others commit, and a hub that it listens to. It goes when the connection that calls is closed.

use crate::call::{Call, Result, Use, usage};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synqlite_core::{Environment, Mark, Replica, System, Touched};
use synqlite_front::remotes;
use synqlite_remote::watch::{Waiter, Woke};
use synqlite_remote::{Cursor, Remote};

/// What a connection keeps, by file and what it calls the remote.
#[derive(Default)]
pub struct Waits(Mutex<HashMap<(PathBuf, Option<String>), Wait>>);

/// Up to where this process has looked at remotes, by the file that is synchronized and the URL.
static LOOKED: Mutex<BTreeMap<(String, String), Cursor>> = Mutex::new(BTreeMap::new());

/// A wait that may go on.
pub struct Wait {
    /// Which file it was when it was opened.
    instance: String,
    replica: Replica,
    waiter: Waiter,
    mark: Option<Mark>,
}

impl Wait {
    fn new(path: &Path, call: &Call<'_, '_>) -> Result<Wait> {
        let replica = Replica::open(path, call.env()?)?;
        let waiter = Waiter::new(&replica);
        Ok(Wait { instance: System.instance(path), replica, waiter, mark: None })
    }
}

/// A remote was looked at up to here, on whatever connection.
pub fn looked(path: &Path, remote: &Remote, upto: Option<Cursor>) {
    if let Some(upto) = upto {
        locked(&LOOKED).insert((System.instance(path), remote.url()), upto);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something was committed since the last wait, or until a remote and the replica have something to
/// exchange.
pub fn wait(call: &Call<'_, '_>) -> Result<Json> {
    let seconds = call.seconds(0)?.ok_or_else(|| usage("argument 1, the seconds, is missing"))?;
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let path = call.path(Use::Waits)?;
    let name = call.text(1)?;
    let key = (path.clone(), name.map(str::to_owned));
    // A file that was replaced is another one, and the old one would never change again.
    let mut waits = locked(&call.waits.0);
    let kept = waits.remove(&key).filter(|wait| wait.instance == System.instance(&path));
    let mut wait = match kept {
        Some(wait) => wait,
        None => Wait::new(&path, call)?,
    };
    let remote = match name {
        None => None,
        name => Some(remotes::resolve(&wait.replica, name, &call.said()?)?),
    };
    let woke = match &remote {
        None => wait.waiter.wait(&wait.replica, until, |_| true, || false),
        Some(remote) => {
            wait.waiter.listen(remote);
            let upto = locked(&LOOKED).get(&(wait.instance.clone(), remote.url())).copied();
            wait.waiter.looked(upto);
            let due = |replica: &Replica| replica.unfolded(1).is_ok_and(|waiting| waiting > 0);
            wait.waiter.wait(&wait.replica, until, due, || false)
        }
    };
    let mut answer = json!({"woke": said(woke)});
    if remote.is_some() {
        answer["online"] = json!(wait.waiter.hears().then_some(true));
    } else if woke == Woke::Commit {
        let (touched, mark) = wait.replica.touched(wait.mark.as_ref())?;
        wait.mark = Some(mark);
        answer["tables"] = match touched {
            Touched::All => Json::Null,
            Touched::Tables(tables) => json!(tables),
        };
    }
    if woke != Woke::Moved {
        waits.insert(key, wait);
    }
    Ok(answer)
}

fn said(woke: Woke) -> &'static str {
    match woke {
        Woke::Commit | Woke::Moved => "commit",
        Woke::Remote => "remote",
        Woke::Time | Woke::Stop => "time",
    }
}
