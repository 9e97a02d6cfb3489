//! Replaces the keys of an encrypted log.

use crate::base::codec::Codec;
use crate::base::error::log_path::NamesLog;
use crate::base::error::{Error, Result};
use crate::base::key_source::KeySource;
use crate::log::Log;

impl<T: ?Sized, C: Codec<T>> Log<T, C> {
    /// Makes `source` the key of this encrypted log, durably. No record is written again: the log's
    /// own keys, which the records are encrypted with, are wrapped with the new key.
    ///
    /// While the call runs, a crash leaves a log that opens with the old key, the new one, or
    /// either. The next open for append makes the key that it gets the only one. Readers that were
    /// opened with the old key continue in the segments that they know. A holder of the old key and
    /// of a copy of the old file `keys` can still read the records: see
    /// [`renew_log_key`](Self::renew_log_key).
    ///
    /// # Errors
    ///
    /// [`Error::Key`] if the log is not encrypted; [`Error::Io`] if `source` has no key, and
    /// nothing was changed. [`Error::Poisoned`] if the device fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::encryption::Key;
    /// use seawall::{Log, Options};
    ///
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-chk-{}", std::process::id()));
    /// let (old, new) = (Key::new(&[1; 32]), Key::new(&[2; 32])); // random ones, in a program
    /// let log: Log<u32> = Options::new().key(old.clone()).open(&folder)?;
    /// log.append(&7)?;
    /// log.change_key(&new)?;
    /// log.renew_log_key()?; // later records, also from holders of the old key
    /// log.append(&8)?;
    /// log.close()?;
    /// assert!(Options::new().key(old).open::<u32, seawall::MessagePack>(&folder).is_err());
    /// let log: Log<u32> = Options::new().key(new).open(&folder)?;
    /// assert_eq!(log.recovery().last.map(|last| last.get()), Some(2));
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn change_key(&self, source: &dyn KeySource) -> Result<()> {
        let key = source.key().map_err(Error::io("get the new key of the log"));
        let key = key.of_log(self.storage())?;
        let unlocker = &self.coordinator.files.unlocker;
        let changed =
            self.coordinator.with_exclusive_writer(|writer, _| writer.change_key(unlocker, &key));
        changed.of_log(self.storage())
    }

    /// Encrypts later records with a new random key of the log, in a new segment. The keys of older
    /// segments stay in the file `keys` until these segments are truncated and the key is renewed
    /// again.
    ///
    /// # Errors
    ///
    /// [`Error::Key`] if the log is not encrypted; [`Error::InvalidOption`] if 256 keys are in use.
    /// [`Error::Poisoned`] if the device fails.
    ///
    /// # Examples
    ///
    /// See [`change_key`](Self::change_key).
    pub fn renew_log_key(&self) -> Result<()> {
        let unlocker = &self.coordinator.files.unlocker;
        let renewed =
            self.coordinator.with_exclusive_writer(|writer, _| writer.renew_log_key(unlocker));
        renewed.map(drop).of_log(self.storage())
    }
}

impl<T: ?Sized, C> Log<T, C> {
    /// Whether new records are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.coordinator.files.unlocker.has_key()
    }
}
