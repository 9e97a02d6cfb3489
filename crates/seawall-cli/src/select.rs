//! `--where` and `--fields`: which records to print, and which of their fields.

use clap::Args;
use seawall::format::CodecId;
use seawall_foreign::query::{Condition, Path, PathList, object};
use seawall_foreign::value;
use seawall_output::report::say;
use seawall_output::stdout::{harmless_json, one_line};
use seawall_output::text;

/// `--where` and `--fields`
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Print only matching records, e.g. `order.id=7`; can be repeated (all must match). See below
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    conditions: Vec<Condition>,
    /// Print only these fields of each record
    #[arg(long, value_name = "FIELD,...")]
    fields: Vec<PathList>,
}

/// The part of a record to print.
pub(crate) enum Picked {
    /// The whole record, as stored.
    Whole,
    /// These fields, in the requested order.
    Fields(Fields),
}

/// Fields of one record as JSON; `None` for missing ones.
pub(crate) struct Fields(Vec<(Path, Option<String>)>);

/// Selects records and fields, and counts records without fields.
#[derive(Debug, Default)]
pub(crate) struct Picker {
    selection: Selection,
    /// Records that are not JSON values and so have no fields.
    plain: u64,
}

impl Selection {
    /// Whether `--fields` was given; otherwise records are printed as stored.
    pub(crate) fn names_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Whether `--where` was given.
    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }
}

impl Picker {
    pub(crate) fn new(selection: Selection) -> Self {
        Self { selection, plain: 0 }
    }

    /// Selects the part of a record to print; `None` skips the record.
    pub(crate) fn pick(&mut self, codec: CodecId, payload: &[u8]) -> Option<Picked> {
        let Selection { conditions, fields } = &self.selection;
        if conditions.is_empty() && fields.is_empty() {
            return Some(Picked::Whole);
        }
        let text = text_of(codec, payload);
        self.plain += u64::from(text.is_none());
        let text = text.as_deref();
        if !conditions.iter().all(|condition| text.is_some_and(|text| condition.holds(text))) {
            return None;
        }
        if fields.is_empty() {
            return Some(Picked::Whole);
        }
        let found = |path: &Path| text.and_then(|text| path.find(text)).map(str::to_owned);
        let paths = fields.iter().flat_map(|list| &list.0);
        let found = paths.map(|path| (path.clone(), found(path)));
        Some(Picked::Fields(Fields(found.collect())))
    }

    /// Warns about records that are not JSON values.
    pub(crate) fn tell(&self) {
        if self.plain > 0 {
            let asked = self.selection.has_conditions();
            let fate = if asked { "do not match" } else { "have no fields" };
            let records = text::count(self.plain, "record");
            say(&format!("seawall: warning: {records} that are not JSON {fate}"));
        }
    }
}

/// The payload as JSON on one line; raw bytes may contain JSON.
fn text_of(codec: CodecId, payload: &[u8]) -> Option<String> {
    match codec {
        CodecId::MessagePack => value::from_message_pack(payload).ok().map(|it| it.to_string()),
        _ => value::minified(payload).ok(),
    }
}

impl Fields {
    /// Formats the fields as columns: missing fields are empty, and strings have no quotes.
    pub(crate) fn columns(&self) -> String {
        let column = |(_, field): &(Path, Option<String>)| match field {
            None => String::new(),
            Some(field) => match serde_json::from_str::<String>(field) {
                Ok(text) => one_line(&text),
                Err(_) => harmless_json(field).into_owned(),
            },
        };
        self.0.iter().map(column).collect::<Vec<_>>().join("\t")
    }

    /// A JSON object with the fields that the record has.
    pub(crate) fn object(self) -> String {
        object(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_an_object_in_json_and_columns_in_short() {
        let fields = ["b.c,no", "a,b.d,t"].map(|paths| paths.parse().unwrap()).to_vec();
        let mut picker = Picker::new(Selection { conditions: vec![], fields });
        let record = br#"{"a":[1],"b":{"x":0,"c":1,"d":null},"t":"x\ty"}"#;
        let mut pick = || match picker.pick(CodecId::Raw, record) {
            Some(Picked::Fields(fields)) => fields,
            _ => panic!("fields were asked for"),
        };
        assert_eq!(pick().columns(), "1\t\t[1]\tnull\tx\\ty");
        assert_eq!(pick().object(), r#"{"b":{"c":1,"d":null},"a":[1],"t":"x\ty"}"#);
    }

    #[test]
    fn fields_keep_all_digits() {
        let record = r#"{"a": {"b": 1.10, "c":99999999999999999999}, "d":1e400}"#;
        let fields = ["a.b,a.c", "d"].map(|paths| paths.parse().unwrap()).to_vec();
        let conditions = vec!["a.b=1.1".parse().unwrap()];
        let mut picker = Picker::new(Selection { conditions, fields });
        let Some(Picked::Fields(fields)) = picker.pick(CodecId::Json, record.as_bytes()) else {
            panic!("it matches")
        };
        assert_eq!(fields.columns(), "1.10\t99999999999999999999\t1e400");
        assert_eq!(fields.object(), r#"{"a":{"b":1.10,"c":99999999999999999999},"d":1e400}"#);
    }

    #[test]
    fn record_that_is_not_json_matches_nothing_and_is_counted() {
        let conditions = vec!["a!=1".parse().unwrap()];
        let mut picker = Picker::new(Selection { conditions, fields: vec![] });
        assert!(picker.pick(CodecId::Raw, b"plain text").is_none());
        assert!(picker.pick(CodecId::MessagePack, &[0xc1]).is_none());
        assert!(picker.pick(CodecId::Raw, br#"{"a":2}"#).is_some());
        assert_eq!(picker.plain, 2);
    }
}
