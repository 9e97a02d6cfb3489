//! The codec `Cbor`.

use crate::base::codec::Codec;
use crate::base::error::CodecError;
use seawall_format::CodecId;
use seawall_format::nesting::DEPTH_MAX;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// CBOR (RFC 8949) with field names: fields may be added and reordered.
///
/// The log stores it as [raw bytes](CodecId::Raw) with the type name `cbor`; tools show it as such.
/// Records nested more than 127 deep are refused by `append`.
///
/// # Examples
///
/// ```
/// use seawall::{Cbor, Log};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-cbor-{}", std::process::id()));
/// let log: Log<(u32, String), Cbor> = Log::open(&folder)?;
/// let lsn = log.append(&(7, "seven".to_owned()))?;
/// assert_eq!(log.get(lsn)?, Some((7, "seven".to_owned())));
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Cbor {}

impl<T: Serialize + DeserializeOwned> Codec<T> for Cbor {
    type Item = T;

    const ID: CodecId = CodecId::Raw;
    const TYPE_NAME: &'static str = "cbor";

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        let start = payload.len();
        ciborium::into_writer(record, &mut *payload)?;
        // A reader would refuse a deeper one.
        decode_whole::<IgnoredAny>(payload.get(start..).unwrap_or_default()).map(drop)
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        decode_whole(payload)
    }
}

fn decode_whole<T: DeserializeOwned>(payload: &[u8]) -> Result<T, CodecError> {
    let mut rest = payload;
    let record = ciborium::de::from_reader_with_recursion_limit(&mut rest, DEPTH_MAX)?;
    if rest.is_empty() { Ok(record) } else { Err("bytes follow the record".into()) }
}
