//! Replaces `line_set` in programs without a parser for JSON, which refuse a text by name.

use crate::binary::batch::{BatchHeader, Life, Spec};
use crate::binary::step::{Cause, Part, Progress, Step, Window};

/// Bytes from which the beginning of a line is recognised.
pub const START_SIZE: usize = 0;

/// The maximum size of a line minus its frame, in bytes.
pub const LINE_OVERHEAD_MAX: u64 = 0;

/// Finds no set.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineCursor {
    pub(crate) part: Option<Part>,
    pub(crate) is_rewritten: bool,
    pub(crate) spare: Vec<u8>,
}

impl LineCursor {
    #[expect(clippy::unused_self, reason = "the cursor of the real parser has state")]
    pub(crate) fn step<'a>(&mut self, _: &mut Progress, _: Window<'a>) -> Step<'a> {
        Step::Stopped(Cause::Line, None)
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

/// Accepts nothing: such a program has no text to hold it.
#[must_use]
pub fn is_valid_data(_: &str) -> bool {
    false
}

/// Accepts nothing, as [`is_valid_data`].
#[must_use]
pub fn add_sum(_: &mut Vec<u8>) -> bool {
    false
}

/// The record: no sum is ever added.
#[must_use]
pub fn without_sum(payload: &[u8]) -> &[u8] {
    payload
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
