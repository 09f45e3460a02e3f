//! Measures phases of a run: wall time, processor time, file operations, latencies.

use crate::device::Work;
use crate::vfs::{self, Counts};
use crate::{Error, Result};
use cpu_time::ProcessTime;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a phase did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows, statements or keys, whatever the workload counts.
    pub operations: u64,
    /// Commits.
    pub transactions: u64,
}

/// A measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name, the same for every engine.
    pub name: String,
    /// Rows, statements or keys, whatever the workload counts.
    pub operations: u64,
    /// Commits.
    pub transactions: u64,
    /// Seconds that passed.
    pub wall: f64,
    /// Seconds of the processor, user and system, of all threads of the process.
    pub processor: f64,
    /// What SQLite asked of the file system; a store that is not SQLite asks past the counter.
    pub files: Counts,
    /// Latency of its transactions, where they were timed one by one.
    pub latency: Option<Latency>,
    /// What a transaction makes the device do, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Work>,
}

impl Phase {
    /// A phase in which nothing happened yet.
    pub fn named(name: &str) -> Phase {
        Phase {
            name: name.to_owned(),
            operations: 0,
            transactions: 0,
            wall: 0.0,
            processor: 0.0,
            files: Counts::default(),
            latency: None,
            device: None,
        }
    }
}

/// Measures a part of a phase that is made of many.
pub struct Watch {
    files: Counts,
    wall: Instant,
    processor: ProcessTime,
}

impl Watch {
    /// Begins a part.
    pub fn start() -> Watch {
        Watch { files: vfs::counts(), wall: Instant::now(), processor: ProcessTime::now() }
    }

    /// Ends it and adds it to its phase. Gives the time that passed.
    pub fn stop(self, phase: &mut Phase, done: Done) -> Duration {
        let (wall, processor) = (self.wall.elapsed(), self.processor.elapsed());
        phase.operations += done.operations;
        phase.transactions += done.transactions;
        phase.wall += wall.as_secs_f64();
        phase.processor += processor.as_secs_f64();
        phase.files.add(vfs::counts().since(self.files));
        wall
    }
}

/// A distribution of latencies, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were timed.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile; needs 10,000 operations to mean something.
    pub p999: f64,
    /// Longest.
    pub max: f64,
    /// (share of all, microseconds) for a plot.
    pub curve: Vec<(f64, f64)>,
}

/// Times operations one by one; a nanosecond to ten minutes, three digits.
pub struct Timer(Histogram<u64>);

impl Timer {
    /// An empty one.
    pub fn new() -> Result<Timer> {
        let histogram = Histogram::new_with_bounds(1, 600_000_000_000, 3);
        Ok(Timer(histogram.map_err(|e| Error::Latency(e.to_string()))?))
    }

    /// Adds an operation.
    pub fn add(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all of another's.
    pub fn join(&mut self, other: &Timer) -> Result<()> {
        self.0.add(&other.0).map_err(|e| Error::Latency(e.to_string()))
    }

    /// The distribution; `None` if nothing was timed.
    pub fn latency(&self) -> Option<Latency> {
        let at = |quantile: f64| self.0.value_at_quantile(quantile) as f64 / 1000.0;
        if self.0.is_empty() {
            return None;
        }
        let curve = self
            .0
            .iter_quantiles(2)
            .map(|step| (step.quantile_iterated_to(), step.value_iterated_to() as f64 / 1000.0));
        Some(Latency {
            count: self.0.len(),
            mean: self.0.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max() as f64 / 1000.0,
            curve: curve.collect(),
        })
    }
}

/// Everything one engine's turn yields, apart from its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// Other figures by name, such as sizes in bytes.
    pub facts: BTreeMap<String, f64>,
    /// Digest of the statements that the application executed, from the warm-up round.
    pub statements: Option<String>,
    /// Digest of what its tables then held.
    pub rows: Option<String>,
}

/// Collects an [`Outcome`].
#[derive(Default)]
pub struct Meter {
    outcome: Outcome,
}

impl Meter {
    /// Measures `work` as the phase `name`.
    pub fn phase(&mut self, name: &str, work: impl FnOnce() -> Result<Done>) -> Result<()> {
        self.timed(name, || Ok((work()?, None)))
    }

    /// Measures `work`, which times its operations itself.
    pub fn timed(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<(Done, Option<Timer>)>,
    ) -> Result<()> {
        self.watched(name, || work().map(|(done, timer)| (done, timer, None)))
    }

    /// The same, of work that asks the device for its counts as well.
    pub fn watched(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<(Done, Option<Timer>, Option<Work>)>,
    ) -> Result<()> {
        let watch = Watch::start();
        let (done, timer, device) = work()?;
        let mut phase = Phase::named(name);
        watch.stop(&mut phase, done);
        phase.latency = timer.and_then(|timer| timer.latency());
        phase.device = device;
        self.outcome.phases.push(phase);
        Ok(())
    }

    /// Notes another figure.
    pub fn fact(&mut self, name: &str, value: f64) {
        self.outcome.facts.insert(name.to_owned(), value);
    }

    /// A phase whose times were summed up by the workload.
    pub fn add(&mut self, phase: Phase) {
        self.outcome.phases.push(phase);
    }

    /// What was measured.
    pub fn finish(self) -> Outcome {
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_tells_its_percentiles() {
        let mut timer = Timer::new().unwrap();
        assert!(timer.latency().is_none());
        (1..=1000).for_each(|i| timer.add(Duration::from_micros(i)));
        let latency = timer.latency().unwrap();
        assert_eq!(latency.count, 1000);
        for (got, expected) in [(latency.p50, 500.0), (latency.p99, 990.0), (latency.max, 1000.0)] {
            assert!((got - expected).abs() / expected < 0.002, "{got} {expected}");
        }
    }
}
