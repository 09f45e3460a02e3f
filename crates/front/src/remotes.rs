//! Remotes as people name them, and what it takes to reach them: what the process was given with its
//! environment, what the replica keeps, what the caller says.

use crate::failure::Failure;
use std::path::Path;
use synqlite_core::Replica;
use synqlite_remote::{Access, Credentials, Key, Remote, blanked};

/// What a remote asks for: what the caller says counts first, then the environment, then what is kept.
pub fn credentials(said: Option<&str>, kept: &Access) -> Result<Credentials, Failure> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let token = said.map(str::to_owned).or_else(|| set("SYNQLITE_TOKEN"));
    let key = kept.key_file.as_ref().map(|path| Key::read(path.as_ref())).transpose()?;
    Ok(Credentials { token: token.or_else(|| kept.token.clone()), storage: storage(), key })
}

/// Keys and endpoint of object storage, as the environment has them.
pub fn storage() -> Vec<(String, String)> {
    let aws = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("AWS_"))?;
        Some((name, value.into_string().ok().filter(|value| !value.is_empty())?))
    };
    std::env::vars_os().filter_map(aws).collect()
}

/// The remote that a user means: a name first, then a path or a URL; `origin` if nothing is said. `said`: what
/// the caller gives for it.
pub fn resolve(replica: &Replica, text: Option<&str>, said: &Access) -> Result<Remote, Failure> {
    let open = |url: &str, kept: Access| -> Result<Remote, Failure> {
        let key_file = said.key_file.clone().or_else(|| kept.key_file.clone());
        let access = Access { key_file, ..kept };
        Ok(Remote::open(url, &credentials(said.token.as_deref(), &access)?)?)
    };
    if let Some(named) = replica.remote(text.unwrap_or("origin"))? {
        return open(&named.url, Access::of(&named)?);
    }
    let path = replica.path().display();
    let Some(text) = text else {
        return Err(Failure::new(format!("{path} has no remote called origin")).hint(format!(
            "Name one in the command, or add it: synqlite remote add {path} origin URL"
        )));
    };
    let named = replica.remotes()?.into_iter().find(|named| named.url == text);
    let kept = named.as_ref().map(Access::of).transpose()?.unwrap_or_default();
    let remote = open(text, kept)?;
    match &remote {
        Remote::Replica(there) if !there.exists() => {
            let names: Vec<_> = replica.remotes()?.into_iter().map(|r| r.name).collect();
            let hint = match names.as_slice() {
                [] => format!("Check the path; {path} has no named remotes"),
                names => format!("Check the path; remotes of {path} are: {}", names.join(", ")),
            };
            let what = format!("there is no database or remote {}", blanked(text));
            Err(Failure::new(what).hint(hint))
        }
        _ => Ok(remote),
    }
}

/// Adds a remote and keeps what it takes to reach it; whether the file became its owner's alone for that.
pub fn add(replica: &mut Replica, name: &str, url: &str, access: &Access) -> Result<bool, Failure> {
    // Where a remote is named, a path, a URL or an option may stand as well.
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if !name.starts_with(char::is_alphanumeric) || !name.chars().all(fits) {
        let what = format!("`{}` cannot be the name of a remote", name.escape_debug());
        let hint = "Use letters, digits and - _ . and begin with a letter or a digit";
        return Err(Failure::new(what).hint(hint));
    }
    refuse_second_key(replica, url, access)?;
    let remote = Remote::open(url, &credentials(None, access)?)?;
    Ok(access.add(replica, name, &remote.url())?)
}

/// What a remote store contains is remembered by its URL, so no two remotes may read it by different keys.
fn refuse_second_key(replica: &Replica, url: &str, access: &Access) -> Result<(), Failure> {
    for remote in replica.remotes()?.into_iter().filter(|remote| remote.url == url) {
        if Access::of(&remote)?.key_file != access.key_file {
            let what =
                format!("{url} is the remote {} already, with another key or none", remote.name);
            return Err(
                Failure::new(what).hint("Use another folder or URL, or remove that remote first")
            );
        }
    }
    Ok(())
}

/// Removes a remote; whether nothing of it is left in other files.
pub fn remove(replica: &mut Replica, name: &str) -> Result<bool, Failure> {
    let path = replica.path().display().to_string();
    let removed = replica.remove_remote(name)?;
    if !removed.there {
        return Err(Failure::new(format!("{path} has no remote called {name}"))
            .hint(format!("See: synqlite remote list {path}")));
    }
    Ok(removed.cleared)
}

/// What is to be kept of a remote, the key file by its absolute path.
pub fn access(token: Option<String>, key_file: Option<&Path>) -> Result<Access, Failure> {
    let absolute = |path: &Path| match std::path::absolute(path) {
        Ok(path) => Ok(path.display().to_string()),
        Err(e) => Err(Failure::new(format!("{}: {e}", path.display()))),
    };
    Ok(Access { token, key_file: key_file.map(absolute).transpose()? })
}
