use super::watch::stop_signal;
use crate::error::{CommandError, Result};
use crate::terminal;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use synqlite_hub::{Location, Settings, check, start};
use tracing_subscriber::filter::LevelFilter;

/// How often it looks for a signal.
const TICK: Duration = Duration::from_millis(50);

/// Runs a hub: a server through which sites synchronize that never meet.
///
/// Sites reach it at http://HOST:PORT/NAME, a place of exchange like a folder; any number of places,
/// each for one database or several. Nobody may do anything without a token: see `synqlite token`.
/// SIGTERM and SIGINT end it once the requests under way are finished; what was acknowledged is on
/// the device at any time. The first line of standard output says where it listens.
#[derive(clap::Args)]
pub struct Args {
    /// Address and port to listen on; port 0 takes any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7700")]
    listen: String,
    /// Where to keep what sites send: a folder, which is made if it is absent.
    #[arg(long, value_name = "DIR")]
    store: String,
    /// Lets everybody read and write without a token: for this machine, or a network that you trust.
    #[arg(long)]
    open: bool,
    /// Certificate chain, as a PEM file, for https.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate, as a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Checks the settings, the certificate and the store, and exits.
    #[arg(long)]
    check: bool,
    /// What is logged on standard error, each with those before: error, warn, info or debug.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,
}

/// The time, as hubs count it.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let mut settings = Settings::new(Location::parse(&args.store)?, Arc::new(now));
    settings.listen.clone_from(&args.listen);
    settings.open = args.open;
    settings.tls = args.tls_cert.clone().zip(args.tls_key.clone());
    if args.check {
        let found = check(&settings)?;
        let json = json!({"ok": true, "places": found.places, "objects": found.objects, "bytes": found.bytes});
        let text = format!("ok: {} places, {} objects", found.places, found.objects);
        return terminal::print(&if as_json { json.to_string() } else { text });
    }
    let log = tracing_subscriber::fmt().with_max_level(args.log).with_writer(std::io::stderr);
    let set = if as_json { log.json().try_init() } else { log.with_ansi(false).try_init() };
    set.map_err(|e| CommandError::new(format!("logging cannot begin: {e}")))?;
    let stop = stop_signal()?;
    let vault = settings.store.vault();
    let hub = start(settings)?;
    let url = hub.url();
    let line = json!({"listening": url}).to_string();
    terminal::print(&if as_json { line } else { format!("listening on {url}") })?;
    if !args.open && vault.read()?.is_empty() {
        let hint = format!("synqlite token create --store {} --database NAME", args.store);
        terminal::complain(&format!("nobody can use it yet; make a token: {hint}"));
    }
    let stopper = hub.stopper();
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
        }
        stopper.stop();
    });
    Ok(hub.wait()?)
}
