//! Answers that no hub gives: those of a proxy, a login page or a virus scanner between here and the hub.
//!
//! A hub says in JSON why it refuses. What does not was said by somebody else, and who reads of it is not sent to
//! change a token that is right, or to look for a hub that was never asked.

use crate::url::blanked;
use synqlite_wire::units::bytes;
use ureq::Body;
use ureq::http::{HeaderMap, Response};

/// What to do about one who answers in a hub's place.
const BETWEEN: &str = "Something between here and the hub answers in its place, such as a proxy or a virus \
                       scanner: let it pass on what goes to the hub";
/// Of an answer that says why it refuses, so much is read.
const LONGEST_REASON: u64 = 16 * 1024;
/// No more of an address is shown.
const LONGEST_ADDRESS: usize = 200;

/// What an answer shows that is no hub's, and what to do about it.
pub(crate) struct Foreign {
    pub why: String,
    pub hint: String,
}

impl Foreign {
    fn new(why: impl Into<String>, hint: impl Into<String>) -> Foreign {
        Foreign { why: why.into(), hint: hint.into() }
    }

    /// A proxy takes no body of so many bytes.
    pub fn too_large(size: u64) -> Foreign {
        Foreign::new(
            format!(
                "a proxy between here and the hub takes no body of {} (status 413)",
                bytes(size)
            ),
            "Raise its limit, which nginx calls client_max_body_size",
        )
    }

    /// The answer to a put that does not say what the hub made of it.
    pub fn put(status: u16) -> Foreign {
        Foreign::new(
            format!("it answers a put with status {status}, and not as a hub does"),
            BETWEEN,
        )
    }

    /// A page came where bytes or lines were asked for.
    pub fn page() -> Foreign {
        Foreign::new(
            "it answers with a page for a browser, and no hub does so here",
            "If this network has a login page, log in there with a browser; otherwise check the URL, and what \
             stands between here and the hub",
        )
    }

    /// The hub says that it has what it then does not give.
    pub fn withheld(name: &crate::ObjectName) -> Foreign {
        Foreign::new(
            format!("it says that it has `{name}`, and does not give it"),
            "Something between here and the hub answers in its place, or hubs with a store each stand behind this \
             address; nothing has to be removed",
        )
    }

    /// What a refusal shows of whoever refuses, if it is no hub's. `base`: the address of the store, with which
    /// `url` begins that was asked for.
    pub fn refusal(answer: Response<Body>, base: &str, url: &str) -> Result<String, Foreign> {
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let why = said(answer).filter(|_| !(status == 401 && wants_password(&headers)));
        why.ok_or_else(|| Foreign::of(status, &headers, base, url))
    }

    fn of(status: u16, headers: &HeaderMap, base: &str, url: &str) -> Foreign {
        let location = headers.get("location").and_then(|to| to.to_str().ok());
        match (status, location) {
            (300..=399, Some(to)) => moved(status, to, base, url),
            (511, _) => Foreign::new(
                "this network wants a login first (status 511)",
                "Log in with a browser and try again",
            ),
            (401, _) if wants_password(headers) => Foreign::new(
                "something between here and the hub wants a name and a password (status 401)",
                "The token may be right: whoever runs that proxy has to let pass what goes to the hub",
            ),
            (401 | 403, _) => Foreign::new(
                format!("something between here and the hub refuses with status {status}"),
                "The token may be right: whoever runs that proxy has to let pass what goes to the hub",
            ),
            (404, _) => Foreign::new(
                "there is no hub at this path (status 404)",
                "Check the address and its path",
            ),
            _ => Foreign::new(
                format!("it answers with status {status}, and not as a hub does"),
                BETWEEN,
            ),
        }
    }
}

/// Why an answer is none, as a hub says it; nothing if it is no hub's.
pub(crate) fn said(answer: Response<Body>) -> Option<String> {
    let text = answer.into_body().into_with_config().limit(LONGEST_REASON).read_to_string().ok()?;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(json.get("error")?.as_str()?.trim_end_matches('.').to_owned())
}

/// Whether a successful answer is a page for a browser.
pub(crate) fn is_page(answer: &Response<Body>) -> bool {
    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/html"))
}

/// A hub never asks for a name and a password.
fn wants_password(headers: &HeaderMap) -> bool {
    let asked = headers.get("www-authenticate").and_then(|value| value.to_str().ok());
    asked.and_then(|text| text.get(..5)).is_some_and(|way| way.eq_ignore_ascii_case("basic"))
}

/// A redirect: the store is elsewhere, or a network shows its login page.
fn moved(status: u16, to: &str, base: &str, url: &str) -> Foreign {
    let to = match to.starts_with('/') && !to.starts_with("//") {
        true => format!("{}{to}", origin(base)),
        false => to.to_owned(),
    };
    let path = |text: &str| text.split(['?', '#']).next().unwrap_or_default().to_owned();
    let asked = path(url.strip_prefix(base).unwrap_or_default());
    let lasting = matches!(status, 301 | 308);
    let same = |there: &&str| *there != base && (lasting || host(there) == host(base));
    let shown: String = blanked(&to).chars().take(LONGEST_ADDRESS).collect();
    match path(&to).strip_suffix(&asked).filter(same) {
        Some(there) if there.contains("://") => {
            Foreign::new(format!("it is at {}", blanked(there)), "Remove the remote and add it so")
        }
        _ => Foreign::new(
            format!("it sends on to {shown} (status {status})"),
            "If that is the login page of this network, log in there with a browser; otherwise check the URL",
        ),
    }
}

/// Scheme and host of a URL, with the port.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(start..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| start + at);
    url.get(..end).unwrap_or(url)
}

/// The host of a URL, without a port.
fn host(url: &str) -> &str {
    let origin = origin(url);
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    host.rsplit_once(':').map_or(host, |(host, _)| host)
}
