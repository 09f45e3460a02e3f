//! No bytes of a log make opening a store panic, and what it accepts it accepts again.
//!
//! The first byte chooses how deep the input goes: anything behind a valid header, payloads in
//! records with right checksums, or a true log in which some bytes are changed. The second byte says
//! whether the machine was started anew since.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synqlite_fuzz::{Memory, exercise, format};

fuzz_target!(|input: &[u8]| {
    let [depth, boot, rest @ ..] = input else { return };
    let boot = if boot % 2 == 0 { format::BOOT } else { [9; 16] };
    let mut log = format::log_header(1, 1, boot);
    match depth % 3 {
        0 => log.extend_from_slice(rest),
        1 => {
            let mut seq = 1;
            for payload in rest.split(|b| *b == 0xFF).filter(|payload| !payload.is_empty()) {
                format::record(&mut log, 1, 0, seq, payload);
                seq += u64::from(payload[0]);
            }
            format::marker(&mut log, 1);
        }
        _ => {
            for seq in 1..=8 {
                let mut payload = vec![1, 0, 1, seq as u8, 40];
                payload.resize(45, b'v');
                format::record(&mut log, 1, if seq > 4 { 100 } else { 0 }, seq, &payload);
            }
            format::marker(&mut log, 1);
            log.resize(2048, 0);
            for change in rest.chunks_exact(3) {
                let at = usize::from(change[0]) << 8 | usize::from(change[1]);
                let len = log.len();
                log[at % len] = change[2];
            }
        }
    }
    let mut manifest = format::manifest();
    let mut edit = format::edit(0, 3, 1, true);
    edit.extend_from_slice(&[0, 0]);
    format::frame(&mut manifest, 2, &edit);
    let disk = Memory::default();
    disk.put("00000002.manifest", manifest);
    disk.put("CURRENT", format::current("00000002.manifest"));
    disk.put("00000001.log", log);
    exercise(disk);
});
