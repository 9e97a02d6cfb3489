//! Records to bytes and back.

use crate::base::error::{CodecError, Error};
use seawall_format::{CodecId, Lsn};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How records of type `T` become payload bytes, and what is read back.
///
/// A codec of your own has the [`ID`](Codec::ID) of what its bytes are, [`CodecId::Raw`] if they
/// are none of the others; a [`TYPE_NAME`](Codec::TYPE_NAME) keeps logs of other bytes apart.
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
///             return Err(format!("{record} is no temperature").into());
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
    /// What reading gives.
    type Item;

    /// Which codec this is; stands in the log, and a log is opened with the codec it has.
    const ID: CodecId;

    /// What the records are called, 64 bytes at most; a log that has another name is refused.
    /// Empty: any. [`Options::type_name`](crate::Options::type_name) goes before it.
    const TYPE_NAME: &'static str = "";

    /// The schema number of what [`encode`](Codec::encode) writes: a log with a higher one is
    /// refused, one with a lower one goes on in a new segment.
    /// [`Options::schema`](crate::Options::schema) goes before it.
    const SCHEMA: u32 = 0;

    /// Adds the bytes of `record` to `payload`.
    ///
    /// # Errors
    ///
    /// Why this record has no bytes.
    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError>;

    /// What [`encode`](Codec::encode) would add, where the record has it in memory just so: it is
    /// then copied once less. Unless a codec says otherwise, it has not.
    fn payload_of(record: &T) -> Option<&[u8]> {
        let _ = record;
        None
    }

    /// The record that these bytes are.
    ///
    /// # Errors
    ///
    /// Why they are none.
    fn decode(payload: &[u8]) -> Result<Self::Item, CodecError>;

    /// The record that these bytes are, written when the schema number was `schema`, which is
    /// lower than that of today. Unless a codec knows better the same as
    /// [`decode`](Codec::decode); see [`Upgraded`](crate::versioned::Upgraded).
    ///
    /// # Errors
    ///
    /// Why they are none.
    fn decode_older(schema: u32, payload: &[u8]) -> Result<Self::Item, CodecError> {
        let _ = schema;
        Self::decode(payload)
    }
}

/// Verified bytes of a record, to be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) lsn: Lsn,
    /// The schema number of its segment.
    pub(crate) schema: u32,
    pub(crate) payload: &'a [u8],
}

impl Stored<'_> {
    /// The record, for a reader that knows schemas up to `known`.
    pub(crate) fn decode<T: ?Sized, C: Codec<T>>(
        self,
        known: u32,
    ) -> crate::base::error::Result<C::Item> {
        let Self { lsn, schema, payload } = self;
        let decoded = match schema {
            // The writer has moved on since this reader asked.
            newer if newer > known => {
                let (has, requested) = (newer.to_string(), known.to_string());
                return Err(Error::Mismatch { what: "schema", has, requested });
            }
            older if older < known => C::decode_older(older, payload),
            _ => C::decode(payload),
        };
        decoded.map_err(|source| Error::Decode { lsn, source })
    }
}

/// `MessagePack` with field names: records may gain fields and reorder them. The default.
#[derive(Clone, Copy, Debug)]
pub enum MessagePack {}

impl<T: Serialize + DeserializeOwned> Codec<T> for MessagePack {
    type Item = T;

    const ID: CodecId = CodecId::MessagePack;

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        rmp_serde::encode::write_named(payload, record).map_err(CodecError::from)
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        rmp_serde::from_slice(payload).map_err(CodecError::from)
    }
}

/// `MessagePack` without field names: smaller and quicker, and **the order of the fields is all
/// there is**.
///
/// Whoever swaps two fields of the same type, or puts a new one in front, reads old records with
/// their values swapped, and nothing notices. So a field that comes, goes or moves is a new schema
/// number, and records of an older one are read by [`Upgraded`](crate::versioned::Upgraded) or not
/// at all. Fields that are left out now and then (`skip_serializing_if`) do not work.
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
        rmp_serde::encode::write(payload, record).map_err(CodecError::from)
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        rmp_serde::from_slice(payload).map_err(CodecError::from)
    }

    fn decode_older(schema: u32, _: &[u8]) -> Result<T, CodecError> {
        // Fields that have moved would swap their values.
        Err(format!("it has schema {schema} and no field names; `Upgraded` can read such records")
            .into())
    }
}

/// The user's bytes as they are.
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
