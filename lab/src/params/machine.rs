//! The machine: kernel, processor, memory, load.

use serde::{Deserialize, Serialize};
use std::fs;

/// The first line of a file, or why there is none.
pub(super) fn line_of(path: &str) -> String {
    match fs::read_to_string(path) {
        Ok(text) => text.lines().next().unwrap_or_default().trim().to_owned(),
        Err(e) => format!("unknown: {path}: {e}"),
    }
}

/// The value of the first `key: value` or `key value` in such a file.
fn field(path: &str, key: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let found = text.lines().find_map(|line| line.strip_prefix(key));
    let value = found.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    value.unwrap_or_else(|| format!("unknown: {path} has no {key}"))
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    system: String,
    kernel: String,
    processor: String,
    cores: usize,
    governor: String,
    hypervisor: bool,
    memory: String,
}

impl Machine {
    /// Asks the system.
    pub fn detect() -> Machine {
        let name = rustix::system::uname();
        let flags = field("/proc/cpuinfo", "flags");
        Machine {
            system: name.sysname().to_string_lossy().into_owned(),
            kernel: format!(
                "{} {}",
                name.release().to_string_lossy(),
                name.version().to_string_lossy()
            ),
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            hypervisor: flags.split_whitespace().any(|flag| flag == "hypervisor"),
            memory: field("/proc/meminfo", "MemTotal"),
        }
    }

    /// In one line.
    pub fn label(&self) -> String {
        let virtual_machine = if self.hypervisor { ", virtual" } else { "" };
        format!("{}, {} cores{virtual_machine}, {} memory", self.processor, self.cores, self.memory)
    }

    /// System and kernel.
    pub fn kernel(&self) -> String {
        format!("{} {}", self.system, self.kernel.split(' ').next().unwrap_or_default())
    }
}

/// How busy the machine is, apart from what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Processes waiting for a processor: averages of 1, 5 and 15 minutes.
    average: String,
    /// Memory that is free or can be freed.
    available: String,
}

impl Load {
    /// Asks the system.
    pub fn detect() -> Load {
        Load {
            average: line_of("/proc/loadavg"),
            available: field("/proc/meminfo", "MemAvailable"),
        }
    }

    /// The average of the last minute.
    pub fn minute(&self) -> &str {
        self.average.split(' ').next().unwrap_or_default()
    }
}
