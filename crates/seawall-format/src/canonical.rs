//! The canonical form of a JSON value: what a checksum of the readable layout covers. FORMAT.md
//! section 9.2.
//!
//! White space, line breaks, the order of members and the way a string is escaped may change;
//! nothing else.

use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// How deep a value may be nested; the same for all who read it.
pub(crate) const DEPTH_MAX: usize = 128;

/// The members of an object, by name; each is a valid value.
pub(crate) type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Appends the canonical form of `value`; `None` if it has no one: a name twice in an object, or
/// nested too deep.
pub(crate) fn push(out: &mut Vec<u8>, value: &RawValue, depth: usize) -> Option<()> {
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
pub(crate) fn push_members(out: &mut Vec<u8>, members: &Members<'_>, depth: usize) -> Option<()> {
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

/// The members of a JSON object; `None` if it is none, or has a name twice.
pub(crate) fn members(text: &str) -> Option<Members<'_>> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = parser.deserialize_map(ObjectVisitor).ok()?;
    parser.end().ok()?;
    Some(found)
}

fn elements(text: &str) -> Option<Vec<&RawValue>> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = parser.deserialize_seq(ArrayVisitor).ok()?;
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
    let Ok(value) = serde_json::from_str::<&RawValue>(text) else { return false };
    value.get().len() == text.len() && push(&mut vec![], value, depth).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Option<Vec<u8>> {
        let value: &RawValue = serde_json::from_str(text).unwrap();
        let mut out = vec![];
        push(&mut out, value, DEPTH_MAX).map(|()| out)
    }

    #[test]
    fn white_space_order_and_escapes_do_not_count() {
        let one = form(r#"{"a":1,"b":[true,null,"x\ny"],"c":{"d":1.50}}"#);
        let two = form("{ \"c\" : {\n\"d\":1.50}, \"b\":[ true,null,\"\\u0078\\ny\"],\t\"a\":1 }");
        assert!(one.is_some());
        assert_eq!(one, two);
    }

    #[test]
    fn everything_else_counts() {
        let all = [
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"a":1.0}"#,
            r#"{"a":10}"#,
            r#"{"b":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":[1]}"#,
            r#"{"a":[1,1]}"#,
            r#"{"a":[[1],1]}"#,
            r#"{"a":{"1":1}}"#,
            r"{}",
            r"[]",
            r#"{"a":null}"#,
            r#"{"a":true}"#,
            r#"{"a":false}"#,
            r#""""#,
            r#""a""#,
            r#"["a","b"]"#,
            r#"["ab"]"#,
            r#"["a",["b"]]"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":2,"b":1}"#,
            "1",
            "-1",
            "1e0",
        ];
        for (index, one) in all.iter().enumerate() {
            for two in &all[..index] {
                assert_ne!(form(one), form(two), "{one} and {two}");
            }
        }
    }

    #[test]
    fn a_name_twice_has_no_form() {
        assert_eq!(form(r#"{"a":1,"a":1}"#), None);
        assert_eq!(form(r#"{"a":1,"\u0061":1}"#), None);
        assert_eq!(form(r#"[{"x":{"a":1,"a":2}}]"#), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "each of 128 levels borrows from the one around it: minutes there")]
    fn what_is_nested_too_deep_has_no_form() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_value(&nested(DEPTH_MAX), DEPTH_MAX));
        assert!(!is_value(&nested(DEPTH_MAX + 1), DEPTH_MAX));
        assert!(!is_value(&nested(100_000), DEPTH_MAX));
    }
}
