//! Padding classes: the sizes to which encrypted batches are padded, to hide the sizes of records.

use crate::refused::Refused;

/// How encrypted batches are padded.
///
/// # Examples
///
/// ```
/// use seawall_format::encryption::Padding;
///
/// assert_eq!(Padding::Off.padded(1001), 1001);
/// assert_eq!(Padding::Padme.padded(1001), 1024);
/// assert_eq!(Padding::multiple_of(4096).map(|padding| padding.padded(1001)), Some(4096));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Not at all.
    #[default]
    Off,
    /// To the classes of PADME: at most 12 % more, and so few classes that a size tells little.
    Padme,
    /// To a multiple of this number of bytes: a block, or what most batches fit in.
    Multiple(PaddingSize),
}

/// A number of bytes, a multiple of 8 up to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddingSize(u32);

/// The largest number of bytes whose multiples can be padding classes.
const PADDING_MAX: u32 = 1 << 20;

/// In a field: the classes of PADME. The number is no multiple of 8, so it is no padding size.
const PADME: u32 = 1;

impl Padding {
    /// Multiples of `size` bytes; `None` unless that is a multiple of 8 up to 1 MiB, and not 0.
    #[must_use]
    pub fn multiple_of(size: u32) -> Option<Self> {
        let is_sound = size.is_multiple_of(8) && (8..=PADDING_MAX).contains(&size);
        is_sound.then_some(Self::Multiple(PaddingSize(size)))
    }

    /// The padded size of `size` bytes.
    #[must_use]
    pub fn padded(self, size: usize) -> usize {
        let multiple = match self {
            Self::Off => 1,
            Self::Padme => padme(size),
            Self::Multiple(PaddingSize(multiple)) => usize::try_from(multiple).unwrap_or(1),
        };
        size.checked_next_multiple_of(multiple).unwrap_or(size)
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Padme => PADME.into(),
            Self::Multiple(PaddingSize(size)) => size.into(),
        }
    }

    pub(crate) fn from_number(number: u32) -> Result<Self, Refused> {
        match number {
            0 => Ok(Self::Off),
            PADME => Ok(Self::Padme),
            size => Self::multiple_of(size)
                .ok_or_else(|| Refused::Unknown { what: format!("padding {size}") }),
        }
    }
}

/// Returns the number of which all sizes in the class of `size` are multiples: 2^(E - S) for a size
/// with E + 1 binary digits, where S is the number of binary digits of E.
fn padme(size: usize) -> usize {
    let exponent = size.checked_ilog2().unwrap_or(0);
    let digits = exponent.checked_ilog2().map_or(0, |digits| digits + 1);
    1 << exponent.saturating_sub(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_to_the_next_of_their_class() {
        let block = Padding::multiple_of(4096).unwrap();
        for (size, padme, multiple) in [
            (0, 0, 0),
            (1, 1, 4096),
            (8, 8, 4096),
            (9, 10, 4096),
            (63, 64, 4096),
            (152, 160, 4096),
            (1000, 1024, 4096),
            (4096, 4096, 4096),
            (4097, 4352, 8192),
            (65_537, 67_584, 69_632),
        ] {
            assert_eq!(Padding::Off.padded(size), size);
            assert_eq!(Padding::Padme.padded(size), padme, "{size}");
            assert_eq!(block.padded(size), multiple, "{size}");
        }
    }

    #[test]
    fn classes_are_few_and_cost_an_eighth_at_most() {
        let mut classes = std::collections::BTreeSet::new();
        for size in 64..100_000 {
            let padded = Padding::Padme.padded(size);
            assert!(padded >= size && padded - size <= size / 8, "{size}: {padded}");
            assert_eq!(Padding::Padme.padded(padded), padded, "{size}");
            assert!(padded.is_multiple_of(8), "{size}: {padded}");
            classes.insert(padded);
        }
        assert!(classes.len() < 250, "{}", classes.len());
    }

    #[test]
    fn every_padding_has_one_number() {
        for number in [0, 1, 8, 4096, 65_536, 1 << 20] {
            assert_eq!(Padding::from_number(number).unwrap().number(), u64::from(number));
        }
        for number in [2, 7, 9, 4097, (1 << 20) + 8, u32::MAX] {
            let what = format!("padding {number}");
            assert_eq!(Padding::from_number(number), Err(Refused::Unknown { what }));
        }
        assert_eq!(Padding::multiple_of(0), None);
    }
}
