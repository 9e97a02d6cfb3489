//! Compares the canonical form with one built from the output of a parser.

use super::*;

/// Returns the form of `text` if it is exactly one JSON value. Checks that the one-pass form equals
/// the parsed one.
fn form(text: &str) -> Option<Vec<u8>> {
    let found = Form::with_empty(|form| {
        let length = form.value(text, DEPTH_MAX)?;
        (length == text.len()).then(|| form.bytes().to_vec())
    });
    assert_eq!(found, plain::form(text), "{text:?}");
    found
}

#[test]
fn white_space_order_and_escapes_do_not_change_the_form() {
    let one = form(r#"{"a":1,"b":[true,null,"x\ny"],"c":{"d":1.50}}"#);
    let two = form("{ \"c\" : {\n\"d\":1.50}, \"b\":[ true,null,\"\\u0078\\ny\"],\t\"a\":1 }");
    assert!(one.is_some());
    assert_eq!(one, two);
}

#[test]
fn every_other_change_changes_the_form() {
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
fn duplicate_name_has_no_form() {
    assert_eq!(form(r#"{"a":1,"a":1}"#), None);
    assert_eq!(form(r#"{"a":1,"\u0061":1}"#), None);
    assert_eq!(form(r#"[{"x":{"a":1,"a":2}}]"#), None);
    assert_eq!(form(r#"{"timestamp_a":1,"timestamp_b":2,"timestamp_a":3}"#), None);
}

#[test]
fn names_that_begin_alike_are_in_order() {
    let names =
        ["", "\\u0000", "a", "a\\u0000", "timestam", "timestamp", "timestamp_a", "timestamp_b"];
    let object = |names: &[&str]| {
        let members: Vec<_> = names.iter().map(|name| format!("\"{name}\":1")).collect();
        form(&format!("{{{}}}", members.join(",")))
    };
    let in_order = object(&names);
    assert!(in_order.is_some());
    for first in 1..names.len() {
        let turned = [&names[first..], &names[..first]].concat();
        assert_eq!(object(&turned), in_order, "{turned:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "each of 128 levels borrows from the one around it: minutes there")]
fn too_deep_value_has_no_form() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(sum(&nested(DEPTH_MAX), DEPTH_MAX).is_some());
    assert!(sum(&nested(DEPTH_MAX + 1), DEPTH_MAX).is_none());
    assert!(sum(&nested(100_000), DEPTH_MAX).is_none());
}

/// Fragments to build random texts from, and to damage valid ones with.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\"a\"",
    "\"a\":",
    "\"b\":",
    "\"\\u0061\":",
    "\"\\ud834\\udd1e\"",
    "\\ud834",
    "\\u00e9",
    "\\n",
    "\\x",
    "\u{e9}",
    "\u{1d11e}",
    "\u{7f}",
    "\0",
    "\u{1f}",
    "\n",
    "\t",
    "\u{b}",
    " ",
    "0",
    "-",
    "1",
    "10",
    ".",
    "e",
    "E",
    "+",
    "1.50",
    "-0",
    "1e-7",
    "null",
    "true",
    "false",
    "nul",
    "T",
    "a long text without an escape, longer than a word",
];

/// Valid JSON texts, to start from and to insert into others.
const VALUES: &[&str] = &[
    "null",
    "-1.5e+7",
    "\"\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\u{e9}\"",
    "[]",
    "{}",
    "[1, [2, [null, true]], {\"x\": []}]",
    "{\"b\":{\"b\":1,\"a\":{\"d\":[],\"c\":\"\"}},\"\":0,\"ab\":\"\\n\"}",
    "[{\"z\":1,\"y\":2},{},{\"a\":[{\"b\":0,\"a\":1}]}]",
    "{\"id\":7,\"comment\":\"record 1 of many\",\"objects\":[{\"a\":1,\"b\":2},{\"b\":1,\"a\":2}]}",
];

#[test]
fn one_pass_form_equals_the_parsed_form_for_any_text() {
    let mut state = 0x5EED_u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from(state >> 33).unwrap() % end
    };
    let (mut valid, mut invalid) = (0, 0);
    for round in 0..400_000 / crate::fields::sizes::EVERY {
        let mut text = match round % 3 {
            0 => String::new(),
            _ => VALUES[below(VALUES.len())].to_owned(),
        };
        for _ in 0..below(if text.is_empty() { 8 } else { 3 }) {
            let places: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
            let from = *places.get(below(places.len() + 1)).unwrap_or(&text.len());
            let to =
                text[from..].char_indices().nth(below(3)).map_or(text.len(), |(at, _)| from + at);
            let piece = if below(8) == 0 {
                VALUES[below(VALUES.len())]
            } else {
                PIECES[below(PIECES.len())]
            };
            text.replace_range(from..if below(2) == 0 { from } else { to }, piece);
        }
        match form(&text) {
            Some(_) => valid += 1,
            None => invalid += 1,
        }
    }
    assert!(
        valid > 20_000 / crate::fields::sizes::EVERY
            && invalid > 20_000 / crate::fields::sizes::EVERY,
        "{valid}, {invalid}"
    );
}
