//! A low-level `MessagePack` parser: finds the end of a value, and splits it into tokens.
//!
//! <https://github.com/msgpack/msgpack/blob/master/spec.md>; numbers are big-endian.

/// The header of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: Kind,
    /// The size of the marker and the length field.
    size: usize,
    /// The number of payload bytes after the header that are not values.
    body: u64,
    /// The number of values after the header that belong to this one.
    items: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nil,
    Bool(bool),
    /// The number is part of the marker.
    Small(i8),
    Unsigned,
    Signed,
    Float,
    Text,
    Bytes,
    Array,
    Map,
    Extension,
}

/// The first token of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// Nil.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A number that is not negative.
    Unsigned(u64),
    /// A number that is normally negative.
    Signed(i64),
    /// A float. 32-bit floats are widened, which is exact.
    Float(f64),
    /// Text that may not be valid UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array; this many values follow.
    Array(u64),
    /// A map; this many pairs of values follow.
    Map(u64),
    /// An extension type.
    Extension,
}

/// Returns the first token and the remaining bytes; `None` if the bytes end early or start no
/// value.
#[must_use]
pub fn token(bytes: &[u8]) -> Option<(Token<'_>, &[u8])> {
    let head = head(bytes).ok().flatten()?;
    let body = usize::try_from(head.body).ok()?;
    let (body, rest) = bytes.get(head.size..)?.split_at_checked(body)?;
    let token = match head.kind {
        Kind::Nil => Token::Nil,
        Kind::Bool(value) => Token::Bool(value),
        Kind::Small(value) => match u64::try_from(value) {
            Ok(value) => Token::Unsigned(value),
            Err(_) => Token::Signed(i64::from(value)),
        },
        Kind::Unsigned => Token::Unsigned(big_endian(body)),
        Kind::Signed => {
            let unused = 64 - 8 * u32::try_from(body.len()).ok()?;
            Token::Signed((big_endian(body) << unused).cast_signed() >> unused)
        }
        Kind::Float => Token::Float(match u32::try_from(big_endian(body)) {
            Ok(bits) if body.len() == 4 => f64::from(f32::from_bits(bits)),
            _ => f64::from_bits(big_endian(body)),
        }),
        Kind::Text => Token::Text(body),
        Kind::Bytes => Token::Bytes(body),
        Kind::Array => Token::Array(head.items),
        Kind::Map => Token::Map(head.items / 2),
        Kind::Extension => Token::Extension,
    };
    Some((token, rest))
}

/// Searches for the end of a value in a growing buffer.
///
/// Counts the pending values, without recursion or allocation.
#[derive(Debug)]
pub(crate) struct Scan {
    max: usize,
    at: usize,
    left: u64,
}

/// The result of a scan step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The value has this many bytes.
    Ends(usize),
    /// The value is longer than the buffer: it has at least this many bytes.
    More(usize),
    /// The value exceeds the maximum.
    TooLong,
    /// The byte at this offset does not start a value.
    Wrong(usize),
}

impl Scan {
    /// Creates a scan for a value of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, at: 0, left: 1 }
    }

    /// Continues the scan. `bytes` must start as in the last call and must not be shorter.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        while self.left > 0 {
            let rest = bytes.get(self.at..).unwrap_or_default();
            let head = match head(rest) {
                Ok(Some(head)) => head,
                Ok(None) => return Step::More(self.at + rest.len() + 1),
                Err(()) => return Step::Wrong(self.at),
            };
            let body = usize::try_from(head.body).unwrap_or(usize::MAX);
            let end = (self.at + head.size).saturating_add(body);
            let left = self.left - 1 + head.items;
            // Each pending value has at least one byte.
            if u64::try_from(end).unwrap_or(u64::MAX).saturating_add(left) > max_of(self.max) {
                return Step::TooLong;
            }
            if end > bytes.len() {
                return Step::More(end);
            }
            (self.at, self.left) = (end, left);
        }
        Step::Ends(self.at)
    }
}

/// Parses the header at the start of a value: how many bytes it and its body have, and how many
/// values follow as its items. `None` if no value starts so, or the header is incomplete.
pub(crate) fn extent(bytes: &[u8]) -> Option<(u64, u64)> {
    let head = head(bytes).ok().flatten()?;
    let size = u64::try_from(head.size).unwrap_or(u64::MAX);
    Some((size.saturating_add(head.body), head.items))
}

/// Returns whether the bytes are exactly one value.
#[must_use]
pub fn is_whole(bytes: &[u8]) -> bool {
    Scan::new(bytes.len()).step(bytes) == Step::Ends(bytes.len())
}

fn max_of(max: usize) -> u64 {
    u64::try_from(max).unwrap_or(u64::MAX)
}

/// Parses a header; `None` if it is incomplete. No value starts with 0xc1.
fn head(bytes: &[u8]) -> Result<Option<Head>, ()> {
    let Some((&marker, rest)) = bytes.split_first() else { return Ok(None) };
    let low = |mask: u8| u64::from(marker & mask);
    let fixed = |kind, body, items| Ok(Some(Head { kind, size: 1, body, items }));
    let (kind, width) = match marker {
        0x00..=0x7f | 0xe0..=0xff => return fixed(Kind::Small(marker.cast_signed()), 0, 0),
        0x80..=0x8f => return fixed(Kind::Map, 0, 2 * low(0x0f)),
        0x90..=0x9f => return fixed(Kind::Array, 0, low(0x0f)),
        0xa0..=0xbf => return fixed(Kind::Text, low(0x1f), 0),
        0xc0 => return fixed(Kind::Nil, 0, 0),
        0xc1 => return Err(()),
        0xc2 | 0xc3 => return fixed(Kind::Bool(marker == 0xc3), 0, 0),
        0xca | 0xcb => return fixed(Kind::Float, if marker == 0xca { 4 } else { 8 }, 0),
        0xcc..=0xcf => return fixed(Kind::Unsigned, 1 << low(3), 0),
        0xd0..=0xd3 => return fixed(Kind::Signed, 1 << low(3), 0),
        // The type of the extension precedes its data.
        0xd4..=0xd8 => return fixed(Kind::Extension, 1 + (1 << (marker - 0xd4)), 0),
        0xc4..=0xc6 => (Kind::Bytes, 1 << (marker - 0xc4)),
        0xc7..=0xc9 => (Kind::Extension, 1 << (marker - 0xc7)),
        0xd9..=0xdb => (Kind::Text, 1 << (marker - 0xd9)),
        0xdc | 0xdd => (Kind::Array, 2 << (marker - 0xdc)),
        0xde | 0xdf => (Kind::Map, 2 << (marker - 0xde)),
    };
    let Some(length) = rest.get(..width).map(big_endian) else { return Ok(None) };
    let (body, items) = match kind {
        Kind::Array => (0, length),
        Kind::Map => (0, 2 * length),
        Kind::Extension => (length + 1, 0),
        _ => (length, 0),
    };
    Ok(Some(Head { kind, size: 1 + width, body, items }))
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
