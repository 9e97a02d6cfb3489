//! The bytes of records: each says which one it is, and no two are equal if there is room.

use std::fmt::Write as _;

use seawall_testkit::Dice;

/// What the records of a log consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stuff {
    /// Random bytes.
    Random,
    /// Bytes of which a part repeats.
    Compressible,
    /// JSON strings.
    Text,
}

/// The record that is handed over as the `number`th, in `size` bytes at most.
pub(crate) fn payload(stuff: Stuff, number: u64, size: usize) -> Vec<u8> {
    if stuff == Stuff::Text {
        return text(number, size);
    }
    let mut bytes = number.to_le_bytes().to_vec();
    if stuff == Stuff::Compressible {
        // All of it, half of it, or nothing.
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
