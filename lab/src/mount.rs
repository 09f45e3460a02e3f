//! File systems on loop devices, to measure on others than the machine's own.
//!
//! Only root may mount, and only what the kernel knows can be mounted. Whatever fails is reported
//! with its reason, and the study goes on with the rest.

use crate::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file systems that are tried.
pub const KINDS: [&str; 4] = ["ext4", "xfs", "btrfs", "f2fs"];

/// Bytes of a device; the least that xfs and btrfs take is about half of it.
pub const BYTES: u64 = 640 << 20;

/// A mounted file system in a sparse file; unmounted and removed when dropped.
pub struct Mount {
    dir: PathBuf,
}

impl Mount {
    /// Makes and mounts one below `folder`. An error says why it cannot be.
    pub fn new(kind: &str, folder: &Path) -> Result<Mount> {
        let image = folder.join(format!("{kind}.img"));
        let file = File::create(&image).map_err(Error::io(&image))?;
        file.set_len(BYTES).map_err(Error::io(&image))?;
        let dir = folder.join(kind);
        std::fs::create_dir(&dir).map_err(Error::io(&dir))?;
        let quiet: &[&str] = if kind == "btrfs" || kind == "ext4" { &["-q"] } else { &[] };
        run(Command::new(format!("mkfs.{kind}")).args(quiet).arg(&image))?;
        run(Command::new("mount").args(["-t", kind, "-o", "loop"]).arg(&image).arg(&dir))?;
        Ok(Mount { dir })
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg(&self.dir)) {
            eprintln!("note: {} stays mounted: {error}", self.dir.display());
        }
    }
}

/// Runs a command; an error has its first line of complaint.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Bad(format!("{name} is not installed")),
        _ => Error::Bad(format!("{name}: {e}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed");
    Err(Error::Bad(format!("{name}: {}", why.trim())))
}
