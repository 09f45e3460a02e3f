//! Where the databases lie: file system, device, and how long a sync takes there.

use super::machine::line_of;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A folder's storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    file_system: String,
    mount_options: String,
    device: String,
    scheduler: String,
    write_cache: String,
    /// Whether the device writes one block durably by itself; without it each costs one flush more.
    #[serde(default)]
    fua: String,
    /// Whether the file system has a journal. Only ext4 and ext3 are asked.
    #[serde(default)]
    journal: String,
    rotational: String,
    size: u64,
    free: u64,
    /// Median of so many microseconds for writing 4 KiB and forcing them to the device.
    fsync_us: f64,
}

const SYNCS: usize = 21;

impl Storage {
    /// Asks the system about the folder `dir`, and times syncs in it.
    pub fn detect(dir: &Path) -> Result<Storage> {
        let space = rustix::fs::statvfs(dir).map_err(|e| Error::io(dir)(e.into()))?;
        let mount = Mount::of(dir)?;
        let queue = |what: &str| match mount.block_device() {
            Some(device) => line_of(&format!("/sys/class/block/{device}/queue/{what}")),
            None => format!("none: {} is no block device", mount.device),
        };
        Ok(Storage {
            scheduler: queue("scheduler"),
            write_cache: queue("write_cache"),
            fua: queue("fua"),
            journal: mount.journal(),
            rotational: queue("rotational"),
            size: space.f_blocks * space.f_frsize,
            free: space.f_bavail * space.f_frsize,
            fsync_us: sync_time(dir)?,
            file_system: mount.file_system,
            mount_options: mount.options,
            device: mount.device,
        })
    }

    /// Bytes that can be written.
    pub fn free(dir: &Path) -> Result<u64> {
        let space = rustix::fs::statvfs(dir).map_err(|e| Error::io(dir)(e.into()))?;
        Ok(space.f_bavail * space.f_frsize)
    }

    /// Name of the block device that `dir` is on, if there is one.
    pub fn block_device(dir: &Path) -> Result<Option<String>> {
        Ok(Mount::of(dir)?.block_device())
    }

    /// In one line.
    pub fn label(&self) -> String {
        format!(
            "{} ({}), journal {}, on {}, scheduler {}, write cache {}, fua {}, sync {:.0} µs",
            self.file_system,
            self.mount_options,
            self.journal,
            self.device,
            self.scheduler,
            self.write_cache,
            self.fua,
            self.fsync_us
        )
    }
}

struct Mount {
    file_system: String,
    options: String,
    device: String,
    number: String,
}

impl Mount {
    /// The mount that `dir` is on, as `/proc/self/mountinfo` tells.
    fn of(dir: &Path) -> Result<Mount> {
        let dir = fs::canonicalize(dir).map_err(Error::io(dir))?;
        let table = Path::new("/proc/self/mountinfo");
        let text = fs::read_to_string(table).map_err(Error::io(table))?;
        let mut found: Option<(usize, Mount)> = None;
        for line in text.lines() {
            let Some((place, kind)) = line.split_once(" - ") else { continue };
            let place: Vec<&str> = place.split(' ').collect();
            let kind: Vec<&str> = kind.split(' ').collect();
            let ([_, _, number, _, at, options, ..], [file_system, device, own, ..]) =
                (&place[..], &kind[..])
            else {
                continue;
            };
            let at = at.replace("\\040", " ");
            // The longest path wins, and of equal ones the later mount, which covers the other.
            if dir.starts_with(&at) && found.as_ref().is_none_or(|(len, _)| at.len() >= *len) {
                let mount = Mount {
                    file_system: (*file_system).to_owned(),
                    options: format!("{options},{own}"),
                    device: (*device).to_owned(),
                    number: (*number).to_owned(),
                };
                found = Some((at.len(), mount));
            }
        }
        found.map(|(_, mount)| mount).ok_or_else(|| {
            Error::Bad(format!("/proc/self/mountinfo names no mount of {}", dir.display()))
        })
    }

    /// Name of the whole device, whose queue has the settings.
    fn block_device(&self) -> Option<String> {
        let link = self.device_folder()?;
        if link.join("partition").exists() { name(link.parent()?) } else { name(&link) }
    }

    fn device_folder(&self) -> Option<PathBuf> {
        fs::canonicalize(format!("/sys/dev/block/{}", self.number)).ok()
    }

    /// Whether the journal of an ext file system runs: the kernel lists it by its device.
    fn journal(&self) -> String {
        if !matches!(self.file_system.as_str(), "ext3" | "ext4") {
            return format!("unknown of {}", self.file_system);
        }
        let device = self.device_folder().and_then(|folder| name(&folder));
        let (Some(device), Ok(journals)) = (device, fs::read_dir("/proc/fs/jbd2")) else {
            return "unknown".to_owned();
        };
        let of_device = |journal: std::io::Result<fs::DirEntry>| {
            journal.is_ok_and(|journal| {
                let journal = journal.file_name().to_string_lossy().into_owned();
                journal.rsplit_once('-').is_some_and(|(of, _)| of == device) || journal == device
            })
        };
        if journals.into_iter().any(of_device) { "jbd2".to_owned() } else { "none".to_owned() }
    }
}

fn name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Median time of a 4 KiB write with `fdatasync`, in microseconds.
fn sync_time(dir: &Path) -> Result<f64> {
    let path = dir.join("sync-probe");
    let time = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        file.write_all(&[0; 4096])?;
        file.sync_all()?;
        let mut times = Vec::new();
        for i in 0..SYNCS {
            let start = Instant::now();
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&[i as u8; 4096])?;
            file.sync_data()?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        fs::remove_file(&path)?;
        times.sort_by(f64::total_cmp);
        Ok(times[SYNCS / 2])
    };
    time().map_err(Error::io(&path))
}
