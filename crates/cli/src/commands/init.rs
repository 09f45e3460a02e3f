use super::exchange::remove_own_when_ended;
use super::{Keep, call, credentials, env, key_value, policies, tell_closed};
use crate::error::{CommandError, Result};
use crate::report::{Report, rows};
use crate::terminal;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use synqlite_core::{
    Compared, Decision, InitOptions, Replica, Skipped, TableReport, called, check_site_name, line,
    the_row,
};
use synqlite_front::answer;
use synqlite_remote::{Access, Remote, Session};

/// Makes a database a replica.
///
/// Adds triggers that note every change, and tables whose names begin with `synqlite_`. The
/// application's tables and rows stay as they are. Run again, it takes in tables that are new.
#[derive(clap::Args)]
pub struct Args {
    /// The database: any SQLite file.
    db: PathBuf,
    /// Replicates only this table; may be given several times. Run again, it takes in one that was left out.
    #[arg(long = "table", value_name = "T")]
    tables: Vec<String>,
    /// Leaves this table out; may be given several times. One that is replicated already is taken out by policy
    /// `local_tables`, on all sites.
    #[arg(long, value_name = "T")]
    exclude: Vec<String>,
    /// Sets a policy, as `synqlite policy` does; may be given several times.
    #[arg(long = "policy", value_name = "KEY=VALUE", value_parser = key_value)]
    policies: Vec<(String, String)>,
    /// Keeps every change for `synqlite log` and `synqlite undo`, not only the latest of each cell. It begins
    /// with what the tables hold: a cell takes some 50 bytes more than its value. Of a replica that kept none,
    /// from now on.
    #[arg(long)]
    history: bool,
    /// Calls this site so, wherever people read who wrote what. Without it: what this machine is
    /// called. Run again with another name, it calls it that.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Gives a file that was copied from a replica a site id of its own.
    #[arg(long)]
    new_site: bool,
    /// Makes a database a replica again that was one of what REMOTE holds, and whose own tables of
    /// synqlite were dropped.
    ///
    /// Rows that both have are the same rows. What they show here counts as written now; each value
    /// that it replaces is listed, also later by `synqlite conflicts --closed`.
    #[arg(long, value_name = "REMOTE", conflicts_with = "new_site")]
    repair: Option<String>,
    #[command(flatten)]
    keep: Keep,
}

pub fn run(args: &Args) -> Result<Report> {
    let options = InitOptions {
        tables: args.tables.clone(),
        exclude: args.exclude.clone(),
        policies: policies(&args.policies)?,
        history: args.history,
        new_site: args.new_site,
    };
    args.name.as_deref().map_or(Ok(()), check_site_name)?;
    if let Some(remote) = &args.repair {
        return repair(args, remote, &options);
    }
    if args.keep.access()? != Access::default() {
        return Err(CommandError::usage("--token, --token-file and --key-file go with --repair"));
    }
    let done = Replica::init(&args.db, &options, env())?;
    call(&args.db, args.name.as_deref())?;
    let notes = done.notes;
    for note in &notes {
        terminal::complain(&line(&format!("note: {note}"), usize::MAX));
    }
    let site = done.site.to_string();
    let mut text = format!("{} is a replica, site {site}", args.db.display());
    let (tables, skipped) = listed(&mut text, &done.tables, &done.skipped);
    let json = json!({"site": site, "tables": tables, "skipped": skipped, "notes": notes});
    Ok(Report::new(json, text))
}

fn repair(args: &Args, remote: &str, options: &InitOptions) -> Result<Report> {
    let access = args.keep.access()?;
    let remote = Remote::open(remote, &credentials(&access)?)?;
    let session = Session::new(env());
    remove_own_when_ended()?;
    let done = remote.rejoin(&args.db, &access, options, &session)?;
    call(&args.db, args.name.as_deref())?;
    if access.token.is_some() {
        tell_closed(&args.db);
    }
    let site = done.site.to_string();
    let mut text = format!("{} is a replica again, site {site}", args.db.display());
    let (tables, skipped) = listed(&mut text, &done.tables, &done.skipped);
    let Compared { updated, inserted, hidden, theirs, told } = done.compared;
    for (rows_of, what) in [
        (updated, "with other values here: they count as written now"),
        (inserted, "only here: inserted now"),
        (hidden, "deleted or hidden by others: so here too now"),
        (theirs, "only there: new here, or deleted here and back"),
    ] {
        if rows_of > 0 {
            let _ = write!(text, "\n  {} {what}", rows(rows_of));
        }
    }
    for Decision { table, row, name, words, .. } in &told {
        let row = the_row(&called(row, name.as_deref()));
        let _ = write!(text, "\n  {}", line(&format!("{table}, {row}: {words}"), usize::MAX));
    }
    let compared = json!({"updated": updated, "inserted": inserted, "hidden": hidden,
        "theirs": theirs, "told": answer::decisions(&told)});
    let json = json!({"site": site, "tables": tables, "skipped": skipped, "notes": [],
        "origin": remote.url(), "compared": compared});
    Ok(Report::new(json, text))
}

/// Tables that are replicated and those that are not, appended to the text and for programs.
fn listed(text: &mut String, tables: &[TableReport], skipped: &[Skipped]) -> (Value, Value) {
    for t in tables {
        let (name, identity) = (line(&t.name, usize::MAX), t.identity.name());
        let _ = write!(text, "\n  {name}: {}, identity by {identity}", rows(t.rows.unsigned_abs()));
    }
    for s in skipped {
        let why = line(&format!("{}: {}", s.name, s.why), usize::MAX);
        let _ = write!(text, "\n  not replicated: {why}");
    }
    (answer::tables(tables), answer::skipped(skipped))
}
