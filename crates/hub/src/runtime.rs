//! The threads that a hub's futures run on.

use crate::error::{Error, Result};
use tokio::runtime::{Builder, Runtime};

/// With so many threads; as many as there are processors if it is not said.
pub(crate) fn runtime(threads: Option<usize>) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads.max(1));
    }
    let built = builder.thread_name("hub").enable_all().build();
    built.map_err(|e| Error::away(format!("threads cannot be started: {e}")))
}
