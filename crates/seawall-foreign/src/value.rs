//! Values as JSON, `MessagePack` and text. Conversions that would change a value are refused.

use crate::number::{behind_string, is_exact, numbers};
use data_encoding::BASE64;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// Converts one JSON value to `MessagePack`.
///
/// Refuses invalid JSON, numbers that 64 bits cannot hold exactly (they would be rounded), and
/// duplicate names in an object (one value would be lost).
///
/// # Errors
///
/// The reason why the text is refused.
pub fn to_message_pack(text: &[u8]) -> Result<Vec<u8>, String> {
    refuse_blank(text)?;
    rmp_serde::to_vec_named(&read_exact(text)?).map_err(|error| error.to_string())
}

/// Parses a JSON value whose numbers `MessagePack` can represent exactly.
pub(crate) fn read_exact(text: &[u8]) -> Result<Value, String> {
    let value = read(text)?;
    match numbers(text).find(|number| !is_exact(number)) {
        Some(number) => Err(format!("the number {number} has more digits than 64 bits can hold")),
        None => Ok(value),
    }
}

/// Parses exactly one JSON value, with its members in order and without duplicates.
///
/// # Errors
///
/// The reason why the text is refused.
pub fn read(text: &[u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Any.deserialize(&mut reader).map_err(|error| plain(&error))?;
    reader.end().map_err(|error| plain(&error))?;
    Ok(value)
}

/// Converts a line of text to `MessagePack`: a string, or bytes if it is not UTF-8.
///
/// # Errors
///
/// The reason why the line is refused.
pub fn text_to_message_pack(line: &[u8]) -> Result<Vec<u8>, String> {
    match std::str::from_utf8(line) {
        Ok(text) => rmp_serde::to_vec(text).map_err(|error| error.to_string()),
        Err(_) => rmp_serde::to_vec(&Bytes(line)).map_err(|error| error.to_string()),
    }
}

/// The maximum nesting depth of arrays and objects, a limit that common readers share.
pub const DEPTH_MAX: usize = 127;

/// Removes white space from one JSON value and keeps everything else, including numbers of any
/// length.
///
/// Refuses invalid JSON, a string that is not valid Unicode, and duplicate names in an object.
///
/// # Errors
///
/// The reason why the text is refused.
pub fn minified(text: &[u8]) -> Result<String, String> {
    refuse_blank(text)?;
    let text = as_text(text)?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| plain(&error))?;
    // From here on, everything in the text except its strings is known to be valid.
    let (mut rest, mut shown) = (text, String::with_capacity(text.len()));
    let mut names: Vec<BTreeSet<String>> = vec![];
    let mut string = String::new();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => rest.len() - behind_string(rest.as_bytes().split_at(1).1).len(),
            other => other.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        match first {
            ' ' | '\t' | '\r' | '\n' => continue,
            '"' => {
                string = serde_json::from_str(token).map_err(|error| plain(&error))?;
            }
            '{' | '[' if names.len() == DEPTH_MAX => {
                return Err(format!("more than {DEPTH_MAX} arrays and objects in each other"));
            }
            '{' | '[' => names.push(BTreeSet::new()),
            '}' | ']' => drop(names.pop()),
            ':' => {
                let name = std::mem::take(&mut string);
                let known = names.last_mut().expect("a name is inside an object");
                if known.contains(&name) {
                    return Err(twice(&name));
                }
                known.insert(name);
            }
            _ => {}
        }
        shown.push_str(token);
    }
    Ok(shown)
}

/// Converts a line of text to a JSON string.
///
/// # Errors
///
/// The reason why the line is refused.
pub fn text_to_json(line: &[u8]) -> Result<Vec<u8>, String> {
    Ok(Value::from(as_text(line)?).to_string().into_bytes())
}

fn refuse_blank(text: &[u8]) -> Result<(), String> {
    let blank = text.trim_ascii().is_empty();
    if blank { Err("the line is blank; a JSON value was expected".to_owned()) } else { Ok(()) }
}

fn as_text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to() + 1))
}

fn twice(name: &str) -> String {
    format!("the name {name:?} comes twice")
}

/// Serializes bytes as a `MessagePack` byte string.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Converts a `MessagePack` payload to a JSON value.
///
/// # Errors
///
/// The reason why the payload is refused.
pub fn from_message_pack(payload: &[u8]) -> Result<Value, String> {
    let mut rest = payload;
    let mut reader = rmp_serde::Deserializer::new(&mut rest);
    reader.set_max_depth(DEPTH_MAX + 1);
    let value = Any.deserialize(&mut reader).map_err(|error| error.to_string())?;
    match rest.len() {
        0 => Ok(value),
        left => Err(format!("{left} bytes after the value")),
    }
}

/// Formats an error with its column; the line is always the first.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.replace(" at line 1 column ", " at byte ")
}

/// Deserializes any value, with members in order and without duplicates. Represents bytes and NaN
/// in JSON.
struct Any;

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // JSON cannot represent NaN and infinities.
        let finite = serde_json::Number::from_f64(value);
        Ok(finite.map_or_else(|| value.to_string().into(), Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(bytes(value))
    }

    /// An extension of `MessagePack`: its type and its bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        let mut shown = Map::new();
        match inner.deserialize_any(self)? {
            Value::Array(parts) if parts.len() == 2 => {
                let names = ["extension", "bytes"].map(str::to_owned);
                shown.extend(names.into_iter().zip(parts));
                Ok(shown.into())
            }
            _ => Err(D::Error::custom("an extension without a type or without bytes")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut found = vec![];
        while let Some(item) = items.next_element_seed(Self)? {
            found.push(item);
        }
        Ok(found.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut found = Map::new();
        while let Some(Name(name)) = members.next_key()? {
            let value = members.next_value_seed(Self)?;
            if found.contains_key(&name) {
                return Err(A::Error::custom(twice(&name)));
            }
            found.insert(name, value);
        }
        Ok(found.into())
    }
}

/// Represents bytes that are not text in JSON.
#[must_use]
pub fn bytes(bytes: &[u8]) -> Value {
    let mut shown = Map::new();
    shown.insert("base64".to_owned(), BASE64.encode(bytes).into());
    shown.into()
}

/// Decodes base64, if [`bytes`] would encode the result in the same way.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.as_bytes()).ok().filter(|bytes| BASE64.encode(bytes) == text)
}

/// The name of a member; in `MessagePack` it may be a number.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Any.deserialize(deserializer)? {
            Value::String(name) => Ok(Self(name)),
            other => Ok(Self(other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(text: &str) -> String {
        from_message_pack(&to_message_pack(text.as_bytes()).unwrap()).unwrap().to_string()
    }

    #[test]
    fn value_is_parsed_and_written_unchanged() {
        for text in [
            r#"{"z":1,"a":[null,true,-7,"x\ny"],"m":{"e":1.25}}"#,
            "18446744073709551615",
            "-9223372036854775808",
            "0.1",
            "1e-7",
            "\"\"",
            "[]",
            "{}",
        ] {
            assert_eq!(there_and_back(text), text);
        }
    }

    #[test]
    fn numbers_that_would_be_rounded_are_refused() {
        for text in ["1234567890123456.789", "123456789012345678901234567890.0"] {
            let why = to_message_pack(text.as_bytes()).unwrap_err();
            assert!(why.contains("64 bits"), "{why}");
        }
        for text in ["0.1", "1234567890123456.8", "[1e23,2.5e-3]"] {
            to_message_pack(text.as_bytes()).expect(text);
        }
    }

    #[test]
    fn integers_that_would_be_rounded_are_refused() {
        for text in
            ["18446744073709551616", "[-9223372036854775809]", r#"{"a":99999999999999999999}"#]
        {
            let why = to_message_pack(text.as_bytes()).unwrap_err();
            assert!(why.contains("64 bits"), "{why}");
        }
        assert_eq!(
            there_and_back(r#"{"a\"99999999999999999999":1.5e+300}"#),
            r#"{"a\"99999999999999999999":1.5e+300}"#
        );
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "1 2",
            "{\"a\":1,}",
            "nul",
            "\u{0}",
            r#"{"a":1,"a":2}"#,
            r#"[{"\u0061":1,"a":2}]"#,
            r#""\ud800""#,
            "01",
            "1.",
            "NaN",
            "\"\t\"",
            "\u{a0}1",
        ] {
            to_message_pack(text.as_bytes()).expect_err(text);
            minified(text.as_bytes()).expect_err(text);
        }
        to_message_pack(&[b'"', 0xff, b'"']).unwrap_err();
        minified(&[b'"', 0xff, b'"']).unwrap_err();
        let deep = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (depth, fits) in [(127, true), (128, false), (100_000, false)] {
            assert_eq!(minified(deep(depth).as_bytes()).is_ok(), fits, "{depth}");
            assert_eq!(to_message_pack(deep(depth).as_bytes()).is_ok(), fits, "{depth}");
            let packed = [vec![0x91; depth - 1], vec![0x90]].concat();
            assert_eq!(from_message_pack(&packed).is_ok(), fits, "{depth}");
        }
    }

    #[test]
    fn minifying_removes_only_insignificant_whitespace() {
        for (text, expected) in [
            (
                " { \"z\" : [ 1 , -0.10 , 1E+400 ] ,\r\t\"a b\": \" \\\" : \" } ",
                "{\"z\":[1,-0.10,1E+400],\"a b\":\" \\\" : \"}",
            ),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("[{\"a\":{\"a\":1}},{\"a\":2}]", "[{\"a\":{\"a\":1}},{\"a\":2}]"),
            ("[\"\u{1f30a}\", \"\\ud83c\\udf0a\"]", "[\"\u{1f30a}\",\"\\ud83c\\udf0a\"]"),
            ("null", "null"),
        ] {
            assert_eq!(minified(text.as_bytes()).unwrap(), expected);
        }
    }

    #[test]
    fn duplicate_name_is_reported() {
        let why = to_message_pack(br#"{"a":1,"a":2}"#).unwrap_err();
        assert!(why.starts_with("the name \"a\" comes twice"), "{why}");
    }

    #[test]
    fn message_pack_without_a_json_form_can_still_be_shown() {
        // A map with the key 7 and bytes as its value.
        let payload = [0x81, 7, 0xc4, 2, 0xff, 0xfe];
        let shown = from_message_pack(&payload).unwrap().to_string();
        assert_eq!(shown, r#"{"7":{"base64":"//4="}}"#);
        // An extension of type -1 in a list.
        let shown = from_message_pack(&[0x91, 0xc7, 2, 0xff, 1, 2]).unwrap().to_string();
        assert_eq!(shown, r#"[{"extension":-1,"bytes":{"base64":"AQI="}}]"#);
        let nan = rmp_serde::to_vec(&f64::NAN).unwrap();
        assert_eq!(from_message_pack(&nan).unwrap(), Value::from("NaN"));
    }

    #[test]
    fn incomplete_or_trailing_message_pack_is_refused() {
        from_message_pack(&[1, 2]).unwrap_err();
        from_message_pack(&[]).unwrap_err();
        from_message_pack(&[0xc1]).unwrap_err();
        from_message_pack(&[0xd5, 1, 2]).unwrap_err();
    }

    #[test]
    fn base64_follows_rfc_4648() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in pairs {
            assert_eq!(BASE64.encode(plain.as_bytes()), coded);
        }
        assert_eq!(BASE64.encode(&[0xff, 0xfe, 0xfb]), "//77");
        for (plain, coded) in pairs {
            assert_eq!(from_base64(coded).unwrap(), plain.as_bytes());
        }
        for wrong in ["Z", "Zg", "Zg=", "Zh==", "Zg==Zg==", "====", "Zm9v\n", "Zm9?"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }
}
