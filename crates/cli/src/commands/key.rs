use crate::error::{Failure, Kind, Result};
use crate::report::Report;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use synqlite_core::{Environment, System};
use synqlite_remote::{Key, Put};

/// Makes keys by which sites seal what they exchange.
#[derive(Subcommand)]
pub enum Command {
    /// Makes a key, in a new file that only you may read.
    ///
    /// Every site that is to use a sealed store needs this file: give it to them by a way that you
    /// trust, and keep a copy. Nothing can open what is sealed without it; a lost key is lost.
    New {
        /// The new file.
        file: PathBuf,
    },
}

pub fn run(command: &Command) -> Result<Report> {
    let Command::New { file } = command;
    let halves = [System.random(), System.random()].concat();
    let mut bytes = [0; 32];
    bytes.copy_from_slice(&halves);
    let path = file.display();
    if Key::new(bytes).write(file)? == Put::AlreadyThere {
        let hint = "A key that is overwritten is lost. Choose another name";
        let exists = Failure::new(format!("{path} exists already")).hint(hint);
        return Err(exists.of(Kind::Conflict, Some(path.to_string())).into());
    }
    let text = format!("{path} holds a new key. Keep a copy: without it nothing can be opened");
    Ok(Report::new(json!({"key_file": path.to_string()}), text))
}
