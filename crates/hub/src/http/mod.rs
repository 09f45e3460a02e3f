//! The protocol of `docs/formats/hub.md` over HTTP. Nothing here knows how objects are kept.

mod access;
mod admin;
mod arriving;
mod ask;
mod author;
mod body;
mod events;
mod failure;
mod metrics;
mod objects;
mod uploads;

pub(crate) use access::Access;
pub(crate) use arriving::Arriving;
pub(crate) use metrics::Metrics;

use crate::backend::{Backend, Millis};
use crate::disk_space::DiskSpace;
use crate::place::Place;
use crate::wait::{Waiters, lock};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get};
use failure::Failure;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use synqlite_objects::ObjectName;
use synqlite_wire::units::bytes;
use tokio::sync::{Notify, Semaphore, watch};

/// What one request may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest object, in bytes.
    pub object: u64,
    /// Bytes that a token may store that has no limit of its own; no limit if absent.
    pub storage: Option<u64>,
    /// Requests a second that such a token may make; no limit if absent.
    pub rate: Option<u32>,
    /// Connections at a time.
    pub connections: usize,
    /// How long the next bytes of a body may take.
    pub patience: Duration,
    /// Bytes a second that a body must have, on the whole: it may take as long as its length needs
    /// at that pace, and `patience` more.
    pub pace: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            object: 16 << 30,
            storage: None,
            rate: None,
            connections: 10_000,
            patience: Duration::from_secs(60),
            pace: 4096,
        }
    }
}

/// Bytes of small bodies that are in memory at a time.
pub(crate) const MEMORY: usize = 256 << 20;

/// A request that takes longer is logged.
const LONG: Duration = Duration::from_millis(500);

/// Objects that the overview shows.
const RECENT: usize = 50;

/// An object that was put a while ago.
pub(crate) struct Recent {
    pub sequence: u64,
    pub place: Place,
    pub name: ObjectName,
    pub bytes: u64,
    pub at: Millis,
}

/// What all requests share.
pub(crate) struct Hub {
    pub backend: Arc<dyn Backend>,
    pub waiters: Arc<Waiters>,
    pub access: Access,
    pub limits: Limits,
    pub clock: Arc<dyn Fn() -> Millis + Send + Sync>,
    /// What is on its way.
    pub arriving: Arriving,
    /// Its disk.
    pub room: DiskSpace,
    pub memory: Semaphore,
    pub metrics: Metrics,
    /// What was put last, oldest first.
    pub recent: Mutex<VecDeque<Recent>>,
    /// Wakes the one who retires objects.
    pub sweep: Notify,
    /// Becomes true when the hub stops.
    pub stopping: watch::Receiver<bool>,
}

impl Hub {
    fn now(&self) -> Millis {
        (self.clock)()
    }

    fn remember(&self, object: Recent) {
        let mut recent = lock(&self.recent);
        if recent.len() >= RECENT {
            recent.pop_front();
        }
        recent.push_back(object);
    }
}

type Methods = fn() -> MethodRouter<Arc<Hub>>;

/// Every path, and what answers there. `openapi.json` lists the same; tests compare.
pub(crate) const ROUTES: [(&str, Methods); 12] = [
    ("/healthz", || get(admin::healthz)),
    ("/openapi.json", || get(admin::openapi)),
    ("/", || get(admin::page)),
    ("/overview", || get(admin::overview)),
    ("/metrics", || get(admin::metrics)),
    ("/backup", || get(admin::backup)),
    ("/{place}/objects", || get(objects::list)),
    ("/{place}/objects/{*object}", || get(objects::get).put(objects::put).delete(objects::remove)),
    ("/{place}/uploads/{upload}", || get(uploads::state)),
    ("/{place}/databases", || get(objects::databases)),
    ("/{place}/events", || get(events::wait)),
    ("/{place}", || delete(objects::clear)),
];

/// The service.
pub(crate) fn router(hub: Arc<Hub>) -> Router {
    let all = ROUTES.iter().fold(Router::new(), |all, (path, methods)| all.route(path, methods()));
    all.fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(hub.clone(), observe))
        .with_state(hub)
}

async fn nothing_here(State(hub): State<Arc<Hub>>, request: Request) -> Failure {
    body::Incoming::new(request.into_body(), &hub.limits, 0).drain().await;
    Failure::new(StatusCode::NOT_FOUND, "there is nothing here. See /openapi.json")
}

async fn wrong_method(State(hub): State<Arc<Hub>>, request: Request) -> Failure {
    body::Incoming::new(request.into_body(), &hub.limits, 0).drain().await;
    let text = "this cannot be done here. See /openapi.json";
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

/// Bytes of a body, if they are known and there are any.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok().filter(|length| *length > 0)
}

/// A duration for the log.
pub(crate) fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1e3
}

/// Counts and logs a request, and has no cache keep the answer. A query and a token are never logged.
async fn observe(State(hub): State<Arc<Hub>>, request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let (since, sent) = (Instant::now(), length(request.headers()));
    let mut response = next.run(request).await;
    let status = response.status();
    let told = response.headers().get(CONTENT_TYPE);
    if status.is_client_error() && told.is_none_or(|kind| kind != "application/json") {
        // Refused before any of the functions here saw it.
        let text = "the request cannot be read. See /openapi.json";
        response = Failure::new(status, text).into_response();
    }
    // Whatever stands before the hub would give it to those who have no token, and lists that are old to sites.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    hub.metrics.count(status);
    let (path, status, took) = (uri.path(), status.as_u16(), since.elapsed());
    tracing::debug!(%method, path, status, "request");
    // Whoever waits for news is meant to.
    if took >= LONG && !path.ends_with("/events") {
        let size = sent.or_else(|| length(response.headers())).map(bytes);
        let seconds = seconds(took);
        tracing::info!(%method, path, status, seconds, size = size.as_deref(), "request took long");
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_the_reverse() {
        let description: serde_json::Value = serde_json::from_str(admin::OPENAPI).unwrap();
        let paths = description["paths"].as_object().unwrap();
        let described: std::collections::BTreeSet<_> = paths.keys().cloned().collect();
        let routes = ROUTES.iter().map(|(path, _)| path.replace("{*", "{"));
        assert_eq!(described, routes.collect());
    }
}
