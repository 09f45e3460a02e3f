//! The commands that need Unix, on systems that are none: not listed, and refused with the reason.

use crate::error::{CommandError, Result};
use std::ffi::OsString;

/// Needs Unix.
#[derive(clap::Args)]
#[command(hide = true, disable_help_flag = true)]
pub struct Args {
    /// Whatever is said to it.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    said: Vec<OsString>,
}

fn refused<T>(command: &str, why: &str) -> Result<T> {
    let system = if cfg!(windows) { "Windows" } else { std::env::consts::OS };
    let what = format!("there is no `synqlite {command}` on {system}: {why}");
    let hint = "Run it on Linux or macOS; this system reaches hubs like any other";
    Err(CommandError::new(what).hint(hint))
}

/// Why neither a hub nor what manages its tokens is here.
const HUB: &str = "a hub keeps its store with file calls of Unix";

pub mod serve {
    pub use super::Args;

    pub fn run(_: &Args, _as_json: bool) -> super::Result<()> {
        super::refused("serve", super::HUB)
    }
}

pub mod token {
    pub use super::Args as Command;

    pub fn run(_: &Command) -> super::Result<crate::report::Report> {
        super::refused("token", super::HUB)
    }
}

pub mod kv {
    pub use super::Args as Command;

    pub fn run(_: &Command, _as_json: bool) -> super::Result<()> {
        super::refused("kv", "the store writes with file calls of Unix")
    }
}
