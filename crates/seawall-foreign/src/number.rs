//! Numbers in JSON text, and whether 64 bits hold them exactly.

use serde_json::Value;

/// The numbers in valid JSON, as written.
pub(crate) fn numbers(text: &[u8]) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while let Some((&byte, behind)) = rest.split_first() {
            rest = behind;
            if byte == b'"' {
                rest = behind_string(behind);
            } else if byte == b'-' || byte.is_ascii_digit() {
                let length = behind.iter().take_while(|b| is_in_number(**b)).count();
                let (tail, next) = behind.split_at(length);
                rest = next;
                let digits = std::iter::once(byte).chain(tail.iter().copied());
                return Some(digits.map(char::from).collect());
            }
        }
        None
    })
}

/// Returns whether a JSON number fits into 64 bits, as an integer or as a float that prints as the
/// same number.
pub(crate) fn is_exact(number: &str) -> bool {
    if number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok() {
        return true;
    }
    let is_integer = !number.contains(['.', 'e', 'E']);
    let nearest = number.parse::<f64>().ok().filter(|nearest| nearest.is_finite() && !is_integer);
    // Compare the printed form, because two shortest representations can be equally near.
    nearest.is_some_and(|nearest| decimal(number) == decimal(&Value::from(nearest).to_string()))
}

/// Splits a decimal number into its significant digits and a power of ten.
fn decimal(number: &str) -> (bool, String, i64) {
    let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |m| (true, m));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return (negative, String::new(), 0);
    }
    // No float has a power that exceeds 64 bits, so the number differs from every float.
    let power = power.trim_start_matches('+').parse::<i64>().unwrap_or(i64::MAX);
    let shift = digits.len() - kept.len();
    let shift = i64::try_from(shift).unwrap_or(i64::MAX);
    let behind = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    (negative, kept.to_owned(), power.saturating_add(shift).saturating_sub(behind))
}

fn is_in_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')
}

/// Returns the text after the end of the string that it begins in.
pub(crate) fn behind_string(text: &[u8]) -> &[u8] {
    let mut rest = text;
    loop {
        match rest {
            [b'"', behind @ ..] => return behind,
            [b'\\', _, behind @ ..] | [_, behind @ ..] => rest = behind,
            [] => return rest,
        }
    }
}
