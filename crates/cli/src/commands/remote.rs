use super::{Keep, credentials, open, tell_closed};
use crate::error::{CommandError, Result};
use crate::report::Report;
use crate::terminal;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use synqlite_core::{NamedRemote, Replica};
use synqlite_remote::{Access, Remote};

/// Adds, removes and lists named remotes.
#[derive(Subcommand)]
pub enum Command {
    /// Adds a remote.
    Add {
        /// The replica.
        db: PathBuf,
        /// Name of the remote.
        name: String,
        /// Path of another replica, or URL of a folder, hub or bucket: file:///path/to/folder/,
        /// https://host/name, s3://bucket/prefix.
        url: String,
        #[command(flatten)]
        keep: Keep,
    },
    /// Removes a remote; what it refers to stays as it is.
    Remove {
        /// The replica.
        db: PathBuf,
        /// Name of the remote.
        name: String,
    },
    /// Lists the remotes.
    List {
        /// The replica.
        db: PathBuf,
    },
}

pub fn run(command: &Command) -> Result<Report> {
    match command {
        Command::Add { db, name, url, keep } => {
            if name.is_empty() || name.contains(['/', '\\', ':']) || name.starts_with('-') {
                return Err(CommandError::new(format!("`{name}` cannot be the name of a remote"))
                    .hint("Use letters, digits and hyphens"));
            }
            let mut replica = open(db)?;
            let access = keep.access()?;
            refuse_second_key(&replica, url, &access)?;
            let remote = Remote::open(url, &credentials(&access)?)?;
            if access.add(&mut replica, name, &remote.url())? {
                tell_closed(db);
            }
            list(&replica)
        }
        Command::Remove { db, name } => {
            let mut replica = open(db)?;
            let removed = replica.remove_remote(name)?;
            if !removed.there {
                let what = format!("{} has no remote called {name}", db.display());
                let hint = format!("See: synqlite remote list {}", db.display());
                return Err(CommandError::new(what).hint(hint));
            }
            if !removed.cleared {
                terminal::complain(&format!(
                    "note: other programs use {0}, so what was kept of {name} stays in {0}-wal \
                     until the last of them has closed it",
                    db.display()
                ));
            }
            list(&replica)
        }
        Command::List { db } => list(&open(db)?),
    }
}

/// What a remote store contains is remembered by its URL, so no two remotes may read it by different keys.
fn refuse_second_key(replica: &Replica, url: &str, access: &Access) -> Result<()> {
    for remote in replica.remotes()?.into_iter().filter(|remote| remote.url == url) {
        if Access::of(&remote)?.key_file != access.key_file {
            let what =
                format!("{url} is the remote {} already, with another key or none", remote.name);
            return Err(CommandError::new(what)
                .hint("Use another folder or URL, or remove that remote first"));
        }
    }
    Ok(())
}

fn list(replica: &Replica) -> Result<Report> {
    let remotes = replica.remotes()?;
    let lines: Vec<_> = remotes.iter().map(|r| format!("{}  {}", r.name, r.url)).collect();
    let text = if lines.is_empty() { "no remotes".to_owned() } else { lines.join("\n") };
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
    let remotes = remotes.iter().map(json).collect::<Result<Vec<_>>>()?;
    Ok(Report::new(json!({"remotes": remotes}), text))
}
