//! `synqlite`: makes any SQLite file a replica that synchronizes offline.
//!
//! One file a command, under [`commands`]: its arguments, whose doc comments are the help, and a
//! function that returns a [`Report`](report::Report). Only this crate knows of terminals, exit
//! statuses and signals. Standard output carries the report and nothing else; the rest goes to
//! standard error.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod commands;
#[cfg(unix)]
mod csv;
mod demo;
mod error;
mod pick;
mod progress;
mod record;
mod report;
mod review;
mod sides;
#[cfg(unix)]
mod store_error;
mod terminal;

use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;

/// A merge makes and drops many small values a row.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match commands::Args::try_parse() {
        Ok(args) => args,
        Err(e) => {
            let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // A reader that went away needs no help.
            let _ = e.print();
            if asked {
                return ExitCode::SUCCESS;
            }
            let what = e.render().to_string();
            // What is missing stands in the lines below the first.
            let said = what.lines().map(str::trim).take_while(|line| !line.is_empty());
            let what = said.collect::<Vec<_>>().join(" ");
            let what = what.trim_start_matches("error: ");
            let wrong = error::CommandError::usage(what).hint("See: synqlite --help");
            tell(&wrong, std::env::args_os().any(|arg| arg == "--json"));
            return ExitCode::from(wrong.status());
        }
    };
    // Without it, databases that are kept on vfs=dash are opened like any other.
    #[cfg(target_os = "linux")]
    let _ = synqlite_dash::register();
    match error::guarded(|| commands::run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // A name in it begins no line of its own.
            terminal::complain(&synqlite_core::line(&e.to_string(), usize::MAX));
            tell(&e, args.json);
            ExitCode::from(e.status())
        }
    }
}

/// Programs that asked for a document get one of a failure too, unless they have one already.
fn tell(e: &error::CommandError, as_json: bool) {
    if let Some(json) = e.json().filter(|_| as_json && !terminal::has_printed()) {
        // A reader that went away needs none.
        let _ = terminal::print(&json.to_string());
    }
}
