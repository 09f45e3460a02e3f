//! What reaches a block device: flushes and bytes, as the kernel counts them.
//!
//! The counts are those of the whole device, so they are read on a loop device that holds nothing
//! but the databases. What the file system adds to SQLite's writes is in them.

use crate::params::Storage;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Counts since the device was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests to empty the device's cache.
    pub flushes: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A block device.
#[derive(Debug)]
pub struct Device(File);

/// Places of the fields, by `Documentation/block/stat.rst` of Linux.
const SECTORS_WRITTEN: usize = 6;
const FLUSHES: usize = 15;

impl Device {
    /// The device that `dir` is on.
    pub fn of(dir: &Path) -> Result<Device> {
        let name = Storage::block_device(dir)?.ok_or_else(|| {
            let dir = dir.display();
            Error::Bad(format!("{dir} is on no block device, so nothing is counted there"))
        })?;
        let path = format!("/sys/class/block/{name}/stat");
        let device = Device(File::open(&path).map_err(Error::io(Path::new(&path)))?);
        device.counts().map(|_| device)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Result<Counts> {
        let mut bytes = [0; 512];
        let read =
            self.0.read_at(&mut bytes, 0).map_err(Error::io(Path::new("/sys/class/block")))?;
        let text = String::from_utf8_lossy(&bytes[..read]);
        let fields: Vec<u64> = text.split_whitespace().filter_map(|f| f.parse().ok()).collect();
        match (fields.get(SECTORS_WRITTEN), fields.get(FLUSHES)) {
            (Some(sectors), Some(flushes)) => {
                Ok(Counts { flushes: *flushes, bytes: sectors * 512 })
            }
            _ => Err(Error::Bad("this kernel does not count the flushes of a device".into())),
        }
    }
}

/// How much one transaction makes a device do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Flushes.
    pub flushes: Spread,
    /// Kilobytes written.
    pub kilobytes: Spread,
}

impl Work {
    /// Of the counts before the first transaction and after each.
    pub fn of(counts: &[Counts]) -> Option<Work> {
        let each = |of: fn(&Counts) -> u64| {
            let steps = counts.windows(2).map(|pair| of(&pair[1]) - of(&pair[0]));
            Spread::of(steps.map(|n| n as f64).collect())
        };
        let mut kilobytes = each(|c| c.bytes)?;
        kilobytes.scale(1e-3);
        Some(Work { flushes: each(|c| c.flushes)?, kilobytes })
    }
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Mean of the largest thousandth. Work that comes once in a thousand transactions lies now
    /// before the percentile and now behind it; it is always in here.
    #[serde(default)]
    pub worst: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at =
            |share: f64| values[((values.len() as f64 * share).ceil() as usize).min(last + 1) - 1];
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let worst = (values.len() as f64 / 1000.0).ceil() as usize;
        Some(Spread {
            mean: mean(&values),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            worst: mean(&values[values.len() - worst..]),
            max: values[last],
        })
    }

    fn scale(&mut self, by: f64) {
        let Spread { mean, p50, p99, p999, worst, max } = self;
        [mean, p50, p99, p999, worst, max].into_iter().for_each(|value| *value *= by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_lies_between_two_counts() {
        let counts: Vec<Counts> = (0..=1000).map(|i| Counts { flushes: i, bytes: i * i }).collect();
        let work = Work::of(&counts).unwrap();
        assert_eq!((work.flushes.mean, work.flushes.max), (1.0, 1.0));
        assert_eq!(work.kilobytes.max, 1.999);
        assert_eq!(work.kilobytes.p999, 1.997);
        assert_eq!(work.kilobytes.worst, 1.999);
        let twice: Vec<Counts> = counts.iter().flat_map(|c| [*c, *c]).collect();
        assert_eq!(Work::of(&twice).unwrap().kilobytes.worst, 1.997);
        assert_eq!(Work::of(&counts[..1]), None);
    }
}
