//! The files of a store, written from `docs/formats/lsm.md` and not with the store's own code.

/// Boot identity of the machine that the disk is in.
pub const BOOT: [u8; 16] = [7; 16];

/// Appends a varint.
pub fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a length and bytes.
pub fn bytes(out: &mut Vec<u8>, content: &[u8]) {
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn crc(seed: u32, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(content);
    hasher.finalize()
}

/// The header of log `number`, whose first record has sequence `first`.
pub fn log_header(number: u64, first: u64, boot: [u8; 16]) -> Vec<u8> {
    let mut out = b"SYNQLLOG".to_vec();
    out.extend_from_slice(&1u32.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&boot);
    let sum = crc(number as u32, &out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Appends a record with any payload.
pub fn record(out: &mut Vec<u8>, number: u64, synced: u32, seq: u64, payload: &[u8]) {
    let mut body = (payload.len() as u32).to_le_bytes().to_vec();
    body.extend_from_slice(&synced.to_le_bytes());
    body.extend_from_slice(&seq.to_le_bytes());
    body.extend_from_slice(payload);
    out.extend_from_slice(&crc(number as u32, &body).to_le_bytes());
    out.extend_from_slice(&body);
}

/// Appends the marker that ends log `number` here.
pub fn marker(out: &mut Vec<u8>, number: u64) {
    let n = (number << 36) ^ out.len() as u64;
    let n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    out.extend_from_slice(&(n.wrapping_mul(0xD6E8_FEB8_6659_FD93) | 1).to_le_bytes());
}

/// Appends a part of a table with its kind and checksum.
pub fn part(out: &mut Vec<u8>, number: u64, kind: u8, body: &[u8]) {
    let seed = (number as u32).rotate_left(16) ^ out.len() as u32;
    let start = out.len();
    out.extend_from_slice(body);
    out.push(kind);
    let sum = crc(seed, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Appends the footer of a table; `numbers` are entries, deletions, base, newest.
pub fn footer(out: &mut Vec<u8>, number: u64, filter: usize, index: usize, numbers: [u64; 4]) {
    let start = out.len();
    for n in [filter as u64, index as u64, start as u64].into_iter().chain(numbers) {
        out.extend_from_slice(&n.to_le_bytes());
    }
    out.extend_from_slice(&1u32.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let sum = crc((number as u32).rotate_left(16) ^ start as u32, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(b"SYNQLTAB");
}

/// The start of a manifest.
pub fn manifest() -> Vec<u8> {
    let mut out = b"SYNQLMAN".to_vec();
    out.extend_from_slice(&1u32.to_le_bytes());
    out
}

/// Appends a frame with any edit to manifest `number`.
pub fn frame(out: &mut Vec<u8>, number: u64, edit: &[u8]) {
    let mut body = (edit.len() as u32).to_le_bytes().to_vec();
    body.extend_from_slice(edit);
    let seed = (number as u32).rotate_left(8) ^ out.len() as u32;
    out.extend_from_slice(&crc(seed, &body).to_le_bytes());
    out.extend_from_slice(&body);
}

/// The start of an edit: newest sequence in tables, next file number, oldest log, whether it exists.
pub fn edit(seq: u64, next_file: u64, log: u64, open: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for n in [seq, next_file, log, u64::from(open), 0] {
        varint(&mut out, n);
    }
    out.extend_from_slice(&BOOT);
    out
}

/// The content of `CURRENT`.
pub fn current(manifest: &str) -> Vec<u8> {
    format!("{manifest} {:08x}\n", crc(0, manifest.as_bytes())).into_bytes()
}
