//! Objects that arrive in parts. What has arrived is a file, named by place and upload; its length is
//! how far the upload has come. The hash of the whole, checked in the end, vouches for the rest.

use super::Hub;
use super::arriving::upload_name;
use super::ask::{self, UploadPart};
use super::body::Incoming as Body;
use super::failure::Failure;
use super::objects::{Putting, answer, enter};
use crate::backend::{Content, Done, Staged, TokenId};
use crate::embedded::IN_STORE;
use crate::error::{Error, Result as StoreResult};
use crate::place::Place;
use crate::private;
use crate::tokens::Scope;
use axum::body::Body as Answer;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use synqlite_wire::units::count;

const RECEIVED: HeaderName = HeaderName::from_static("synqlite-received");
const UPLOAD: &str = "synqlite-upload";

/// Name of its file, which tells an upload of one place and token from the same of others.
fn file_name(place: &Place, token: TokenId, upload: &blake3::Hash) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(upload.as_bytes()).update(place.as_str().as_bytes());
    upload_name(token, &hasher.finalize())
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
    let (place, caller) = enter(&hub, &headers, &place, Scope::Write)?;
    let name = file_name(&place, caller.token, &ask::upload(&upload)?);
    let received = received(&hub.arriving.path(&name))?;
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
    let token = putting.caller.token;
    let name = file_name(&putting.place, token, &hash);
    let path = hub.arriving.path(&name);
    let there = received(&path)?;
    let Some(turn) = hub.arriving.turn(token, name, to + 1)? else {
        return Err(conflict(there, "another part is arriving. Ask again how much has arrived"));
    };
    let there = received(&path)?;
    let upload = Upload { path, hash, total };
    if there >= total {
        // All of it arrived, and the connection broke before it was put.
        while body.next().await?.is_some() {}
        return upload.finish(hub, putting, turn.others()).await;
    }
    if from != there {
        let text = format!("{} arrived, and this part begins at {from}", count(there, "byte"));
        return Err(conflict(there, &format!("{text}. Go on where the last one ended")));
    }
    putting.make_room(hub, turn.others(), to + 1).await?;
    let _room = hub.room.take(length)?;
    let mut file = upload.open().await?;
    file.set_max_buf_size(1 << 20);
    body.append(&mut file, &upload.path).await?;
    drop(file);
    if to + 1 < total {
        let mut response = Response::new(Answer::empty());
        *response.status_mut() = StatusCode::ACCEPTED;
        response.headers_mut().insert(RECEIVED, (to + 1).into());
        return Ok(response);
    }
    upload.finish(hub, putting, turn.others()).await
}

/// What has arrived of an object.
struct Upload {
    path: PathBuf,
    hash: blake3::Hash,
    total: u64,
}

impl Upload {
    /// Its file, to add to it.
    async fn open(&self) -> Result<tokio::fs::File, Failure> {
        let mut options = tokio::fs::OpenOptions::new();
        let options = options.append(true).create(true).mode(private::FILE);
        let opened = options.open(&self.path).await;
        opened.map_err(|e| Error::io("write", &self.path)(e).into())
    }

    /// Puts the object, all of which has arrived.
    async fn finish(
        self,
        hub: &Arc<Hub>,
        putting: Putting,
        others: u64,
    ) -> Result<Response<Answer>, Failure> {
        let file = self.open().await?;
        file.sync_all().await.map_err(Error::io("write", &self.path))?;
        let Upload { path, hash, total } = self;
        let read = path.clone();
        let checked = tokio::task::spawn_blocking(move || check(&read, hash, total)).await;
        let checked = checked.unwrap_or_else(|_| Err(Error::away("a thread of the hub failed")))?;
        // From here on it is gone, whatever becomes of it: until here who broke off finds it again.
        let staged = Staged::new(path, total);
        let content = match checked {
            Checked::Wrong => {
                let text = "what arrived does not match its hash and is gone. Send it again";
                return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, text));
            }
            Checked::Small(bytes) => {
                drop(staged);
                Content::Bytes(bytes.into())
            }
            Checked::Large => Content::File(staged),
        };
        putting.finish(hub, content, others).await
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
