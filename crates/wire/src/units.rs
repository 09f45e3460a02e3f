//! Sizes and numbers of things in words: one form of each, wherever people read one.

/// A number of bytes, such as `912 B`, `1.4 kB` or `31 MB`: never more than three digits.
pub fn bytes(n: u64) -> String {
    if n < 1_000 {
        return format!("{n} B");
    }
    let mut unit = 1_000;
    for name in ["kB", "MB", "GB", "TB"] {
        let tenths = (u128::from(n) * 10 + unit / 2) / unit;
        if tenths < 100 {
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
        let whole = (u128::from(n) + unit / 2) / unit;
        if whole < 1_000 {
            return format!("{whole} {name}");
        }
        unit *= 1_000;
    }
    format!("{} PB", grouped(u64::try_from(u128::from(n) / unit).unwrap_or(u64::MAX)))
}

/// A number of things, such as `1 row`, `2 entries` or `1,234,567 rows`. `what` is the word for one.
pub fn count(n: u64, what: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { what.to_owned() } else { plural(what) })
}

/// A number with its digits in groups of three.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The word for several; only its last word is changed.
fn plural(what: &str) -> String {
    let hissing = ["s", "x", "ch", "sh"].iter().any(|end| what.ends_with(end));
    let stem = what.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match stem {
        Some(stem) => format!("{stem}ies"),
        None if hissing => format!("{what}es"),
        None => format!("{what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_two_or_three_digits() {
        let said = |n, what: &str| assert_eq!(bytes(n), what, "{n}");
        said(0, "0 B");
        said(999, "999 B");
        said(1_000, "1.0 kB");
        said(1_351, "1.4 kB");
        said(9_949, "9.9 kB");
        said(9_950, "10 kB");
        said(31_499, "31 kB");
        said(999_499, "999 kB");
        said(999_500, "1.0 MB");
        said(12_345_678, "12 MB");
        said(5_000_000_000, "5.0 GB");
        said(7_300_000_000_000, "7.3 TB");
        said(u64::MAX, "18,446 PB");
    }

    #[test]
    fn one_thing_is_one() {
        let said = |n, what: &str, all: &str| assert_eq!(count(n, what), all);
        said(0, "row", "0 rows");
        said(1, "object", "1 object");
        said(2, "entry", "2 entries");
        said(1_000, "batch", "1,000 batches");
        said(3, "key", "3 keys");
        said(1_234_567, "row", "1,234,567 rows");
        said(999, "open conflict", "999 open conflicts");
    }
}
