//! Selects fields of a JSON value by path and evaluates conditions on them.

use crate::value;
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Formats the selected fields as a JSON object without the missing ones.
#[must_use]
pub fn object(fields: Vec<(Path, Option<String>)>) -> String {
    let mut whole = Shown::Members(vec![]);
    for (path, field) in fields {
        if let Some(field) = field {
            whole.put(&path.0, field);
        }
    }
    whole.to_string()
}

/// The part of a value that is shown.
enum Shown {
    /// The whole value.
    Whole(String),
    /// Some members; an item of a list is shown under its index.
    Members(Vec<(String, Shown)>),
}

impl Shown {
    /// Adds a field at its path.
    fn put(&mut self, path: &[String], field: String) {
        match (self, path) {
            (place, []) => *place = Self::Whole(field),
            // The whole value was already selected.
            (Self::Whole(_), _) => {}
            (Self::Members(members), [name, rest @ ..]) => {
                let place = members.iter().position(|(known, _)| known == name);
                let place = place.unwrap_or_else(|| {
                    members.push((name.clone(), Self::Members(vec![])));
                    members.len() - 1
                });
                if let Some((_, member)) = members.get_mut(place) {
                    member.put(rest, field);
                }
            }
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = match self {
            Self::Whole(text) => return f.write_str(text),
            Self::Members(members) => members,
        };
        for (at, (name, member)) in members.iter().enumerate() {
            let before = if at == 0 { "{" } else { "," };
            write!(f, "{before}{}:{member}", Value::from(name.as_str()))?;
        }
        f.write_str(if members.is_empty() { "{}" } else { "}" })
    }
}

/// A path to a value: member names and item indexes. The empty path is the record itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<String>);

impl Path {
    /// The text of the selected value. Numbers keep all digits.
    #[must_use]
    pub fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.0.iter().try_fold(text, |text, name| match text.as_bytes().first() {
            Some(b'{') => {
                let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).ok()?;
                members.get(name.as_str()).map(|member| member.get())
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                items.get(name.parse::<usize>().ok()?).map(|item| item.get())
            }
            _ => None,
        })
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut expression = Expression::new(text);
        let path = expression.path()?;
        match expression.rest() {
            "" => Ok(path),
            _ => Err(expression.wrong("the field ends here; quote names with special characters")),
        }
    }
}

/// Paths separated by commas; a name in quotes may contain commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathList(pub Vec<Path>);

impl FromStr for PathList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut is_quoted, mut is_escaped) = (false, false);
        let separates = |character| {
            let after_backslash = std::mem::replace(&mut is_escaped, false);
            match character {
                '"' if !after_backslash => is_quoted = !is_quoted,
                '\\' => is_escaped = is_quoted && !after_backslash,
                _ => {}
            }
            character == ',' && !is_quoted
        };
        text.split(separates).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// A condition on a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    path: Path,
    test: Test,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Same,
    Other,
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Longer operators first, because some are prefixes of others.
const TESTS: [(&str, Test); 6] = [
    ("!=", Test::Other),
    ("<=", Test::AtMost),
    (">=", Test::AtLeast),
    ("=", Test::Same),
    ("<", Test::Below),
    (">", Test::Above),
];

impl Condition {
    /// Evaluates the condition for a record; false without the field.
    #[must_use]
    pub fn holds(&self, record: &str) -> bool {
        let found = self.path.find(record).and_then(|text| value::read(text.as_bytes()).ok());
        let Some(found) = &found else { return false };
        let order = || order(found, &self.value);
        match self.test {
            Test::Same => is_same(found, &self.value),
            Test::Other => !is_same(found, &self.value),
            Test::Below => order() == Some(Ordering::Less),
            Test::AtMost => order().is_some_and(Ordering::is_le),
            Test::Above => order() == Some(Ordering::Greater),
            Test::AtLeast => order().is_some_and(Ordering::is_ge),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut expression = Expression::new(text);
        let path = expression.path()?;
        let found = TESTS.iter().find(|(sign, _)| expression.take(sign));
        let (_, comparison) =
            *found.ok_or_else(|| expression.wrong("here = != < <= > or >= is missing"))?;
        let rest = expression.rest();
        if rest.starts_with(['=', '!', '<', '>']) {
            return Err(expression.wrong("one sign is enough; quote a text that begins with one"));
        }
        let value = value::read(rest.as_bytes()).unwrap_or_else(|_| Value::from(rest));
        let is_ordered = matches!(value, Value::Number(_) | Value::String(_));
        if !is_ordered && !matches!(comparison, Test::Same | Test::Other) {
            return Err(expression.wrong("only numbers and texts are larger or smaller"));
        }
        Ok(Self { path, test: comparison, value })
    }
}

/// The unparsed rest of an expression.
struct Expression<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Expression<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Parses names separated by dots, or a single dot for the record itself.
    fn path(&mut self) -> Result<Path, String> {
        if self.rest().starts_with('.') {
            self.at += 1;
            return match self.rest().chars().next() {
                None | Some('=' | '!' | '<' | '>') => Ok(Path(vec![])),
                Some(_) => Err(self.wrong("a dot at the start means the whole record")),
            };
        }
        let mut names = vec![self.name()?];
        while self.take(".") {
            names.push(self.name()?);
        }
        Ok(Path(names))
    }

    fn name(&mut self) -> Result<String, String> {
        if self.rest().starts_with('"') {
            let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<String>();
            let name = values.next().and_then(Result::ok);
            let name = name.ok_or_else(|| self.wrong("this quote does not end"))?;
            self.at += values.byte_offset();
            return Ok(name);
        }
        let rest = self.rest();
        let end = rest.find(['.', '=', '!', '<', '>', '"']).unwrap_or(rest.len());
        let name = rest.get(..end).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| self.wrong("here the name of a field is missing"))?;
        self.at += end;
        Ok(name.to_owned())
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    /// Adds the current column to an error.
    fn wrong(&self, what: &str) -> String {
        let before = self.text.get(..self.at).unwrap_or_default();
        format!("column {}: {what}", before.chars().count() + 1)
    }
}

/// Compares two values; numbers by value (`1` equals `1.0`), members in any order.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            order_numbers(one, other).is_some_and(Ordering::is_eq)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let in_other = |(name, value): (&String, &Value)| {
                other.get(name).is_some_and(|other| is_same(value, other))
            };
            one.len() == other.len() && one.iter().all(in_other)
        }
        _ => one == other,
    }
}

/// Orders two numbers or two texts; `None` for other pairs.
fn order(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => order_numbers(one, other),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

/// Orders two numbers exactly, even if a float cannot represent the integer.
fn order_numbers(one: &Number, other: &Number) -> Option<Ordering> {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (Some(one), None) => order_mixed(one, other.as_f64()?),
        (None, Some(other)) => order_mixed(other, one.as_f64()?).map(Ordering::reverse),
        (None, None) => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Orders an integer and a float. Rounding the integer to a float preserves the order. If the two
/// are equal after rounding, the float is an integer too, and both are compared as integers.
#[expect(clippy::cast_precision_loss, reason = "equal results are compared exactly")]
fn order_mixed(integer: i128, float: f64) -> Option<Ordering> {
    match (integer as f64).partial_cmp(&float)? {
        Ordering::Equal => Some(integer.cmp(&format!("{float:.0}").parse().ok()?)),
        unequal => Some(unequal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(condition: &str, record: &str) -> bool {
        let condition: Condition = condition.parse().unwrap_or_else(|why| panic!("{why}"));
        condition.holds(&value::minified(record.as_bytes()).unwrap())
    }

    #[test]
    fn condition_selects_exactly_the_matching_records() {
        let record =
            r#"{"order":{"id":7,"items":["a",{"n":2}]},"who":"Zo\u00eb","x=y":1,"z":null}"#;
        for condition in [
            "order.id=7",
            "order.id=7.0",
            "order.id!=8",
            "order.id<8",
            "order.id<=7",
            "order.id>6.5",
            "order.id>=7",
            "order.items.0=a",
            "order.items.1.n=2",
            r#"order.items=["a",{"n":2.0}]"#,
            "who=Zo\u{eb}",
            "who>Z",
            r#""x=y"=1"#,
            r#""order"."id"=7"#,
            "z=null",
            r#"z!="null""#,
            ".!=1",
        ] {
            assert!(holds(condition, record), "{condition}");
        }
        for condition in [
            "order.id=8",
            r#"order.id="7""#,
            "order.id!=7",
            "order.id<7",
            "order.id<z",
            "order.no=7",
            "order.no!=7",
            "order.items.2=a",
            "who.id=7",
            "who=zoe",
            "who<1",
            "z=",
        ] {
            assert!(!holds(condition, record), "{condition}");
        }
        assert!(holds(".=7", "7") && holds(".>6", "7") && !holds(".=7", "\"7\""));
    }

    #[test]
    fn large_numbers_are_not_rounded() {
        assert!(!holds("a=9007199254740993", r#"{"a":9007199254740992}"#));
        assert!(!holds("a=9007199254740993", r#"{"a":9007199254740992.0}"#));
        assert!(holds("a<9007199254740993", r#"{"a":9007199254740992.0}"#));
        assert!(holds("a=18446744073709551615", r#"{"a":18446744073709551615}"#));
        assert!(holds("a>18446744073709551615", r#"{"a":1e300}"#));
        assert!(holds("a<-9223372036854775808", r#"{"a":-1e300}"#));
    }

    #[test]
    fn syntax_error_names_its_column() {
        for (text, column) in [
            ("", 1),
            ("a", 2),
            ("=7", 1),
            ("a..b=7", 3),
            ("a.=7", 3),
            ("a==7", 3),
            ("a>>7", 3),
            ("a=<7", 3),
            ("a<>7", 3),
            ("\u{eb}!7", 2),
            (".a=1", 2),
            ("\"a=7", 1),
            ("a<true", 3),
            ("a b\"c=1", 4),
        ] {
            let why = text.parse::<Condition>().expect_err(text);
            assert!(why.starts_with(&format!("column {column}: ")), "{text}: {why}");
        }
        assert!("a=1".parse::<Path>().unwrap_err().starts_with("column 2: "));
    }
}
