//! No bytes of a table make reading, verifying or repairing a store panic.
//!
//! The input is cut into block, filter and index, which get right checksums, so that what lies
//! behind those is reached. The first byte chooses how the block is packed, whether the index is
//! one that fits, and whether the bytes are taken as they are for a whole file instead.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synqlite_fuzz::{Memory, exercise, format};

fuzz_target!(|input: &[u8]| {
    let [how, base, rest @ ..] = input else { return };
    let mut table = Vec::new();
    let mut parts = rest.splitn(3, |b| *b == 0xFF);
    let mut next = || parts.next().unwrap_or_default();
    let base = u64::from(*base);
    if how & 8 != 0 {
        table.extend_from_slice(rest);
    } else {
        let block = next();
        format::part(&mut table, 3, how & 3, block);
        let length = table.len() as u64;
        let filter = table.len();
        format::part(&mut table, 3, 0, next());
        let index = table.len();
        let mut entries = next().to_vec();
        if how & 4 != 0 {
            entries.clear();
            format::bytes(&mut entries, b"");
            format::bytes(&mut entries, b"z");
            for n in [1, 0, length, 0] {
                format::varint(&mut entries, n);
            }
        }
        format::part(&mut table, 3, 0, &entries);
        format::footer(&mut table, 3, filter, index, [1, 0, base, base]);
    }
    let mut edit = format::edit(base, 4, 1, false);
    for n in [1, 1, 3, table.len() as u64, 1, 0, base, base] {
        format::varint(&mut edit, n);
    }
    format::bytes(&mut edit, b"");
    format::bytes(&mut edit, b"z");
    format::varint(&mut edit, 0);
    let mut manifest = format::manifest();
    format::frame(&mut manifest, 2, &edit);
    let disk = Memory::default();
    disk.put("00000002.manifest", manifest);
    disk.put("CURRENT", format::current("00000002.manifest"));
    disk.put("00000003.table", table);
    exercise(disk);
});
