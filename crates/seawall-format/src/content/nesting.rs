//! How deep the arrays and maps of a `MessagePack` value are nested.
//!
//! Decoders recurse for each level, and those of `rmp-serde` do not count the levels of an enum.
//! So the bytes are checked before they are decoded.

/// The maximum depth of arrays and maps in each other; `serde_json` has the same limit.
pub const DEPTH_MAX: usize = 127;

/// Why a value is refused, in an error message.
pub const TOO_DEEP: &str = "the value is nested more than 127 deep";

/// Follows the nesting of `MessagePack` values whose bytes arrive in pieces.
///
/// # Examples
///
/// ```
/// use seawall_format::nesting::Nesting;
///
/// let mut nesting = Nesting::default();
/// assert!(nesting.accepts(&[0x91; 100]));
/// assert!(nesting.accepts(&[0x91; 27]));
/// assert!(!nesting.accepts(&[0x91]));
/// ```
#[derive(Clone, Debug)]
pub struct Nesting {
    /// How many values the innermost array or map still lacks.
    left: u64,
    /// Number of values that each array or map around it still lacks, the outermost first.
    around: Vec<u64>,
    next: Next,
}

/// The bytes that come next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The first byte of a value.
    Marker,
    /// The remaining `size` bytes of a length.
    Length { kind: Kind, size: u8, length: u64 },
    /// This number of bytes without structure.
    Body(u64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Array,
    Map,
    Bytes,
    /// Its type, one byte, precedes its bytes.
    Extension,
}

impl Default for Nesting {
    fn default() -> Self {
        Self { left: u64::MAX, around: vec![], next: Next::Marker }
    }
}

impl Nesting {
    /// Adds the next bytes. Returns false if a value in them is nested deeper than [`DEPTH_MAX`].
    ///
    /// Bytes that start no value are accepted; the decoder refuses them.
    pub fn accepts(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            bytes = match self.next {
                Next::Marker => self.scalars(bytes),
                Next::Length { .. } => bytes,
                Next::Body(left) => self.body(left, bytes),
            };
            let Some((&byte, rest)) = bytes.split_first() else { return true };
            bytes = rest;
            match self.next {
                Next::Length { kind, size, length } => {
                    self.length(kind, size - 1, length << 8 | u64::from(byte));
                }
                _ => self.marker(byte),
            }
            if self.around.len() > DEPTH_MAX {
                return false;
            }
        }
    }

    /// Passes over values whose first byte says their size.
    fn scalars<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let Some(&marker) = bytes.first()
            && let Some(size) = size_of(marker)
            && bytes.len() >= usize::from(size)
        {
            self.close();
            // The numbers of an array begin with the same byte: the processor guesses where the
            // next one is.
            let mut left = self.left;
            while left > 0
                && bytes.first() == Some(&marker)
                && let Some((_, rest)) = bytes.split_at_checked(usize::from(size))
            {
                (bytes, left) = (rest, left - 1);
            }
            self.left = left;
        }
        bytes
    }

    /// Passes over the rest of a value.
    fn body<'a>(&mut self, left: u64, bytes: &'a [u8]) -> &'a [u8] {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - u64::try_from(size).expect("fits in 64 bits");
        self.next = if left == 0 { Next::Marker } else { Next::Body(left) };
        bytes.split_at(size).1
    }

    /// Leaves the arrays and maps that are complete.
    fn close(&mut self) {
        while self.left == 0 {
            self.left = self.around.pop().unwrap_or(u64::MAX);
        }
    }

    fn marker(&mut self, marker: u8) {
        self.close();
        self.left -= 1;
        let low = u64::from(marker & 0x0f);
        let (kind, size) = match marker {
            0x80..=0x8f => return self.open(2 * low),
            0x90..=0x9f => return self.open(low),
            0xc4..=0xc6 => (Kind::Bytes, 1 << (marker - 0xc4)),
            0xc7..=0xc9 => (Kind::Extension, 1 << (marker - 0xc7)),
            0xd9..=0xdb => (Kind::Bytes, 1 << (marker - 0xd9)),
            0xdc | 0xdd => (Kind::Array, 2 << (marker - 0xdc)),
            0xde | 0xdf => (Kind::Map, 2 << (marker - 0xde)),
            _ => {
                self.next = Next::Body(size_of(marker).map_or(0, |size| u64::from(size) - 1));
                return;
            }
        };
        self.next = Next::Length { kind, size, length: 0 };
    }

    fn length(&mut self, kind: Kind, size: u8, length: u64) {
        match kind {
            _ if size > 0 => self.next = Next::Length { kind, size, length },
            Kind::Array => self.open(length),
            Kind::Map => self.open(2 * length),
            Kind::Bytes => self.next = Next::Body(length),
            Kind::Extension => self.next = Next::Body(length + 1),
        }
    }

    /// Opens an array or a map that has `count` values.
    fn open(&mut self, count: u64) {
        self.around.push(self.left);
        self.left = count;
        self.next = Next::Marker;
    }
}

/// The size of a value by its first byte; `None` where a length or other values follow.
fn size_of(marker: u8) -> Option<u8> {
    match marker {
        0x80..=0x9f | 0xc4..=0xc9 | 0xd9..=0xdf => None,
        0xa0..=0xbf => Some(1 + (marker & 0x1f)),
        0xca | 0xcb => Some(1 + (4 << (marker - 0xca))),
        0xcc..=0xd3 => Some(1 + (1 << (marker & 3))),
        0xd4..=0xd8 => Some(2 + (1 << (marker - 0xd4))),
        _ => Some(1),
    }
}

/// Returns whether no value in `payload` is nested deeper than [`DEPTH_MAX`].
///
/// # Examples
///
/// ```
/// use seawall_format::nesting::is_shallow;
///
/// assert!(is_shallow(&[0x91; 127]));
/// assert!(!is_shallow(&[0x91; 128]));
/// ```
#[must_use]
pub fn is_shallow(payload: &[u8]) -> bool {
    openings(payload) <= DEPTH_MAX || Nesting::default().accepts(payload)
}

/// How many bytes of `payload` could open an array or a map: an upper bound of the depth, computed
/// many times faster.
fn openings(payload: &[u8]) -> usize {
    let is_opening = |byte: u8| matches!(byte, 0x80..=0x9f | 0xdc..=0xdf);
    // A sum in one byte, which vector instructions compute for many bytes at once.
    let count = |part: &[u8]| part.iter().fold(0, |sum, byte| sum + u8::from(is_opening(*byte)));
    match payload.len() {
        0..=DEPTH_MAX => 0,
        _ => payload.chunks(usize::from(u8::MAX)).map(|part| usize::from(count(part))).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(bytes: &[u8]) -> bool {
        Nesting::default().accepts(bytes)
    }

    /// Opens an array or a map `depth` times, then adds a value.
    fn nested(opening: &[u8], depth: usize) -> Vec<u8> {
        [opening.repeat(depth), vec![0xc0]].concat()
    }

    #[test]
    fn every_kind_of_array_and_map_counts_as_a_level() {
        let openings: [&[u8]; 8] = [
            &[0x91],
            &[0x93, 0x01, 0x02],
            &[0xdc, 0, 1],
            &[0xdd, 0, 0, 0, 1],
            // Maps: a key precedes the nested value.
            &[0x81, 0xa1, b'n'],
            &[0x82, 0x01, 0x02, 0xa1, b'n'],
            &[0xde, 0, 1, 0x2a],
            &[0xdf, 0, 0, 0, 1, 0xcd, 0x90, 0x90],
        ];
        for opening in openings {
            for (depth, fits) in [(127, true), (128, false), (100_000, false)] {
                let bytes = nested(opening, depth);
                assert_eq!(accepted(&bytes), fits, "{opening:x?} {depth}");
                assert_eq!(is_shallow(&bytes), fits, "{opening:x?} {depth}");
            }
        }
        assert!(TOO_DEEP.contains(&DEPTH_MAX.to_string()));
    }

    #[test]
    fn empty_array_is_a_level() {
        assert!(accepted(&[vec![0x91; 126], vec![0x90]].concat()));
        assert!(!accepted(&[vec![0x91; 127], vec![0x90]].concat()));
        assert!(!accepted(&[vec![0x91; 127], vec![0x80]].concat()));
    }

    #[test]
    fn values_beside_each_other_do_not_nest() {
        let many = [vec![0xdc, 0x10, 0], [0x91, 0x90].repeat(4096)].concat();
        assert!(accepted(&many) && is_shallow(&many));
        assert!(accepted(&[0x91, 0x80].repeat(1000)));
        // When 127 levels have ended, the depth is 0 again.
        assert!(accepted(&nested(&[0x91], 127).repeat(3)));
    }

    #[test]
    fn bytes_inside_a_scalar_open_nothing() {
        let inside = |head: &[u8], count: usize| [head, &vec![0x91; count]].concat();
        let scalars = [
            inside(&[0xbf], 31),
            inside(&[0xd9, 200], 200),
            inside(&[0xda, 2, 0], 512),
            inside(&[0xdb, 0, 0, 2, 0], 512),
            inside(&[0xc4, 200], 200),
            inside(&[0xc5, 2, 0], 512),
            inside(&[0xc6, 0, 0, 2, 0], 512),
            inside(&[0xca], 4),
            inside(&[0xcb], 8),
            inside(&[0xcc], 1),
            inside(&[0xcd], 2),
            inside(&[0xce], 4),
            inside(&[0xcf], 8),
            inside(&[0xd0], 1),
            inside(&[0xd1], 2),
            inside(&[0xd2], 4),
            inside(&[0xd3], 8),
            inside(&[0xd4, 1], 1),
            inside(&[0xd5, 1], 2),
            inside(&[0xd6, 1], 4),
            inside(&[0xd7, 1], 8),
            inside(&[0xd8, 1], 16),
            inside(&[0xc7, 200, 1], 200),
            inside(&[0xc8, 2, 0, 1], 512),
            inside(&[0xc9, 0, 0, 2, 0, 1], 512),
        ];
        for scalar in scalars {
            let depths = |depth| [vec![0x92; depth], scalar.clone(), vec![0x90]].concat();
            assert!(accepted(&depths(126)), "{:x?}", scalar.first());
            assert!(!accepted(&depths(127)), "{:x?}", scalar.first());
        }
    }

    #[test]
    fn pieces_give_the_same_answer_as_the_whole() {
        let opening = [0xdf, 0, 0, 0, 2, 0xa2, 0x91, 0x91, 0xc4, 2, 0x91, 0x91, 0x2a];
        for (depth, fits) in [(127, true), (128, false)] {
            let bytes = nested(&opening, depth);
            for size in [1, 2, 3, 7] {
                let mut nesting = Nesting::default();
                let is_accepted = bytes.chunks(size).all(|piece| nesting.accepts(piece));
                assert_eq!(is_accepted, fits, "{depth} levels in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_length_of_billions_costs_no_memory() {
        let long = [0xdf, 0xff, 0xff, 0xff, 0xff, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xc6, 0xff];
        assert!(accepted(&long));
    }
}
