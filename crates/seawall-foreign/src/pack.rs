//! `MessagePack` by its bytes: where a value ends, before anything is made of it, and its parts.
//!
//! <https://github.com/msgpack/msgpack/blob/master/spec.md>; numbers are big-endian.

/// How a value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: Kind,
    /// Bytes of the marker and the length behind it.
    size: usize,
    /// Bytes behind them that belong to this value and are no values.
    body: u64,
    /// Values behind them that belong to this one.
    items: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nil,
    Bool(bool),
    /// The number is the marker itself.
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

/// A value without what is in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// Nothing.
    Nil,
    /// Yes or no.
    Bool(bool),
    /// A number from 0.
    Unsigned(u64),
    /// A number below 0, as a rule.
    Signed(i64),
    /// Floats of 32 bits are widened, which is exact.
    Float(f64),
    /// Text, which nobody has checked to be UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// So many values follow.
    Array(u64),
    /// So many pairs of values follow.
    Map(u64),
    /// Something that only its writer knows.
    Extension,
}

/// The first token, and what is behind it; `None` if the bytes end before, or begin no value.
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

/// Looks for the end of one value in bytes of which more and more are there.
///
/// It counts what is still to come and neither recurses nor allocates.
#[derive(Debug)]
pub(crate) struct Scan {
    max: usize,
    at: usize,
    left: u64,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The value has so many bytes.
    Ends(usize),
    /// It goes on behind what is there, to this length at least.
    More(usize),
    /// It would have more bytes than the scan was told to allow.
    TooLong,
    /// At this byte no value begins.
    Wrong(usize),
}

impl Scan {
    /// For a value of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, at: 0, left: 1 }
    }

    /// Goes on; `bytes` begins where it did the last time, and is no shorter.
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
            // Each value that is still to come has a byte at least.
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

/// Whether this is one value and nothing else.
#[must_use]
pub fn is_whole(bytes: &[u8]) -> bool {
    Scan::new(bytes.len()).step(bytes) == Step::Ends(bytes.len())
}

fn max_of(max: usize) -> u64 {
    u64::try_from(max).unwrap_or(u64::MAX)
}

/// How the value begins; `None` if that is not all there. No value begins with 0xc1.
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
        // A byte for the type of the extension stands before its data.
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
