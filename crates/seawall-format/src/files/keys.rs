//! `keys`: the keys of an encrypted log, wrapped with the user's. format.md section 3.7.

#[cfg(feature = "encryption")]
mod ring;
mod wrapped;

#[cfg(feature = "encryption")]
pub use ring::KeyRing;
pub use wrapped::{LOG_KEYS_MAX, SLOT_B, WrappedKeys};
pub(crate) use wrapped::{TABLE, entry};

#[cfg(feature = "encryption")]
#[cfg(test)]
mod tests;
