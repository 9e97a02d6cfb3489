//! The canonical form made from what a parser finds, a value at a time: slow, and plain.

use crate::text::canonical::{DEPTH_MAX, Decoded, members};
use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The form of this text, if it is one value and nothing else, and has one.
pub(super) fn form(text: &str) -> Option<Vec<u8>> {
    let value: &RawValue = serde_json::from_str(text).ok()?;
    let mut out = vec![];
    push(&mut out, value, DEPTH_MAX)?;
    (value.get().len() == text.len()).then_some(out)
}

/// Appends the canonical form of `value`; `None` if it has no one: a name twice in an object, or
/// nested too deep.
fn push(out: &mut Vec<u8>, value: &RawValue, depth: usize) -> Option<()> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'{' => push_members(out, &members(text)?, depth),
        b'[' => {
            let inner = depth.checked_sub(1)?;
            out.push(b'[');
            for element in elements(text)? {
                push(out, element, inner)?;
            }
            out.push(b']');
            Some(())
        }
        b'"' => push_string(out, &serde_json::from_str::<Decoded<'_>>(text).ok()?.0),
        tag @ (b'n' | b't' | b'f') => {
            out.push(*tag);
            Some(())
        }
        _ => {
            out.push(b'#');
            out.extend_from_slice(text.as_bytes());
            Some(())
        }
    }
}

/// Appends the canonical form of an object with these members.
fn push_members(
    out: &mut Vec<u8>,
    members: &crate::text::canonical::Members<'_>,
    depth: usize,
) -> Option<()> {
    let inner = depth.checked_sub(1)?;
    out.push(b'{');
    for (name, value) in members {
        push_string(out, name)?;
        push(out, value, inner)?;
    }
    out.push(b'}');
    Some(())
}

fn push_string(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.push(b'"');
    out.extend_from_slice(&u32::try_from(text.len()).ok()?.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn elements(text: &str) -> Option<Vec<&RawValue>> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = parser.deserialize_seq(ArrayVisitor).ok()?;
    parser.end().ok()?;
    Some(found)
}

struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![];
        while let Some(element) = sequence.next_element()? {
            found.push(element);
        }
        Ok(found)
    }
}
