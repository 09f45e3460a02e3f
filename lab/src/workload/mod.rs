//! The workloads: what is executed.
//!
//! A workload is deterministic: its options and a seed say every statement and every value. It
//! draws nothing from the clock and nothing from what an engine does, so all engines execute the
//! same, which the warm-up round of every run checks.

pub mod micro;
pub mod random;
pub mod tpcc;

use crate::Result;
use crate::database::Database;
use crate::meter::Meter;
use serde_json::Value;

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

    /// Whether every engine executes the same statements; not if a run is limited by time.
    fn same_for_all(&self) -> bool {
        true
    }

    /// Megabytes that its files take at most, with an engine of ordinary hunger.
    fn megabytes(&self) -> u64;
}
