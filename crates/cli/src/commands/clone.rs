use super::exchange::remove_own_when_ended;
use super::{Keep, call, credentials, env, open};
use crate::error::Result;
use crate::report::{Report, bytes, not_here, rows, with_paused};
use crate::terminal::{tell_aside, tell_paused_at_origin, tell_waiting};
use std::path::PathBuf;
use std::time::Instant;
use synqlite_core::check_site_name;
use synqlite_front::answer;
use synqlite_remote::{Remote, Session};

/// Makes a new replica of what a remote holds.
///
/// The new replica has a site id of its own and remembers the remote as `origin`. Programs may go
/// on writing to the source meanwhile.
#[derive(clap::Args)]
pub struct Args {
    /// Path of another replica, or URL of a folder, hub or bucket: file:///path/to/folder/,
    /// https://host/name, s3://bucket/prefix.
    remote: String,
    /// The new file, which must not exist.
    db: PathBuf,
    /// Calls this site so, wherever people read who wrote what. Without it: what this machine is
    /// called.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    keep: Keep,
}

pub fn run(args: &Args) -> Result<Report> {
    let since = Instant::now();
    args.name.as_deref().map_or(Ok(()), check_site_name)?;
    let access = args.keep.access()?;
    let remote = Remote::open(&args.remote, &credentials(&access)?)?;
    let session = Session::new(env());
    remove_own_when_ended()?;
    let cloned = remote.clone_with(&args.db, &access, &session)?;
    call(&args.db, args.name.as_deref())?;
    tell_waiting(&cloned.waiting);
    tell_aside(&cloned.aside);
    let paused = open(&args.db)?.paused()?;
    tell_paused_at_origin(&paused);
    let time = since.elapsed();
    let mut text = format!(
        "{} is a replica with {} ({}), site {}, in {:.3} s",
        args.db.display(),
        rows(cloned.rows.unsigned_abs()),
        bytes(cloned.bytes),
        cloned.site,
        time.as_secs_f64()
    );
    for kept in &cloned.kept {
        text = text + "\n  " + &not_here(kept);
    }
    let answer = answer::cloned(&cloned, &remote.url(), time);
    Ok(Report::new(with_paused(answer, &paused), text))
}
