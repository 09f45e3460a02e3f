//! The states in which a power failure may leave the files, given what was done to them.
//!
//! Two kinds of file systems. *Journal*: names change in order, so a prefix of the changes is
//! durable, at least up to the last synchronization of a folder or of a renamed file; bytes that
//! were handed to the device are there if any later change of a name is. *Local*: any subset of
//! the changes of names is durable that contains those before the last synchronization of the
//! folder; nothing else counts.
//!
//! On both, bytes are durable once their file was synchronized. Of other writes any subset may
//! be there, in part too, by sectors of 512 bytes. A synchronization that fails leaves what was
//! written before it in doubt for good: the system takes it for written, and a later one that
//! succeeds does not write it again.

use crate::Random;
use crate::lab::Op;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use synqlite_dash::disk::{Disk, Kind, Machine, Sync};

const SECTOR: usize = 512;

/// Files on a device: names, and bytes by number.
#[derive(Debug, Clone, Default)]
pub struct Files {
    pub names: BTreeMap<String, u64>,
    pub bytes: BTreeMap<u64, Vec<u8>>,
}

impl Files {
    /// Reads a folder; `number` says which file is which.
    pub fn read(folder: &Path, number: impl Fn(&Path) -> u64) -> Files {
        let mut files = Files::default();
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a folder").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            files.names.insert(name, number(&path));
            files.bytes.insert(number(&path), fs::read(&path).expect("a file"));
        }
        files
    }

    /// Writes them into an empty folder; which file of the machine has which number.
    pub fn write(&self, folder: &Path) -> HashMap<u64, u64> {
        let mut numbers = HashMap::new();
        for (name, number) in &self.names {
            let path = folder.join(name);
            fs::write(&path, self.bytes.get(number).map_or(&[][..], |b| b)).expect("writes");
            let identity = Machine.identity_at(&path).expect("asks").expect("there");
            numbers.insert(identity, *number);
        }
        numbers
    }
}

/// Which synchronizations to leave out, as if the program lacked them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    Nothing,
    /// Those of files, of this strength.
    File(Sync),
    /// Those of the folder.
    Folder,
    /// The one with this number, from 0, in each transaction.
    Nth(usize),
}

/// Draws one state in which the first `ops` may leave `before`.
#[expect(clippy::too_many_lines, reason = "an arm for each operation, in the order of the disk")]
pub fn draw(
    before: &Files,
    ops: &[Op],
    kind: Kind,
    without: Without,
    random: &mut Random,
) -> Files {
    let mut nth = 0;
    let mut counts = |op: &Op| {
        match op {
            Op::Begin(_) => nth = 0,
            Op::Sync(..) | Op::SyncFolder => nth += 1,
            _ => return true,
        }
        match (op, without) {
            (Op::Sync(_, how), Without::File(left_out)) => *how != left_out,
            (Op::SyncFolder, Without::Folder) => false,
            (Op::Sync(..) | Op::SyncFolder, Without::Nth(left_out)) => nth != left_out + 1,
            _ => true,
        }
    };
    let ops: Vec<&Op> = ops.iter().filter(|op| counts(op)).collect();
    let is_name =
        |op: &Op| matches!(op, Op::Create(..) | Op::Exchange(_) | Op::Rename(..) | Op::Remove(_));
    // Where names are durable for certain, and how far they happen to be.
    let fence = ops.iter().rposition(|op| match op {
        Op::SyncFolder => true,
        Op::Sync(_, Sync::Names) => kind == Kind::Journal,
        _ => false,
    });
    let settled = fence.map_or(0, |at| at + 1);
    let until = match random.below(3) {
        0 => settled,
        1 => ops.len(),
        _ => settled + random.below(ops.len() + 1 - settled),
    };
    let any = random.chance(50);
    let name_kept: Vec<bool> = (0..ops.len())
        .map(|at| match kind {
            Kind::Local if any => at < settled || random.chance(50),
            _ => at < until,
        })
        .collect();
    let last_name = (0..ops.len()).rev().find(|&at| is_name(ops[at]) && name_kept[at]);

    let mut files = before.clone();
    for (op, _) in ops.iter().zip(&name_kept).filter(|(_, kept)| **kept) {
        match op {
            Op::Create(name, number) => {
                files.names.insert(name.clone(), *number);
            }
            Op::Exchange(pairs) => files.names.extend(pairs.iter().cloned()),
            Op::Rename(from, to, number) => {
                files.names.remove(from);
                files.names.insert(to.clone(), *number);
            }
            Op::Remove(name) => {
                files.names.remove(name);
            }
            _ => {}
        }
    }
    let mut certain = vec![false; ops.len()];
    // Writes that the next synchronization of their file brings to the device.
    let mut pending: HashMap<u64, Vec<usize>> = HashMap::new();
    for (at, op) in ops.iter().enumerate() {
        let mut reached = |writes: &[usize]| writes.iter().for_each(|&at| certain[at] = true);
        match op {
            Op::Write(file, ..) | Op::SetLen(file, _) => pending.entry(*file).or_default().push(at),
            Op::Sync(file, Sync::Bytes | Sync::Names) => {
                reached(&pending.remove(file).unwrap_or_default());
            }
            Op::Sync(file, Sync::Hand)
                if kind == Kind::Journal && last_name.is_some_and(|name| name > at) =>
            {
                reached(pending.get(file).map_or(&[], |writes| writes));
            }
            Op::SyncFailed(file) => {
                pending.remove(file);
            }
            _ => {}
        }
    }
    let style = random.below(6);
    let odd = random.below(ops.len().max(1));
    for (at, op) in ops.iter().enumerate() {
        let (Op::Write(file, ..) | Op::SetLen(file, _)) = op else { continue };
        let fate = match style {
            _ if certain[at] => Fate::Kept,
            0 => Fate::Kept,
            1 => Fate::Lost,
            2 if at == odd => Fate::Lost,
            2 => Fate::Kept,
            3 if at == odd => Fate::Kept,
            3 => Fate::Lost,
            4 => [Fate::Kept, Fate::Lost][random.below(2)],
            _ => [Fate::Kept, Fate::Lost, Fate::Torn][random.below(3)],
        };
        let bytes = files.bytes.entry(*file).or_default();
        match op {
            Op::SetLen(_, length) if fate != Fate::Lost => bytes.resize(*length as usize, 0),
            Op::Write(_, offset, new) if fate != Fate::Lost => {
                let offset = *offset as usize;
                let mut from = 0;
                while from < new.len() {
                    let to = (SECTOR - (offset + from) % SECTOR + from).min(new.len());
                    if fate == Fate::Kept || random.chance(50) {
                        let end = offset + to;
                        if bytes.len() < end {
                            bytes.resize(end, 0);
                        }
                        bytes[offset + from..end].copy_from_slice(&new[from..to]);
                    }
                    from = to;
                }
            }
            _ => {}
        }
    }
    files
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    Torn,
}
