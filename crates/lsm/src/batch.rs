//! Batches: changes that become visible, and durable, together.

use crate::codec::Reader;
use crate::error::{Error, Result};
use crate::log::{Op, put_op, take_op};
use crate::options::{MAX_BATCH, MAX_KEY, MAX_VALUE};

/// Puts and deletes to be applied as one. Later ones win over earlier ones of the same key.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    ops: Vec<u8>,
    count: u64,
}

pub(crate) fn check(op: Op<'_>) -> Result<()> {
    if op.key.len() > MAX_KEY {
        return Err(Error::TooLarge { what: "key", len: op.key.len(), max: MAX_KEY });
    }
    match op.value {
        Some(v) if v.len() > MAX_VALUE => {
            Err(Error::TooLarge { what: "value", len: v.len(), max: MAX_VALUE })
        }
        _ => Ok(()),
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets a key.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Batch> {
        self.add(Op { key: key.as_ref(), value: Some(value.as_ref()) })
    }

    /// Removes a key.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Batch> {
        self.add(Op { key: key.as_ref(), value: None })
    }

    fn add(&mut self, op: Op<'_>) -> Result<&mut Batch> {
        check(op)?;
        let len = self.ops.len() + op.key.len() + op.value.map_or(0, <[u8]>::len) + 12;
        if len > MAX_BATCH {
            return Err(Error::TooLarge { what: "batch", len, max: MAX_BATCH });
        }
        put_op(&mut self.ops, op);
        self.count += 1;
        Ok(self)
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The changes in their order: keys, and values unless they are deletes.
    pub fn changes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.ops().map(|op| (op.key, op.value))
    }

    /// Forgets the changes and keeps the memory.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.count = 0;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.ops
    }

    pub(crate) fn ops(&self) -> impl Iterator<Item = Op<'_>> {
        let mut r = Reader(&self.ops);
        std::iter::from_fn(move || take_op(&mut r))
    }
}
