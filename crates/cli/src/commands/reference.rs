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

`hint` and `object`, the file, table or address concerned, may be null. A command that has printed its own document already, such as `verify` with what it found, prints no other: the status tells. `verify` and `kv verify` end with 1 if they find a problem.
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
