//! The commands that write a backup of a store, and put one into an empty store.

use crate::archive::{Reader, send};
use crate::backend::{Content, Incoming, Staged, random_id};
use crate::embedded::{IN_STORE, Setup};
use crate::error::{Error, Result};
use crate::location::Opened;
use crate::private;
use crate::runtime::runtime;
use crate::serve::Settings;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use tokio::sync::mpsc;

/// Objects that are put at once; they share the forces of the device.
const AT_ONCE: usize = 256;

/// Writes a backup of a store that no hub has open; the number of objects.
pub fn backup(settings: &Settings, file: &Path) -> Result<u64> {
    runtime(Some(1))?.block_on(async {
        let setup = Setup { create: false, ..settings.setup };
        let Opened { backend, vault, .. } =
            settings.store.open(setup, &settings.scratch, Default::default()).await?;
        let tokens = vault.load().await?;
        let to = private::writing().create_new(true).open(file);
        let mut to = to.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: file.to_owned() },
            _ => Error::io("write", file)(e),
        })?;
        let (sender, mut chunks) = mpsc::channel::<io::Result<Bytes>>(4);
        let path = file.to_owned();
        let written = tokio::task::spawn_blocking(move || {
            while let Some(chunk) = chunks.blocking_recv() {
                to.write_all(&chunk.unwrap_or_default())?;
            }
            to.sync_all()
        });
        let sent = send(&*backend, &tokens, &sender).await;
        drop(sender);
        let written = written.await.unwrap_or_else(|e| Err(io::Error::other(e)));
        written.map_err(Error::io("write", &path))?;
        if sent.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        backend.close().await?;
        sent
    })
}

/// Puts what a backup holds into an empty store; the number of objects. A backup that is damaged or
/// cut short is refused before anything is put.
pub fn restore(settings: &Settings, file: &Path) -> Result<u64> {
    let mut reader = Reader::open(file)?;
    reader.start()?;
    let mut count = 0;
    while let Some((_, _, size)) = reader.object(count)? {
        reader.content(size, io::sink(), file)?;
        count += 1;
    }
    runtime(Some(1))?.block_on(async {
        let Opened { backend, vault, staging } =
            settings.store.open(settings.setup, &settings.scratch, Default::default()).await?;
        if backend.totals().await?.objects > 0 || !vault.load().await?.is_empty() {
            let what = "the store is not empty".to_owned();
            return Err(Error::Setting { what, hint: "Restore into a new one" });
        }
        let mut reader = Reader::open(file)?;
        let tokens = reader.start()?;
        let (mut count, mut waiting) = (0, VecDeque::new());
        while let Some((place, name, size)) = reader.object(count)? {
            let content = if size <= IN_STORE as u64 {
                let mut bytes = Vec::with_capacity(size as usize);
                reader.content(size, &mut bytes, file)?;
                Content::Bytes(bytes.into())
            } else {
                let path = staging.join(format!("put-{}", random_id()?));
                let staged = Staged::new(path.clone(), size);
                let out = private::writing().create_new(true).open(&path);
                let mut out = out.map_err(Error::io("write", &path))?;
                reader.content(size, &mut out, &path)?;
                out.sync_all().map_err(Error::io("sync", &path))?;
                Content::File(staged)
            };
            let at = (settings.clock)();
            let (covers, token, quota) = (0, 0, None);
            waiting.push_back(backend.put(Incoming {
                place,
                name,
                content,
                covers,
                token,
                quota,
                at,
            }));
            if waiting.len() >= AT_ONCE
                && let Some(first) = waiting.pop_front()
            {
                first.await?;
            }
            count += 1;
        }
        for put in waiting {
            put.await?;
        }
        for token in tokens {
            vault.store(token).await?;
        }
        backend.close().await?;
        Ok(count)
    })
}
