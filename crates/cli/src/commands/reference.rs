//! The reference of all commands, made from the same definitions as their help.

use super::Args;
use crate::error::{Kind, Result};
use crate::report::Report;
use clap::{Command, CommandFactory};
use serde_json::json;
use std::fmt::Write;

/// How commands fail.
const FAILURES: &str = "
## Failures

A command that fails writes one line `error: WHAT. HINT` to standard error, and ends with a status that says of what kind the failure is. The database is as it was. With `--json` standard output has a document of it:

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

`phase` is `init`, `fold`, `read`, `merge`, `copy`, `list`, `fetch`, `send` or `verify`, or `work` where nothing more is known; there may be others later. Done is so much, in `rows` or in `bytes`, of `total`; `rate` is what was done a second, `left_s` how many seconds are left at that rate, `seconds` how many the phase has taken. What is not known is null, and phase `work` has neither amount. The last line of a phase has `last`. `watch` writes a line to its log for each phase that took longer than half a second, and `serve` one for each request.
";

pub fn run() -> Result<Report> {
    let mut text = String::from(
        "# Command reference\n\nWhat `synqlite COMMAND --help` prints. Made by `synqlite reference`; a test compares.\n",
    );
    let mut root = Args::command().term_width(100).disable_help_subcommand(true);
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
