//! `synqlite-lab` answers how fast, compared with what, under which settings.
//!
//! One direction of use: [`commands`] make plans of [`workload`]s and [`engine`]s; [`run`] gives the
//! engines their turns, each on a new [`database`], under a [`meter`]; with their [`params`] the
//! figures become [`record`]s; [`compare`] groups records and [`stats`] sums them up for [`table`].
//!
//! The program is [`main`]. `peers/` makes another of it, with other key-value stores beside ours:
//! they come through [`store`].

/// Prints a line. A reader that went away, such as `head`, is no error.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod cli;
mod commands;
mod compare;
mod database;
mod device;
mod engine;
mod error;
mod meter;
mod mount;
mod params;
mod plot;
mod record;
mod report;
mod reproduce;
mod run;
mod shadow;
mod stats;
pub mod store;
mod study;
mod table;
mod vfs;
mod workload;

pub use engine::extension::{Extension, Name as ExtensionName};
pub use error::{Error, Result};

use clap::Parser;
use std::process::ExitCode;

/// The program, with these stores beside the project's own, and these extensions.
pub fn main(peers: &'static [store::Peer], extensions: &'static [Extension]) -> ExitCode {
    store::install(peers);
    engine::extension::install(extensions);
    match commands::execute(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
