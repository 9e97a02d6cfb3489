//! Records to bytes and back.

use crate::{Error, Lsn};
use seawall_format::CodecId;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How records of type `T` become payload bytes, and what is read back.
pub trait Codec<T: ?Sized> {
    /// What reading gives.
    type Item;

    /// Which codec this is; stands in the log, and a log is opened with the codec it has.
    const ID: CodecId;

    /// Adds the bytes of `record` to `payload`.
    ///
    /// # Errors
    ///
    /// Why this record has no bytes.
    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), String>;

    /// The record that these bytes are.
    ///
    /// # Errors
    ///
    /// Why they are none.
    fn decode(payload: &[u8]) -> Result<Self::Item, String>;
}

/// The record `lsn`, from its verified bytes.
pub(crate) fn decode<T: ?Sized, C: Codec<T>>(lsn: Lsn, payload: &[u8]) -> crate::Result<C::Item> {
    C::decode(payload).map_err(|why| Error::Decode { lsn, why })
}

/// `MessagePack` with field names: records may gain fields and reorder them. The default.
#[derive(Clone, Copy, Debug)]
pub enum MessagePack {}

impl<T: Serialize + DeserializeOwned> Codec<T> for MessagePack {
    type Item = T;

    const ID: CodecId = CodecId::MessagePack;

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), String> {
        rmp_serde::encode::write_named(payload, record).map_err(|error| error.to_string())
    }

    fn decode(payload: &[u8]) -> Result<T, String> {
        rmp_serde::from_slice(payload).map_err(|error| error.to_string())
    }
}

/// The user's bytes as they are.
#[derive(Clone, Copy, Debug)]
pub enum Raw {}

impl Codec<[u8]> for Raw {
    type Item = Vec<u8>;

    const ID: CodecId = CodecId::Raw;

    fn encode(record: &[u8], payload: &mut Vec<u8>) -> Result<(), String> {
        payload.extend_from_slice(record);
        Ok(())
    }

    fn decode(payload: &[u8]) -> Result<Vec<u8>, String> {
        Ok(payload.to_vec())
    }
}
