//! What whoever runs the hub looks at.

use super::failure::Failure;
use super::{Hub, seconds};
use crate::tokens::Scope;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// The description of the protocol.
pub(crate) const OPENAPI: &str = include_str!("../openapi.json");
const PAGE: &str = include_str!("../page.html");

/// Places that the overview shows.
const PLACES: usize = 1000;

fn typed(body: impl Into<Body>, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) async fn healthz(State(hub): State<Arc<Hub>>) -> Result<Response<Body>, Failure> {
    hub.backend.health().await.map_err(|e| {
        tracing::error!("not healthy: {e}");
        let text = "the store refuses writes. The hub's log says why";
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, text).later(10)
    })?;
    Ok(typed(r#"{"status":"ok"}"#, "application/json"))
}

pub(super) async fn openapi() -> Response<Body> {
    typed(OPENAPI, "application/json")
}

pub(super) async fn page() -> Response<Body> {
    let mut response = typed(PAGE, "text/html; charset=utf-8");
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                  connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

pub(super) async fn metrics(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
) -> Result<Response<Body>, Failure> {
    hub.access.check(&headers, None, Scope::Admin, hub.now())?;
    let totals = hub.backend.totals().await?;
    let mut others = vec![
        ("synqlite_places", totals.places as f64),
        ("synqlite_objects", totals.objects as f64),
        ("synqlite_object_bytes", totals.bytes as f64),
        ("synqlite_waiting", hub.waiters.count() as f64),
    ];
    others.extend(hub.backend.counters());
    Ok(typed(hub.metrics.text(&others), "text/plain; version=0.0.4"))
}

pub(super) async fn backup(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
) -> Result<Response<Body>, Failure> {
    hub.access.check(&headers, None, Scope::Admin, hub.now())?;
    let tokens: Vec<_> = hub.access.tokens().values().cloned().collect();
    let (sender, chunks) = tokio::sync::mpsc::channel(4);
    let (backend, since) = (hub.backend.clone(), Instant::now());
    tokio::spawn(async move {
        match crate::archive::send(&*backend, &tokens, &sender).await {
            Ok(objects) => {
                tracing::info!(objects, seconds = seconds(since.elapsed()), "backup sent");
            }
            Err(e) => {
                tracing::error!("backup failed: {e}");
                // A body that breaks off is no whole backup, and has no end mark either.
                let _ = sender.send(Err(std::io::Error::other("the backup failed"))).await;
            }
        }
    });
    let mut response = Response::new(super::body::endless(chunks));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

pub(super) async fn overview(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
) -> Result<Response<Body>, Failure> {
    hub.access.check(&headers, None, Scope::Admin, hub.now())?;
    let totals = hub.backend.totals().await?;
    let places = hub.backend.places(None, PLACES).await?;
    let places: Vec<_> = places
        .iter()
        .map(|p| {
            let sites = p.sites.iter().map(|(s, lag)| {
                json!({
                    "site": s.site.to_string(), "name": s.name, "upto": s.upto, "seen": s.seen, "lag": lag,
                })
            });
            json!({
                "place": p.place.as_str(),
                "objects": p.objects,
                "bytes": p.bytes,
                "latest": p.latest,
                "changed": p.changed,
                "sites": sites.collect::<Vec<_>>(),
            })
        })
        .collect();
    let mut tokens: Vec<_> = hub.access.tokens().values().cloned().collect();
    tokens.sort_by_key(|token| (token.made, token.id));
    let tokens: Vec<_> = tokens
        .iter()
        .map(|t| {
            json!({
                "id": t.id_text(),
                "name": t.name,
                "place": t.reach.to_string(),
                "scope": t.scope.as_str(),
                "made": t.made,
                "expires": t.expires,
            })
        })
        .collect();
    let recent: Vec<_> = crate::wait::lock(&hub.recent)
        .iter()
        .rev()
        .map(|r| {
            let (place, name) = (r.place.as_str(), r.name.to_string());
            json!({"sequence": r.sequence, "place": place, "name": name, "bytes": r.bytes, "at": r.at})
        })
        .collect();
    let body = json!({
        "now": hub.now(),
        "epoch": hub.backend.epoch().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "totals": {"places": totals.places, "objects": totals.objects, "bytes": totals.bytes},
        "places": places,
        "recent": recent,
        "tokens": tokens,
        "waiting": hub.waiters.count(),
    });
    Ok(typed(body.to_string(), "application/json"))
}
