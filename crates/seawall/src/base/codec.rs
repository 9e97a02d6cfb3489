//! Encodes records as bytes and decodes them.

#[cfg(feature = "cbor")]
pub(crate) mod cbor;
#[cfg(feature = "ron")]
pub(crate) mod ron;

use crate::base::error::{CodecError, Error};
use seawall_format::{CodecId, Lsn, nesting};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes records of type `T` as payload bytes and decodes them.
///
/// The [`ID`](Codec::ID) of a custom codec names the encoding of its bytes, or is [`CodecId::Raw`]
/// if no other id fits. A [`TYPE_NAME`](Codec::TYPE_NAME) prevents opening a log of other records
/// by mistake.
///
/// # Examples
///
/// ```
/// use seawall::format::CodecId;
/// use seawall::{Codec, CodecError, Log};
///
/// /// Temperatures in hundredths of a degree, four bytes each.
/// enum Hundredths {}
///
/// impl Codec<f64> for Hundredths {
///     type Item = f64;
///     const ID: CodecId = CodecId::Raw;
///     const TYPE_NAME: &'static str = "temperature";
///
///     fn encode(record: &f64, payload: &mut Vec<u8>) -> Result<(), CodecError> {
///         if !record.is_finite() || record.abs() > 1e6 {
///             return Err(format!("{record} is not a temperature").into());
///         }
///         payload.extend_from_slice(&((record * 100.0).round() as i32).to_le_bytes());
///         Ok(())
///     }
///
///     fn decode(payload: &[u8]) -> Result<f64, CodecError> {
///         let bytes = payload.try_into().map_err(|_| "not four bytes")?;
///         Ok(f64::from(i32::from_le_bytes(bytes)) / 100.0)
///     }
/// }
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-codec-{}", std::process::id()));
/// let log: Log<f64, Hundredths> = Log::open(&folder)?;
/// let lsn = log.append(&-3.25)?;
/// assert_eq!(log.get(lsn)?, Some(-3.25));
/// assert!(log.append(&f64::NAN).is_err());
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Codec<T: ?Sized> {
    /// The type that reading returns.
    type Item;

    /// Codec id stored in the log; opening the log with another codec fails.
    const ID: CodecId;

    /// Name of the record type, at most 64 bytes; a log with another name is refused. Empty matches
    /// any log. [`Options::type_name`](crate::Options::type_name) takes precedence.
    const TYPE_NAME: &'static str = "";

    /// Schema number of the records that [`encode`](Codec::encode) writes. A log with a higher
    /// number is refused; one with a lower number continues in a new segment.
    /// [`Options::schema`](crate::Options::schema) takes precedence.
    const SCHEMA: u32 = 0;

    /// Appends the bytes of `record` to `payload`.
    ///
    /// # Errors
    ///
    /// Why the record cannot be encoded.
    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError>;

    /// The encoded bytes, if the record already holds them; saves one copy. `None` by default.
    fn payload_of(record: &T) -> Option<&[u8]> {
        let _ = record;
        None
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// Why the bytes are not a record.
    fn decode(payload: &[u8]) -> Result<Self::Item, CodecError>;

    /// Decodes a record that was written with the older schema number `schema`. By default the same
    /// as [`decode`](Codec::decode); see [`Upgraded`](crate::versioned::Upgraded).
    ///
    /// # Errors
    ///
    /// Why the bytes are not a record.
    fn decode_older(schema: u32, payload: &[u8]) -> Result<Self::Item, CodecError> {
        let _ = schema;
        Self::decode(payload)
    }
}

/// Verified bytes of a record, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) lsn: Lsn,
    /// Schema number of its segment.
    pub(crate) schema: u32,
    pub(crate) payload: &'a [u8],
}

impl Stored<'_> {
    /// Decodes the record for a reader that knows schemas up to `known`.
    pub(crate) fn decode<T: ?Sized, C: Codec<T>>(
        self,
        known: u32,
    ) -> crate::base::error::Result<C::Item> {
        let Self { lsn, schema, payload } = self;
        let decoded = match schema {
            // The writer has moved to a newer schema since the reader opened the log.
            newer if newer > known => {
                let (has, requested) = (newer.to_string(), known.to_string());
                return Err(Error::Mismatch { log: None, what: "schema", has, requested });
            }
            older if older < known => C::decode_older(older, payload),
            _ => C::decode(payload),
        };
        decoded.map_err(|source| Error::decode(lsn, source))
    }
}

/// `MessagePack` with field names, the default: fields may be added and reordered.
///
/// Arrays, maps and enums nest at most 127 deep, as in [`Json`](crate::Json): a deeper record is
/// refused by `append`, and not decoded.
#[derive(Clone, Copy, Debug)]
pub enum MessagePack {}

impl<T: Serialize + DeserializeOwned> Codec<T> for MessagePack {
    type Item = T;

    const ID: CodecId = CodecId::MessagePack;

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        encode_shallow(payload, |payload| rmp_serde::encode::write_named(payload, record))
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        decode_shallow(payload)
    }
}

/// `MessagePack` without field names: smaller and faster, but **fields are identified by their
/// order alone**.
///
/// After two fields of the same type are swapped, or a new one is inserted before them, old records
/// decode without an error into wrong values. So each added, removed or moved field requires a new
/// schema number, and only [`Upgraded`](crate::versioned::Upgraded) reads records of an older
/// schema. Optional fields (`skip_serializing_if`) do not work.
///
/// # Examples
///
/// ```
/// use seawall::{Codec, Positional};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Transfer { from: u32, to: u32 }
/// #[derive(Serialize, Deserialize)]
/// struct Reordered { to: u32, from: u32 }
///
/// let mut bytes = vec![];
/// Positional::encode(&Transfer { from: 1, to: 2 }, &mut bytes)?;
/// let wrong = <Positional as Codec<Reordered>>::decode(&bytes)?;
/// assert_eq!((wrong.from, wrong.to), (2, 1)); // and no error
/// # Ok::<(), seawall::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Positional {}

impl<T: Serialize + DeserializeOwned> Codec<T> for Positional {
    type Item = T;

    const ID: CodecId = CodecId::Positional;

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        encode_shallow(payload, |payload| rmp_serde::encode::write(payload, record))
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        decode_shallow(payload)
    }

    fn decode_older(schema: u32, _: &[u8]) -> Result<T, CodecError> {
        // Without field names, reordered fields would swap their values.
        Err(format!("it has schema {schema} and no field names; `Upgraded` can read such records")
            .into())
    }
}

/// Encodes a record, and refuses one that [`decode_shallow`] would refuse.
fn encode_shallow(
    payload: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), rmp_serde::encode::Error>,
) -> Result<(), CodecError> {
    let start = payload.len();
    encode(payload)?;
    check_depth(payload.get(start..).unwrap_or_default())
}

/// Decodes a record, unless it is nested so deep that decoding it could overflow the stack.
fn decode_shallow<T: DeserializeOwned>(payload: &[u8]) -> Result<T, CodecError> {
    check_depth(payload)?;
    rmp_serde::from_slice(payload).map_err(CodecError::from)
}

fn check_depth(payload: &[u8]) -> Result<(), CodecError> {
    if nesting::is_shallow(payload) { Ok(()) } else { Err(nesting::TOO_DEEP.into()) }
}

/// Bytes supplied by the caller, unchanged.
#[derive(Clone, Copy, Debug)]
pub enum Raw {}

impl Codec<[u8]> for Raw {
    type Item = Vec<u8>;

    const ID: CodecId = CodecId::Raw;

    fn encode(record: &[u8], payload: &mut Vec<u8>) -> Result<(), CodecError> {
        payload.extend_from_slice(record);
        Ok(())
    }

    fn payload_of(record: &[u8]) -> Option<&[u8]> {
        Some(record)
    }

    fn decode(payload: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(payload.to_vec())
    }
}
