//! Formats numbers, sizes, times and paths consistently.

pub use seawall_measure::human::{bytes, count, folded, number, rounded, to_f64, to_u64};
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

/// A range of records, in a form that can be pasted into a command line.
pub fn span_of<T: Copy + Display + PartialEq>(first: T, last: T) -> String {
    if first == last { format!("LSN {first}") } else { format!("LSN {first} .. {last}") }
}

/// A path quoted for the shell.
#[must_use]
pub fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A duration as `0.41 s` or `12 ms`.
#[must_use]
pub fn span(time: Duration) -> String {
    if time < Duration::from_millis(100) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.2} s", time.as_secs_f64())
    }
}

/// A time in microseconds since 1970 as `2026-11-25 03:12:45.123 UTC`.
#[must_use]
pub fn utc(time_us: u64) -> String {
    // In the log format, 0 means an unknown time; here, it is a valid time.
    let text = seawall_format::time::to_text(time_us.max(1)).expect("not 0");
    let (to_millis, _) = text.split_at(text.len() - "456Z".len());
    format!("{} UTC", to_millis.replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_is_formatted_as_a_date() {
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
    fn path_is_quoted_for_a_shell() {
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
