//! No bytes make the decoder of batches panic or run out of memory, and whatever it accepts it
//! gives back unchanged after another encoding.
//!
//! Random bytes fail at the first checksum. So the first byte of the input chooses how deep it goes:
//! whole batches, header and packed body in a frame with right checksums, or the bare body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synqlite_wire::{Delta, Id, batch};

fuzz_target!(|input: &[u8]| {
    match input {
        [0, bytes @ ..] => {
            let _ = batch::decode_header(bytes);
            check(batch::decode(bytes).map(|(_, delta)| delta));
        }
        [1, len, bytes @ ..] => {
            let (header, packed) = bytes.split_at((*len as usize).min(bytes.len()));
            check(batch::decode(&batch::seal(header, packed)).map(|(_, delta)| delta));
        }
        [2, rows, body @ ..] => check(batch::decode_body(u64::from(*rows), body)),
        _ => {}
    }
});

fn check(decoded: Result<Delta, batch::BatchError>) {
    let Ok(delta) = decoded else { return };
    let batch = batch::encode(Id::ZERO, Id::ZERO, &delta).expect("what was decoded is valid");
    let (_, again) = batch::decode(&batch).expect("what was encoded is readable");
    assert_eq!(again, delta);
}
