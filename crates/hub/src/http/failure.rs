//! What a request is told that fails: a status, and why in JSON.

use crate::error::Error;
use crate::place::BadPlace;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::json;

/// A request that is not fulfilled.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    text: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Failure {
    /// With a text of the form `WHAT. HINT`.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into(), headers: Vec::new() }
    }

    /// Malformed.
    pub fn bad(text: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, text)
    }

    /// No object of that name.
    pub fn absent() -> Failure {
        Failure::new(
            StatusCode::NOT_FOUND,
            "there is no such object. List the objects of the place",
        )
    }

    /// With a header more.
    pub fn with(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Failure {
        self.headers.push((name, value.into()));
        self
    }

    /// The access that is asked for needs a token.
    pub fn unknown(text: &str) -> Failure {
        let scheme = HeaderValue::from_static("Bearer");
        Failure::new(StatusCode::UNAUTHORIZED, text).with(WWW_AUTHENTICATE, scheme)
    }

    /// Come back later.
    pub fn later(self, seconds: u64) -> Failure {
        self.with(RETRY_AFTER, seconds)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        match &e {
            Error::Full | Error::Quota { .. } | Error::Unfinished { .. } => {
                Failure::new(StatusCode::INSUFFICIENT_STORAGE, e.to_string())
            }
            _ => {
                // Paths and the like are for the log, not for whoever asks.
                tracing::error!("{e}");
                let text = "the store cannot be reached. Try again later; the hub's log says why";
                Failure::new(StatusCode::SERVICE_UNAVAILABLE, text).later(2)
            }
        }
    }
}

impl From<BadPlace> for Failure {
    fn from(e: BadPlace) -> Failure {
        Failure::bad(e.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response<Body> {
        let body = json!({"error": self.text}).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
