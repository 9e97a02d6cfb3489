//! Record types that change: what was written by older programs is upgraded where it is read.
//! docs/guide.md shows the way.

use crate::base::codec::{Codec, MessagePack};
use crate::base::error::CodecError;
use seawall_format::CodecId;
use std::marker::PhantomData;

/// A record type that knows its schema number, and how its older forms become what it is now. A log
/// of such records uses [`Upgraded`].
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
/// let log: Log<Payment, Upgraded> = Log::open(&folder)?; // goes on in a new segment
/// assert_eq!(log.get(lsn)?, Some(Payment { cents: 500, currency: "EUR".to_owned() }));
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Versioned: Sized {
    /// What the records are called, 64 bytes at most; a log that has another name is refused.
    const NAME: &'static str = "";

    /// The number of the form that this type has now: one more with each change.
    const SCHEMA: u32;

    /// The record that bytes are which were written when the number was `schema`, lower than
    /// [`SCHEMA`](Versioned::SCHEMA). They are verified: it is what was appended then.
    ///
    /// # Errors
    ///
    /// Why there is no such record. Reading ends there.
    fn upgrade(schema: u32, payload: &[u8]) -> Result<Self, CodecError>;
}

/// Codec `C` for a type that changed: records of older schemas are upgraded where they are read.
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
