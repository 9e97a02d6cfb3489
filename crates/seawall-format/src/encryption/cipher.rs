//! AES-256-GCM-SIV: the one place that calls the library.
//!
//! Not inlined, like all cryptography, so that callers that encrypt nothing do not need its stack
//! space.

use crate::encryption::basics::{KEY_SIZE, Nonce, Tag};
use aes_gcm_siv::aead::inout::InOutBuf;
use aes_gcm_siv::{AeadInOut, Aes256GcmSiv, KeyInit};

/// A key that is ready to encrypt. The library clears it when it is dropped.
pub(crate) struct Cipher(Aes256GcmSiv);

impl Cipher {
    #[inline(never)]
    pub(crate) fn new(key: &[u8; KEY_SIZE]) -> Self {
        Self(Aes256GcmSiv::new(key.into()))
    }

    /// Encrypts `bytes` in place. Returns the tag over them and `bound`.
    #[inline(never)]
    pub(crate) fn seal(&self, nonce: &Nonce, bound: &[u8], bytes: &mut [u8]) -> Tag {
        let tag = self.0.encrypt_inout_detached(nonce.into(), bound, InOutBuf::from(bytes));
        tag.expect("no batch reaches the cipher's limit of 64 GiB").into()
    }

    /// Decrypts `bytes` in place. Returns whether the tag matches them and `bound`; if not, the
    /// contents of `bytes` are meaningless.
    #[must_use]
    #[inline(never)]
    pub(crate) fn open(
        &self,
        nonce: &Nonce,
        bound: &[u8],
        (bytes, tag): (&mut [u8], &Tag),
    ) -> bool {
        let buffer = InOutBuf::from(bytes);
        self.0.decrypt_inout_detached(nonce.into(), bound, buffer, tag.into()).is_ok()
    }
}
