use super::{credentials, open};
use crate::error::{CommandError, Result};
use crate::report::Report;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use synqlite_core::{Access, NamedRemote, Replica};
use synqlite_remote::Remote;

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
        /// Token for the hub. It is kept in the replica, where whoever can read the file can read
        /// it; clones and snapshots do not get it.
        #[arg(long)]
        token: Option<String>,
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
        Command::Add { db, name, url, token } => {
            if name.is_empty() || name.contains(['/', '\\', ':']) || name.starts_with('-') {
                return Err(CommandError::new(format!("`{name}` cannot be the name of a remote"))
                    .hint("Use letters, digits and hyphens"));
            }
            let mut replica = open(db)?;
            let access = Access { token: token.clone(), ..Access::default() };
            let remote = Remote::open(url, &credentials(&access)?)?;
            replica.add_remote(name, &remote.url(), &access)?;
            list(&replica)
        }
        Command::Remove { db, name } => {
            let mut replica = open(db)?;
            if !replica.remove_remote(name)? {
                let what = format!("{} has no remote called {name}", db.display());
                let hint = format!("See: synqlite remote list {}", db.display());
                return Err(CommandError::new(what).hint(hint));
            }
            list(&replica)
        }
        Command::List { db } => list(&open(db)?),
    }
}

fn list(replica: &Replica) -> Result<Report> {
    let remotes = replica.remotes()?;
    let lines: Vec<_> = remotes.iter().map(|r| format!("{}  {}", r.name, r.url)).collect();
    let text = if lines.is_empty() { "no remotes".to_owned() } else { lines.join("\n") };
    let json = |r: &NamedRemote| {
        let mut line = json!({"name": r.name, "url": r.url});
        if r.access.token.is_some() {
            line["token"] = json!("kept");
        }
        line
    };
    let remotes: Vec<_> = remotes.iter().map(json).collect();
    Ok(Report::new(json!({"remotes": remotes}), text))
}
