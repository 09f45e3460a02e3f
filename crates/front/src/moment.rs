//! Points of time as people read and write them, in UTC.

use crate::{Failure, Kind};
use synqlite_core::{Environment, System};

const DAY_MS: i64 = 86_400_000;

/// Milliseconds since 1970 as UTC, such as `2026-11-20 12:18:45.007`.
pub fn time(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    // Years begin in March here, so that the leap day is the last.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, ms) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}")
}

/// Reads a point of time that somebody said, by the clock of this machine.
pub fn point_of_time(text: &str) -> Result<i64, Failure> {
    parse(text, System.now_ms()).ok_or_else(|| {
        Failure::new(format!("`{text}` is no point of time"))
            .hint("Write it as 2026-11-20, 2026-11-20 12:18:45, or how long ago: 10m, 2h, 7d")
            .of(Kind::Usage, None)
    })
}

/// Reads a point of time: as [`time`] writes it or a part from its left, with `T` and `Z` too; or how long
/// before `now_ms` it was, such as `90s`, `10m`, `2h`, `7d`.
fn parse(text: &str, now_ms: i64) -> Option<i64> {
    let text = text.trim();
    if let Some((at, unit)) = text.char_indices().last()
        && let Some(unit) = [('s', 1_000), ('m', 60_000), ('h', 3_600_000), ('d', DAY_MS)]
            .iter()
            .find_map(|(name, ms)| (*name == unit).then_some(*ms))
    {
        let count: i64 = digits(&text[..at], 1..=9)?;
        return Some(now_ms - count * unit);
    }
    let text = text.strip_suffix(" UTC").or(text.strip_suffix('Z')).unwrap_or(text);
    let (date, clock) = match text.split_once([' ', 'T']) {
        Some((date, clock)) => (date, clock),
        None => (text, "00:00"),
    };
    let mut date = date.split('-');
    let mut part = |long| date.next().and_then(|part| digits(part, long..=long));
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    if date.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.split(':');
    let mut part = || clock.next().map_or(Some(0), |part| digits(part, 2..=2));
    let (hour, minute, second) = (part()?, part()?, part()?);
    if clock.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let long = u32::try_from(fraction.len()).ok()?;
    let fraction = digits(fraction, 1..=9)? * 1_000 / 10_i64.pow(long);
    // The year from March on, as above.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * m + 2) / 5 + day
        - 1
        - 719_468;
    let ms = days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000 + fraction;
    // There is no 31st of April.
    (time(ms).get(..10) == Some(&format!("{year:04}-{month:02}-{day:02}"))).then_some(ms)
}

/// A number of so many digits.
fn digits(text: &str, long: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let plain = long.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000");
        assert_eq!(time(951_827_696_789), "2000-02-29 12:34:56.789");
        assert_eq!(time(1_795_177_125_007), "2026-11-20 12:18:45.007");
        assert_eq!(time(-1), "1969-12-31 23:59:59.999");
    }

    #[test]
    fn what_is_written_is_read() {
        for ms in [0, -1, 951_827_696_789, 1_795_177_125_007, 4_102_444_800_000, 68_169_600_000] {
            assert_eq!(parse(&time(ms), 0), Some(ms));
        }
        let begun = Some(1_795_132_800_000);
        assert_eq!(parse("2026-11-20", 0), begun);
        assert_eq!(parse("2026-11-20T00:00:00Z", 0), begun);
        assert_eq!(parse("2026-11-20 00:01 UTC", 0), begun.map(|ms| ms + 60_000));
        assert_eq!(parse("2026-11-20 00:00:00.25", 0), begun.map(|ms| ms + 250));
        assert_eq!(parse("2h", 7_200_001), Some(1));
        assert_eq!(parse("90s", 0), Some(-90_000));
        for bad in [
            "",
            "m",
            "h2",
            "-2h",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "2026-1-1",
            "é",
            "1é",
            "2026-11-20 24:00",
            "2026-11-20 1:2",
            "2026-11-20 00:00:00.",
            "99999999999d",
            "2026-11-20-01",
            "2026-11-20 00:00:00:00",
        ] {
            assert_eq!(parse(bad, 0), None, "{bad:?}");
        }
    }
}
