//! Parses and formats sizes and numbers for people.

/// Parses sizes such as `116`, `64K`, `1MiB` and `1GB`. All units are powers of 1,024.
///
/// # Errors
///
/// A message that shows the expected form.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(format!("`{text}` is not a size; write 65536, 64K, 1MiB or 1GiB")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a size; write 64MiB"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

/// Parses a number of threads from 1 to 1,024.
///
/// # Errors
///
/// A message that shows the expected form.
pub fn parse_writers(text: &str) -> Result<usize, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number of writers from 1 to 1024"))
}

/// Parses a number of seconds from 0.1 to 60.
///
/// # Errors
///
/// A message that shows the expected form.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.1..=60.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number of seconds from 0.1 to 60"))
}

/// Parses a record size of at most 1 MiB.
///
/// # Errors
///
/// A message that shows the expected form.
pub fn parse_record_size(text: &str) -> Result<usize, String> {
    let size = parse_size(text)?;
    let size = usize::try_from(size).ok().filter(|size| *size <= 1 << 20);
    size.ok_or_else(|| format!("`{text}` is too large to measure with; 1MiB at most"))
}

/// Formats `1203441` as `1,203,441`.
#[must_use]
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a rate or a time without its fraction, such as `1,203,441`.
#[must_use]
pub fn rounded(value: f64) -> String {
    // Via text, because the `as` cast from float to integer saturates silently.
    format!("{:.0}", value.max(0.0)).parse().map_or_else(|_| "-".to_owned(), number)
}

/// Formats a ratio as `1.25x` or `1,591x`.
#[must_use]
pub fn times(ratio: f64) -> String {
    if ratio >= 100.0 { format!("{}x", rounded(ratio)) } else { format!("{ratio:.2}x") }
}

/// Converts a count to a float.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub fn to_f64(count: u64) -> f64 {
    count as f64
}

/// Converts a size in memory.
#[must_use]
pub fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}

/// Formats a size as `512.0 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) => format!("{:.1} {unit}", to_f64(bytes) / to_f64(1 << shift)),
        None => count(bytes, "byte"),
    }
}

/// Formats a count: `1 record`, `2 records`.
#[must_use]
pub fn count(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(count))
}

/// Wraps a text that starts at column `indent` to 80 columns; all lines start at that column.
#[must_use]
pub fn folded(text: &str, indent: usize) -> String {
    let (mut lines, mut column) = (String::new(), indent);
    for word in text.split(' ') {
        let size = word.chars().count();
        if !lines.is_empty() && column + 1 + size > 80 {
            lines = format!("{lines}\n{:indent$}", "");
            column = indent;
        } else if !lines.is_empty() {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += size;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_all_common_units() {
        for (text, size) in [("0", 0), ("65536", 65_536), ("64K", 65_536), ("64KiB", 65_536)] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert_eq!(parse_size("2mb"), Ok(2 << 20));
        assert_eq!(parse_size("4GiB"), Ok(4 << 30));
        for text in ["", "K", "-1", "1.5M", "1T", "99999999999G", "1 M"] {
            parse_size(text).expect_err(text);
        }
    }

    #[test]
    fn text_is_wrapped_at_80_columns_and_aligned() {
        let text = "word ".repeat(40);
        let lines = format!("{:10}{}", "start", folded(text.trim_end(), 10));
        assert_eq!(lines.lines().map(str::len).collect::<Vec<_>>(), [79, 79, 69]);
        assert!(lines.lines().skip(1).all(|line| line.starts_with("          word")), "{lines}");
        assert_eq!(folded("", 5), "");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1000, 1_203_441].map(number), ["0", "999", "1,000", "1,203,441"]);
        assert_eq!([0.987, 12.0, 1591.2].map(times), ["0.99x", "12.00x", "1,591x"]);
    }
}
