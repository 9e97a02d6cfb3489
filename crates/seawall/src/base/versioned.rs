//! Record types that change over time: records of older schemas are upgraded when they are read.
//! See docs/guide.md.

use crate::base::codec::{Codec, MessagePack};
use crate::base::error::CodecError;
use seawall_format::CodecId;
use std::marker::PhantomData;

/// A record type with a schema number that can upgrade records of older schemas. A log of such
/// records uses the codec [`Upgraded`].
///
/// # Examples
///
/// ```
/// use seawall::versioned::{Upgraded, Versioned};
/// use seawall::{Codec, CodecError, Log, MessagePack};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct EuroPayment { euros: u64 } // schema 0, as it was
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Payment { cents: u64, currency: String }
///
/// impl Versioned for Payment {
///     const NAME: &'static str = "payment";
///     const SCHEMA: u32 = 1;
///
///     fn upgrade(schema: u32, payload: &[u8]) -> Result<Self, CodecError> {
///         match schema {
///             0 => {
///                 let old = <MessagePack as Codec<EuroPayment>>::decode(payload)?;
///                 Ok(Payment { cents: old.euros * 100, currency: "EUR".to_owned() })
///             }
///             other => Err(format!("no schema {other} was ever in use").into()),
///         }
///     }
/// }
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-vers-{}", std::process::id()));
/// let log: Log<EuroPayment> = Log::open(&folder)?;
/// let lsn = log.append(&EuroPayment { euros: 5 })?;
/// log.close()?;
///
/// let log: Log<Payment, Upgraded> = Log::open(&folder)?; // continues in a new segment
/// assert_eq!(log.get(lsn)?, Some(Payment { cents: 500, currency: "EUR".to_owned() }));
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Versioned: Sized {
    /// Name of the record type, at most 64 bytes; a log with another name is refused.
    const NAME: &'static str = "";

    /// Schema number of the current form of this type. Increment it with each change.
    const SCHEMA: u32;

    /// Decodes a record that was written with the older schema number `schema`, lower than
    /// [`SCHEMA`](Versioned::SCHEMA). The checksum of `payload` has been verified.
    ///
    /// # Errors
    ///
    /// Why the payload is not such a record. Reading stops there.
    fn upgrade(schema: u32, payload: &[u8]) -> Result<Self, CodecError>;
}

/// Codec `C` for a type that changes: records of older schemas are upgraded when they are read.
#[derive(Debug)]
pub struct Upgraded<C = MessagePack>(PhantomData<C>);

impl<T: Versioned, C: Codec<T, Item = T>> Codec<T> for Upgraded<C> {
    type Item = T;

    const ID: CodecId = C::ID;
    const TYPE_NAME: &'static str = T::NAME;
    const SCHEMA: u32 = T::SCHEMA;

    fn encode(record: &T, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        C::encode(record, payload)
    }

    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        C::decode(payload)
    }

    fn decode_older(schema: u32, payload: &[u8]) -> Result<T, CodecError> {
        T::upgrade(schema, payload)
    }
}
