//! What the hub and the key-value store say when they fail. Both need Unix, so this does too.

use crate::error::{CommandError, Failure, Kind};
use std::path::Path;
use synqlite_front::failure::of_store;
use synqlite_hub::Error as HubError;
use synqlite_lsm::Error as LsmError;

/// What is wrong with a log-structured store. The library's own advice, for programmers, is what
/// follows the last semicolon.
pub fn problem(e: &LsmError) -> String {
    let text = e.to_string();
    text.rsplit_once("; ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

impl From<LsmError> for CommandError {
    fn from(e: LsmError) -> CommandError {
        let folder = |path: &Path| path.parent().unwrap_or(path).display().to_string();
        let hint = match &e {
            LsmError::Io { .. } => "Check permissions and free space, and run it again".into(),
            LsmError::Corruption { path, .. } => {
                let dir = folder(path);
                format!(
                    "List all damage: synqlite kv verify {dir}. Salvage the rest: synqlite kv repair {dir}"
                )
            }
            LsmError::Missing { path, .. } => {
                format!("Restore it, or keep what is left: synqlite kv repair {}", folder(path))
            }
            LsmError::NotAStore { .. } => {
                "Check the path; `kv put` and `kv load` make a store in a new or empty folder"
                    .into()
            }
            LsmError::NewerFormat { .. } => "Update synqlite".into(),
            LsmError::Locked { .. } => "Wait until the other program has closed it".into(),
            LsmError::TooLarge { .. } => "Split it".into(),
            LsmError::ReversedRange => "Swap --from and --to; --reverse puts the last first".into(),
            LsmError::Closed | LsmError::Halted { .. } => {
                "Remove the cause and run it again".into()
            }
            LsmError::Forgotten { .. } => "Read all of the store: synqlite kv scan".into(),
            _ => return CommandError::new(e.to_string()),
        };
        Failure::new(problem(&e)).hint(hint).of(of_lsm(&e), None).into()
    }
}

fn of_lsm(e: &LsmError) -> Kind {
    match e {
        LsmError::Locked { .. } => Kind::Locked,
        LsmError::Corruption { .. } | LsmError::Missing { .. } => Kind::Damaged,
        _ => Kind::Refused,
    }
}

impl From<HubError> for CommandError {
    fn from(e: HubError) -> CommandError {
        let HubError::Lsm(e) = e else {
            let (kind, object) = match &e {
                HubError::Taken { place } => (Kind::Locked, Some(place.clone())),
                HubError::Exists { path } => (Kind::Conflict, Some(path.display().to_string())),
                HubError::Lost { place } => (Kind::Conflict, Some(place.clone())),
                HubError::NoStore { place } => (Kind::Refused, Some(place.clone())),
                HubError::Damaged { what, .. } => (Kind::Damaged, Some(what.clone())),
                HubError::Away { .. } => (Kind::Network, None),
                HubError::Storage(e) => of_store(e),
                _ => (Kind::Refused, None),
            };
            return Failure { object, ..Failure::told(kind, &e.to_string()) }.into();
        };
        // Nobody who runs a hub knows of the store in it.
        let hint = match &e {
            LsmError::Corruption { .. } | LsmError::Missing { .. } => {
                "Restore a backup into a new store: synqlite serve --store NEW --restore FILE"
            }
            LsmError::NewerFormat { .. } => "Update synqlite",
            _ => "Check permissions and free space of the hub's store, and start it again",
        };
        let what = format!("the hub's store does not work: {}", problem(&e));
        Failure::new(what).hint(hint).of(of_lsm(&e), None).into()
    }
}
