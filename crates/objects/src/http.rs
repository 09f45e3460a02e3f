//! Requests over HTTP, repeated while that can help.
//!
//! Every request to a hub may be repeated. So one that met a broken connection, a full queue or a
//! hub that is starting is sent again after a while, which doubles from one time to the next and
//! differs from site to site. What will not pass is an error at once.

use crate::error::{Error, Result};
use crate::stranger::{Foreign, is_page, said};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::time::Duration;
use ureq::http::{self, HeaderValue, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

/// A request is sent so many times at most.
const ATTEMPTS: u32 = 6;
/// Pause after the first failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(100);
/// No longer than so, whatever the hub asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A connection on which nothing has moved for so long is broken.
const SILENCE: Duration = Duration::from_secs(30);

/// Why a request came to nothing.
pub(crate) enum RequestError {
    /// It may work another time, after at least so long.
    Passing(String, Option<Duration>),
    /// It will not.
    Lasting(Error),
}

impl From<Error> for RequestError {
    fn from(e: Error) -> RequestError {
        RequestError::Lasting(e)
    }
}

/// Result of one try.
pub(crate) type Tried<T> = std::result::Result<T, RequestError>;

/// One request, without what all have in common.
#[derive(Default)]
pub(crate) struct Request<'a> {
    pub method: http::Method,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<&'a [u8]>,
    /// Refusals that are answers.
    pub expect: &'static [u16],
    /// The answer may take so long.
    pub wait: Option<Duration>,
}

/// Speaks with one store.
#[derive(Clone)]
pub(crate) struct Client {
    agent: Agent,
    /// With which every address begins that is asked for.
    base: String,
    token: Option<String>,
}

impl Client {
    /// A token is a line, as programs read it from a file: the end of the line is none of it.
    pub fn new(base: String, token: Option<String>) -> Client {
        let token = token.map(|token| token.trim().to_owned());
        Client { agent: agent(), base, token }
    }

    /// The store, for messages.
    pub fn address(&self) -> String {
        format!("the hub at {}", self.base)
    }

    /// The store answers as no hub does.
    pub fn stranger(&self, why: &'static str) -> Error {
        self.foreign(Foreign { why: why.into(), hint: "Check the URL".into() })
    }

    /// Somebody else answers in its place.
    pub fn foreign(&self, Foreign { why, hint }: Foreign) -> Error {
        Error::NotAHub { address: self.address(), why, hint }
    }

    /// Sends a request once.
    pub fn send(&self, request: &Request<'_>) -> Tried<Response<Body>> {
        let mut builder =
            http::Request::builder().method(request.method.clone()).uri(request.url.as_str());
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        if let Some(token) = &self.token {
            builder = builder.header("authorization", self.authorization(token)?);
        }
        let wrong = |_| self.stranger("the request cannot be written for it");
        let sent = match request.body {
            Some(bytes) => self.agent.run(builder.body(bytes).map_err(wrong)?),
            None => {
                let mut config = self.agent.configure_request(builder.body(()).map_err(wrong)?);
                if let Some(wait) = request.wait {
                    config = config.timeout_per_read(None).timeout_global(Some(wait + SILENCE));
                }
                self.agent.run(config.build())
            }
        };
        let answer = sent.map_err(|e| self.failed(e))?;
        let status = answer.status();
        if status.is_success() && is_page(&answer) {
            return Err(self.foreign(Foreign::page()).into());
        }
        if status.is_success() || request.expect.contains(&status.as_u16()) {
            return Ok(answer);
        }
        Err(self.refusal(answer, &request.url))
    }

    fn authorization(&self, token: &str) -> Result<HeaderValue> {
        HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Error::Denied {
            address: self.address(),
            why: "takes no token with a line break or the like in it".into(),
            hint: "Give it as `synqlite token create` printed it",
        })
    }

    /// Does something until it works, or will not.
    pub fn patiently<T>(&self, mut attempt: impl FnMut() -> Tried<T>) -> Result<T> {
        let mut failures = 0;
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(RequestError::Lasting(e)) => return Err(e),
                Err(RequestError::Passing(why, after)) => {
                    failures += 1;
                    if failures == ATTEMPTS {
                        return Err(Error::Unreachable { address: self.address(), why });
                    }
                    pause(failures, after);
                }
            }
        }
    }

    /// What [`Client::patiently`] returns for something that is tried only once.
    pub fn once<T>(&self, tried: Tried<T>) -> Result<T> {
        tried.map_err(|trouble| match trouble {
            RequestError::Lasting(e) => e,
            RequestError::Passing(why, _) => Error::Unreachable { address: self.address(), why },
        })
    }

    fn failed(&self, e: ureq::Error) -> RequestError {
        match e {
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
                self.stranger("the request cannot be written for it").into()
            }
            // A certificate that is not trusted will not be the next time.
            ureq::Error::Io(ref io) if io.kind() == ErrorKind::InvalidData => self.lasting(&e),
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => self.lasting(&e),
            e => RequestError::Passing(format!("{e}{}", self.through()), None),
        }
    }

    fn lasting(&self, e: &ureq::Error) -> RequestError {
        // The verifier has no type for it that reaches us.
        if format!("{e:?}").contains("CaUsedAsEndEntity") {
            return Error::AuthorityAsServer { address: self.address() }.into();
        }
        Error::Unreachable { address: self.address(), why: format!("{e}{}", self.through()) }.into()
    }

    /// By which proxy requests go, for messages; empty if by none. The environment names it, where few look.
    fn through(&self) -> String {
        let uri = self.base.parse::<http::Uri>().ok();
        let used = |proxy: &&Proxy| uri.is_none_or(|uri| !proxy.is_no_proxy(&uri));
        match self.agent.config().proxy().filter(used) {
            Some(proxy) => format!(", by way of the proxy at {}:{}", proxy.host(), proxy.port()),
            None => String::new(),
        }
    }

    /// What an answer means that is none.
    fn refusal(&self, answer: Response<Body>, url: &str) -> RequestError {
        let status = answer.status().as_u16();
        let after = header(&answer, "retry-after").map(Duration::from_secs);
        if matches!(status, 408 | 429 | 500 | 502 | 503 | 504) {
            return self.passing(status, said(answer), after);
        }
        let why = match Foreign::refusal(answer, &self.base, url) {
            Ok(why) => why,
            Err(foreign) => return self.foreign(foreign).into(),
        };
        let address = self.address();
        let hint = "Set SYNQLITE_TOKEN, or keep a token with the remote: \
                    synqlite remote add DB NAME URL --token TOKEN";
        match status {
            401 => {
                Error::Denied { address, why: "wants a token that it knows".into(), hint }.into()
            }
            403 => {
                let why = format!("wants a token that is good for this: {why}");
                Error::Denied { address, why, hint }.into()
            }
            _ => Error::Refused { address, why }.into(),
        }
    }

    /// A refusal that may pass. Nobody is kept waiting for longer than a few pauses take: they are told how long.
    fn passing(&self, status: u16, said: Option<String>, after: Option<Duration>) -> RequestError {
        let plain = match status {
            429 => "it answers with status 429, too many requests. Try again later".into(),
            _ => format!("it answers with status {status}"),
        };
        let why = said.unwrap_or(plain);
        match after.filter(|after| *after > LONGEST_PAUSE) {
            None => RequestError::Passing(why, after),
            Some(after) => {
                let what = why.split(". ").next().unwrap_or_default();
                let why = format!("{what}, and asks to wait {}. Try again then", roughly(after));
                Error::Unreachable { address: self.address(), why }.into()
            }
        }
    }
}

/// A duration in words, rounded up.
fn roughly(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..3600 => format!("{} min", seconds.div_ceil(60)),
        3600..172_800 => format!("{} h", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

/// What sends requests: refusals are answers, and silence is a broken connection.
pub(crate) fn agent() -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .tls_config(tls)
        .user_agent(concat!("synqlite/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(Duration::from_secs(10)))
        .timeout_per_read(Some(SILENCE))
        .timeout_per_write(Some(SILENCE))
        .build();
    config.new_agent()
}

/// Waits after so many failures, at least as long as the other side asked for.
pub(crate) fn pause(failures: u32, at_least: Option<Duration>) {
    let longest = PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
    // Between half of it and all of it, lest many sites come back in the same moment.
    let random = RandomState::new().build_hasher().finish() as u32;
    let pause = longest / 2 + (longest / 2).mul_f64(f64::from(random) / f64::from(u32::MAX));
    std::thread::sleep(pause.max(at_least.unwrap_or_default()).min(LONGEST_PAUSE));
}

/// A header that is read as a number or an id.
pub(crate) fn header<T: std::str::FromStr>(answer: &Response<Body>, name: &str) -> Option<T> {
    answer.headers().get(name)?.to_str().ok()?.parse().ok()
}
