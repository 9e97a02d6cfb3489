//! Compares the record type stored in a log with the type that the program expects. format.md
//! section 3.1.

use crate::base::codec::Codec;
use crate::base::error::{Error, Result};
use crate::base::options::Options;
use seawall_format::{RecordType, TYPE_NAME_MAX};

impl Options {
    /// The record type that the program requests: from these options, or else from the codec.
    pub(crate) fn record_type<T: ?Sized, C: Codec<T>>(&self) -> Result<RecordType> {
        let name = self.type_name.as_deref().unwrap_or(C::TYPE_NAME);
        if name.len() > TYPE_NAME_MAX {
            let why =
                format!("type name of {} bytes exceeds the maximum of {TYPE_NAME_MAX}", name.len());
            return Err(Error::InvalidOption { log: None, why });
        }
        Ok(RecordType {
            codec: self.codec.unwrap_or(C::ID),
            name: name.to_owned(),
            schema: self.schema.unwrap_or(C::SCHEMA),
        })
    }
}

/// Refuses a log whose name, codec or schema does not match. A log without a name matches any name,
/// and records of an older schema can be read.
pub(crate) fn check(has: &RecordType, requested: &RecordType) -> Result<()> {
    let refuse = |what, has: String, requested: String| {
        Err(Error::Mismatch { log: None, what, has, requested })
    };
    if has.codec != requested.codec {
        return refuse("codec", has.codec.name().to_owned(), requested.codec.name().to_owned());
    }
    if has.name != requested.name && !has.name.is_empty() && !requested.name.is_empty() {
        return refuse("type name", has.name.clone(), requested.name.clone());
    }
    if has.schema > requested.schema {
        return refuse("schema", has.schema.to_string(), requested.schema.to_string());
    }
    Ok(())
}

/// The record type of new records, after [`check`]: the requested schema, and the requested name if
/// the log has none.
pub(crate) fn merged_with(has: &RecordType, requested: &RecordType) -> RecordType {
    let name = if has.name.is_empty() { &requested.name } else { &has.name };
    RecordType { codec: has.codec, name: name.clone(), schema: requested.schema }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_format::CodecId;

    fn of(codec: CodecId, name: &str, schema: u32) -> RecordType {
        RecordType { codec, name: name.to_owned(), schema }
    }

    fn refusal(has: &RecordType, requested: &RecordType) -> Option<String> {
        check(has, requested).err().map(|error| error.to_string())
    }

    #[test]
    fn different_codec_or_name_or_higher_schema_is_refused() {
        let has = of(CodecId::Json, "order", 2);
        for (requested, why) in [
            (
                of(CodecId::Raw, "order", 2),
                "codec mismatch: the log has json, but raw was requested",
            ),
            (
                of(CodecId::Json, "bill", 2),
                "type name mismatch: the log has order, but bill was requested",
            ),
            (of(CodecId::Json, "order", 1), "schema mismatch: the log has 2, but 1 was requested"),
        ] {
            assert_eq!(refusal(&has, &requested).as_deref(), Some(why));
        }
    }

    #[test]
    fn empty_type_name_matches_any_log_and_a_nameless_log_adopts_one() {
        let (named, nameless) = (of(CodecId::Json, "order", 2), of(CodecId::Json, "", 2));
        assert_eq!(refusal(&named, &nameless), None);
        assert_eq!(refusal(&nameless, &named), None);
        assert_eq!(merged_with(&nameless, &named), named);
        assert_eq!(merged_with(&named, &nameless), named);
        assert_eq!(merged_with(&named, &of(CodecId::Json, "", 5)).schema, 5);
    }
}
