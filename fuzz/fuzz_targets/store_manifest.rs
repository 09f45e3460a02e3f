//! No bytes of a manifest or of the pointer to it make opening a store panic.
//!
//! The first byte chooses: the bare file, edits in frames with right checksums, a true first edit
//! with more of them behind, or the pointer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synqlite_fuzz::{Memory, exercise, format};

const NAME: &str = "00000002.manifest";

fuzz_target!(|input: &[u8]| {
    let [depth, rest @ ..] = input else { return };
    let disk = Memory::default();
    let mut current = format::current(NAME);
    let mut manifest = format::manifest();
    if depth % 4 >= 2 {
        let mut edit = format::edit(0, 3, 1, false);
        edit.extend_from_slice(&[0, 0]);
        format::frame(&mut manifest, 2, &edit);
    }
    match depth % 4 {
        0 => manifest = rest.to_vec(),
        1 | 2 => {
            for edit in rest.split(|b| *b == 0xFF).filter(|edit| !edit.is_empty()) {
                format::frame(&mut manifest, 2, edit);
            }
        }
        _ => current = rest.to_vec(),
    }
    disk.put(NAME, manifest);
    disk.put("CURRENT", current);
    exercise(disk);
});
