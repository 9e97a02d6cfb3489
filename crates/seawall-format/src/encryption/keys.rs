//! The keys of a log, and how each is derived from the one above it.

use crate::encryption::Cipher;
use crate::encryption::basics::KEY_SIZE;
use crate::encryption::mac::MacKey;
use crate::ids::{LogId, SegmentRef};
use hkdf::Hkdf;
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

/// The bytes of a key, which are cleared when they are dropped.
pub type KeyBytes = Zeroizing<[u8; KEY_SIZE]>;

/// Declares a secret of [`KEY_SIZE`] bytes.
macro_rules! secret {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(Zeroizing<[u8; KEY_SIZE]>);

        impl $name {
            /// The key with these bytes, random ones. The caller clears its own copy.
            #[must_use]
            pub fn new(bytes: &[u8; KEY_SIZE]) -> Self {
                Self(Zeroizing::new(*bytes))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

secret! {
    /// The key that the user keeps outside of the log. It only wraps the keys of the log, so it can
    /// be replaced without rewriting a record.
    KeyEncryptionKey
}

secret! {
    /// A random key of one log, stored wrapped in its file `keys`. It encrypts nothing itself; keys
    /// that are derived from it do.
    LogKey
}

impl LogKey {
    /// The bytes to wrap.
    pub(crate) fn bytes(&self) -> &[u8; KEY_SIZE] {
        &self.0
    }

    /// The key for the authenticators of the manifest.
    #[must_use]
    #[inline(never)]
    pub fn manifest(&self, log: LogId) -> MacKey {
        mac_key(&derivation(&self.0, (log, 0, 0)), b"seawall 1 manifest")
    }
}

/// Derived from a user's key to wrap the keys of one log.
pub(crate) struct WrappingKeys {
    /// Encrypts log keys.
    pub(crate) cipher: Cipher,
    /// Distinguishes this key from others, and reveals nothing of it.
    pub(crate) id: [u8; 16],
}

impl KeyEncryptionKey {
    #[inline(never)]
    pub(crate) fn for_log(&self, log: LogId) -> WrappingKeys {
        let derived = derivation(&self.0, (log, 0, 0));
        let mut id = [0; 16];
        expand(&derived, b"seawall 1 key id", &mut id);
        WrappingKeys { cipher: cipher(&derived, b"seawall 1 wrap"), id }
    }
}

/// The keys of one segment, valid for one life of its file.
pub struct SegmentKeys {
    /// Encrypts chunks.
    pub(crate) chunk: Cipher,
    /// For the codes of batches.
    pub(crate) batch: MacKey,
    /// For the authenticators of header, marks and seal.
    head: MacKey,
    /// Log id, segment id and epoch.
    pub(crate) place: [u8; 24],
}

impl fmt::Debug for SegmentKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SegmentKeys(..)")
    }
}

impl SegmentKeys {
    /// Derives the keys from the log key that the segment's header names.
    #[must_use]
    #[inline(never)]
    pub fn derive(key: &LogKey, log: LogId, segment: SegmentRef) -> Self {
        let place = (log, segment.id.get(), segment.epoch.0);
        let derived = derivation(&key.0, place);
        Self {
            chunk: cipher(&derived, b"seawall 1 chunk"),
            batch: mac_key(&derived, b"seawall 1 batch"),
            head: mac_key(&derived, b"seawall 1 head"),
            place: bytes_of(place),
        }
    }

    /// The key for the authenticators of header, marks and seal.
    #[must_use]
    pub fn head(&self) -> &MacKey {
        &self.head
    }
}

/// Log id, segment id and epoch: the salt of a derivation.
fn bytes_of((log, segment, epoch): (LogId, u64, u64)) -> [u8; 24] {
    let mut bytes = [0; 24];
    let (parts, _) = bytes.as_chunks_mut::<8>();
    for (part, number) in parts.iter_mut().zip([log.0, segment, epoch]) {
        *part = number.to_le_bytes();
    }
    bytes
}

fn derivation(key: &[u8; KEY_SIZE], place: (LogId, u64, u64)) -> Hkdf<Sha256> {
    Hkdf::new(Some(&bytes_of(place)), key)
}

fn expand(derived: &Hkdf<Sha256>, info: &[u8], bytes: &mut [u8]) {
    derived.expand(info, bytes).expect("far below the limit of 8,160 bytes");
}

fn cipher(derived: &Hkdf<Sha256>, info: &[u8]) -> Cipher {
    let mut key = Zeroizing::new([0; KEY_SIZE]);
    expand(derived, info, &mut *key);
    Cipher::new(&key)
}

fn mac_key(derived: &Hkdf<Sha256>, info: &[u8]) -> MacKey {
    let mut key = Zeroizing::new([0; KEY_SIZE]);
    expand(derived, info, &mut *key);
    MacKey::new(&*key)
}
