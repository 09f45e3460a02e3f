//! What work that may take a while is at. The [environment](crate::Environment) hears of it, a batch of rows
//! or a piece of bytes at a time, so that telling costs nothing; what is shown of it, and when, is up to that.

use std::fmt;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Rows become rows of a replica.
    Init,
    /// Writes since the last time get their stamps.
    Fold,
    /// What others lack is read, or what they sent taken in.
    Read,
    /// What others sent is joined with what is here.
    Merge,
    /// The database file is copied.
    Copy,
    /// A remote is asked what it has.
    List,
    /// Objects come from a remote.
    Fetch,
    /// Objects go to a remote.
    Send,
    /// The file is checked.
    Verify,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Unit {
    Rows,
    Bytes,
}

/// How far work is that takes a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub phase: Phase,
    /// So much of it is done, in the unit of the phase.
    pub done: u64,
    /// Of so much, if that is known.
    pub total: Option<u64>,
}

impl Phase {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Init => "init",
            Phase::Fold => "fold",
            Phase::Read => "read",
            Phase::Merge => "merge",
            Phase::Copy => "copy",
            Phase::List => "list",
            Phase::Fetch => "fetch",
            Phase::Send => "send",
            Phase::Verify => "verify",
        }
    }

    /// What is counted in it.
    pub fn unit(self) -> Unit {
        match self {
            Phase::Init | Phase::Fold | Phase::Read | Phase::Merge | Phase::Verify => Unit::Rows,
            Phase::Copy | Phase::List | Phase::Fetch | Phase::Send => Unit::Bytes,
        }
    }
}

/// For people: what is being done.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Init => "taking in rows",
            Phase::Fold => "folding",
            Phase::Read => "reading changes",
            Phase::Merge => "merging",
            Phase::Copy => "copying the database",
            Phase::List => "looking at the remote",
            Phase::Fetch => "receiving",
            Phase::Send => "sending",
            Phase::Verify => "verifying",
        })
    }
}
