//! Bloom filters: whether a table may hold a key.
//!
//! All bits of a key lie in one line of 64 bytes, so a probe touches one cache line. With 10 bits
//! a key about one absent key in a hundred passes.

const LINE: usize = 64;

fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The bits of a key within its line, `probes` of them.
fn bits(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    let mut h = (hash as u32).wrapping_mul(0x9E37_79B9) | 1;
    (0..probes).map(move |_| {
        h = h.wrapping_mul(0x85EB_CA6B).rotate_left(13) ^ (hash as u32);
        (h >> 23) as usize
    })
}

/// Builds the filter of the given key hashes: a byte with the number of probes, then the lines.
/// Empty without keys or bits.
pub(crate) fn build(hashes: &[u64], bits_per_key: usize) -> Vec<u8> {
    if hashes.is_empty() || bits_per_key == 0 {
        return Vec::new();
    }
    let lines = (hashes.len() * bits_per_key).div_ceil(LINE * 8).max(1);
    let probes = (bits_per_key * 7 / 10).clamp(1, 8) as u8;
    let mut out = vec![0; 1 + lines * LINE];
    out[0] = probes;
    for &hash in hashes {
        let start = 1 + line_of(hash, lines) * LINE;
        for bit in bits(hash, probes) {
            out[start + bit / 8] |= 1 << (bit % 8);
        }
    }
    out
}

/// `false` only if the key is certainly absent. An empty filter lets everything pass.
#[inline]
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let Some((&probes, lines)) = filter.split_first() else { return true };
    let (lines, _) = lines.as_chunks::<LINE>();
    let Some(line) = lines.get(line_of(hash, lines.len())) else { return true };
    bits(hash, probes).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::hash;

    #[test]
    fn members_pass_and_few_others() {
        let keys: Vec<u64> = (0..20_000u64).map(|i| hash(format!("{i:016}").as_bytes())).collect();
        let filter = build(&keys[..10_000], 10);
        assert!(keys[..10_000].iter().all(|h| may_contain(&filter, *h)));
        let wrong = keys[10_000..].iter().filter(|h| may_contain(&filter, **h)).count();
        assert!(wrong < 250, "{wrong} of 10000 absent keys pass");
        assert!(wrong > 0, "a filter this small cannot be exact");
    }
}
