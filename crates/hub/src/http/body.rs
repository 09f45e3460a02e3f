//! Bodies, in and out, in constant memory.

use super::Limits;
use super::failure::Failure;
use crate::backend::Source;
use crate::error::Error;
use axum::body::Body;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Bytes that are read from a file at once.
const CHUNK: usize = 256 << 10;
/// A refused request's body is read so far, so that its sender comes to read the answer.
const POLITE: u64 = 32 << 20;
/// No body takes so long.
const FOREVER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Bytes of a request as they arrive.
pub struct Incoming {
    body: Body,
    /// How long the next bytes may take.
    patience: Duration,
    /// How long all of it may take: whoever sends slowly holds what others could use.
    allowed: Duration,
    /// When that is over, once somebody reads it.
    until: Option<Instant>,
    /// Nothing more will come.
    over: bool,
}

impl Incoming {
    /// The body of a request, as long as it says.
    pub fn new(body: Body, limits: &Limits, length: u64) -> Incoming {
        let patience = limits.patience;
        let needs = Duration::from_secs(length / limits.pace.max(1)).min(FOREVER);
        Incoming { body, patience, allowed: needs + patience, until: None, over: false }
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        while !self.over {
            let now = Instant::now();
            let until = *self.until.get_or_insert(now + self.allowed);
            let until = until.min(now + self.patience);
            let Ok(frame) = tokio::time::timeout_at(until, self.body.frame()).await else {
                self.over = true;
                let text = "the body stopped, or comes too slowly. Send it again, or in parts";
                return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, text));
            };
            match frame {
                None => self.over = true,
                Some(Err(_)) => {
                    self.over = true;
                    return Err(Failure::bad("the body is cut short. Send it again"));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    _ => {}
                },
            }
        }
        Ok(None)
    }

    /// All of a body of `length` bytes.
    pub async fn all(&mut self, length: usize) -> Result<Bytes, Failure> {
        let first = self.next().await?.unwrap_or_default();
        if first.len() >= length {
            return Ok(first);
        }
        let mut all = BytesMut::with_capacity(length);
        all.extend_from_slice(&first);
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all.freeze())
    }

    /// Writes it to the end of a file. What has arrived is there, even if more does not.
    pub async fn append(&mut self, file: &mut tokio::fs::File, path: &Path) -> Result<(), Failure> {
        let failed = |e| Failure::from(Error::io("write", path)(e));
        let outcome = loop {
            match self.next().await {
                Ok(Some(bytes)) => file.write_all(&bytes).await.map_err(failed)?,
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        file.flush().await.map_err(failed)?;
        outcome
    }

    /// Reads what is left of it, within reason.
    pub async fn drain(&mut self) {
        self.until = Some(Instant::now() + self.patience);
        let mut left = POLITE;
        while let Ok(Some(bytes)) = self.next().await {
            left = left.saturating_sub(bytes.len() as u64);
            if left == 0 {
                return;
            }
        }
    }
}

/// A body of `length` bytes.
pub fn outgoing(source: Source, length: u64) -> Body {
    match source {
        Source::Bytes(bytes) => Body::from(bytes),
        Source::Stream(chunks) => Body::new(Outgoing { chunks, left: Some(length) }),
        Source::File(file) => {
            let (sender, chunks) = mpsc::channel(2);
            tokio::task::spawn_blocking(move || read(file, length, &sender));
            Body::new(Outgoing { chunks, left: Some(length) })
        }
    }
}

/// A body that ends when its channel does.
pub fn endless(chunks: mpsc::Receiver<io::Result<Bytes>>) -> Body {
    Body::new(Outgoing { chunks, left: None })
}

/// Reads a file piece by piece, until all is read or nobody listens.
fn read(mut file: File, mut left: u64, to: &mpsc::Sender<io::Result<Bytes>>) {
    while left > 0 {
        let mut chunk = vec![0; left.min(CHUNK as u64) as usize];
        let read = file.read_exact(&mut chunk).map(|()| Bytes::from(chunk));
        let failed = read.is_err();
        left -= read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if to.blocking_send(read).is_err() || failed {
            return;
        }
    }
}

/// A body that arrives through a channel.
struct Outgoing {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    /// How much will come, if that is known.
    left: Option<u64>,
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        self.chunks.poll_recv(context).map(|chunk| match chunk {
            Some(Ok(bytes)) => {
                self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                Some(Ok(Frame::data(bytes)))
            }
            Some(Err(e)) => Some(Err(e)),
            None if self.left.is_none() => None,
            None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
