//! Payloads of records. Each contains the number of its record, so that no two are equal unless
//! they are very short.

use std::fmt::Write as _;

use seawall_testkit::Dice;

/// The kind of payloads in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stuff {
    /// Random bytes.
    Random,
    /// Bytes that repeat in part.
    Compressible,
    /// JSON strings.
    Text,
}

/// Returns the payload of the `number`th record, in at most `size` bytes.
pub(crate) fn payload(stuff: Stuff, number: u64, size: usize) -> Vec<u8> {
    if stuff == Stuff::Text {
        return text(number, size);
    }
    let mut bytes = number.to_le_bytes().to_vec();
    if stuff == Stuff::Compressible {
        // A quarter does not repeat at all, a quarter entirely, the others by half.
        let repeated = match number % 4 {
            0 => 0,
            1 => size,
            _ => size / 2,
        };
        bytes.extend(b"a part that repeats, ".iter().cycle().take(repeated));
    }
    let mut dice = Dice::new(number);
    while bytes.len() < size {
        bytes.extend(dice.any().to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

fn text(number: u64, size: usize) -> Vec<u8> {
    let mut text = format!("\"{number:x}.");
    let mut dice = Dice::new(number);
    while text.len() + 1 < size {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:x} ", dice.any());
    }
    text.truncate(size.saturating_sub(1).max(1));
    if text.len() < 2 {
        return b"7".to_vec();
    }
    text.push('"');
    text.into_bytes()
}
