use crate::error::Result;
use crate::report::Report;
use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

/// Prints a completion script for a shell.
///
/// For bash: synqlite completions bash > /etc/bash_completion.d/synqlite
#[derive(clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

pub fn run(args: &Args) -> Result<Report> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Args::command(), "synqlite", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({"shell": args.shell.to_string(), "script": script});
    Ok(Report::new(json, script))
}
