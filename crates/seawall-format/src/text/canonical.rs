//! The canonical form of a JSON value: what a checksum of the readable layout covers. format.md
//! section 9.2.
//!
//! White space, line breaks, the order of members and the escaping of strings may change; nothing
//! else. The form is built in one pass over the text, which also validates it: every record of a
//! readable log passes through here when it is written and when it is read. The parser decides what
//! an escape means.

use crate::checksum::crc32c;
use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// The maximum nesting depth of a value; the same for every reader.
pub(crate) const DEPTH_MAX: usize = 128;

/// The most memory that a thread keeps from one line to the next, in bytes.
const KEPT_MAX: usize = 1 << 20;

/// Pieces of up to this many bytes are short.
const SHORT: usize = 16;

/// Bytes before the characters of a string: a mark and a length.
const STRING_HEAD: usize = 5;

/// Space that a form keeps after its end, for a short piece and what comes before it.
const SPACE: usize = 24;
const _: () = assert!(STRING_HEAD + SHORT <= SPACE, "the longest short piece");

thread_local! {
    /// The form that a thread reuses, so that a line allocates nothing.
    static SCRATCH: Cell<Form> = const { Cell::new(Form::NEW) };
}

/// The canonical form of a value, or of the first members of an object.
///
/// After a method returns `None` there is no form, and the content is meaningless.
#[derive(Debug)]
pub(crate) struct Form {
    /// The form, with space after it.
    bytes: Vec<u8>,
    end: usize,
    /// The members, so far, of the objects that are open; those of the innermost one last.
    members: Vec<Member>,
    /// Memory for sorting the members of one object.
    sorted: Vec<u8>,
}

/// The location of a member in a form.
#[derive(Clone, Copy, Debug)]
struct Member {
    start: usize,
    value: usize,
    end: usize,
    /// The first bytes of its name.
    prefix: u64,
}

impl Member {
    /// Orders members by name. Most names differ in their first bytes.
    fn key(self, form: &[u8]) -> (u64, &[u8]) {
        let name = form.get(self.start + STRING_HEAD..self.value);
        (self.prefix, name.expect("a member is part of its form"))
    }
}

impl Form {
    const NEW: Self = Self { bytes: Vec::new(), end: 0, members: Vec::new(), sorted: Vec::new() };

    /// Calls `act` with an empty form.
    pub(crate) fn with_empty<R>(act: impl FnOnce(&mut Self) -> R) -> R {
        let mut form = SCRATCH.replace(Self::NEW);
        form.end = 0;
        form.members.clear();
        let done = act(&mut form);
        if form.bytes.capacity() <= KEPT_MAX && form.members.capacity() <= KEPT_MAX / 32 {
            SCRATCH.set(form);
        }
        done
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).expect("it ends in its room")
    }

    /// Adds one byte: a bracket or brace, or the first letter of a word.
    #[inline]
    pub(crate) fn mark(&mut self, mark: u8) {
        match self.bytes.get_mut(self.end) {
            Some(space) => *space = mark,
            None => return self.put_slowly(&[mark], b"", 0),
        }
        self.end += 1;
    }

    /// Adds a number.
    pub(crate) fn digits(&mut self, digits: &str) {
        self.put([b'#'], digits.as_bytes(), digits.len());
    }

    /// Adds part of a form.
    pub(crate) fn append(&mut self, form: &[u8]) {
        self.put([], form, form.len());
    }

    /// Adds a string, which has no escapes.
    pub(crate) fn string(&mut self, text: &[u8]) -> Option<()> {
        self.string_of(text, text.len())
    }

    /// Adds a short string whose length is known beforehand: the name of a member of a line.
    #[inline]
    pub(crate) fn name<const N: usize>(&mut self, name: &[u8; N]) -> Option<()> {
        let mut text = [0; SHORT];
        text.first_chunk_mut()?.clone_from(name);
        self.string_of(&text, N)
    }

    /// Adds the first `length` bytes of `text` as a string.
    #[inline]
    fn string_of(&mut self, text: &[u8], length: usize) -> Option<()> {
        let [a, b, c, d] = u32::try_from(length).ok()?.to_le_bytes();
        self.put([b'"', a, b, c, d], text, length);
        Some(())
    }

    /// Adds a head and the first `length` bytes of `text`.
    ///
    /// Most pieces are short. A copy of a length that is known beforehand takes no call.
    #[inline]
    fn put<const N: usize>(&mut self, head: [u8; N], text: &[u8], length: usize) {
        let space = self.bytes.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut::<SPACE>);
        match (space, text.first_chunk::<SHORT>()) {
            (Some(space), Some(text)) if length <= SHORT => {
                let (head_space, space) = space.split_at_mut(N);
                head_space.copy_from_slice(&head);
                space.split_at_mut(SHORT).0.copy_from_slice(text);
                self.end += N + length;
            }
            _ => self.put_slowly(&head, text, length),
        }
    }

    /// Does what `put` does for any length, and also where the form must grow first.
    #[cold]
    fn put_slowly(&mut self, head: &[u8], text: &[u8], length: usize) {
        let end = self.end + head.len() + length;
        if self.bytes.len() < end + SPACE {
            self.bytes.resize(2 * end + SPACE, 0);
        }
        let space = self.bytes.get_mut(self.end..end).expect("made above");
        let (head_space, space) = space.split_at_mut(head.len());
        head_space.copy_from_slice(head);
        space.copy_from_slice(text.get(..length).expect("the length of a part of it"));
        self.end = end;
    }

    /// Adds the value at the beginning of `text`, nested no deeper than `depth`; gives its length.
    pub(crate) fn value(&mut self, text: &str, depth: usize) -> Option<usize> {
        let text = text.as_bytes();
        self.value_at(text, (byte(text, 0)?, 0), depth)
    }

    /// Adds the value at `at`, which begins with `mark`; returns its end. The bytes are UTF-8.
    #[inline]
    fn value_at(&mut self, text: &[u8], (mark, at): (u8, usize), depth: usize) -> Option<usize> {
        match mark {
            b'{' => self.object(text, at + 1, depth.checked_sub(1)?),
            b'[' => self.array(text, at + 1, depth.checked_sub(1)?),
            b'"' => self.string_at(text, at + 1),
            b'n' => self.word(text, at, "null"),
            b't' => self.word(text, at, "true"),
            b'f' => self.word(text, at, "false"),
            _ => self.number(text, at),
        }
    }

    fn object(&mut self, text: &[u8], at: usize, depth: usize) -> Option<usize> {
        self.mark(b'{');
        let (first, (mut mark, mut at)) = (self.members.len(), next(text, at)?);
        if mark != b'}' {
            let (mut before, mut is_sorted) = (None, true);
            loop {
                let start = self.end;
                at = self.string_at(text, expect((mark, at), b'"')?)?;
                let (value, prefix) = (self.end, self.prefix_at(start + STRING_HEAD));
                is_sorted &= before < Some(prefix);
                before = Some(prefix);
                at = expect(next(text, at)?, b':')?;
                at = self.value_at(text, next(text, at)?, depth)?;
                self.members.push(Member { start, value, end: self.end, prefix });
                (mark, at) = next(text, at)?;
                if mark != b',' {
                    break;
                }
                (mark, at) = next(text, at + 1)?;
            }
            if !is_sorted {
                self.sort(first)?;
            }
            self.members.truncate(first);
        }
        self.mark(b'}');
        expect((mark, at), b'}')
    }

    fn array(&mut self, text: &[u8], at: usize, depth: usize) -> Option<usize> {
        self.mark(b'[');
        let (mut mark, mut at) = next(text, at)?;
        if mark != b']' {
            loop {
                at = self.value_at(text, (mark, at), depth)?;
                (mark, at) = next(text, at)?;
                if mark != b',' {
                    break;
                }
                (mark, at) = next(text, at + 1)?;
            }
        }
        self.mark(b']');
        expect((mark, at), b']')
    }

    /// The first eight bytes from `at` to the end of the form, padded with zeros, as a number that
    /// sorts like them.
    #[inline]
    fn prefix_at(&self, at: usize) -> u64 {
        let word = self.bytes.get(at..).and_then(<[u8]>::first_chunk).expect("space follows");
        let bits = u32::try_from(8 * (self.end - at).min(word.len())).expect("at most 64");
        u64::from_le_bytes(*word).swap_bytes() & !u64::MAX.checked_shr(bits).unwrap_or(0)
    }

    /// Sorts the members from `first` on, which end the form; `None` if two have the same name.
    fn sort(&mut self, first: usize) -> Option<()> {
        let Self { bytes, end, members, sorted } = self;
        let open = members.get_mut(first..)?;
        let start = open.first()?.start;
        open.sort_unstable_by(|one, two| one.key(bytes).cmp(&two.key(bytes)));
        if !open.is_sorted_by(|one, two| one.key(bytes) < two.key(bytes)) {
            return None;
        }
        sorted.clear();
        for member in open {
            sorted.extend_from_slice(bytes.get(member.start..member.end)?);
        }
        bytes.get_mut(start..*end)?.copy_from_slice(sorted);
        Some(())
    }

    /// Adds the string whose first character is at `start`.
    #[inline]
    fn string_at(&mut self, text: &[u8], start: usize) -> Option<usize> {
        let end = plain_end(text, start);
        match byte(text, end)? {
            b'"' => self.string_of(text.get(start..)?, end - start)?,
            b'\\' => return self.escaped(text, start - 1),
            _ => return None,
        }
        Some(end + 1)
    }

    #[cold]
    fn escaped(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let mut end = plain_end(text, at + 1);
        while byte(text, end)? != b'"' {
            // A control character goes to the parser, too: it refuses it.
            end = plain_end(text, end + 2);
        }
        let Decoded(found) = serde_json::from_slice(text.get(at..=end)?).ok()?;
        self.string(found.as_bytes())?;
        Some(end + 1)
    }

    fn word(&mut self, text: &[u8], at: usize, word: &str) -> Option<usize> {
        self.mark(byte(text, at)?);
        text.get(at..)?.starts_with(word.as_bytes()).then_some(at + word.len())
    }

    #[inline]
    fn number(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let whole = at + usize::from(byte(text, at) == Some(b'-'));
        let mut end = digits_end(text, whole)?;
        if byte(text, whole) == Some(b'0') && end > whole + 1 {
            return None;
        }
        if byte(text, end) == Some(b'.') {
            end = digits_end(text, end + 1)?;
        }
        if let Some(b'e' | b'E') = byte(text, end) {
            let signed = matches!(byte(text, end + 1), Some(b'+' | b'-'));
            end = digits_end(text, end + 1 + usize::from(signed))?;
        }
        self.put([b'#'], text.get(at..)?, end - at);
        Some(end)
    }
}

#[inline]
fn byte(text: &[u8], at: usize) -> Option<u8> {
    text.get(at).copied()
}

/// Returns the position after the found byte, if it is the wanted one.
#[inline]
fn expect((found, at): (u8, usize), wanted: u8) -> Option<usize> {
    (found == wanted).then_some(at + 1)
}

/// The next byte that is not white space, and where it is.
#[inline]
fn next(text: &[u8], at: usize) -> Option<(u8, usize)> {
    match byte(text, at)? {
        // The writer writes no white space.
        mark if mark > b' ' => Some((mark, at)),
        _ => next_after_blanks(text, at),
    }
}

#[cold]
fn next_after_blanks(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let mut end = at;
    while let b' ' | b'\t' | b'\n' | b'\r' = byte(text, end)? {
        end += 1;
    }
    Some((byte(text, end)?, end))
}

/// Returns where the digits at `at` end; `None` if there is none.
#[inline]
fn digits_end(text: &[u8], at: usize) -> Option<usize> {
    let end = find(text, at, no_digit);
    (end > at).then_some(end)
}

/// Returns the position of the next byte that ends a string or has a special meaning in it.
#[inline]
fn plain_end(text: &[u8], at: usize) -> usize {
    find(text, at, special)
}

/// The first position from `at` on whose byte gets its top bit set by `mark`, which takes eight
/// bytes at once.
#[inline]
fn find(text: &[u8], at: usize, mark: impl Fn(u64) -> u64) -> usize {
    let mut end = at;
    while let Some(word) = text.get(end..).and_then(<[u8]>::first_chunk) {
        let marks = mark(u64::from_le_bytes(*word)) & (EACH << 7);
        if marks != 0 {
            return end + usize::try_from(marks.trailing_zeros() / 8).expect("below eight");
        }
        end += word.len();
    }
    let rest = text.get(end..).unwrap_or_default();
    let is_marked = |byte: &u8| mark(u64::from(*byte)) & 0x80 != 0;
    end + rest.iter().position(is_marked).unwrap_or(rest.len())
}

/// Sets the top bit of each byte that is not a digit.
fn no_digit(word: u64) -> u64 {
    let value = word ^ (EACH * 0x30);
    // Ten and more carry into the top bit, and no further.
    ((value & (EACH * 0x7F)) + EACH * (0x80 - 10)) | value
}

/// Sets the top bit of the first byte that is a quote, a backslash or a control character; bytes
/// after that one may be marked for no reason.
fn special(word: u64) -> u64 {
    let less = |word: u64, than: u64| word.wrapping_sub(EACH * than) & !word;
    less(word, 0x20) | less(word ^ (EACH * 0x22), 1) | less(word ^ (EACH * 0x5C), 1)
}

/// One in each of eight bytes.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The members of an object, by name; each is a valid value.
pub(crate) type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The members of a JSON object; `None` if it is not an object or has a duplicate name.
pub(crate) fn members(text: &str) -> Option<Members<'_>> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = parser.deserialize_map(ObjectVisitor).ok()?;
    parser.end().ok()?;
    Some(found)
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = BTreeMap::new();
        while let Some(Decoded(name)) = map.next_key()? {
            if found.insert(name, map.next_value()?).is_some() {
                return Err(A::Error::custom("a name twice"));
            }
        }
        Ok(found)
    }
}

/// A string without its escapes, borrowed where there are none.
struct Decoded<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Decoded<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_str(StringVisitor)
    }
}

struct StringVisitor;

impl<'de> Visitor<'de> for StringVisitor {
    type Value = Decoded<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Decoded(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Decoded(Cow::Owned(text.to_owned())))
    }
}

/// The properties of a value's canonical form from which the checksum of its line is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// CRC-32C of the form, bound to nothing.
    pub(crate) crc: u32,
    /// Length of the form, in bytes.
    pub(crate) length: u32,
}

/// Returns the sum of a value; `None` unless `text` is exactly one JSON value, nested no deeper
/// than `depth`, that has a canonical form.
#[must_use]
pub(crate) fn sum(text: &str, depth: usize) -> Option<Sum> {
    Form::with_empty(|form| {
        let length = form.value(text, depth)?;
        let form = form.bytes();
        let sum = Sum { crc: crc32c(form), length: u32::try_from(form.len()).ok()? };
        (length == text.len()).then_some(sum)
    })
}

/// CRC-32C of the canonical form of a value; `None` if `text` is not one value.
pub(crate) fn crc(text: &[u8]) -> Option<u32> {
    let text = str::from_utf8(text).ok()?.trim_ascii();
    sum(text, DEPTH_MAX).map(|sum| sum.crc)
}

#[cfg(test)]
mod plain;
#[cfg(test)]
mod tests;
