//! Wraps the keys of a log, and unwraps them.

use crate::encryption::{KEY_SIZE, KeyEncryptionKey, KeyError, LogKey, Nonce};
use crate::files::keys::wrapped::{LOG_KEYS_MAX, WrappedKeys};
use crate::ids::{KeyNumber, LogId};
use zeroize::Zeroizing;

/// The keys of a log.
#[derive(Clone, Debug)]
pub struct KeyRing {
    log: LogId,
    /// Counts the writes of the file.
    sequence: u64,
    /// The newest last.
    keys: Vec<(KeyNumber, LogKey)>,
}

impl KeyRing {
    /// The first key of a new log, or of one that was not encrypted.
    #[must_use]
    pub fn new(log: LogId, key: LogKey) -> Self {
        Self { log, sequence: 1, keys: vec![(KeyNumber::FIRST, key)] }
    }

    /// The log that these keys belong to.
    #[must_use]
    pub fn log(&self) -> LogId {
        self.log
    }

    /// The number of this write of the file, which decides the slot.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The same keys for the next write of the file: for the other slot, or under another
    /// key-encryption key.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { sequence: self.sequence + 1, ..self.clone() }
    }

    /// The next write of the file, with another key for segments to come. `None` if there are
    /// [`LOG_KEYS_MAX`] already: first remove segments with old ones.
    #[must_use]
    pub fn with_key(&self, key: LogKey) -> Option<Self> {
        let mut next = self.again();
        next.keys.push((self.newest().0.next()?, key));
        (next.keys.len() <= LOG_KEYS_MAX).then_some(next)
    }

    /// The next write of the file, without the keys before `oldest`. The newest one stays.
    #[must_use]
    pub fn without_keys_before(&self, oldest: KeyNumber) -> Self {
        let mut next = self.again();
        let oldest = oldest.min(self.newest().0);
        next.keys.retain(|(number, _)| *number >= oldest);
        next
    }

    /// Whether another ring of the same log has the same keys.
    #[must_use]
    pub fn has_same_keys(&self, other: &Self) -> bool {
        let mut pairs = self.keys.iter().zip(&other.keys);
        (self.log, self.keys.len()) == (other.log, other.keys.len())
            && pairs.all(|(one, two)| one.0 == two.0 && one.1.bytes() == two.1.bytes())
    }

    /// The key for new segments, and its number.
    #[must_use]
    pub fn newest(&self) -> (KeyNumber, &LogKey) {
        let (number, key) = self.keys.last().expect("a ring has a key");
        (*number, key)
    }

    /// The key with this number.
    ///
    /// # Errors
    ///
    /// [`KeyError::NoSuchKey`] if the ring has none.
    pub fn get(&self, number: KeyNumber) -> Result<&LogKey, KeyError> {
        let found = self.keys.iter().find(|(own, _)| *own == number);
        found.map(|(_, key)| key).ok_or(KeyError::NoSuchKey(number))
    }

    /// Wraps the keys for storage. `nonce` is random.
    #[must_use]
    pub fn wrap(&self, wrapping: &KeyEncryptionKey, nonce: &Nonce, time_us: u64) -> WrappedKeys {
        let with = wrapping.for_log(self.log);
        let mut wrapped = WrappedKeys {
            log: self.log,
            sequence: self.sequence,
            time_us,
            key_id: with.id,
            nonce: *nonce,
            tag: [0; _],
            entries: self.keys.iter().map(|(number, _)| (*number, [0; KEY_SIZE])).collect(),
        };
        let mut keys = memory(self.keys.iter().map(|(_, key)| key.bytes()));
        wrapped.tag = with.cipher.seal(nonce, &wrapped.bound(), &mut keys);
        for ((_, entry), key) in wrapped.entries.iter_mut().zip(keys.as_chunks().0) {
            *entry = *key;
        }
        wrapped
    }
}

impl WrappedKeys {
    /// Unwraps the keys in this slot.
    ///
    /// # Errors
    ///
    /// [`KeyError::WrongKey`] if they are wrapped with another key, [`KeyError::Forged`] if the
    /// slot was changed without the key.
    pub fn unwrap(&self, wrapping: &KeyEncryptionKey) -> Result<KeyRing, KeyError> {
        let with = wrapping.for_log(self.log);
        if with.id != self.key_id {
            return Err(KeyError::WrongKey);
        }
        let mut keys = memory(self.entries.iter().map(|(_, wrapped)| wrapped));
        if !with.cipher.open(&self.nonce, &self.bound(), (&mut keys, &self.tag)) {
            return Err(KeyError::Forged);
        }
        let keys = self.numbers().zip(keys.as_chunks().0.iter().map(LogKey::new)).collect();
        Ok(KeyRing { log: self.log, sequence: self.sequence, keys })
    }
}

/// These keys one after the other, in memory that does not move and is cleared afterwards.
fn memory<'a>(keys: impl ExactSizeIterator<Item = &'a [u8; KEY_SIZE]>) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(keys.len() * KEY_SIZE));
    keys.for_each(|key| bytes.extend_from_slice(key));
    bytes
}
