//! Writes the file `keys`. format.md section 3.7.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::keys::LogKeys;
use crate::files::directory::{KEYS, open_or_make};
use crate::files::unlock::read_slots;
use seawall_format::LogId;
use seawall_format::encryption::{KeyBytes, KeyEncryptionKey, LogKey, NONCE_SIZE};
use seawall_format::keys::{KeyRing, WrappedKeys};

/// A new random log key.
pub(crate) fn new_log_key(env: &Env) -> Result<LogKey> {
    let mut bytes = KeyBytes::default();
    env.entropy.fill(&mut *bytes).map_err(Error::io("draw a random key"))?;
    Ok(LogKey::new(&bytes))
}

/// The first key of a log. A file that an interrupted attempt left has a lower sequence.
pub(crate) fn first_keys(env: &Env, log: LogId) -> Result<KeyRing> {
    Ok(KeyRing::new(log, new_log_key(env)?))
}

/// Writes and syncs one slot, then the other: a crash leaves one of them valid. The directory is
/// not synced. Returns the keys as written to the last slot.
pub(crate) fn write_keys(env: &Env, ring: KeyRing, key: &KeyEncryptionKey) -> Result<LogKeys> {
    let file = open_or_make(&*env.storage, KEYS)?;
    let mut ring = ring;
    for number in 0..2 {
        if number > 0 {
            ring = ring.again();
        }
        let mut nonce = [0; NONCE_SIZE];
        env.entropy.fill(&mut nonce).map_err(Error::io("draw a random nonce"))?;
        let (offset, slot) = ring.wrap(key, &nonce, env.clock.wall_us()).encode();
        let written = file.write_at(&slot, offset.0).and_then(|()| file.sync());
        written.map_err(Error::io(format!("write {KEYS}")))?;
    }
    Ok(LogKeys::new(ring))
}

/// Writes the keys again unless both slots have them, each for this key of the user: after damage
/// or an interrupted change, records would depend on one slot. The slot that lacks them is written
/// first.
pub(crate) fn complete_keys(env: &Env, keys: LogKeys, key: &KeyEncryptionKey) -> Result<LogKeys> {
    let slots = read_slots(&*env.storage, Some(keys.ring().log()))?;
    let has_keys =
        |slot: &WrappedKeys| slot.unwrap(key).is_ok_and(|ring| ring.has_same_keys(keys.ring()));
    if slots.iter().filter(|slot| has_keys(slot)).count() == 2 {
        return Ok(keys);
    }
    write_keys(env, keys.ring().again(), key)
}

/// Writes the keys of a log that has none yet. They are durable when this returns. The caller has
/// copied a file that an interrupted attempt or an earlier log left.
pub(crate) fn create_keys(env: &Env, ring: KeyRing, key: &KeyEncryptionKey) -> Result<LogKeys> {
    let _ = env.storage.remove(KEYS);
    let keys = write_keys(env, ring, key)?;
    env.storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
    Ok(keys)
}
