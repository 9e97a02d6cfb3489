//! Message authentication codes: HMAC with SHA-256, cut to 16 bytes.

use crate::encryption::basics::Mac;
use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;
use std::fmt;

/// A key for codes of one kind of structure. The library clears it when it is dropped.
#[derive(Clone)]
pub struct MacKey(Hmac<Sha256>);

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(..)")
    }
}

impl MacKey {
    #[inline(never)]
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// The code of these parts, one after the other.
    #[inline(never)]
    pub(crate) fn code<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Mac {
        let whole: [u8; 32] = self.of(parts).finalize().into_bytes().into();
        *whole.first_chunk().expect("a code is a part of it")
    }

    /// Whether `code` is that of these parts, in a time that does not depend on how much is right.
    #[must_use]
    #[inline(never)]
    pub(crate) fn matches<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a [u8]>,
        code: &Mac,
    ) -> bool {
        self.of(parts).verify_truncated_left(code).is_ok()
    }

    #[inline(never)]
    fn of<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        parts.into_iter().for_each(|part| code.update(part));
        code
    }
}
