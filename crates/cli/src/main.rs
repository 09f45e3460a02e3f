//! `synqlite`: makes any SQLite file a replica that synchronizes offline.
//!
//! One file a command, under [`commands`]: its arguments, whose doc comments are the help, and a
//! function that returns a [`Report`](report::Report). Only this crate knows of terminals, exit
//! statuses and signals. Standard output carries the report and nothing else; the rest goes to
//! standard error.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod commands;
mod csv;
mod demo;
mod error;
mod record;
mod report;
mod sides;
mod terminal;

use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match commands::Args::try_parse() {
        Ok(args) => args,
        Err(e) => {
            let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // A reader that went away needs no help.
            let _ = e.print();
            return ExitCode::from(if asked { 0 } else { 2 });
        }
    };
    // Without it, databases that are kept on vfs=dash are opened like any other.
    let _ = synqlite_dash::register();
    match commands::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            terminal::complain(&e.to_string());
            ExitCode::from(e.status())
        }
    }
}
