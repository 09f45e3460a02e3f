//! Values that SQLite holds equal and that are spelled otherwise, and those at the ends of its types.

use crate::random::Random;

/// Which values a column is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// A few plain words.
    Words,
    /// A few plain numbers.
    Numbers,
    /// Texts that are equal under some collation, and blobs that look like them.
    Letters,
    /// Numbers that are equal to others of another type, and texts that look like numbers.
    Spelled,
    /// Numbers where integers and floating point meet, and the infinities.
    Ends,
}

const WORDS: &[&str] = &["'a'", "'b'", "'c'", "'d'", "'e'"];
const NUMBERS: &[&str] = &["1", "2", "3", "4", "5"];
const LETTERS: &[&str] = &[
    "'a'",
    "'A'",
    "'a '",
    "'b'",
    "'B'",
    "'b  '",
    "'á'",
    "'Á'",
    "''",
    "' '",
    "'a'||char(0)||'b'",
    "x'61'",
    "x''",
    "'ß'",
];
const SPELLED: &[&str] = &[
    "1", "1.0", "'1'", "'01'", "1e0", "'1.0'", "2", "'2'", "2.0", "0", "0.0", "-0.0", "'-0'",
    "'0'", "3", "x'31'",
];
const ENDS: &[&str] = &[
    "1e999",
    "-1e999",
    "9007199254740992",
    "9007199254740993",
    "9007199254740993.0",
    "'9007199254740993'",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775807.0",
    // One less is what SQLite holds for equal to a REAL, and keeps as it is (docs/limits.md).
    "-9223372036854775807",
    "9.3e18",
    "0.1",
    "1",
];

/// Another spelling of a number, in whatever type; the value itself if it is no such number.
pub fn alike(r: &mut Random, value: &'static str) -> &'static str {
    const ALIKE: &[&[&str]] = &[
        &["1", "1.0", "'1'", "'01'", "1e0", "'1.0'"],
        &["2", "'2'", "2.0"],
        &["0", "0.0", "-0.0", "'-0'", "'0'"],
        &["9007199254740993", "'9007199254740993'"],
    ];
    let same = ALIKE.iter().find(|same| same.contains(&value)).copied().unwrap_or(&[]);
    same.get(r.index(same.len().max(1))).copied().unwrap_or(value)
}

/// An SQL expression for one value of a pool.
pub fn value(r: &mut Random, pool: Pool) -> &'static str {
    let from = all(pool);
    from[r.index(from.len())]
}

/// The same, of only three of the pool: those from the `nth` on.
pub fn value_of_few(r: &mut Random, pool: Pool, nth: usize) -> &'static str {
    let from = all(pool);
    from[(nth + r.index(3)) % from.len()]
}

/// The first of these three.
pub fn first_of_few(pool: Pool, nth: usize) -> &'static str {
    let from = all(pool);
    from[nth % from.len()]
}

fn all(pool: Pool) -> &'static [&'static str] {
    match pool {
        Pool::Words => WORDS,
        Pool::Numbers => NUMBERS,
        Pool::Letters => LETTERS,
        Pool::Spelled => SPELLED,
        Pool::Ends => ENDS,
    }
}
