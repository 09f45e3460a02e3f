//! Waiting for news of a place. While somebody waits, the hub holds a connection, an entry for the
//! place and a timer; it looks at the store only when something of that place has become durable.

use super::Hub;
use super::ask::Query;
use super::failure::Failure;
use super::objects::{enter, news};
use crate::tokens::Scope;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Response, StatusCode};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Seconds to wait if the request does not say, and at most.
const WAIT: (u64, u64) = (30, 60);

pub(super) async fn wait(
    State(hub): State<Arc<Hub>>,
    Path(place): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response<Body>, Failure> {
    let (place, _) = enter(&hub, &headers, &place, Scope::Read)?;
    let query = Query(query.as_deref().unwrap_or_default());
    let after = query.number("after")?.unwrap_or(0);
    let epoch = query.id("epoch")?;
    let seconds = query.number("wait")?.unwrap_or(WAIT.0).min(WAIT.1);
    let until = Instant::now() + Duration::from_secs(seconds);
    let another = epoch.is_some_and(|epoch| epoch != hub.backend.epoch());
    let waiting = hub.waiters.wait(&place);
    let mut stopping = hub.stopping.clone();
    loop {
        // Whoever wakes after this line is heard, so nothing is missed in between.
        let mut woken = pin!(waiting.news.notified());
        woken.as_mut().enable();
        let latest = hub.backend.latest(&place).await?;
        if latest > after || another {
            return Ok(news(&hub, StatusCode::OK, latest));
        }
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep_until(until) => break,
            _ = stopping.wait_for(|stop| *stop) => break,
        }
    }
    Ok(news(&hub, StatusCode::NO_CONTENT, after))
}
