use super::open;
use crate::error::{CommandError, Result};
use crate::report::Report;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use synqlite_core::Replica;
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
        /// Path of another replica, or URL of a folder: file:///path/to/folder/.
        url: String,
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
        Command::Add { db, name, url } => {
            if name.is_empty() || name.contains(['/', '\\', ':']) || name.starts_with('-') {
                return Err(CommandError::new(format!("`{name}` cannot be the name of a remote"))
                    .hint("Use letters, digits and hyphens"));
            }
            let mut replica = open(db)?;
            replica.add_remote(name, &Remote::parse(url)?.url())?;
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
    let remotes: Vec<_> = remotes.iter().map(|r| json!({"name": r.name, "url": r.url})).collect();
    Ok(Report::new(json!({"remotes": remotes}), text))
}
