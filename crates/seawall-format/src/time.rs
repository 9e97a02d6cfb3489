//! Times as people read them: RFC 3339 in UTC, to the microsecond.

/// Microseconds since 1970 as `2025-11-21T04:40:00.123456Z`; `None` for 0, which means unknown.
///
/// # Examples
///
/// ```
/// use seawall_format::time::{from_text, to_text};
///
/// let text = to_text(1_763_700_000_123_456).unwrap();
/// assert_eq!(text, "2025-11-21T04:40:00.123456Z");
/// assert_eq!(from_text(&text), Some(1_763_700_000_123_456));
/// ```
#[must_use]
pub fn to_text(time_us: u64) -> Option<String> {
    if time_us == 0 {
        return None;
    }
    let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"))
}

/// Parses a time in exactly the form of [`to_text`].
#[must_use]
pub fn from_text(text: &str) -> Option<u64> {
    // Everything after the year has a fixed size; the year may have more than four digits.
    let (year, rest) = text.split_at_checked(text.len().checked_sub(MARKS.len())?)?;
    let is_mark = |(byte, mark): (u8, &u8)| *mark == b'0' || byte == *mark;
    let has_leading_zero = year.len() > 4 && year.starts_with('0');
    if !rest.bytes().zip(MARKS).all(is_mark) || has_leading_zero || !(4..=7).contains(&year.len()) {
        return None;
    }
    let number = |range| rest.get(range).and_then(number);
    let (year, month, day) = (self::number(year)?, number(1..3)?, number(4..6)?);
    let (hour, minute, second) = (number(7..9)?, number(10..12)?, number(13..15)?);
    let days = days(year, month, day)?;
    // The calendar has no such day if it converts back to another one.
    if civil(days) != (year, month, day) || hour >= 24 || minute >= 60 || second >= 60 {
        return None;
    }
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    let time_us = seconds.checked_mul(1_000_000)?.checked_add(number(16..22)?)?;
    // 0 means unknown, and is never written.
    (time_us > 0).then_some(time_us)
}

/// The characters after the year; 0 stands for any digit.
const MARKS: &[u8] = b"-00-00T00:00:00.000000Z";

/// Parses text of digits only, too few to overflow.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| 10 * number + u64::from(byte - b'0'))
    })
}

/// Days since 1970 as year, month, day: Howard Hinnant's `civil_from_days`, for the days we have.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March here, so that the leap day is their last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Year, month, day as days since 1970: Howard Hinnant's `days_from_civil`.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (year / 400, year % 400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = ((153 * month + 2) / 5 + day).checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_match_the_calendar() {
        let second = |seconds: u64| to_text(seconds * 1_000_000).unwrap();
        assert_eq!(second(1), "1970-01-01T00:00:01.000000Z");
        assert_eq!(second(951_782_399), "2000-02-28T23:59:59.000000Z");
        assert_eq!(second(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(second(1_709_251_199), "2024-02-29T23:59:59.000000Z");
        assert_eq!(second(4_107_542_400), "2100-03-01T00:00:00.000000Z");
        assert_eq!(to_text(0), None);
    }

    #[test]
    fn timestamp_is_read_back_and_other_text_refused() {
        let all = (1..4_000_000_000_000_000).step_by(999_999_999_999 * crate::fields::sizes::EVERY);
        for time_us in all.chain([253_402_300_800_000_000, u64::MAX]) {
            assert_eq!(from_text(&to_text(time_us).unwrap()), Some(time_us));
        }
        for wrong in [
            "",
            "2025-11-21",
            "2025-11-21T04:40:00Z",
            "2025-11-21T04:40:00.1Z",
            "2025-13-21T04:40:00.123456Z",
            "2025-02-30T04:40:00.123456Z",
            "2025-11-21T24:40:00.123456Z",
            "2025-11-21T04:40:00.123456",
            "-T:.Z",
            "99999999999999999999-11-21T04:40:00.123456Z",
            "2025-11-0T04:40:00.123456Z",
            "2025-00-21T04:40:00.123456Z",
            "2025-11-00T04:40:00.123456Z",
            "2025-02-29T04:40:00.123456Z",
            "2025-11-21T04:60:00.123456Z",
            "2025-11-21T04:40:60.123456Z",
            "2025-11-21 04:40:00.123456Z",
            "2025-11-21T04:40:00,123456Z",
            "2025-11-21T04:40:00.+23456Z",
            "2025-11-21T04:40:0\u{b2}.12345Z",
            "02025-11-21T04:40:00.123456Z",
            "202-11-21T04:40:00.123456Z",
            "1969-12-31T23:59:59.999999Z",
            "1970-01-01T00:00:00.000000Z",
            "9999999-11-21T04:40:00.123456Z",
            "+2025-11-21T04:40:00.123456Z",
        ] {
            assert_eq!(from_text(wrong), None, "{wrong}");
        }
    }
}
