//! In the place of `lines` in programs without a parser for JSON: they refuse a text by name.

use crate::batch::{BatchHeader, Life, Spec};
use crate::scan::{Cause, Scanner, Step, Window};

/// How many bytes tell that a line begins.
pub const START_SIZE: usize = 0;

/// How many bytes a line takes beside its frame at most.
pub const LINE_OVERHEAD_MAX: u64 = 0;

impl Scanner {
    /// Finds no set.
    #[expect(clippy::unused_self, reason = "the scanner that can asks itself")]
    pub(crate) fn step_lines<'a>(&mut self, _: Window<'a>) -> Step<'a> {
        Step::Stopped(Cause::Header, None)
    }
}

/// Finds no line.
#[must_use]
pub fn header_at(_: &[u8], _: &Life) -> Option<BatchHeader> {
    None
}

/// Finds no line.
pub fn starts(_: &[u8], _: bool) -> impl Iterator<Item = usize> + use<> {
    std::iter::empty()
}

/// No line has a length.
#[must_use]
pub fn line_max(_: &Life) -> u64 {
    0
}

/// No set has a length.
#[must_use]
pub fn write_max(_: &Life) -> u64 {
    0
}

/// Accepts nothing: no text holds it.
#[must_use]
pub fn is_valid_data(_: &str) -> bool {
    false
}

/// Writes nothing.
///
/// # Panics
///
/// Always: no log of such a program has the readable layout.
#[must_use]
pub fn write(_: &[u8], _: &Spec, _: &Life) -> (Vec<u8>, u64) {
    unreachable!("a readable log is refused where it is opened or made")
}
