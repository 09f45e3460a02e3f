//! No bytes make the decoder of batches panic or run out of memory, and whatever it accepts it
//! gives back unchanged after another encoding.
//!
//! Random bytes fail at the first checksum. So the first byte of the input chooses how deep it goes:
//! whole batches, header and packed body in a frame with right checksums, or the bare body. A batch is its parts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use synqlite_wire::{Delta, Id, batch};

fuzz_target!(|input: &[u8]| {
    match input {
        [0, bytes @ ..] => {
            let _ = batch::decode_header(bytes);
            check(batch::decode(bytes).map(|(_, parts)| parts));
        }
        [1, len, bytes @ ..] => {
            let (header, packed) = bytes.split_at((*len as usize).min(bytes.len()));
            check(batch::decode(&batch::seal(header, packed)).map(|(_, parts)| parts));
        }
        [2, rows, body @ ..] => {
            check(batch::decode_raw(u64::from(*rows), body).map(|delta| vec![delta]));
        }
        _ => {}
    }
});

fn check(decoded: Result<Vec<Delta>, batch::BatchError>) {
    for delta in decoded.unwrap_or_default() {
        let batch = batch::encode(Id::ZERO, Id::ZERO, &delta).expect("what was decoded is valid");
        let (_, again) = batch::decode(&batch).expect("what was encoded is readable");
        assert_eq!(again, [delta]);
    }
}
