//! AES-256-GCM-SIV of AWS-LC: the same bytes as from the other library.

use crate::encryption::basics::{KEY_SIZE, Nonce, Tag};
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, UnboundKey};

/// A key that is ready to encrypt. The library clears it when it is dropped.
pub(crate) struct Cipher(LessSafeKey);

impl Cipher {
    #[inline(never)]
    pub(crate) fn new(key: &[u8; KEY_SIZE]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM_SIV, key).expect("a key of the cipher's size");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts `bytes` where they are. Returns the tag of them and of `bound`.
    #[inline(never)]
    pub(crate) fn seal(&self, nonce: &Nonce, bound: &[u8], bytes: &mut [u8]) -> Tag {
        let tag = self.0.seal_in_place_separate_tag(nonce.into(), Aad::from(bound), bytes);
        let tag = tag.expect("no batch reaches the cipher's limit of 64 GiB");
        tag.as_ref().try_into().expect("a tag has its size")
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
        // The library decrypts in place only if the tag follows the bytes.
        let sealed = bytes.to_vec();
        let bound = Aad::from(bound);
        self.0.open_separate_gather(nonce.into(), bound, &sealed, tag, bytes).is_ok()
    }
}
