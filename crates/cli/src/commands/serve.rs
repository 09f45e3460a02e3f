use super::watch::stop_signal;
use super::{patience, print};
use crate::error::{CommandError, Result};
use crate::report::{Report, bytes, count};
use crate::terminal;
use serde_json::json;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use synqlite_front::remotes::storage;
use synqlite_hub::{Config, Error, Location, Running, Settings, backup, check, restore, start};
use tracing_subscriber::filter::LevelFilter;

/// How often it looks for a signal.
const TICK: Duration = Duration::from_millis(50);

/// Runs a hub: a server through which sites synchronize that never meet.
///
/// Sites reach it at http://HOST:PORT/NAME, and exchange there as in a folder; there can be any number
/// of such places, each for one database. Nobody may do anything without a token: see
/// `synqlite token`. SIGTERM and SIGINT end it once the requests under way are finished; what was acknowledged is on
/// the device at any time. A store that another hub has open is refused; with --wait it is waited for. The
/// first line of standard output says where it listens.
#[derive(clap::Args)]
pub struct Args {
    /// Address and port to listen on, 127.0.0.1:7700 if absent; port 0 takes any that is free.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where to keep what sites send: a folder, which is made if it is absent,
    /// postgres://USER@HOST/DATABASE, or s3://BUCKET/PREFIX with keys in the usual AWS_ variables.
    #[arg(long, value_name = "STORE", required_unless_present = "config")]
    store: Option<String>,
    /// Folder for what is on its way, and for the copy of a bucket, by which a start is faster; it
    /// may be lost. One in the user's cache folder if absent.
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// File of settings, TOML; what the command line says goes before it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Lets everybody read and write without a token: for this machine, or a network that you trust.
    #[arg(long)]
    open: bool,
    /// Certificate chain, as a PEM file, for https.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate, as a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Checks the settings, the certificate, the tokens and the store, and exits. A hub may run.
    #[arg(long)]
    check: bool,
    /// Writes a backup of the store, and exits; of a hub that runs, GET /backup is one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "restore"])]
    backup: Option<PathBuf>,
    /// Restores a backup into a new store, and exits.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    restore: Option<PathBuf>,
    /// What is logged on standard error: error, warn, info or debug, each with those before; info if
    /// absent. At debug there is a line for each request.
    #[arg(long, value_name = "LEVEL")]
    log: Option<LevelFilter>,
}

/// What to do where a backup is asked for of a hub that runs.
const RUNNING: &str = "Ask that one for it, with an admin token of all databases: (umask 077; curl -fH \
     \"Authorization: Bearer $ADMIN_TOKEN\" http://HOST:PORT/backup > FILE); or stop it first";

/// The time, as hubs count it.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

/// Where a store has what it may lose, if nobody says: the same folder each time for a bucket, so
/// that its copy is found again.
fn scratch(store: &str) -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    match (store.starts_with("s3://"), cache) {
        (true, Some(cache)) => {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            cache.join("synqlite").join(store.chars().map(plain).collect::<String>())
        }
        _ => std::env::temp_dir().join(format!("synqlite-hub-{}", std::process::id())),
    }
}

/// Default settings, changed by the file, changed by the command line.
fn settings(args: &Args) -> Result<(Settings, LevelFilter)> {
    let config = args.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
    let store = args.store.as_ref().or(config.store.as_ref()).ok_or_else(|| {
        CommandError::usage("there is no store").hint("Give --store, or set store in the file")
    })?;
    let default = scratch(store);
    let store = Location::parse(store)?.with(&storage());
    let mut settings = Settings::new(store.clone(), Arc::new(now));
    settings.scratch = default;
    config.apply(&mut settings)?;
    settings.store = store;
    if let Some(scratch) = &args.scratch {
        settings.scratch.clone_from(scratch);
    }
    if let Some(listen) = &args.listen {
        settings.listen.clone_from(listen);
    }
    settings.open |= args.open;
    settings.tls = args.tls_cert.clone().zip(args.tls_key.clone()).or(settings.tls);
    let level = config.log.map(|text| text.parse()).transpose();
    let level = level.map_err(|_| CommandError::new("log: write error, warn, info or debug"))?;
    Ok((settings, args.log.or(level).unwrap_or(LevelFilter::INFO)))
}

/// What whoever reaches the hub could do that hardly anybody means.
fn dangers(settings: &Settings, at: impl IntoIterator<Item = SocketAddr>) -> Vec<String> {
    let Some(at) = at.into_iter().find(|at| !at.ip().is_loopback()) else { return Vec::new() };
    let open = settings.open.then(|| {
        format!(
            "WARNING: with --open everybody who reaches {at} reads and writes all that the hub keeps, \
             without a token. Leave it out and make tokens: synqlite token create"
        )
    });
    let plain = settings.tls.is_none().then(|| {
        format!(
            "WARNING: tokens and data travel to {at} as plain HTTP, and whoever sees them pass can use \
             them. Give --tls-cert and --tls-key; or listen on 127.0.0.1, behind a proxy that ends TLS"
        )
    });
    open.into_iter().chain(plain).collect()
}

pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let (settings, level) = settings(args)?;
    if args.check {
        let found = check(&settings)?;
        let text = match found {
            Some(found) => format!(
                "ok: {}, {} ({})",
                count(found.places, "place"),
                count(found.objects, "object"),
                bytes(found.bytes)
            ),
            None => {
                "ok: a hub that runs has the store open, so what it holds was not counted".into()
            }
        };
        let warnings = dangers(&settings, settings.listen.to_socket_addrs().into_iter().flatten());
        warnings.iter().for_each(|warning| terminal::complain(warning));
        let json = json!({
            "ok": true, "running": found.is_none(), "places": found.map(|f| f.places),
            "objects": found.map(|f| f.objects), "bytes": found.map(|f| f.bytes),
            "warnings": warnings,
        });
        return print(Report::new(json, text), as_json);
    }
    if let Some(file) = &args.backup {
        let objects = backup(&settings, file).map_err(|e| match e {
            Error::Taken { .. } => CommandError::from(e).hint(RUNNING),
            e => e.into(),
        })?;
        let text = format!("{} in {}", count(objects, "object"), file.display());
        return print(Report::new(json!({"objects": objects}), text), as_json);
    }
    if let Some(file) = &args.restore {
        let objects = restore(&settings, file)?;
        let text = format!("{} restored", count(objects, "object"));
        return print(Report::new(json!({"objects": objects}), text), as_json);
    }
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    let set = if as_json { log.json().try_init() } else { log.with_ansi(false).try_init() };
    set.map_err(|e| CommandError::new(format!("logging cannot begin: {e}")))?;
    let stop = stop_signal()?;
    let (open, vault) = (settings.open, settings.store.vault());
    let hub = start_once_free(&settings, &stop)?;
    let url = hub.url();
    dangers(&settings, [hub.address()]).iter().for_each(|warning| terminal::complain(warning));
    print(Report::new(json!({"listening": url}), format!("listening on {url}")), as_json)?;
    if !open && vault.read()?.is_empty() {
        terminal::complain("nobody can use it yet: make a token with `synqlite token create`");
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

/// Starts a hub, as soon as another that has its store has closed it, as one does that is stopped.
fn start_once_free(settings: &Settings, stop: &AtomicBool) -> Result<Running> {
    let (since, mut told) = (Instant::now(), false);
    loop {
        match start(settings.clone()) {
            Err(Error::Taken { place }) if since.elapsed() < patience() => {
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::Taken { place }.into());
                }
                if !std::mem::replace(&mut told, true) {
                    let limit = patience().as_secs();
                    terminal::complain(&format!(
                        "another hub has {place} open: waiting for up to {limit} s until it has closed it"
                    ));
                }
                std::thread::sleep(TICK);
            }
            started => return Ok(started?),
        }
    }
}
