//! Objects that arrive in parts. What has arrived is a file, named by place and upload; its length is
//! how far the upload has come. The hash of the whole, checked in the end, vouches for the rest.

use super::Hub;
use super::ask::{self, UploadPart};
use super::body::Incoming as Body;
use super::failure::Failure;
use super::objects::{Putting, answer, enter};
use crate::backend::{Content, Done, Staged};
use crate::embedded::IN_STORE;
use crate::error::{Error, Result as StoreResult};
use crate::place::Place;
use crate::tokens::Scope;
use crate::wait::lock;
use axum::body::Body as Answer;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const RECEIVED: HeaderName = HeaderName::from_static("synqlite-received");
const UPLOAD: &str = "synqlite-upload";

/// Nobody continues an upload after so long.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// One part at a time is added to an upload.
struct Turn<'a> {
    hub: &'a Hub,
    key: blake3::Hash,
}

impl<'a> Turn<'a> {
    fn take(hub: &'a Hub, key: blake3::Hash) -> Option<Turn<'a>> {
        let first = lock(&hub.uploads).insert(key);
        // Made only if it is ours: dropping it ends the turn.
        first.then(|| Turn { hub, key })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.hub.uploads).remove(&self.key);
    }
}

/// What tells an upload of one place from the same of another.
fn key(place: &Place, upload: &blake3::Hash) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(upload.as_bytes()).update(place.as_str().as_bytes());
    hasher.finalize()
}

fn path(hub: &Hub, key: &blake3::Hash) -> PathBuf {
    hub.staging.join(format!("upload-{key}"))
}

/// How much has arrived.
fn received(path: &FilePath) -> StoreResult<u64> {
    match fs::metadata(path) {
        Ok(file) => Ok(file.len()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
        Err(e) => Err(Error::io("look at", path)(e)),
    }
}

pub(super) async fn state(
    State(hub): State<Arc<Hub>>,
    Path((place, upload)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response<Answer>, Failure> {
    let (place, _) = enter(&hub, &headers, &place, Scope::Write)?;
    let key = key(&place, &ask::upload(&upload)?);
    let received = received(&path(&hub, &key))?;
    let mut response = Response::new(Answer::empty());
    response.headers_mut().insert(RECEIVED, received.into());
    Ok(response)
}

fn conflict(received: u64, text: &str) -> Failure {
    Failure::new(StatusCode::CONFLICT, text).with(RECEIVED, received)
}

/// Takes a part; the last one puts the object.
pub(super) async fn part(
    hub: &Arc<Hub>,
    putting: Putting,
    part: UploadPart,
    length: u64,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Response<Answer>, Failure> {
    let UploadPart { from, to, total } = part;
    if to - from + 1 != length {
        let text = "Content-Range and Content-Length do not agree. Send one of them otherwise";
        return Err(Failure::bad(text));
    }
    let upload = ask::header(headers, UPLOAD)?;
    let missing = || Failure::bad("Synqlite-Upload is missing. Send the BLAKE3 hash of the object");
    let hash = ask::upload(upload.ok_or_else(missing)?)?;
    if let Some(sequence) = hub.backend.find(&putting.place, &putting.name).await? {
        while body.next().await?.is_some() {}
        return Ok(answer(Done { sequence, created: false }));
    }
    let key = key(&putting.place, &hash);
    let path = path(hub, &key);
    let there = received(&path)?;
    let Some(_turn) = Turn::take(hub, key) else {
        return Err(conflict(there, "another part is arriving. Ask again how much has arrived"));
    };
    let there = received(&path)?;
    if from != there {
        let text = format!("{there} bytes have arrived, and this part begins at {from}");
        return Err(conflict(there, &format!("{text}. Go on where the last one ended")));
    }
    let _room = hub.room.take(length)?;
    let failed = |e| Failure::from(Error::io("write", &path)(e));
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.append(true).create(true).open(&path).await.map_err(failed)?;
    file.set_max_buf_size(1 << 20);
    body.append(&mut file, &path).await?;
    if to + 1 < total {
        let mut response = Response::new(Answer::empty());
        *response.status_mut() = StatusCode::ACCEPTED;
        response.headers_mut().insert(RECEIVED, (to + 1).into());
        return Ok(response);
    }
    file.sync_all().await.map_err(failed)?;
    let staged = Staged::new(path.clone(), total);
    let checked = tokio::task::spawn_blocking(move || check(&path, hash, total)).await;
    match checked.unwrap_or_else(|_| Err(Error::away("a thread of the hub failed")))? {
        Checked::Wrong => {
            let text = "what arrived does not match its hash and is gone. Send it again";
            Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, text))
        }
        Checked::Small(bytes) => putting.finish(hub, Content::Bytes(bytes.into())).await,
        Checked::Large => putting.finish(hub, Content::File(staged)).await,
    }
}

enum Checked {
    Wrong,
    Small(Vec<u8>),
    Large,
}

fn check(path: &FilePath, hash: blake3::Hash, total: u64) -> StoreResult<Checked> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let mut hasher = blake3::Hasher::new();
    let length = std::io::copy(&mut file, &mut hasher).map_err(Error::io("read", path))?;
    if length != total || hasher.finalize() != hash {
        return Ok(Checked::Wrong);
    }
    if length > IN_STORE as u64 {
        return Ok(Checked::Large);
    }
    fs::read(path).map(Checked::Small).map_err(Error::io("read", path))
}

/// Removes what a hub that was killed left, and uploads that nobody continues.
pub(crate) fn sweep(staging: &FilePath, starting: bool) -> StoreResult<()> {
    let entries = fs::read_dir(staging).map_err(Error::io("read", staging))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let put = starting && name.starts_with("put-");
        let age = entry.metadata().and_then(|file| file.modified());
        let age = age.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        if put || (name.starts_with("upload-") && age > ABANDONED) {
            let path = entry.path();
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}
