//! A running hub: its listener, its connections, what it does beside requests, and its end.

use crate::backend::{Millis, Totals};
use crate::disk_space::DiskSpace;
use crate::embedded::Setup;
use crate::error::{Error, Result};
use crate::http::{self, Access, Arriving, Hub, Limits, Metrics, seconds};
use crate::location::{Location, Opened, Vault};
use crate::runtime::runtime;
use crate::wait::Waiters;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// How long an idle connection is kept, and a request's head may take.
const IDLE: Duration = Duration::from_secs(75);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often it looks whether tokens were changed, and whether it still has its store.
const LOOK: Duration = Duration::from_millis(500);
/// After a failed accept, such as for want of file handles.
const PAUSE: Duration = Duration::from_millis(50);

/// Tells the time: milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// How a hub runs.
#[derive(Clone)]
pub struct Settings {
    /// Address and port; port 0 takes any.
    pub listen: String,
    /// Where objects are kept.
    pub store: Location,
    /// How an embedded store is opened.
    pub setup: Setup,
    /// Folder for what is on its way, or for the copy of a bucket, where the store has none.
    pub scratch: PathBuf,
    /// Everybody may read and write. For loopback and networks that are trusted.
    pub open: bool,
    /// Certificate chain and key, PEM files; plain HTTP without them.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// What one request may ask for.
    pub limits: Limits,
    /// How long requests may take to finish once the hub stops.
    pub grace: Duration,
    /// A site that was not seen for so long is not waited for before objects are retired.
    pub patience: Duration,
    /// How often it looks for objects to retire, apart from when a snapshot came.
    pub sweep: Duration,
    /// Threads that work on requests; as many as processors if absent.
    pub threads: Option<usize>,
    /// The time.
    pub clock: Clock,
}

impl Settings {
    /// As a hub runs if nothing else is said.
    pub fn new(store: Location, clock: Clock) -> Settings {
        Settings {
            listen: "127.0.0.1:7700".into(),
            store,
            setup: Setup::default(),
            scratch: "synqlite-hub-staging".into(),
            open: false,
            tls: None,
            limits: Limits::default(),
            grace: Duration::from_secs(30),
            patience: Duration::from_secs(30 * 24 * 60 * 60),
            sweep: Duration::from_secs(10 * 60),
            threads: None,
            clock,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// A hub that runs in threads of its own.
pub struct Running {
    runtime: Runtime,
    address: SocketAddr,
    secure: bool,
    stop: watch::Sender<bool>,
    work: tokio::task::JoinHandle<Result<()>>,
}

/// Tells a hub to stop, from any thread.
#[derive(Clone)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Takes no more requests; those that are under way finish, those that wait are released.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Running {
    /// Where it listens, such as `http://127.0.0.1:7700`.
    pub fn url(&self) -> String {
        format!("http{}://{}", if self.secure { "s" } else { "" }, self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Returns when it was stopped and everything is closed.
    pub fn wait(self) -> Result<()> {
        let done = self.runtime.block_on(self.work);
        // What still reads a file for somebody who went is not waited for.
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        done.unwrap_or_else(|_| Err(Error::away("the hub's own thread failed")))
    }

    /// Stops it, and waits.
    pub fn stop(self) -> Result<()> {
        self.stopper().stop();
        self.wait()
    }
}

/// Listens and opens the store.
pub fn start(settings: Settings) -> Result<Running> {
    let tls = settings.tls.as_ref().map(|(cert, key)| acceptor(cert, key)).transpose()?;
    let runtime = runtime(settings.threads)?;
    let (stop, stopping) = watch::channel(false);
    let secure = tls.is_some();
    let (address, work) = runtime.block_on(async {
        // A hub that cannot be reached leaves no store behind.
        let bound = TcpListener::bind(&settings.listen).await;
        let listener = bound.map_err(|e| cannot_listen(&settings, &e))?;
        let address = listener.local_addr().map_err(|e| Error::away(e.to_string()))?;
        let waiters = Arc::new(Waiters::default());
        let Opened { backend, vault, staging } =
            settings.store.open(settings.setup, &settings.scratch, waiters.clone()).await?;
        let access = Access::new(settings.open, settings.limits.rate);
        access.set(vault.load().await?);
        let hub = Arc::new(Hub {
            backend,
            waiters,
            access,
            limits: settings.limits,
            clock: settings.clock.clone(),
            room: DiskSpace::new(&staging, settings.setup.reserve),
            arriving: Arriving::open(&staging)?,
            memory: Semaphore::new(http::MEMORY),
            metrics: Metrics::default(),
            recent: Default::default(),
            sweep: Notify::new(),
            stopping,
        });
        let stop = stop.clone();
        let beside = tokio::spawn(look_after(hub.clone(), vault, settings.clone(), stop));
        let work = tokio::spawn(async move {
            accept(listener, tls, hub.clone(), settings.grace).await;
            beside.abort();
            hub.backend.close().await
        });
        Ok::<_, Error>((address, work))
    })?;
    Ok(Running { runtime, address, secure, stop, work })
}

/// Reads the tokens and the certificate, opens the store, and closes it all again; what the store
/// holds. `None` if a hub has it open: then it can be opened, and what it holds is not looked at.
pub fn check(settings: &Settings) -> Result<Option<Totals>> {
    settings.listen.to_socket_addrs().map_err(|e| cannot_listen(settings, &e))?;
    settings.tls.as_ref().map(|(cert, key)| acceptor(cert, key)).transpose()?;
    runtime(Some(1))?.block_on(async {
        let setup = Setup { create: false, ..settings.setup };
        settings.store.vault().load().await?;
        let opened = settings.store.open(setup, &settings.scratch, Arc::default()).await;
        let Opened { backend, .. } = match opened {
            Err(Error::Taken { .. }) => return Ok(None),
            opened => opened?,
        };
        backend.health().await?;
        let totals = backend.totals().await?;
        backend.close().await?;
        Ok(Some(totals))
    })
}

fn cannot_listen(settings: &Settings, e: &std::io::Error) -> Error {
    Error::Setting {
        what: format!("cannot listen on {}: {e}", settings.listen),
        hint: "Choose another address or port",
    }
}

fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor> {
    let bad = |path: &Path, e: &dyn fmt::Display| Error::Setting {
        what: format!("{}: {e}", path.display()),
        hint: "Give the certificate chain and its key as PEM files",
    };
    let chain =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|e| bad(cert, &e))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(cert, &e))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|e| bad(cert, &e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Takes connections until the hub stops, then waits for them a while.
async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, hub: Arc<Hub>, grace: Duration) {
    let router = http::router(hub.clone());
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(hub.limits.connections.max(1)));
    let mut stopping = hub.stopping.clone();
    loop {
        let (stream, permit) = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => break,
            next = async { (listener.accept().await, places.clone().acquire_owned().await) } => next,
        };
        let (Ok((stream, _)), Ok(permit)) = (stream, permit) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Answers are small, and nobody should wait for more to come.
        let _ = stream.set_nodelay(true);
        let (router, tls, hub) = (router.clone(), tls.clone(), hub.clone());
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            hub.metrics.connections.fetch_add(1, Ordering::Relaxed);
            match tls {
                None => converse(stream, router, watcher).await,
                Some(tls) => secure(stream, router, watcher, tls).await,
            }
            hub.metrics.connections.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

async fn secure(stream: TcpStream, router: Router, watcher: Watcher, tls: TlsAcceptor) {
    match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, router, watcher).await,
        Ok(Err(e)) => tracing::debug!("handshake failed: {e}"),
        Err(_) => tracing::debug!("handshake took too long"),
    }
}

/// Answers the requests of a connection.
async fn converse<S>(stream: S, router: Router, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(e) = watcher.watch(connection).await {
        // The other side went, or spoke something else.
        tracing::debug!("connection ended: {e}");
    }
}

/// Notices changed tokens, retires objects, removes abandoned uploads; ends the hub that has lost its
/// store to another.
async fn look_after(hub: Arc<Hub>, vault: Vault, settings: Settings, stop: watch::Sender<bool>) {
    let keep = async {
        while hub.backend.lost().is_none() {
            tokio::time::sleep(LOOK).await;
        }
        stop.send_replace(true);
    };
    let tokens = async {
        let mut known = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let asked = hub.access.unknown.notified();
            let _ = tokio::time::timeout(vault.pause(), asked).await;
            let stamp = vault.stamp();
            if stamp.is_some() && stamp == known {
                continue;
            }
            match vault.load().await {
                Ok(tokens) => {
                    hub.access.set(tokens);
                    known = stamp;
                }
                // Those that were good stay good: a moment later they can be read again.
                Err(e) => tracing::error!("{e}"),
            }
        }
    };
    let retire = async {
        loop {
            let _ = tokio::time::timeout(settings.sweep, hub.sweep.notified()).await;
            let began = Instant::now();
            let since = (settings.clock)() - settings.patience.as_millis() as Millis;
            match hub.backend.retire(since).await {
                Ok(0) => {}
                Ok(count) => {
                    Metrics::add(&hub.metrics.retired, count);
                    let seconds = seconds(began.elapsed());
                    tracing::info!(objects = count, seconds, "retired what snapshots cover");
                }
                Err(e) => tracing::error!("retiring failed: {e}"),
            }
            if let Err(e) = hub.arriving.sweep() {
                tracing::warn!("{e}");
            }
        }
    };
    tokio::join!(tokens, retire, keep);
}
