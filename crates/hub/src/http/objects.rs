//! Objects: list, get, put, remove.

use super::access::Caller;
use super::ask::{self, Query};
use super::body::{Incoming as Body, outgoing};
use super::failure::Failure;
use super::{Hub, Metrics, Recent, author, uploads};
use crate::backend::{Content, Done, Incoming, LONGEST_PREFIX, SiteInfo, Staged, Wanted};
use crate::embedded::IN_STORE;
use crate::error::{Error, Result as StoreResult};
use crate::place::Place;
use crate::private;
use crate::tokens::Scope;
use axum::body::Body as Answer;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING};
use axum::http::header::{CONTENT_RANGE, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::sync::Arc;
use synqlite_objects::{Kind, ObjectName, SITE_NAME, percent};
use synqlite_wire::units::{bytes, count};

pub(super) const EPOCH: HeaderName = HeaderName::from_static("synqlite-epoch");
pub(super) const UPTO: HeaderName = HeaderName::from_static("synqlite-upto");
const MORE: HeaderName = HeaderName::from_static("synqlite-more");
const MARK: HeaderName = HeaderName::from_static("synqlite-mark");
const MARK_PRINT: HeaderName = HeaderName::from_static("synqlite-mark-print");
const UPTO_PRINT: HeaderName = HeaderName::from_static("synqlite-upto-print");
/// So many bytes of an object are in its fingerprint. Headers, with the clocks of what follows, begin an object.
const PRINTED: u64 = 4 << 10;
const SEQUENCE: HeaderName = HeaderName::from_static("synqlite-sequence");
const COVERS: &str = "synqlite-covers";

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Characters of the name of a site.
const LONGEST_NAME: usize = 64;

/// Lines of a list if the request does not say.
const LIMIT: u64 = 10_000;

/// Shorter lists are not packed.
const PLAIN: usize = 200;
/// Level of zstd for lists: names shrink to a quarter, what batches hold is packed already.
const LEVEL: i32 = 3;

type Outcome = Result<Response<Answer>, Failure>;

/// A place, and whose request it is.
pub(super) fn enter(
    hub: &Hub,
    headers: &HeaderMap,
    place: &str,
    scope: Scope,
) -> Result<(Place, Caller), Failure> {
    let place = Place::parse(place)?;
    let caller = hub.access.check(headers, Some(&place), scope, hub.now())?;
    Ok((place, caller))
}

fn object_name(text: &str) -> Result<ObjectName, Failure> {
    ObjectName::parse(text).ok_or_else(|| {
        Failure::bad(
            "this is no name of an object. Write DATABASE/batches/SITE/FROM-UPTO.batch or \
             DATABASE/snapshots/SITE/FROM-UPTO.snapshot",
        )
    })
}

/// An answer with an epoch and a sequence.
pub(super) fn news(hub: &Hub, status: StatusCode, upto: u64) -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    *response.status_mut() = status;
    let epoch = HeaderValue::from_str(&hub.backend.epoch().to_string());
    // Hex digits are always a value.
    response.headers_mut().extend(epoch.ok().map(|epoch| (EPOCH, epoch)));
    response.headers_mut().insert(UPTO, upto.into());
    response
}

pub(super) async fn list(
    State(hub): State<Arc<Hub>>,
    Path(place): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Outcome {
    let (place, caller) = enter(&hub, &headers, &place, Scope::Read)?;
    let query = Query(query.as_deref().unwrap_or_default());
    let epoch = query.id("epoch")?;
    let same = epoch.is_none_or(|epoch| epoch == hub.backend.epoch());
    let after = query.number("after")?.filter(|_| same).unwrap_or(0);
    let prefix = query.number("prefix")?.unwrap_or(0).min(LONGEST_PREFIX);
    let limit = query.number("limit")?.unwrap_or(LIMIT).clamp(1, LIMIT);
    let list = hub.backend.list(&place, Wanted { after, prefix, limit });
    // Who goes on from somewhere in this order learns what is there.
    let goes_on = epoch.is_some() && same && after > 0;
    let mark = mark(&hub, &place, Some(after).filter(|_| goes_on));
    // What a token says of a site that is not its own is not heard.
    let site = query.id("site")?.filter(|site| same && caller.is_site(*site));
    let (mark, page) = match site {
        None => tokio::try_join!(mark, list)?,
        Some(site) => {
            let name = site_name(&headers);
            let site = SiteInfo { site, upto: after, seen: hub.now(), name };
            let seen = hub.backend.seen(&place, site);
            let ((), mark, page) = tokio::try_join!(seen, mark, list)?;
            (mark, page)
        }
    };
    let mut response = news(&hub, StatusCode::OK, page.upto);
    let out = response.headers_mut();
    out.insert(CONTENT_TYPE, if prefix > 0 { BYTES } else { TEXT });
    if page.more {
        out.insert(MORE, HeaderValue::from_static("true"));
    }
    let (mark, print) = mark.unzip();
    out.extend(mark.map(|mark| (MARK, mark)));
    let print = print.flatten();
    out.extend(print.clone().map(|print| (MARK_PRINT, print)));
    let latest = if page.upto == after {
        print
    } else {
        self::mark(&hub, &place, Some(page.upto)).await?.and_then(|(_, print)| print)
    };
    out.extend(latest.map(|print| (UPTO_PRINT, print)));
    out.insert(VARY, HeaderValue::from_static("accept-encoding"));
    let mut text = page.text;
    if text.len() > PLAIN && takes_zstd(&headers) {
        let pack = move || zstd::bulk::compress(&text, LEVEL);
        let packed = tokio::task::spawn_blocking(pack).await.unwrap_or_else(|e| Err(e.into()));
        text = packed.map_err(|e| {
            let why = format!("the list cannot be packed: {e}. Ask without Accept-Encoding");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, why)
        })?;
        out.insert(CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    }
    Metrics::add(&hub.metrics.sent, text.len() as u64);
    *response.body_mut() = text.into();
    Ok(response)
}

/// What people call the site that asks, as it says: on one line, and of so many characters at most.
fn site_name(headers: &HeaderMap) -> String {
    let said = headers.get(SITE_NAME).and_then(|value| percent::decode(value.to_str().ok()?));
    let name = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect()
}

/// The name of the object with a sequence, `-` if the place has none, and its fingerprint.
async fn mark(hub: &Hub, place: &Place, sequence: Option<u64>) -> StoreResult<Option<Marked>> {
    let Some(before) = sequence.and_then(|sequence| sequence.checked_sub(1)) else {
        return Ok(None);
    };
    let wanted = Wanted { after: before, prefix: PRINTED, limit: 1 };
    let page = hub.backend.list(place, wanted).await?;
    let end = page.text.iter().position(|byte| *byte == b'\n').unwrap_or(page.text.len());
    let (line, prefix) = page.text.split_at(end);
    let mut words = line.split(|byte| *byte == b' ');
    let there = words.next() == Some((before + 1).to_string().as_bytes());
    let name = words.nth(1).filter(|_| there).unwrap_or(b"-");
    let print = there.then(|| blake3::hash(prefix).to_hex()[..16].to_owned());
    // A name is always a value.
    let name = HeaderValue::from_bytes(name).ok();
    Ok(name.map(|name| (name, print.and_then(|print| HeaderValue::from_str(&print).ok()))))
}

/// What a place has at a sequence: a name, and the fingerprint of what has it.
type Marked = (HeaderValue, Option<HeaderValue>);

/// Whether the sender of these headers can unpack zstd.
fn takes_zstd(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(','));
    codings.any(|coding| coding.trim().eq_ignore_ascii_case("zstd"))
}

pub(super) async fn databases(
    State(hub): State<Arc<Hub>>,
    Path(place): Path<String>,
    headers: HeaderMap,
) -> Outcome {
    let (place, _) = enter(&hub, &headers, &place, Scope::Read)?;
    let found = hub.backend.databases(&place).await?;
    let text: String = found.iter().map(|id| format!("{id}\n")).collect();
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    Ok(response)
}

pub(super) async fn get(
    State(hub): State<Arc<Hub>>,
    Path((place, object)): Path<(String, String)>,
    headers: HeaderMap,
) -> Outcome {
    let (place, _) = enter(&hub, &headers, &place, Scope::Read)?;
    let name = object_name(&object)?;
    let part = ask::part(&headers);
    let found = hub.backend.read(&place, &name, part).await?.ok_or_else(Failure::absent)?;
    let size = found.size;
    let Some(range) = found.range else {
        let text = format!(
            "the object has {}, none of them in that range. Ask for less",
            count(size, "byte")
        );
        let value = HeaderValue::from_str(&format!("bytes */{size}"));
        let failure = Failure::new(StatusCode::RANGE_NOT_SATISFIABLE, text);
        return Err(value.into_iter().fold(failure, |f, value| f.with(CONTENT_RANGE, value)));
    };
    let length = range.end - range.start;
    Metrics::add(&hub.metrics.sent, length);
    let mut response = Response::new(outgoing(found.bytes, length));
    if part != crate::backend::Part::Whole {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let value = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        let value = HeaderValue::from_str(&value);
        response.headers_mut().extend(value.ok().map(|value| (CONTENT_RANGE, value)));
    }
    response.headers_mut().insert(CONTENT_TYPE, BYTES);
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

/// What a put asks for, apart from its bytes.
pub(super) struct Putting {
    pub place: Place,
    pub name: ObjectName,
    pub caller: Caller,
    pub covers: u64,
}

impl Putting {
    fn quota(&self, hub: &Hub) -> Option<u64> {
        self.caller.own.storage.or(hub.limits.storage)
    }

    /// Looks whether the token may store so many bytes more, beside what it stores already and
    /// `others` that have not arrived in full: before they are sent for nothing.
    pub async fn make_room(&self, hub: &Hub, others: u64, bytes: u64) -> Result<(), Failure> {
        let Some(limit) = self.quota(hub) else { return Ok(()) };
        let stored = hub.backend.stored(self.caller.token).await?;
        let all = stored.saturating_add(others).saturating_add(bytes);
        if all > limit { Err(Error::Quota { limit }.into()) } else { Ok(()) }
    }

    /// Puts the bytes, beside `others` of the token that have not arrived in full.
    pub async fn finish(self, hub: &Arc<Hub>, content: Content, others: u64) -> Outcome {
        let limit = self.quota(hub);
        let Putting { place, name, caller: Caller { token, sites, .. }, covers } = self;
        if !sites.is_empty() {
            author::check(&name, &content)?;
        }
        let quota = limit.map(|limit| limit.saturating_sub(others));
        let at = hub.now();
        Metrics::add(&hub.metrics.received, content.size());
        let mut recent =
            Recent { sequence: 0, place: place.clone(), name, bytes: content.size(), at };
        let object = Incoming { place, name, content, covers, token, quota, at };
        let done = hub.backend.put(object).await.map_err(|e| match (e, limit) {
            (Error::Quota { .. }, Some(limit)) => Error::Quota { limit },
            (e, _) => e,
        })?;
        if done.created {
            recent.sequence = done.sequence;
            hub.remember(recent);
            if covers > 0 {
                hub.sweep.notify_one();
            }
        }
        Ok(answer(done))
    }
}

/// The answer to a put.
pub(super) fn answer(done: Done) -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
    *response.status_mut() = status;
    response.headers_mut().insert(SEQUENCE, done.sequence.into());
    response
}

pub(super) async fn put(
    State(hub): State<Arc<Hub>>,
    Path((place, object)): Path<(String, String)>,
    request: Request,
) -> Outcome {
    let (parts, body) = request.into_parts();
    let length = ask::length(&parts.headers).unwrap_or(0);
    let mut body = Body::new(body, &hub.limits, length);
    let outcome = put_body(&hub, &place, &object, &parts.headers, &mut body).await;
    if outcome.is_err() {
        body.drain().await;
    }
    outcome
}

async fn put_body(
    hub: &Arc<Hub>,
    place: &str,
    object: &str,
    headers: &HeaderMap,
    body: &mut Body,
) -> Outcome {
    let (place, caller) = enter(hub, headers, place, Scope::Write)?;
    let name = object_name(object)?;
    if !caller.is_site(name.site) {
        let own: Vec<_> = caller.sites.iter().map(ToString::to_string).collect();
        let text = format!(
            "this token is bound to site {}, and the object names {} as its writer. Use a token of the \
             site that writes; one that is bound to no site where objects are sealed",
            own.join(", "),
            name.site
        );
        return Err(Failure::new(StatusCode::FORBIDDEN, text));
    }
    let mut covers = ask::header_number(headers, COVERS)?.unwrap_or(0);
    let epoch = ask::header(headers, EPOCH.as_str())?;
    if epoch.is_some_and(|epoch| epoch != hub.backend.epoch().to_string()) {
        // The store was restored since: what the site read is another order.
        covers = 0;
    }
    if covers > 0 && name.kind != Kind::Snapshot {
        return Err(Failure::bad("only a snapshot covers others. Leave out Synqlite-Covers"));
    }
    let length = ask::length(headers)?;
    if length == 0 {
        return Err(Failure::bad("an object is never empty. Send its bytes"));
    }
    let part = ask::upload_part(headers)?;
    let total = part.map_or(length, |part| part.total);
    fits(hub, &caller, total)?;
    let putting = Putting { place, name, caller, covers };
    if let Some(part) = part {
        return uploads::part(hub, putting, part, length, headers, body).await;
    }
    if length <= IN_STORE as u64 {
        let _memory = hub.memory.acquire_many(length as u32).await;
        let bytes = body.all(length as usize).await?;
        let others = hub.arriving.bytes(putting.caller.token, None);
        return putting.finish(hub, Content::Bytes(bytes), others).await;
    }
    // Only a look: if it comes in between, the bytes were sent for nothing.
    if let Some(sequence) = hub.backend.find(&putting.place, &putting.name).await? {
        while body.next().await?.is_some() {}
        return Ok(answer(Done { sequence, created: false }));
    }
    let name = format!("put-{}", crate::backend::random_id()?);
    // Nobody else draws this name.
    let turn = hub.arriving.turn(putting.caller.token, name, length)?;
    let turn = turn.ok_or_else(|| Error::away("a name was drawn twice"))?;
    putting.make_room(hub, turn.others(), length).await?;
    let _room = hub.room.take(length)?;
    let path = turn.path();
    let failed = |e| Failure::from(Error::io("write", &path)(e));
    let staged = Staged::new(path.clone(), length);
    let mut options = tokio::fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(private::FILE);
    let mut file = options.open(&path).await.map_err(failed)?;
    file.set_max_buf_size(1 << 20);
    body.append(&mut file, &path).await?;
    file.sync_all().await.map_err(failed)?;
    putting.finish(hub, Content::File(staged), turn.others()).await
}

/// Whether an object of so many bytes may be put.
fn fits(hub: &Hub, caller: &Caller, total: u64) -> Result<(), Failure> {
    let (who, largest, setting) = match caller.own.object {
        Some(largest) => ("this token puts", largest, "--object-bytes of a new token"),
        None => ("the hub takes", hub.limits.object, "limits.object_bytes of its settings"),
    };
    if total <= largest {
        return Ok(());
    }
    let text = format!("{who} objects of up to {}", bytes(largest));
    let text = format!("{text}. Ask its operator for {total} bytes or more: {setting}");
    Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text))
}

pub(super) async fn remove(
    State(hub): State<Arc<Hub>>,
    Path((place, object)): Path<(String, String)>,
    headers: HeaderMap,
) -> Outcome {
    let (place, _) = enter(&hub, &headers, &place, Scope::Admin)?;
    let name = object_name(&object)?;
    if !hub.backend.remove(&place, &name).await? {
        return Err(Failure::absent());
    }
    tracing::info!(%place, %name, "object removed");
    Ok(gone())
}

pub(super) async fn clear(
    State(hub): State<Arc<Hub>>,
    Path(place): Path<String>,
    headers: HeaderMap,
) -> Outcome {
    let (place, _) = enter(&hub, &headers, &place, Scope::Admin)?;
    let count = hub.backend.clear(&place).await?;
    tracing::info!(%place, objects = count, "place removed");
    Ok(gone())
}

fn gone() -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
