use super::{Keep, open, tell_closed};
use crate::error::Result;
use crate::report::{Report, lines};
use crate::terminal;
use clap::Subcommand;
use std::path::PathBuf;
use synqlite_core::Replica;
use synqlite_front::{answer, remotes};

/// Adds, removes and lists named remotes.
#[derive(Subcommand)]
pub enum Command {
    /// Adds a remote, or keeps another token for one.
    ///
    /// If there is one of that name and URL already, the token that is given takes the place of the one that was
    /// kept.
    Add {
        /// The replica.
        db: PathBuf,
        /// Name of the remote: letters, digits and - _ . beginning with a letter or a digit.
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
            let mut replica = open(db)?;
            if remotes::add(&mut replica, name, url, &keep.access()?)? {
                tell_closed(db);
            }
            list(&replica)
        }
        Command::Remove { db, name } => {
            let mut replica = open(db)?;
            if !remotes::remove(&mut replica, name)? {
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

fn list(replica: &Replica) -> Result<Report> {
    let remotes = replica.remotes()?;
    let told = lines(remotes.iter().map(|r| format!("{}  {}", r.name, r.url)));
    let text = if remotes.is_empty() { "no remotes".to_owned() } else { told };
    Ok(Report::new(answer::remotes(&remotes)?, text))
}
