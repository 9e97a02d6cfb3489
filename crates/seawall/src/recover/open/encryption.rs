//! Opens an encrypted log: completes its file `keys`, and turns encryption on. format.md section
//! 3.7.

use crate::base::env::Env;
use crate::base::error::Result;
use crate::base::options::Options;
#[cfg(feature = "encryption")]
use crate::files::keys_file;
use crate::files::unlock::Unlocker;
use crate::write::writer::Writer;

/// Makes both slots of the file `keys` complete before the manifest or a record depends on them.
#[cfg(feature = "encryption")]
pub(super) fn complete_keys(env: &Env, unlocker: &Unlocker) -> Result<()> {
    if let Some((keys, key)) = env.keys().zip(unlocker.key()) {
        let keys = keys_file::complete_keys(env, keys, &key)?;
        unlocker.set_known(Some(keys.clone()));
        env.set_keys(Some(keys));
    }
    Ok(())
}

#[cfg(not(feature = "encryption"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) fn complete_keys(_: &Env, _: &Unlocker) -> Result<()> {
    Ok(())
}

/// Turns encryption on, if the options ask for it and the log is not encrypted yet. Returns a
/// warning if the directory had a file `keys`.
#[cfg(feature = "encryption")]
pub(super) fn encrypt(
    writer: &mut Writer,
    options: &Options,
    unlocker: &Unlocker,
) -> Result<Option<String>> {
    let is_encrypted = writer.manifest.content.authenticator.is_some();
    let Some(padding) = options.padding.filter(|_| !is_encrypted) else { return Ok(None) };
    Ok(writer.encrypt(unlocker, padding)?.as_deref().map(warn_of_older_keys))
}

/// The warning for a file `keys` that was moved to `place`.
pub(super) fn warn_of_older_keys(place: &str) -> String {
    format!("older keys, which another log may need: moved to {place}")
}

#[cfg(not(feature = "encryption"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) fn encrypt(_: &mut Writer, _: &Options, _: &Unlocker) -> Result<Option<String>> {
    Ok(None)
}
