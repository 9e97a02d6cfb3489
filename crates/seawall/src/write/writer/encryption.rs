//! Turns encryption on, and replaces keys. format.md section 3.7.

use crate::base::error::{Error, Result};
use crate::base::keys::LogKeys;
use crate::files::keys_file::{create_keys, first_keys, new_log_key, write_keys};
use crate::files::unlock::Unlocker;
use crate::scan::quarantine::keep_keys;
use crate::write::rotation::next_id;
use crate::write::writer::Writer;
use seawall_format::encryption::{KeyEncryptionKey, KeyError, Padding};
use seawall_format::keys::{KeyRing, LOG_KEYS_MAX};
use seawall_format::{Authenticator, Claims, KeyNumber, SegmentHeader, next_lsn};

impl Writer {
    /// Encrypts all segments from the next one on. The keys, and then the manifest that names them,
    /// are durable before that segment. Returns where an older file `keys` is kept.
    pub(crate) fn encrypt(
        &mut self,
        unlocker: &Unlocker,
        padding: Padding,
    ) -> Result<Option<String>> {
        let key = unlocker.key().ok_or(KeyError::NoKey).map_err(Error::key(None))?;
        self.check_names()?;
        let log = self.manifest.content.log;
        let older = keep_keys(&self.env)?;
        let keys = create_keys(&self.env, first_keys(&self.env, log)?, &key)?;
        let (number, _) = keys.ring().newest();
        let from = Some(next_id(self.max_id)?);
        let claims = Claims { padding, from, keys: keys.sequence_min(), ..Claims::of(number) };
        self.manifest.content.authenticator = Some(Authenticator::unsigned(claims));
        self.use_keys(keys, unlocker)?;
        Ok(older)
    }

    /// Encrypts later segments with a new log key. Forgets the keys that no segment needs.
    pub(crate) fn renew_log_key(&mut self, unlocker: &Unlocker) -> Result<KeyNumber> {
        let (keys, key) = self.keys(unlocker)?;
        let named = self.spare.as_ref().and_then(|spare| spare.named.as_ref());
        let headers = self.chain.iter().chain([&self.tail.header]).chain(named);
        let oldest = headers.filter_map(SegmentHeader::log_key).min();
        let ring = oldest
            .map_or_else(|| keys.ring().again(), |oldest| keys.ring().without_keys_before(oldest));
        let ring = ring.with_key(new_log_key(&self.env)?).ok_or_else(|| {
            let why = format!("the log has {LOG_KEYS_MAX} keys: truncate segments with old ones");
            Error::InvalidOption { log: None, why }
        })?;
        self.replace_keys(ring, &key, unlocker)?;
        let empty = self.empty_segment();
        self.switch_segment(next_lsn(self.last), self.last_chain, empty)?;
        self.tell_readers();
        Ok(self.tail.header.log_key().expect("the log is encrypted"))
    }

    /// Wraps the log keys with another key of the user. No record is written again.
    pub(crate) fn change_key(&mut self, unlocker: &Unlocker, new: &KeyEncryptionKey) -> Result<()> {
        let (keys, _) = self.keys(unlocker)?;
        self.replace_keys(keys.ring().again(), new, unlocker)?;
        unlocker.set_key(new.clone());
        Ok(())
    }

    fn keys(&self, unlocker: &Unlocker) -> Result<(LogKeys, KeyEncryptionKey)> {
        let keys = self.env.keys().ok_or(KeyError::NotEncrypted).map_err(Error::key(None))?;
        let key = unlocker.key().ok_or(KeyError::NoKey).map_err(Error::key(None))?;
        Ok((keys, key))
    }

    /// Writes the keys, then the manifest, so that an older file `keys` does not count any more.
    fn replace_keys(
        &mut self,
        ring: KeyRing,
        key: &KeyEncryptionKey,
        unlocker: &Unlocker,
    ) -> Result<()> {
        self.check_names()?;
        let keys = write_keys(&self.env, ring, key)?;
        let proof = self.manifest.content.authenticator.expect("the log is encrypted");
        let claims = Claims { keys: keys.sequence_min(), ..proof.claims };
        self.manifest.content.authenticator = Some(Authenticator::unsigned(claims));
        self.use_keys(keys, unlocker)
    }

    fn use_keys(&mut self, keys: LogKeys, unlocker: &Unlocker) -> Result<()> {
        unlocker.set_known(Some(keys.clone()));
        self.env.set_keys(Some(keys.clone()));
        self.manifest.keys = Some(keys);
        self.write_manifest()
    }
}
