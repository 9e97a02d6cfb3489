//! Unlocks the keys of a log: reads the file `keys` with the user's key. format.md section 3.7.

use crate::base::error::{Corruption, Damage, Error, Lost, Result};
use crate::base::options::Options;
use crate::files::directory::{KEYS, KEYS_MAX};
use crate::files::segment_reader::read_both_slots;
use seawall_format::encryption::KeyError;
use seawall_format::keys::WrappedKeys;
use seawall_format::{KeyNumber, LogId, Lsn, Refused};
use seawall_io::Storage;
use std::ops::Deref;
use std::sync::Arc;

/// The directory of a log, and the unlocker of its keys.
#[derive(Clone, Debug)]
pub(crate) struct LogFiles {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) unlocker: Arc<Unlocker>,
}

impl LogFiles {
    pub(crate) fn new(storage: Arc<dyn Storage>, unlocker: Arc<Unlocker>) -> Self {
        Self { storage, unlocker }
    }

    /// The same log in another directory, or in a view of it.
    pub(crate) fn with_storage(&self, storage: Arc<dyn Storage>) -> Self {
        Self { storage, unlocker: self.unlocker.clone() }
    }
}

impl Deref for LogFiles {
    type Target = dyn Storage;

    fn deref(&self) -> &Self::Target {
        &*self.storage
    }
}

impl Unlocker {
    /// An unlocker with the key from the options.
    #[cfg(feature = "encryption")]
    pub(crate) fn of(options: &Options) -> Result<Self> {
        let key = options.key.as_ref().map(|source| source.key());
        let key = key.transpose().map_err(Error::io("get the key of the log"))?;
        if key.is_none() && options.padding.is_some() {
            let why = "encryption requires a key".to_owned();
            return Err(Error::InvalidOption { log: None, why });
        }
        let unlocker = Self::new(key);
        let accepts_plain = options.padding.is_some();
        Ok(if accepts_plain { unlocker.accepting_plain() } else { unlocker })
    }

    /// An unlocker without a key.
    #[cfg(not(feature = "encryption"))]
    #[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
    pub(crate) fn of(_: &Options) -> Result<Self> {
        Ok(Self::locked())
    }
}

/// The numbers of the log keys in all readable slots of the file `keys`.
#[derive(Debug, Default)]
pub(crate) struct StoredKeys {
    numbers: Vec<KeyNumber>,
    /// Whether there is a slot that only another version of Seawall can read.
    has_others: bool,
}

impl StoredKeys {
    /// Whether a slot may have this key.
    pub(crate) fn has(&self, key: KeyNumber) -> bool {
        self.has_others || self.numbers.contains(&key)
    }
}

/// Returns the keys in the file `keys` of this log, which takes no key of the user. `None` if no
/// slot can be read.
pub(crate) fn stored_keys(storage: &dyn Storage, log: LogId) -> Result<Option<StoredKeys>> {
    let (bytes, error) = read_both_slots(storage, KEYS, KEYS_MAX)?;
    let mut found = StoredKeys::default();
    for slot in WrappedKeys::decode_file(&bytes.unwrap_or_default()) {
        match slot {
            Ok(slot) if slot.log == log => found.numbers.extend(slot.numbers()),
            Ok(_) | Err(Refused::Invalid) => {}
            Err(_) => found.has_others = true,
        }
    }
    let is_readable = found.has_others || !found.numbers.is_empty();
    match error {
        Some(error) if !is_readable => return Err(error),
        // The slot that the device refused may have any key.
        error => found.has_others |= error.is_some(),
    }
    Ok(Some(found).filter(|_| is_readable))
}

/// The damage of a log whose file `keys` cannot be read: no record from `first` on can be
/// decrypted.
pub(crate) fn lost_keys(first: Lsn) -> Damage {
    let lost = Some(Lost { from: first, to: None });
    Damage { lost, ..Damage::new(Corruption::Keys) }
}

/// Refuses an encrypted log if its key is needed and was not given.
pub(crate) fn require_key(unlocker: &Unlocker, is_encrypted: bool) -> Result<()> {
    if !is_encrypted || unlocker.has_key() {
        return Ok(());
    }
    Err(Error::key(None)(KeyError::NoKey))
}

#[cfg(feature = "encryption")]
pub(crate) use with_feature::{Unlocker, read_slots};
#[cfg(not(feature = "encryption"))]
pub(crate) use without_feature::Unlocker;

#[cfg(feature = "encryption")]
mod with_feature {
    use crate::base::error::{Error, Result};
    use crate::base::keys::LogKeys;
    use crate::base::sync::{Mutex, MutexGuard};
    use crate::files::directory::{KEYS, KEYS_MAX, MANIFEST, file_place};
    use crate::files::segment_reader::read_both_slots;
    use seawall_format::encryption::{KeyEncryptionKey, KeyError};
    use seawall_format::keys::WrappedKeys;
    use seawall_format::{LogId, Manifest, Refused};
    use seawall_io::Storage;
    use std::cmp::Reverse;
    use std::sync::PoisonError;

    /// Unlocks one log with the user's key, if there is one.
    #[derive(Debug, Default)]
    pub(crate) struct Unlocker {
        key: Mutex<Option<KeyEncryptionKey>>,
        /// Whether a log that is not encrypted is accepted in spite of a key.
        accepts_plain: bool,
        known: Mutex<Option<LogKeys>>,
    }

    impl Unlocker {
        /// An unlocker without a key: an encrypted log then allows only operations that need none.
        pub(crate) fn locked() -> Self {
            Self::default()
        }

        pub(crate) fn new(key: Option<KeyEncryptionKey>) -> Self {
            Self { key: Mutex::new(key), ..Self::default() }
        }

        /// Also accepts a log that is not encrypted, because it is to be encrypted from now on.
        pub(crate) fn accepting_plain(self) -> Self {
            Self { accepts_plain: true, ..self }
        }

        /// Whether there is a key.
        pub(crate) fn has_key(&self) -> bool {
            self.key().is_some()
        }

        /// The user's key.
        pub(crate) fn key(&self) -> Option<KeyEncryptionKey> {
            self.key.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }

        /// Replaces the user's key.
        pub(crate) fn set_key(&self, key: KeyEncryptionKey) {
            *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        }

        /// The keys of the log with this manifest, which a holder of the key must have written.
        /// `None` without a user's key.
        ///
        /// # Errors
        ///
        /// [`Error::Key`].
        #[inline(never)]
        pub(crate) fn unlock(
            &self,
            storage: &dyn Storage,
            manifest: Option<&Manifest>,
        ) -> Result<Option<LogKeys>> {
            let Some(key) = self.key() else { return Ok(None) };
            let claims = manifest.map(|manifest| manifest.authenticator.map(|proof| proof.claims));
            let claims = match claims {
                Some(None) if self.accepts_plain => return Ok(None),
                Some(None) => return Err(Error::key(None)(KeyError::NotEncrypted)),
                Some(claims) => claims,
                // The manifest is lost, or the log is about to be created.
                None => None,
            };
            let known = self.known().clone().filter(|known| {
                claims.is_none_or(|claims| {
                    known.ring().sequence() >= claims.keys && known.ring().get(claims.key).is_ok()
                })
            });
            let log = manifest.map(|manifest| manifest.log);
            let keys = match known {
                Some(known) => Some(known),
                None => read_keys(storage, &key, log)?,
            };
            // If the keys are lost, the catalog reports that.
            let Some(keys) = keys else { return Ok(None) };
            if let Some(manifest) = manifest {
                let checked = keys.check_manifest(manifest);
                checked.map_err(Error::key(file_place(storage, MANIFEST)))?;
            }
            self.set_known(Some(keys.clone()));
            Ok(Some(keys))
        }

        /// Replaces the cached keys; after `None`, the next use reads the file again.
        pub(crate) fn set_known(&self, keys: Option<LogKeys>) {
            *self.known() = keys;
        }

        fn known(&self) -> MutexGuard<'_, Option<LogKeys>> {
            self.known.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// The keys in the newest slot that this key unlocks. `None` if no slot of the file can be
    /// read.
    fn read_keys(
        storage: &dyn Storage,
        key: &KeyEncryptionKey,
        log: Option<LogId>,
    ) -> Result<Option<LogKeys>> {
        // While the user's key is changed, one slot has the old key and one the new: both count.
        let mut refused = None;
        for slot in read_slots(storage, log)? {
            match slot.unwrap(key) {
                Ok(ring) => return Ok(Some(LogKeys::new(ring))),
                Err(KeyError::WrongKey) => refused = Some(KeyError::WrongKey),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(KeyError::WrongKey) => Err(Error::key(None)(KeyError::WrongKey)),
            Some(error) => Err(Error::key(file_place(storage, KEYS))(error)),
            None => Ok(None),
        }
    }

    /// The readable slots of the file `keys` of this log, the newest first.
    pub(crate) fn read_slots(
        storage: &dyn Storage,
        log: Option<LogId>,
    ) -> Result<Vec<WrappedKeys>> {
        let (bytes, error) = read_both_slots(storage, KEYS, KEYS_MAX)?;
        let mut slots = vec![];
        for slot in WrappedKeys::decode_file(&bytes.unwrap_or_default()) {
            match slot {
                Ok(slot) => slots.push(slot),
                Err(Refused::Invalid) => {}
                Err(refused) => return Err(Error::refused(file_place(storage, KEYS))(refused)),
            }
        }
        slots.retain(|slot| log.is_none_or(|log| slot.log == log));
        slots.sort_by_key(|slot| Reverse(slot.sequence));
        error.filter(|_| slots.is_empty()).map_or(Ok(slots), Err)
    }
}

#[cfg(not(feature = "encryption"))]
mod without_feature {
    use crate::base::error::Result;
    use crate::base::keys::LogKeys;
    use seawall_format::Manifest;
    use seawall_io::Storage;

    /// Unlocks nothing.
    #[derive(Debug, Default)]
    pub(crate) struct Unlocker;

    impl Unlocker {
        pub(crate) fn locked() -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "with the feature it has a key")]
        pub(crate) fn has_key(&self) -> bool {
            false
        }

        #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
        pub(crate) fn unlock(
            &self,
            _: &dyn Storage,
            _: Option<&Manifest>,
        ) -> Result<Option<LogKeys>> {
            Ok(None)
        }

        #[expect(clippy::unused_self, reason = "with the feature it has keys")]
        pub(crate) fn set_known(&self, _: Option<LogKeys>) {}
    }
}
