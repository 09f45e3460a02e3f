use super::{env, key_value};
use crate::error::Result;
use crate::report::{Report, rows};
use crate::terminal;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use synqlite_core::{InitOptions, Replica};

/// Makes a database a replica.
///
/// Adds triggers that note every change, and tables whose names begin with `synqlite_`. The
/// application's tables and rows stay as they are. Run again, it takes in tables that are new.
#[derive(clap::Args)]
pub struct Args {
    /// The database: any SQLite file.
    db: PathBuf,
    /// Replicates only this table; may be given several times.
    #[arg(long = "table", value_name = "T")]
    tables: Vec<String>,
    /// Leaves this table out; may be given several times.
    #[arg(long, value_name = "T")]
    exclude: Vec<String>,
    /// Sets a policy, as `synqlite policy` does; may be given several times.
    #[arg(long = "policy", value_name = "KEY=VALUE", value_parser = key_value)]
    policies: Vec<(String, String)>,
    /// Keeps every change for `synqlite log`, not only the latest of each cell.
    #[arg(long)]
    history: bool,
    /// Gives a file that was copied from a replica a site id of its own.
    #[arg(long)]
    new_site: bool,
}

pub fn run(args: &Args) -> Result<Report> {
    let options = InitOptions {
        tables: args.tables.clone(),
        exclude: args.exclude.clone(),
        policies: args.policies.clone(),
        history: args.history,
        new_site: args.new_site,
    };
    let done = Replica::init(&args.db, &options, env())?;
    for note in &done.notes {
        terminal::complain(&format!("note: {note}"));
    }
    let tables = done.tables.iter();
    let tables: Vec<_> =
        tables.map(|t| json!({"name": t.name, "identity": t.identity, "rows": t.rows})).collect();
    let skipped: Vec<_> =
        done.skipped.iter().map(|s| json!({"name": s.name, "why": s.why})).collect();
    let mut text = format!("{} is a replica, site {}", args.db.display(), done.site);
    for t in &done.tables {
        let _ = write!(text, "\n  {}: {}, identity by {}", t.name, rows(t.rows), t.identity);
    }
    for s in &done.skipped {
        let _ = write!(text, "\n  not replicated: {}: {}", s.name, s.why);
    }
    let site = done.site.to_string();
    let notes = done.notes;
    let json = json!({"site": site, "tables": tables, "skipped": skipped, "notes": notes});
    Ok(Report::new(json, text))
}
