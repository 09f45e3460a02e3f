//! Which site wrote an object, as its own header says. Looked at only where a token is bound to sites.

use super::failure::Failure;
use crate::backend::Content;
use crate::error::{Error, Result};
use axum::http::StatusCode;
use std::fs::File;
use std::io::Read;
use synqlite_objects::{Kind, ObjectName, decode_snapshot_head};
use synqlite_wire::batch::{self, BatchError, HEADER_PREFIX};

/// Longest beginning of an object that is read for its header.
const LONGEST: u64 = 1 << 20;

/// Refuses what does not say itself that it is what its name says.
pub fn check(name: &ObjectName, content: &Content) -> std::result::Result<(), Failure> {
    let read = |length: u64| beginning(content, length.min(LONGEST));
    let fits = match name.kind {
        Kind::Snapshot => decode_snapshot_head(name, &read(LONGEST)?).is_ok(),
        Kind::Batch => {
            let mut header = batch::decode_header(&read(HEADER_PREFIX as u64)?);
            if let Err(BatchError::Truncated { need, .. }) = header {
                header = batch::decode_header(&read(need)?);
            }
            header.is_ok_and(|header| (header.database, header.site) == (name.database, name.site))
        }
    };
    if fits {
        return Ok(());
    }
    let text = "this token is bound to sites, and the object does not say itself that its site wrote \
                it: it is sealed, damaged or another's. Put sealed objects with a token that is bound \
                to no site";
    Err(Failure::new(StatusCode::FORBIDDEN, text))
}

fn beginning(content: &Content, length: u64) -> Result<Vec<u8>> {
    match content {
        Content::Bytes(bytes) => Ok(bytes.iter().take(length as usize).copied().collect()),
        Content::File(staged) => {
            let path = staged.path();
            let mut bytes = Vec::new();
            let read = File::open(path).and_then(|f| f.take(length).read_to_end(&mut bytes));
            read.map_err(Error::io("read", path))?;
            Ok(bytes)
        }
        Content::Kept(..) => Ok(Vec::new()),
    }
}
