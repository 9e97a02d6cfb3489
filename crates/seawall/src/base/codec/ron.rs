//! The codec `Ron`.

use crate::base::codec::Codec;
use crate::base::error::CodecError;
use seawall_format::CodecId;
use seawall_format::nesting::DEPTH_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// RON, Rusty Object Notation: text in the syntax of Rust.
///
/// The log stores it as [raw bytes](CodecId::Raw) with the type name `ron`; tools show the text.
/// `append` reads each record back, and refuses one that RON cannot represent, or that is nested
/// more than 127 deep.
///
/// # Examples
///
/// ```
/// use seawall::{Log, LogReader, Ron};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Reading { id: u32, celsius: Option<f64> }
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-ron-{}", std::process::id()));
/// let log: Log<Reading, Ron> = Log::open(&folder)?;
/// let lsn = log.append(&Reading { id: 7, celsius: Some(21.5) })?;
/// assert_eq!(log.get(lsn)?, Some(Reading { id: 7, celsius: Some(21.5) }));
/// let text = LogReader::open_any(&folder)?.get(lsn)?;
/// assert_eq!(text.as_deref(), Some(&b"(id:7,celsius:Some(21.5))"[..]));
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Ron {}

impl<T: Serialize + DeserializeOwned> Codec<T> for Ron {
    type Item = T;

    const ID: CodecId = CodecId::Raw;
    const TYPE_NAME: &'static str = "ron";

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        let text = options().to_string(record)?;
        let read_back: T = options().from_str(&text).map_err(|error| {
            format!("RON cannot represent the record: {text} does not read back: {error}")
        })?;
        if options().to_string(&read_back)? != text {
            return Err(
                format!("RON cannot represent the record: {text} reads back changed").into()
            );
        }
        payload.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        Ok(options().from_bytes(payload)?)
    }
}

fn options() -> ron::Options {
    ron::Options::default().with_recursion_limit(DEPTH_MAX)
}
