//! The canonical form of a JSON value: what a checksum of the readable layout covers. format.md
//! section 9.2.
//!
//! White space, line breaks, the order of members and the escaping of strings may change; nothing
//! else. The form is built in one pass over the text, which also validates it: every record of a
//! readable log passes through here when it is written and when it is read. The parser decides what
//! an escape means.

use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// The maximum nesting depth of a value; the same for every reader.
pub(crate) const DEPTH_MAX: usize = 128;

/// What a thread keeps of its memory between two lines, in bytes at most.
const KEPT_MAX: usize = 1 << 20;

/// Pieces of up to this many bytes are short.
const SHORT: usize = 16;

thread_local! {
    /// Forms are made here, so that a line allocates nothing.
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
    /// The members of one object on their way into their order.
    sorted: Vec<u8>,
}

/// The location of a member in a form.
#[derive(Clone, Copy, Debug)]
struct Member {
    start: usize,
    value: usize,
    end: usize,
}

impl Member {
    /// The characters of its name, stored after a mark and a length.
    fn name(self, form: &[u8]) -> &[u8] {
        form.get(self.start + 5..self.value).expect("a member stands in its form")
    }
}

impl Form {
    const NEW: Self = Self { bytes: Vec::new(), end: 0, members: Vec::new(), sorted: Vec::new() };

    /// Does something with an empty form.
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

    /// Opens or closes something.
    pub(crate) fn mark(&mut self, mark: u8) {
        self.put([mark], b"", 0);
    }

    /// Adds a number.
    pub(crate) fn digits(&mut self, digits: &str) {
        self.put([b'#'], digits.as_bytes(), digits.len());
    }

    /// Adds a string, which has no escapes.
    pub(crate) fn string(&mut self, text: &[u8]) -> Option<()> {
        self.string_of(text, text.len())
    }

    /// Adds the first `length` bytes of `text` as a string.
    fn string_of(&mut self, text: &[u8], length: usize) -> Option<()> {
        let [a, b, c, d] = u32::try_from(length).ok()?.to_le_bytes();
        self.put([b'"', a, b, c, d], text, length);
        Some(())
    }

    /// Adds a head and the first `length` bytes of `text`.
    fn put<const N: usize>(&mut self, head: [u8; N], text: &[u8], length: usize) {
        let end = self.end + N + length;
        if self.bytes.len() < end + SHORT {
            self.bytes.resize(2 * end + SHORT, 0);
        }
        let room = self.bytes.get_mut(self.end..).expect("it ends in its room");
        let (head_room, room) = room.split_first_chunk_mut().expect("made above");
        *head_room = head;
        // A copy of a length that is known beforehand is no call. Most are short.
        match (text.first_chunk::<SHORT>(), room.first_chunk_mut::<SHORT>()) {
            (Some(text), Some(room)) if length <= SHORT => *room = *text,
            _ => room.iter_mut().zip(text.iter().take(length)).for_each(|(to, from)| *to = *from),
        }
        self.end = end;
    }

    /// Adds the value at the beginning of `text`, nested no deeper than `depth`; gives its length.
    pub(crate) fn value(&mut self, text: &str, depth: usize) -> Option<usize> {
        self.value_at(text, 0, depth)
    }

    fn value_at(&mut self, text: &str, at: usize, depth: usize) -> Option<usize> {
        match byte(text, at)? {
            b'{' => self.object(text, at + 1, depth.checked_sub(1)?),
            b'[' => self.array(text, at + 1, depth.checked_sub(1)?),
            b'"' => self.string_at(text, at),
            b'n' => self.word(text, at, "null"),
            b't' => self.word(text, at, "true"),
            b'f' => self.word(text, at, "false"),
            _ => self.number(text, at),
        }
    }

    fn object(&mut self, text: &str, at: usize, depth: usize) -> Option<usize> {
        self.mark(b'{');
        let (first, mut at) = (self.members.len(), blanks(text, at));
        if byte(text, at)? != b'}' {
            loop {
                let start = self.end;
                at = blanks(text, self.string_at(text, at)?);
                let value = self.end;
                at = expect(text, at, b':')?;
                at = blanks(text, self.value_at(text, blanks(text, at), depth)?);
                self.members.push(Member { start, value, end: self.end });
                match byte(text, at)? {
                    b',' => at = blanks(text, at + 1),
                    _ => break,
                }
            }
            self.sort(first)?;
        }
        self.mark(b'}');
        expect(text, at, b'}')
    }

    fn array(&mut self, text: &str, at: usize, depth: usize) -> Option<usize> {
        self.mark(b'[');
        let mut at = blanks(text, at);
        if byte(text, at)? != b']' {
            loop {
                at = blanks(text, self.value_at(text, at, depth)?);
                match byte(text, at)? {
                    b',' => at = blanks(text, at + 1),
                    _ => break,
                }
            }
        }
        self.mark(b']');
        expect(text, at, b']')
    }

    /// Puts the members from `first` on, which end the form, into their order; no name twice.
    fn sort(&mut self, first: usize) -> Option<()> {
        let Self { bytes, end, members, sorted } = self;
        let open = members.get_mut(first..)?;
        let is_before = |one: &Member, two: &Member| one.name(bytes) < two.name(bytes);
        if !open.is_sorted_by(is_before) {
            let start = open.first()?.start;
            open.sort_unstable_by(|one, two| one.name(bytes).cmp(two.name(bytes)));
            if !open.is_sorted_by(is_before) {
                return None;
            }
            sorted.clear();
            for member in open {
                sorted.extend_from_slice(bytes.get(member.start..member.end)?);
            }
            bytes.get_mut(start..*end)?.copy_from_slice(sorted);
        }
        members.truncate(first);
        Some(())
    }

    fn string_at(&mut self, text: &str, at: usize) -> Option<usize> {
        let start = expect(text, at, b'"')?;
        let end = plain_end(text, start);
        match byte(text, end)? {
            b'"' => self.string_of(text.as_bytes().get(start..)?, end - start)?,
            b'\\' => return self.escaped(text, at),
            _ => return None,
        }
        Some(end + 1)
    }

    fn escaped(&mut self, text: &str, at: usize) -> Option<usize> {
        let mut end = plain_end(text, at + 1);
        while byte(text, end)? != b'"' {
            // A control character goes to the parser, too: it refuses it.
            end = plain_end(text, end + 2);
        }
        let Decoded(found) = serde_json::from_str(text.get(at..=end)?).ok()?;
        self.string(found.as_bytes())?;
        Some(end + 1)
    }

    fn word(&mut self, text: &str, at: usize, word: &str) -> Option<usize> {
        self.mark(byte(text, at)?);
        let behind = text.as_bytes().get(at..)?;
        behind.starts_with(word.as_bytes()).then_some(at + word.len())
    }

    fn number(&mut self, text: &str, at: usize) -> Option<usize> {
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
        self.put([b'#'], text.as_bytes().get(at..)?, end - at);
        Some(end)
    }
}

fn byte(text: &str, at: usize) -> Option<u8> {
    text.as_bytes().get(at).copied()
}

/// The position after this byte, if it is at `at`.
fn expect(text: &str, at: usize, wanted: u8) -> Option<usize> {
    (byte(text, at)? == wanted).then_some(at + 1)
}

/// Where the white space ends that begins here, if any does.
fn blanks(text: &str, at: usize) -> usize {
    let mut end = at;
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = byte(text, end) {
        end += 1;
    }
    end
}

/// Where the digits end that begin here; there is at least one.
fn digits_end(text: &str, at: usize) -> Option<usize> {
    let behind = text.as_bytes().get(at..)?;
    let count = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then_some(at + count)
}

/// Where the next byte is that ends a string or means something in one.
fn plain_end(text: &str, at: usize) -> usize {
    let (words, rest) = text.as_bytes().get(at..).unwrap_or_default().as_chunks();
    let mut end = at;
    for word in words {
        let marks = special(u64::from_le_bytes(*word)) & (EACH << 7);
        if marks != 0 {
            return end + usize::try_from(marks.trailing_zeros() / 8).expect("below eight");
        }
        end += word.len();
    }
    let is_special = |byte: &u8| special(u64::from(*byte)) & 0x80 != 0;
    end + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// Has the top bit of the first byte set that is a quote, a backslash or a control character;
/// bytes behind that one may be marked for no reason.
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

/// Whether `text` is one JSON value, not nested deeper, that has a canonical form, with nothing
/// around it.
#[must_use]
pub(crate) fn is_value(text: &str, depth: usize) -> bool {
    Form::with_empty(|form| form.value(text, depth)) == Some(text.len())
}

/// CRC-32C of the canonical form of a value; `None` if `text` is not one value.
pub(crate) fn crc(text: &[u8]) -> Option<u32> {
    let text = str::from_utf8(text).ok()?.trim_ascii();
    Form::with_empty(|form| {
        let length = form.value(text, DEPTH_MAX)?;
        (length == text.len()).then(|| crate::checksum::crc32c(form.bytes()))
    })
}

#[cfg(test)]
mod plain;
#[cfg(test)]
mod tests;
