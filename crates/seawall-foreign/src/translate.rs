//! Converts an entry from one codec to another. Refuses an entry that could not be converted back
//! to the same bytes or the same value.
//!
//! ```text
//! raw      JSON: the text, or {"base64": "..."} if not text    MessagePack: bytes
//! JSON     MessagePack: the value; {"base64": "..."} is bytes
//! ```

use crate::pack::{Token, is_whole, token};
use crate::value::{self, DEPTH_MAX, from_base64, read_exact};
use seawall::format::CodecId;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// The member name that marks bytes in JSON.
const BASE64: &str = "base64";

/// Converts `bytes` from `source` to `target`.
///
/// # Errors
///
/// The reason why no lossless conversion exists.
pub fn translate(bytes: &[u8], source: CodecId, target: CodecId) -> Result<Cow<'_, [u8]>, String> {
    // JSON without field names is treated as MessagePack too.
    let [source, target] = [source, target].map(|codec| match codec {
        CodecId::Positional => CodecId::MessagePack,
        other => other,
    });
    match (source, target) {
        (CodecId::Raw, CodecId::Raw) => Ok(bytes.into()),
        (CodecId::Json, CodecId::Json) => {
            crate::json::check(bytes).map_err(|(_, why)| format!("not JSON: {why}"))?;
            Ok(bytes.into())
        }
        (CodecId::MessagePack, CodecId::MessagePack) if is_whole(bytes) => Ok(bytes.into()),
        (CodecId::MessagePack, CodecId::MessagePack) => Err("no MessagePack value".to_owned()),
        (CodecId::Raw, CodecId::Json) => Ok(raw_to_json(bytes).to_string().into_bytes().into()),
        (CodecId::Raw, CodecId::MessagePack) => pack(&value::Bytes(bytes)),
        (CodecId::Json, CodecId::MessagePack) => pack(&Shown(&read_exact(bytes)?)),
        (CodecId::MessagePack, CodecId::Json) => Ok(unpack(bytes)?.to_string().into_bytes().into()),
        (CodecId::Json, CodecId::Raw) => json_to_raw(&read_exact(bytes)?).map(Cow::Owned),
        (CodecId::MessagePack, CodecId::Raw) => match token(bytes) {
            Some((Token::Bytes(data), [])) => Ok(data.into()),
            _ => Err("it is not plain bytes and could not be converted back".to_owned()),
        },
        (source, target) => Err(format!("no way from {} to {}", source.name(), target.name())),
    }
}

fn raw_to_json(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| value::bytes(bytes), Value::from)
}

/// The inverse of [`raw_to_json`].
fn json_to_raw(value: &Value) -> Result<Vec<u8>, String> {
    let bytes = match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        value => bytes_in(value).filter(|bytes| std::str::from_utf8(bytes).is_err()),
    };
    bytes.ok_or_else(|| {
        "it is neither text nor plain bytes and could not be converted back".to_owned()
    })
}

/// Decodes the bytes in the JSON object that represents them.
fn bytes_in(value: &Value) -> Option<Vec<u8>> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    from_base64(members.get(BASE64)?.as_str()?)
}

fn pack(value: &impl Serialize) -> Result<Cow<'static, [u8]>, String> {
    rmp_serde::to_vec_named(value).map(Cow::Owned).map_err(|error| error.to_string())
}

/// A JSON value whose bytes are converted to `MessagePack` bytes.
struct Shown<'a>(&'a Value);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                if let Some(bytes) = bytes_in(self.0) {
                    return serializer.serialize_bytes(&bytes);
                }
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, &Shown(value))?;
                }
                map.end()
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Shown(item))?;
                }
                list.end()
            }
            other => other.serialize(serializer),
        }
    }
}

/// Converts a `MessagePack` value to JSON if nothing is lost.
fn unpack(bytes: &[u8]) -> Result<Value, String> {
    if !is_whole(bytes) {
        return Err("no MessagePack value".to_owned());
    }
    let mut rest = bytes;
    read_value(&mut rest, DEPTH_MAX)
}

fn read_value(rest: &mut &[u8], depth: usize) -> Result<Value, String> {
    let (found, behind) = token(rest).expect("the value was found to be whole");
    *rest = behind;
    let below = depth.checked_sub(1);
    let below = || below.ok_or_else(|| format!("it is nested more than {DEPTH_MAX} deep"));
    Ok(match found {
        Token::Nil => Value::Null,
        Token::Bool(value) => value.into(),
        Token::Unsigned(value) => value.into(),
        Token::Signed(value) => value.into(),
        Token::Float(value) => {
            let number = Number::from_f64(value);
            Value::Number(number.ok_or_else(|| format!("JSON has no number {value}"))?)
        }
        Token::Text(text) => read_text(text)?.into(),
        Token::Bytes(bytes) => value::bytes(bytes),
        Token::Array(count) => {
            let below = below()?;
            (0..count).map(|_| read_value(rest, below)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Token::Map(count) => read_map(rest, count, below()?)?,
        Token::Extension => return Err("JSON has no extensions of MessagePack".to_owned()),
    })
}

fn read_map(rest: &mut &[u8], count: u64, depth: usize) -> Result<Value, String> {
    let mut members = Map::new();
    for _ in 0..count {
        let name = match token(rest) {
            Some((Token::Text(name), behind)) => {
                *rest = behind;
                read_text(name)?.to_owned()
            }
            _ => {
                return Err(
                    "a member has a name that is not text, which JSON cannot store".to_owned()
                );
            }
        };
        let value = read_value(rest, depth)?;
        if members.insert(name.clone(), value).is_some() {
            return Err(format!("the name {name:?} comes twice"));
        }
    }
    let value = Value::Object(members);
    match bytes_in(&value) {
        Some(_) => Err(format!("the map {value} is what JSON shows bytes as")),
        None => Ok(value),
    }
}

fn read_text(text: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(text).map_err(|_| "a text in it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::draw_value;
    use seawall_testkit::Dice;

    fn json_there_and_back(text: &str) -> Result<String, String> {
        let packed = translate(text.as_bytes(), CodecId::Json, CodecId::MessagePack)?;
        let shown = translate(&packed, CodecId::MessagePack, CodecId::Json)?;
        Ok(String::from_utf8(shown.into_owned()).unwrap())
    }

    #[test]
    fn json_survives_translation_to_message_pack_and_back() {
        for text in [
            "null",
            "18446744073709551615",
            "-9223372036854775808",
            "0.1",
            "-0.0",
            "5e-324",
            "1.7976931348623157e+308",
            "80457193133708.12",
            r#"{"z":1,"a":[null,true,{}],"m":{"e":1.25},"":""}"#,
            r#"{"base64":"//79"}"#,
            r#"[{"base64":"Zg=="},{"base64":"Zg"},{"base64":1},{"base64":"Zh==","a":1}]"#,
        ] {
            assert_eq!(json_there_and_back(text).unwrap(), text);
        }
        assert_eq!(json_there_and_back("1.50").unwrap(), "1.5");
        assert_eq!(json_there_and_back("[1E2, 0e99999999999999999999]").unwrap(), "[100.0,0.0]");
    }

    #[test]
    fn number_that_would_be_rounded_is_refused() {
        for text in [
            "18446744073709551616",
            "-9223372036854775809",
            "0.10000000000000000001",
            "[1, 3.14159265358979323846]",
            "1e-400",
            "1e400",
            "12345678901234567890.5",
        ] {
            json_there_and_back(text).expect_err(text);
        }
    }

    #[test]
    fn message_pack_without_a_json_form_is_refused() {
        let cases: [(&str, &[u8]); 8] = [
            ("not a number", &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]),
            ("an extension", &[0xd4, 1, 2]),
            ("a number as a name", &[0x81, 7, 1]),
            ("a name twice", &[0x82, 0xa1, b'a', 1, 0xa1, b'a', 2]),
            ("bytes behind it", &[1, 2]),
            ("no value", &[0xc1]),
            ("no UTF-8", &[0xa1, 0xff]),
            ("an object that means bytes", b"\x81\xa6base64\xa4Zg=="),
        ];
        for (what, bytes) in cases {
            translate(bytes, CodecId::MessagePack, CodecId::Json).expect_err(what);
        }
        let deep = |depth| [vec![0x91; depth], vec![0xc0]].concat();
        translate(&deep(DEPTH_MAX + 1), CodecId::MessagePack, CodecId::Json).unwrap_err();
        let deepest = deep(DEPTH_MAX);
        let shown = translate(&deepest, CodecId::MessagePack, CodecId::Json).unwrap();
        assert_eq!(translate(&shown, CodecId::Json, CodecId::MessagePack).unwrap(), deepest);
    }

    #[test]
    fn bytes_survive_translation_through_json_and_message_pack() {
        for bytes in [&b""[..], b"text", b"\xff\xfe", b"{\"a\":1}", b"\x00\n\"", &[0xc3; 9_000]] {
            for through in [CodecId::Json, CodecId::MessagePack, CodecId::Raw] {
                let there = translate(bytes, CodecId::Raw, through).unwrap();
                assert_eq!(translate(&there, through, CodecId::Raw).unwrap(), bytes, "{through:?}");
            }
        }
    }

    #[test]
    fn value_that_is_not_bytes_is_not_converted_to_raw() {
        for text in ["1", "{}", "null", "[\"a\"]", r#"{"base64":"Zg=="}"#, r#"{"base64":"?"}"#] {
            translate(text.as_bytes(), CodecId::Json, CodecId::Raw).expect_err(text);
        }
        translate(b"\xa1a", CodecId::MessagePack, CodecId::Raw).unwrap_err();
    }

    #[test]
    fn accepted_values_translate_back_to_themselves() {
        use seawall::format::CodecId::{Json, MessagePack, Raw};
        for seed in 0..10_000 {
            let dice = &mut Dice::new(seed);
            let text = draw_value(dice, 4).to_string();
            let packed = translate(text.as_bytes(), Json, MessagePack).unwrap();
            let shown = translate(&packed, MessagePack, Json).unwrap();
            assert_eq!(shown, text.as_bytes(), "seed {seed}");
            let mut changed = packed.to_vec();
            let at = dice.below(u64::try_from(changed.len()).unwrap());
            changed[usize::try_from(at).unwrap()] = dice.any().to_le_bytes()[0];
            for source in [Raw, MessagePack, Json] {
                for target in [Raw, MessagePack, Json] {
                    // A value that converts there and back must convert there again unchanged.
                    if let Ok(there) = translate(&changed, source, target)
                        && let Ok(back) = translate(&there, target, source)
                    {
                        let again = translate(&back, source, target).unwrap();
                        assert_eq!(again, there, "seed {seed}: {source:?} to {target:?}");
                        assert!(source != Raw || back == changed, "seed {seed} to {target:?}");
                    }
                }
            }
        }
    }
}
