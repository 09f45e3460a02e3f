//! Who may do what, and how often.

use super::failure::Failure;
use crate::backend::{Millis, TokenId};
use crate::place::Place;
use crate::tokens::{Allowance, Scope, Token, Tokens, hash};
use crate::wait::lock;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;
use synqlite_wire::SiteId;
use tokio::sync::Notify;

/// Tokens whose rate is remembered before those that are idle are forgotten.
const BUCKETS: usize = 10_000;

/// Whose request it is, and what they may do at most.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Their token, 0 without one.
    pub token: TokenId,
    /// Its own limits.
    pub own: Allowance,
    /// The sites that must have written what it puts; any if there are none.
    pub sites: Vec<SiteId>,
}

impl Caller {
    /// Whether it may speak for a site.
    pub fn is_site(&self, site: SiteId) -> bool {
        self.sites.is_empty() || self.sites.contains(&site)
    }
}

impl Token {
    fn caller(&self) -> Caller {
        Caller { token: self.id, own: self.allowance, sites: self.sites.clone() }
    }
}

/// Why a token is not good for that in `place`, or for the whole hub, if it is not.
fn unfit(token: &Token, place: Option<&Place>, scope: Scope) -> Option<String> {
    let not = |why: String| Some(format!("this token is not good for that: {why}"));
    let (has, needs) = (token.scope.as_str(), scope.as_str());
    match place {
        _ if token.reach.covers(place) && token.scope >= scope => None,
        Some(place) if !token.reach.covers(Some(place)) => {
            not(format!("it is for database {}, not for {place}", token.reach))
        }
        None if !token.reach.covers(None) => {
            not(format!("it is for database {}, not for the whole hub", token.reach))
        }
        _ => not(format!("it has scope {has}, and that needs scope {needs}")),
    }
}

/// Decides on every request.
pub struct Access {
    tokens: RwLock<Arc<Tokens>>,
    /// Everybody may read and write.
    open: bool,
    /// Requests a second that a token may make that has no limit of its own.
    rate: Option<u32>,
    buckets: Mutex<HashMap<TokenId, Bucket>>,
    /// Somebody came with a token that is not known: perhaps it is new.
    pub unknown: Notify,
}

/// Fills at the rate, up to what a second brings; each request takes one.
struct Bucket {
    left: f64,
    at: Instant,
}

impl Access {
    /// Nobody may do anything until there are tokens, unless it is open.
    pub fn new(open: bool, rate: Option<u32>) -> Access {
        let (tokens, buckets) = Default::default();
        Access { tokens, open, rate, buckets, unknown: Notify::new() }
    }

    /// From now on these tokens are good.
    pub fn set(&self, tokens: Vec<Token>) {
        let tokens = tokens.into_iter().map(|token| (token.hash, token)).collect();
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    /// The tokens that are good.
    pub fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whose request it is, if it may do that in `place`, or to the whole hub.
    pub fn check(
        &self,
        headers: &HeaderMap,
        place: Option<&Place>,
        scope: Scope,
        now: Millis,
    ) -> Result<Caller, Failure> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            if self.open && scope <= Scope::Write && place.is_some() {
                return self.pace(Caller::default());
            }
            let hint = "Send the header Authorization: Bearer TOKEN";
            return Err(Failure::unknown(&format!("this needs a token. {hint}")));
        };
        let text = value.to_str().ok().and_then(|text| text.split_once(' '));
        let secret = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let found = secret.and_then(|(_, secret)| {
            let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
            let token = tokens.get(&hash(secret.trim()))?;
            let good = token.expires.is_none_or(|end| now < end);
            good.then(|| (token.caller(), unfit(token, place, scope)))
        });
        match found {
            Some((caller, None)) => self.pace(caller),
            Some((_, Some(why))) => Err(Failure::new(StatusCode::FORBIDDEN, why)),
            None => {
                self.unknown.notify_one();
                Err(Failure::unknown("the token is not known here. It may be revoked or expired"))
            }
        }
    }

    fn pace(&self, caller: Caller) -> Result<Caller, Failure> {
        let Some(rate) = caller.own.rate.or(self.rate) else { return Ok(caller) };
        let (rate, now) = (f64::from(rate), Instant::now());
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= BUCKETS {
            buckets.retain(|_, bucket| now.duration_since(bucket.at).as_secs() < 1);
        }
        let bucket = buckets.entry(caller.token).or_insert(Bucket { left: rate, at: now });
        let since = now.duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + since * rate).min(rate);
        bucket.at = now;
        if bucket.left < 1.0 {
            let text = "this token asks too often. Wait as Retry-After says";
            return Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, text).later(1));
        }
        bucket.left -= 1.0;
        Ok(caller)
    }
}
