//! The reference of all commands, made from the same definitions as their help.

use super::Args;
use crate::error::Result;
use crate::report::Report;
use clap::{Command, CommandFactory};
use serde_json::json;
use std::fmt::Write;

pub fn run() -> Result<Report> {
    let mut text = String::from(
        "# Command reference\n\nWhat `synqlite COMMAND --help` prints. Made by `synqlite reference`; a test compares.\n",
    );
    let mut root = Args::command().term_width(100).disable_help_subcommand(true);
    root.build();
    section(&mut text, &mut root, "");
    let text = text.trim_end().to_owned();
    Ok(Report::new(json!({"markdown": text}), text))
}

fn section(text: &mut String, command: &mut Command, parent: &str) {
    let name = format!("{parent} {}", command.get_name()).trim_start().to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    // Writing to a string cannot fail.
    let _ = write!(text, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
        section(text, sub, &name);
    }
}
