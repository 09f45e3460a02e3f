use super::open;
use crate::error::Result;
use crate::report::Report;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use synqlite_core::line;

/// Lists every trigger in the database, the application's and ours, with its SQL.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
}

pub fn run(args: &Args) -> Result<Report> {
    let (mut tables, mut lines) = (Map::new(), Vec::new());
    for (table, triggers) in open(&args.db)?.triggers()? {
        lines.push(line(&format!("-- {table}"), usize::MAX));
        lines.extend(triggers.iter().map(|t| format!("{};", t.sql)));
        let list = triggers.into_iter().map(|t| json!({"name": t.name, "sql": t.sql}));
        tables.insert(table, Value::Array(list.collect()));
    }
    Ok(Report::new(json!({"tables": tables}), lines.join("\n")))
}
