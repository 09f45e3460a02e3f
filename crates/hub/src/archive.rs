//! Everything that a hub keeps as one stream of bytes, taken while it serves, and back.
//!
//! Places are copied one after another, each in the order of its sequences up to its end. So when a
//! batch was retired meanwhile, the snapshot that covers it comes later in the stream, and what is
//! restored lacks nothing. A store that is restored has an epoch of its own, and gives sequences of
//! its own: how far sites had read the old one means nothing to it. The bytes are
//! described in `docs/formats/hub-store.md`.

use crate::backend::{Backend, Part, Source, Wanted};
use crate::error::{Error, Result};
use crate::place::Place;
use crate::tokens::{Token, read_tokens, write_tokens};
use bytes::Bytes;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use synqlite_objects::ObjectName;
use tokio::sync::mpsc;

const MAGIC: &[u8; 8] = b"SYNQHUBB";
const VERSION: u32 = 1;
const END: u8 = 0;
const TOKENS: u8 = 1;
const OBJECT: u8 = 2;
/// Bytes of a BLAKE3 hash.
const HASH: usize = 32;

/// Bytes that are read from a file or sent at once.
const CHUNK: usize = 256 << 10;
/// Where a backup goes.
pub(crate) type Sink = mpsc::Sender<io::Result<Bytes>>;

struct Writer<'a> {
    to: &'a Sink,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.buffer);
        self.hasher.update(&bytes);
        let sent = self.to.send(Ok(bytes.into())).await;
        sent.map_err(|_| Error::away("whoever asked for the backup has gone"))
    }

    async fn content(&mut self, source: Source, length: u64) -> Result<()> {
        match source {
            Source::Bytes(bytes) => self.write(&bytes).await,
            Source::Stream(mut chunks) => {
                while let Some(chunk) = chunks.recv().await {
                    let chunk = chunk.map_err(|e| Error::away(e.to_string()))?;
                    self.write(&chunk).await?;
                }
                Ok(())
            }
            Source::File(file) => {
                let mut file = tokio::fs::File::from_std(file);
                let (mut left, mut chunk) = (length, vec![0; CHUNK]);
                while left > 0 {
                    let want = left.min(CHUNK as u64) as usize;
                    let read = tokio::io::AsyncReadExt::read_exact(&mut file, &mut chunk[..want]);
                    read.await.map_err(|e| Error::away(e.to_string()))?;
                    self.write(&chunk[..want]).await?;
                    left -= want as u64;
                }
                Ok(())
            }
        }
    }
}

/// Sends a backup; the number of its objects.
pub(crate) async fn send(backend: &dyn Backend, tokens: &[Token], to: &Sink) -> Result<u64> {
    let mut out = Writer { to, hasher: blake3::Hasher::new(), buffer: Vec::new() };
    out.write(MAGIC).await?;
    out.write(&VERSION.to_be_bytes()).await?;
    let tokens = write_tokens(tokens);
    out.write(&[TOKENS]).await?;
    out.write(&(tokens.len() as u32).to_be_bytes()).await?;
    out.write(tokens.as_bytes()).await?;
    let (mut count, mut last) = (0, None);
    loop {
        let places = backend.places(last.as_ref(), 100).await?;
        let Some(end) = places.last() else { break };
        for info in &places {
            count += send_place(backend, &info.place, &mut out).await?;
        }
        last = Some(end.place.clone());
    }
    out.write(&[END]).await?;
    out.write(&u64::to_be_bytes(count)).await?;
    out.flush().await?;
    let hash = out.hasher.finalize();
    out.write(hash.as_bytes()).await?;
    out.flush().await?;
    Ok(count)
}

async fn send_place(backend: &dyn Backend, place: &Place, out: &mut Writer<'_>) -> Result<u64> {
    let (mut after, mut count) = (0, 0);
    loop {
        let wanted = Wanted { after, prefix: 0, limit: 1000 };
        let page = backend.list(place, wanted).await?;
        for line in String::from_utf8_lossy(&page.text).lines() {
            let name = line.split(' ').nth(2).and_then(ObjectName::parse);
            let Some(name) = name else {
                return Err(Error::Damaged {
                    what: line.to_owned(),
                    why: "it is no line of a list",
                });
            };
            // One that is gone was covered by a snapshot, which comes later.
            let Some(found) = backend.read(place, &name, Part::Whole).await? else { continue };
            let (place, name) = (place.as_str().as_bytes(), name.to_string());
            out.write(&[OBJECT, place.len() as u8]).await?;
            out.write(place).await?;
            out.write(&[name.len() as u8]).await?;
            out.write(name.as_bytes()).await?;
            out.write(&found.size.to_be_bytes()).await?;
            out.content(found.bytes, found.size).await?;
            count += 1;
        }
        after = page.upto;
        if !page.more {
            return Ok(count);
        }
    }
}

/// A backup that is read, and hashed as far as it was.
pub(crate) struct Reader {
    file: BufReader<File>,
    hasher: blake3::Hasher,
    what: String,
}

impl Reader {
    /// From a file.
    pub(crate) fn open(path: &Path) -> Result<Reader> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let file = BufReader::with_capacity(CHUNK, file);
        Ok(Reader { file, hasher: blake3::Hasher::new(), what: path.display().to_string() })
    }

    fn bad(&self, why: &'static str) -> Error {
        Error::Damaged { what: self.what.clone(), why }
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        self.file.read_exact(out).map_err(|_| self.bad("it is cut short"))?;
        self.hasher.update(out);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    fn text(&mut self, length: usize) -> Result<String> {
        let mut out = vec![0; length];
        self.fill(&mut out)?;
        String::from_utf8(out).map_err(|_| self.bad("a text in it is not UTF-8"))
    }

    /// Its tokens, with which it begins.
    pub(crate) fn start(&mut self) -> Result<Vec<Token>> {
        if self.array::<8>()? != *MAGIC {
            return Err(self.bad("it is no backup of a hub"));
        }
        let found = u32::from_be_bytes(self.array()?);
        if found > VERSION {
            let (what, known) = (self.what.clone(), VERSION.into());
            return Err(Error::Newer { what, found: found.into(), known });
        }
        if self.array()? != [TOKENS] {
            return Err(self.bad("its tokens are missing"));
        }
        let length = u32::from_be_bytes(self.array()?);
        let text = self.text(length as usize)?;
        read_tokens(&text, &self.what)
    }

    /// The next object, without its content; `None` at the end, which is checked.
    pub(crate) fn object(&mut self, count: u64) -> Result<Option<(Place, ObjectName, u64)>> {
        match self.array()? {
            [OBJECT] => {}
            [END] => {
                let objects = u64::from_be_bytes(self.array()?);
                let hash = self.hasher.finalize();
                if objects != count || self.array::<HASH>()? != *hash.as_bytes() {
                    return Err(self.bad("it does not match its checksum"));
                }
                return Ok(None);
            }
            _ => return Err(self.bad("an entry of it is of no known kind")),
        }
        let [length] = self.array()?;
        let place = Place::parse(&self.text(length.into())?);
        let [length] = self.array()?;
        let name = ObjectName::parse(&self.text(length.into())?);
        let size = u64::from_be_bytes(self.array()?);
        match (place, name) {
            (Ok(place), Some(name)) if size > 0 => Ok(Some((place, name, size))),
            _ => Err(self.bad("the name of an object in it is malformed")),
        }
    }

    /// Passes content on, or over.
    pub(crate) fn content(&mut self, size: u64, mut to: impl Write, path: &Path) -> Result<()> {
        let (mut left, mut chunk) = (size, vec![0; CHUNK.min(size as usize)]);
        while left > 0 {
            let want = left.min(CHUNK as u64) as usize;
            self.fill(&mut chunk[..want])?;
            to.write_all(&chunk[..want]).map_err(Error::io("write", path))?;
            left -= want as u64;
        }
        Ok(())
    }
}
