//! What people write and read on a command line; sizes and numbers as all our programs do.

use crate::args::Last;
pub(crate) use seawall_measure::human::{
    bytes, count, folded, number, parse_record_size, parse_seconds, parse_size, parse_writers,
    rounded, times, to_f64,
};
use std::path::Path;
use std::time::Duration;

/// Reads the number of a record.
pub(crate) fn parse_lsn(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number >= 1);
    number.ok_or_else(|| format!("`{text}` is no record's number; they are 1, 2, 3, ..."))
}

/// Reads the number of the last record that stays, or `none`.
pub(crate) fn parse_lsn_or_none(text: &str) -> Result<Last, String> {
    match text {
        "none" => Ok(Last(None)),
        _ => parse_lsn(text).map(|number| Last(seawall::Lsn::new(number))),
    }
}

/// Reads a number of records to measure with.
pub(crate) fn parse_records(text: &str) -> Result<u64, String> {
    let number = text.replace(['_', ','], "").parse().ok();
    let number = number.filter(|number| (1_000..=100_000_000).contains(number));
    number.ok_or_else(|| format!("`{text}` is no number of records; 1000 to 100000000"))
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

/// A size in memory as a number of bytes, or of whatever it counts.
pub(crate) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

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
