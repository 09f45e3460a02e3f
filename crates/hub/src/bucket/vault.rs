//! The tokens of a hub in a bucket: one object each, so that two who change them do not meet.

use crate::error::{Error, Result};
use crate::tokens::{Token, read_tokens, write_tokens};
use crate::wait::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use synqlite_objects::Storage;

/// Tokens under `tokens/ID`.
#[derive(Clone)]
pub struct Tokens {
    url: String,
    settings: Vec<(String, String)>,
    /// By key: what is under one never changes.
    known: Arc<Mutex<HashMap<String, Token>>>,
}

impl Tokens {
    /// Those of the bucket and prefix that the URL names.
    pub fn of(url: &str, settings: &[(String, String)]) -> Tokens {
        Tokens { url: url.to_owned(), settings: settings.to_vec(), known: Arc::default() }
    }

    /// Does something that waits for the bucket, on a thread that may.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tokens, &Storage) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let tokens = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let storage = Storage::new(&tokens.url, &tokens.settings)?;
            work(&tokens, &storage)
        });
        done.await.unwrap_or_else(|_| Err(Error::away("a thread of the hub failed")))
    }

    /// All of them, in the order in which they were made.
    pub async fn load(&self) -> Result<Vec<Token>> {
        let load = |tokens: &Tokens, storage: &Storage| {
            let keys = storage.list("tokens")?;
            let before = std::mem::take(&mut *lock(&tokens.known));
            let mut now = HashMap::new();
            for (key, _) in keys {
                let token = match before.get(&key) {
                    Some(token) => Some(token.clone()),
                    // One that was revoked meanwhile is none.
                    None => match storage.get(&key)? {
                        Some(text) => {
                            read_tokens(&String::from_utf8_lossy(&text), &key)?.into_iter().next()
                        }
                        None => None,
                    },
                };
                now.extend(token.map(|token| (key, token)));
            }
            let mut all: Vec<_> = now.values().cloned().collect();
            all.sort_by_key(|token| (token.made, token.id));
            *lock(&tokens.known) = now;
            Ok(all)
        };
        self.run(load).await
    }

    /// Adds one.
    pub async fn add(&self, token: Token) -> Result<()> {
        let add = move |_: &Tokens, storage: &Storage| {
            let key = format!("tokens/{}", token.id_text());
            Ok(storage.put(&key, write_tokens(&[token]).into_bytes())?)
        };
        self.run(add).await
    }

    /// Removes one; whether it was there.
    pub async fn revoke(&self, id: u64) -> Result<bool> {
        let revoke = move |_: &Tokens, storage: &Storage| {
            let key = format!("tokens/{id:016x}");
            let there = storage.is_there(&key)?;
            storage.delete(&key)?;
            Ok(there)
        };
        self.run(revoke).await
    }
}
