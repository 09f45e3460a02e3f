//! Histories of replicas in memory, chosen by the fuzzer: the rows decided on by growing from what changed
//! show what deciding on all rows shows, and every constraint holds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use synqlite_view::random::play_bytes;

fuzz_target!(|bytes: &[u8]| {
    if let Some(fault) = play_bytes(bytes) {
        panic!("{fault}");
    }
});
