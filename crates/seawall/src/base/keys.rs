//! The keys of an encrypted log, once they are unlocked. format.md section 3.7.

use seawall_format::encryption::{KeyError, SegmentKeys};
use seawall_format::{Manifest, SegmentHeader};
use std::sync::Arc;

#[cfg(feature = "encryption")]
pub(crate) use with_feature::LogKeys;

/// The keys of a log: this build has none.
#[cfg(not(feature = "encryption"))]
#[derive(Clone, Debug)]
pub(crate) enum LogKeys {}

#[cfg(not(feature = "encryption"))]
impl LogKeys {
    pub(crate) fn of(&self, _: &SegmentHeader) -> Result<Arc<SegmentKeys>, KeyError> {
        match *self {}
    }

    pub(crate) fn check_header(
        &self,
        _: &SegmentHeader,
    ) -> Result<Option<Arc<SegmentKeys>>, KeyError> {
        match *self {}
    }

    pub(crate) fn sign_header(&self, _: SegmentHeader) -> SegmentHeader {
        match *self {}
    }

    pub(crate) fn sign_manifest(&self, _: &Manifest) -> Manifest {
        match *self {}
    }
}

#[cfg(feature = "encryption")]
mod with_feature {
    use super::{Arc, KeyError, Manifest, SegmentHeader, SegmentKeys};
    use seawall_format::Claims;
    use seawall_format::keys::KeyRing;

    /// The keys of a log.
    #[derive(Clone, Debug)]
    pub(crate) struct LogKeys(Arc<KeyRing>);

    impl LogKeys {
        pub(crate) fn new(ring: KeyRing) -> Self {
            Self(Arc::new(ring))
        }

        pub(crate) fn ring(&self) -> &KeyRing {
            &self.0
        }

        /// The lower sequence number of the two slots with these keys; older slots do not count.
        pub(crate) fn sequence_min(&self) -> u64 {
            self.0.sequence().saturating_sub(1)
        }

        /// The keys of the encrypted segment with this header.
        pub(crate) fn of(&self, header: &SegmentHeader) -> Result<Arc<SegmentKeys>, KeyError> {
            self.derive(header).map(Arc::new)
        }

        /// Like [`of`](Self::of), for a caller that does not share the keys.
        pub(crate) fn derive(&self, header: &SegmentHeader) -> Result<SegmentKeys, KeyError> {
            let number = header.log_key().ok_or(KeyError::NotEncrypted)?;
            let key = self.0.get(number)?;
            Ok(SegmentKeys::derive(key, header.log, header.reference()))
        }

        /// The keys of the segment with this header, if it is encrypted and of this log. A header
        /// that a holder of the key did not write is refused.
        pub(crate) fn check_header(
            &self,
            header: &SegmentHeader,
        ) -> Result<Option<Arc<SegmentKeys>>, KeyError> {
            if header.authenticator.is_none() || header.log != self.0.log() {
                return Ok(None);
            }
            let keys = self.of(header)?;
            header.check(&keys).map(|()| Some(keys))
        }

        /// The header of a new segment, which is encrypted with the newest key.
        pub(crate) fn sign_header(&self, header: SegmentHeader) -> SegmentHeader {
            let (number, key) = self.0.newest();
            let keys = SegmentKeys::derive(key, header.log, header.reference());
            header.signed(number, &keys)
        }

        /// The manifest slot, signed with the newest key.
        pub(crate) fn sign_manifest(&self, manifest: &Manifest) -> Manifest {
            let (number, key) = self.0.newest();
            let proof = manifest.authenticator.expect("the manifest of an encrypted log");
            manifest.signed(Claims { key: number, ..proof.claims }, key)
        }

        /// Checks that a holder of the key wrote this manifest slot.
        pub(crate) fn check_manifest(&self, manifest: &Manifest) -> Result<(), KeyError> {
            let proof = manifest.authenticator.ok_or(KeyError::NotEncrypted)?;
            if self.0.sequence() < proof.claims.keys {
                return Err(KeyError::Forged);
            }
            manifest.check(self.0.get(proof.claims.key)?)
        }
    }
}
