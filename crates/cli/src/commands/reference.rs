//! The reference of all commands, made from the same definitions as their help.

use crate::error::{CommandError, Kind, Result};
use crate::report::Report;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Prints the reference of all commands as Markdown.
#[derive(clap::Args)]
pub struct Args {
    /// Writes a manual page for each command into this folder instead.
    #[arg(long, value_name = "FOLDER")]
    man: Option<PathBuf>,
}

/// How commands fail.
const FAILURES: &str = "
## Failures

A command that fails writes one line `error: WHAT. HINT` to standard error, and ends with a status that says of what kind the failure is. The database is as it was, but for a `sync` that merged what came and could not send: it tells first what it merged. With `--json` standard output has a document of it:

```json
{\"error\": {\"code\": \"refused\", \"status\": 1, \"message\": \"notes.db is not a replica\", \"hint\": \"Run: synqlite init notes.db\", \"object\": \"notes.db\"}}
```

`hint` and `object`, the file, table or address concerned, may be null. A command that has printed its own document already, such as `verify` with what it found, prints no other: the status tells. `verify` and `kv verify` end with 1 if they find a problem, `undo` if it leaves a change.
";

/// What is told of work that takes a while.
const PROGRESS: &str = "
## Progress

A command that takes longer than half a second shows what it does on standard error, if that is a terminal. With `--progress json` it writes JSON objects there, one a line and up to five a second, also where there is no terminal:

```json
{\"phase\": \"merge\", \"rows\": 12288, \"total\": 120000, \"rate\": 13453, \"left_s\": 8.0, \"seconds\": 0.9, \"last\": false}
```

`phase` is `init`, `fold`, `read`, `merge`, `copy`, `list`, `fetch`, `send` or `verify`, or `work` where nothing more is known; there may be others later. Done is so much, in `rows` or in `bytes`, of `total`; `rate` is what was done a second, `left_s` how many seconds are left at that rate, `seconds` how many the phase has taken. What is not known is null, and phase `work` has neither amount. The last line of a phase has `last`. `watch` writes a line to its log for each phase that took longer than half a second, and `serve --log debug` one for each request.

What else is told there is an object too, such as `{\"note\": \"waiting for another program that keeps notes.db locked, for 60 s at most\"}`; only the line `error: WHAT. HINT` of a failure is as ever.
";

pub fn run(args: &Args) -> Result<Report> {
    match &args.man {
        Some(folder) => manual(folder),
        None => markdown(),
    }
}

fn markdown() -> Result<Report> {
    let mut text = String::from(
        "# Command reference\n\nWhat `synqlite COMMAND --help` prints. Made by `synqlite reference`; a test compares.\n",
    );
    let mut root = super::Args::command().term_width(100).disable_help_subcommand(true);
    root.build();
    text += FAILURES;
    text += "\n| status | code | means |\n| ---: | --- | --- |\n| 0 | | done |\n";
    for (kind, means) in Kind::ALL {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | `{}` | {means} |", kind.status(), kind.code());
    }
    text += PROGRESS;
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

/// A page for each command, `synqlite-remote-add.1` and the like.
fn manual(folder: &Path) -> Result<Report> {
    let failed =
        |path: &Path, e: std::io::Error| CommandError::new(format!("{}: {e}", path.display()));
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    // Versions stand at the foot of every page.
    let mut root = super::Args::command().disable_help_subcommand(true);
    let source = format!("synqlite {}", root.get_version().unwrap_or_default());
    root.build();
    let mut pages = Vec::new();
    let mut left = vec![&root];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|sub| !sub.is_hide_set()));
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, page(command, &source)?).map_err(|e| failed(&path, e))?;
        pages.push(name);
    }
    pages.sort();
    let text = format!("{} pages in {}", pages.len(), folder.display());
    Ok(Report::new(json!({"pages": pages}), text))
}

fn page(command: &Command, source: &str) -> Result<Vec<u8>> {
    let man = Man::new(command.clone()).source(source).manual("SynQLite");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    if let Some(examples) = command.get_after_help() {
        // As it stands: lines of commands are no text to be filled.
        let mut roff = Roff::default();
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.to_string().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []).to_writer(&mut out)?;
    }
    Ok(out)
}
