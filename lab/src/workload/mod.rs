//! The workloads: what is executed.
//!
//! A workload is deterministic: its options and a seed say every statement and every value. It
//! draws nothing from the clock and nothing from what an engine does, so all engines execute the
//! same, which the warm-up round of every run checks.

pub mod brief;
pub mod bystander;
pub mod hub;
pub mod kv;
pub mod micro;
pub mod mobibench;
pub mod notice;
pub mod random;
pub mod sites;
pub mod sync;
pub mod tpcc;

use crate::database::Database;
use crate::engine::Hub;
use crate::meter::Meter;
use crate::store::{Name, Wish};
use crate::{Error, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Something to execute.
pub trait Workload {
    /// Its name: `micro`, `tpcc`.
    fn name(&self) -> &'static str;

    /// All of its parameters but the seed.
    fn options(&self) -> Value;

    /// The application's schema.
    fn schema(&self) -> String;

    /// Executes it. Only the phases count; what lies between them does not.
    fn run(&self, database: &mut Database, seed: u64, meter: &mut Meter) -> Result<()>;

    /// Executes it on a key-value store in the empty folder `dir`.
    fn run_on_store(&self, _dir: &Path, name: Name, _seed: u64, _meter: &mut Meter) -> Result<()> {
        let (workload, name) = (self.name(), name.text());
        Err(Error::Bad(format!("{workload} needs SQL; the engine {name} executes kv only")))
    }

    /// Executes it on a hub that keeps its objects in the empty folder `dir`, or wherever its kind
    /// does.
    fn run_on_hub(&self, _dir: &Path, kind: Hub, _seed: u64, _meter: &mut Meter) -> Result<()> {
        let (workload, name) = (self.name(), kind.text());
        Err(Error::Bad(format!("{workload} needs SQL; {name} executes hub and sites only")))
    }

    /// What it wants of a store.
    fn wish(&self, name: Name) -> Wish {
        Wish { name, sync: false }
    }

    /// Whether every engine executes the same statements; not if a run is limited by time.
    fn same_for_all(&self) -> bool {
        true
    }

    /// Megabytes that its files take at most, with an engine of ordinary hunger.
    fn megabytes(&self) -> u64;
}

/// Bytes that the file system gave a folder. Files that go away meanwhile count nothing.
pub fn space(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in fs::read_dir(dir).map_err(Error::io(dir))?.flatten() {
        let Ok(found) = entry.metadata() else { continue };
        sum += if found.is_dir() { space(&entry.path())? } else { found.blocks() * 512 };
    }
    Ok(sum)
}
