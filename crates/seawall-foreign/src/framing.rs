//! Splits a stream of bytes into records.

use std::ops::Range;

/// How a stream of bytes is split into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Records end with a newline and may contain any other byte. Empty lines are records.
    Lines,
    /// One JSON value per line.
    Json,
    /// A little-endian 32-bit length, followed by that many bytes.
    Len32,
    /// The whole stream is one record.
    Raw,
}

/// A JSON line may be longer than its record because of white space and digits.
const JSON_STRETCH: usize = 4;

/// An item found in the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// A record: the range of its bytes for [`Framer::bytes`], and its number.
    Record(Range<usize>, u64),
    /// A record that is too large for a log. The stream continues after it.
    TooLarge(u64),
}

/// The stream does not follow the format.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    /// The offset from the start, in bytes.
    pub at: u64,
    /// The reason.
    pub why: String,
}

/// Splits a stream into records. Memory is bounded by the largest record.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    max: usize,
    buffer: Vec<u8>,
    /// The number of consumed bytes in the buffer.
    done: usize,
    /// The number of unconsumed bytes that contain no newline.
    looked: usize,
    /// The stream offset of the buffer's start.
    origin: u64,
    /// The number of records so far, including oversized ones.
    number: u64,
    /// Whether the rest of an oversized line is being skipped.
    skipping: bool,
}

impl Framer {
    /// Creates a framer for records of at most `max` bytes.
    #[must_use]
    pub fn new(framing: Framing, max: usize) -> Self {
        let max = if framing == Framing::Json { max * JSON_STRETCH } else { max };
        Self {
            framing,
            max,
            buffer: vec![],
            done: 0,
            looked: 0,
            origin: 0,
            number: 0,
            skipping: false,
        }
    }

    /// Adds input. Ranges returned earlier become invalid.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.done);
        self.origin += u64::try_from(self.done).expect("a buffer is in memory");
        self.done = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The bytes of a record.
    #[must_use]
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).expect("the range is from after the last feed")
    }

    /// Returns the next complete record.
    ///
    /// # Errors
    ///
    /// [`Broken`] if the stream does not follow the format.
    #[expect(clippy::should_implement_trait, reason = "it returns borrowed records")]
    pub fn next(&mut self) -> Result<Option<Found>, Broken> {
        match self.framing {
            Framing::Lines | Framing::Json => Ok(self.next_line()),
            Framing::Len32 => self.next_counted(),
            Framing::Raw => {
                if !self.skipping && self.rest().len() > self.max {
                    self.skipping = true;
                    return Ok(Some(self.too_large()));
                }
                if self.skipping {
                    self.done = self.buffer.len();
                }
                Ok(None)
            }
        }
    }

    /// Returns the last record at the end of the stream.
    ///
    /// # Errors
    ///
    /// [`Broken`] if the stream does not follow the format.
    pub fn finish(&mut self) -> Result<Option<Found>, Broken> {
        let rest = self.done..self.buffer.len();
        match self.framing {
            _ if self.skipping => Ok(None),
            _ if rest.is_empty() => Ok(None),
            Framing::Lines | Framing::Json | Framing::Raw => Ok(Some(self.take(rest.len(), 0))),
            Framing::Len32 => {
                let (at, left) = (self.position(), rest.len());
                Err(Broken { at, why: format!("the input ends {left} bytes into a record") })
            }
        }
    }

    /// The number of bytes of an incomplete record.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        u64::try_from(self.rest().len()).expect("a buffer is in memory")
    }

    fn next_line(&mut self) -> Option<Found> {
        let rest = self.rest();
        let newline = rest.iter().skip(self.looked).position(|byte| *byte == b'\n');
        let Some(length) = newline.map(|found| found + self.looked) else {
            if self.skipping {
                self.done = self.buffer.len();
            } else if rest.len() > self.max {
                (self.skipping, self.done, self.looked) = (true, self.buffer.len(), 0);
                return Some(self.too_large());
            } else {
                self.looked = rest.len();
            }
            return None;
        };
        self.looked = 0;
        if self.skipping {
            self.skipping = false;
            self.done += length + 1;
            return self.next_line();
        }
        if length > self.max {
            self.done += length + 1;
            return Some(self.too_large());
        }
        Some(self.take(length, 1))
    }

    fn next_counted(&mut self) -> Result<Option<Found>, Broken> {
        let Some((head, behind)) = self.rest().split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*head)).expect("32 bits");
        if length > self.max {
            let max = self.max;
            let why = format!("a length of {length} bytes; the largest record has {max}");
            return Err(Broken { at: self.position(), why });
        }
        if behind.len() < length {
            return Ok(None);
        }
        self.done += head.len();
        Ok(Some(self.take(length, 0)))
    }

    fn take(&mut self, length: usize, behind: usize) -> Found {
        let range = self.done..self.done + length;
        self.done = range.end + behind;
        self.number += 1;
        Found::Record(range, self.number)
    }

    fn too_large(&mut self) -> Found {
        self.number += 1;
        Found::TooLarge(self.number)
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.done..).expect("consumed bytes are in the buffer")
    }

    fn position(&self) -> u64 {
        self.origin + u64::try_from(self.done).expect("a buffer is in memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a stream that arrives in pieces of `piece` bytes; `None` is an oversized record.
    fn cut(framing: Framing, stream: &[u8], piece: usize) -> Result<Vec<Option<Vec<u8>>>, Broken> {
        let mut framer = Framer::new(framing, 8);
        let mut found = vec![];
        let keep = |framer: &Framer, next: Found| match next {
            Found::Record(range, _) => Some(framer.bytes(&range).to_vec()),
            Found::TooLarge(_) => None,
        };
        for piece in stream.chunks(piece) {
            framer.feed(piece);
            while let Some(next) = framer.next()? {
                found.push(keep(&framer, next));
            }
        }
        if let Some(next) = framer.finish()? {
            found.push(keep(&framer, next));
        }
        Ok(found)
    }

    fn some(records: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        records.iter().map(|record| Some(record.to_vec())).collect()
    }

    #[test]
    fn lines_are_split_at_newlines_for_any_chunking() {
        for piece in 1..=12 {
            let found = cut(Framing::Lines, b"one\n\n\xff\0\ntail", piece).unwrap();
            assert_eq!(found, some(&[b"one", b"", b"\xff\0", b"tail"]), "{piece}");
            assert_eq!(cut(Framing::Lines, b"\n", piece).unwrap(), some(&[b""]));
        }
        assert_eq!(cut(Framing::Lines, b"", 1).unwrap(), []);
    }

    #[test]
    fn line_larger_than_any_record_is_skipped() {
        for piece in [1, 2, 3, 7, 64] {
            let stream = b"a\n123456789\nb\n12345678\nxxxxxxxxxxxxxxxxxxx";
            let found = cut(Framing::Lines, stream, piece).unwrap();
            let whole = |text: &[u8]| Some(text.to_vec());
            assert_eq!(found, [whole(b"a"), None, whole(b"b"), whole(b"12345678"), None]);
        }
    }

    #[test]
    fn length_prefixed_records_hold_any_bytes() {
        let stream = [&[3, 0, 0, 0][..], b"a\nb", &[0; 4], &[1, 0, 0, 0, 0xff]].concat();
        for piece in 1..=stream.len() {
            let found = cut(Framing::Len32, &stream, piece).unwrap();
            assert_eq!(found, some(&[b"a\nb", b"", b"\xff"]), "{piece}");
        }
    }

    #[test]
    fn error_in_a_length_prefixed_stream_has_its_offset() {
        let broken = cut(Framing::Len32, &[1, 0, 0, 0, 7, 2, 0, 0, 0, 7], 3).unwrap_err();
        assert_eq!(broken.at, 5);
        let broken = cut(Framing::Len32, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], 8).unwrap_err();
        assert_eq!((broken.at, broken.why.contains("4294967295")), (4, true));
    }

    #[test]
    fn raw_input_is_one_record() {
        assert_eq!(cut(Framing::Raw, b"a\nb\n", 2).unwrap(), some(&[b"a\nb\n"]));
        assert_eq!(cut(Framing::Raw, b"", 2).unwrap(), []);
        assert_eq!(cut(Framing::Raw, b"123456789012", 5).unwrap(), [None]);
    }
}
