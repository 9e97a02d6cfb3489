//! Parses values of the command line.

use seawall::Lsn;
pub(crate) use seawall_measure::human::{
    parse_record_size, parse_seconds, parse_size, parse_writers,
};

/// The last record to keep; `None` keeps no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last(pub(crate) Option<Lsn>);

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

/// Reads the number of the last record that stays, or `none`.
pub(crate) fn parse_lsn_or_none(text: &str) -> Result<Last, String> {
    match text {
        "none" => Ok(Last(None)),
        _ => parse_lsn(text).map(|number| Last(Lsn::new(number))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsn_is_parsed_with_and_without_separators() {
        for (text, lsn) in [("1", 1), ("7378", 7378), ("7,378", 7378), ("1_000_000", 1_000_000)] {
            assert_eq!(parse_lsn(text), Ok(lsn), "{text}");
        }
        for text in ["", "0", "-1", "+1", ",", "1,", "_1", "1.5", "one", "99999999999999999999"] {
            parse_lsn(text).expect_err(text);
        }
    }
}
