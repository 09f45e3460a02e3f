//! A hub's store in a bucket of object storage: the embedded store, whose changes are durable once
//! they are in a log in the bucket. Large objects are objects of the bucket, as are tokens.
//!
//! One hub at a time has a prefix; the storage, not we, keeps copies and counts who was first.
//! `docs/formats/hub-bucket.md` has the files byte by byte.

mod entry;
mod journal;
mod lease;
mod listing;
mod tidy;
mod vault;

use crate::error::{Error, Result};

/// Requests that are under way at once.
const AT_ONCE: usize = 16;

/// Does something with each, many at once, for as long as nothing fails: each waits for the storage.
fn each<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let mut done = Vec::with_capacity(items.len());
    for some in items.chunks(AT_ONCE) {
        let some: Vec<Result<R>> = std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|item| scope.spawn(|| f(item))).collect();
            let failed = |_| Err(Error::away("a thread of the hub failed"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
        });
        for result in some {
            done.push(result?);
        }
    }
    Ok(done)
}

pub use journal::{Journal, Keeping, open};
pub use lease::Hold;
pub use vault::Tokens;
