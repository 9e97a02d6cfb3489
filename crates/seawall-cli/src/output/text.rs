//! What people write and read on a command line; sizes and numbers as all our programs do.

use crate::args::Last;
use seawall::Lsn;
pub(crate) use seawall_measure::human::{
    bytes, count, folded, number, parse_record_size, parse_seconds, parse_size, parse_writers,
    rounded, to_f64, to_u64,
};
use std::path::Path;
use std::time::Duration;

/// Reads an LSN. Commas and underscores between digits are ignored.
pub(crate) fn parse_lsn(text: &str) -> Result<u64, String> {
    let lsn = parse_count(text).ok().filter(|lsn| *lsn >= 1);
    lsn.ok_or_else(|| format!("`{text}` is not an LSN; LSNs are 1, 2, 3, ..."))
}

/// Reads a number of things. Commas and underscores between digits are ignored.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let has_digit_ends = |text: &str| {
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        is_digit(text.chars().next()) && is_digit(text.chars().next_back())
    };
    let plain =
        Some(text).filter(|text| has_digit_ends(text)).map(|text| text.replace([',', '_'], ""));
    let number = plain.and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("`{text}` is not a number"))
}

/// Records `first` to `last`, as text that can be pasted into a command line.
pub(crate) fn span_of(first: Lsn, last: Lsn) -> String {
    if first == last { format!("LSN {first}") } else { format!("LSN {first} .. {last}") }
}

/// Reads the number of the last record that stays, or `none`.
pub(crate) fn parse_lsn_or_none(text: &str) -> Result<Last, String> {
    match text {
        "none" => Ok(Last(None)),
        _ => parse_lsn(text).map(|number| Last(Lsn::new(number))),
    }
}

/// A path as it is typed in a shell.
pub(crate) fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A time span as `0.41 s` or `12 ms`.
pub(crate) fn span(time: Duration) -> String {
    if time < Duration::from_millis(100) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.2} s", time.as_secs_f64())
    }
}

/// A time in microseconds since 1970 as `2026-11-25 03:12:45.123 UTC`.
pub(crate) fn utc(time_us: u64) -> String {
    let (seconds, millis) = (time_us / 1_000_000, time_us / 1000 % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since March of a year that 400 divides: so a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00.000 UTC"),
            (951_782_399, "2000-02-28 23:59:59.000 UTC"),
            (951_782_400, "2000-02-29 00:00:00.000 UTC"),
            (951_868_800, "2000-03-01 00:00:00.000 UTC"),
            (1_795_576_365, "2026-11-25 03:12:45.000 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00.000 UTC"),
        ] {
            assert_eq!(utc(seconds * 1_000_000), text);
        }
        assert_eq!(utc(1_999), "1970-01-01 00:00:00.001 UTC");
        assert!(utc(u64::MAX).starts_with("586524-"), "{}", utc(u64::MAX));
    }

    #[test]
    fn an_lsn_is_read_with_and_without_separators() {
        for (text, lsn) in [("1", 1), ("7378", 7378), ("7,378", 7378), ("1_000_000", 1_000_000)] {
            assert_eq!(parse_lsn(text), Ok(lsn), "{text}");
        }
        for text in ["", "0", "-1", "+1", ",", "1,", "_1", "1.5", "one", "99999999999999999999"] {
            parse_lsn(text).expect_err(text);
        }
    }

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        for (path, shown) in [
            ("orders.wal", "orders.wal"),
            ("my log", "'my log'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("-log", "'-log'"),
            ("", "''"),
        ] {
            assert_eq!(typed(Path::new(path)), shown);
        }
    }
}
