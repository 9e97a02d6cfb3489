//! Whether the names that an open log relies on are still there.
//!
//! Whoever removes the lock file lets a second writer in, if that is an older version; and what is
//! written to a file without a name is gone when it is closed. Nobody tells a writer of either, so
//! it looks: at the tail before it acknowledges a batch, at all of them before evidence is written
//! or a place is taken by its name.

use crate::base::error::{Error, Result};
use crate::files::directory::{MANIFEST, file_place};
use crate::write::writer::Writer;
use seawall_io::File;

impl Writer {
    /// Refuses to acknowledge what is in a file that nobody can open again.
    pub(crate) fn check_tail(&self) -> Result<()> {
        self.check_file(&*self.tail.file, || self.tail.header.data_name())
    }

    /// The same for all that the log relies on, and for the right to write.
    pub(crate) fn check_names(&self) -> Result<()> {
        self.lock.check().map_err(|error| lost(&error.to_string()))?;
        self.check_tail()?;
        self.check_file(&*self.tail.head, || self.tail.header.head_name())
    }

    /// Writes the manifest, if it is still that of this log.
    pub(crate) fn write_manifest(&mut self) -> Result<()> {
        self.check_names()?;
        self.check_file(&*self.manifest.file, || MANIFEST.to_owned())?;
        self.manifest.write_both(self.env.clock.wall_us())
    }

    fn check_file(&self, file: &dyn File, name: impl Fn() -> String) -> Result<()> {
        let place = || file_place(&*self.env.storage, &name());
        match file.has_name() {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost(&format!("{} was removed", place()))),
            Err(error) => Err(Error::io(format!("look at {}", name()))(error)),
        }
    }
}

/// Ends the log: what came of it, only the next open can say.
fn lost(what: &str) -> Error {
    Error::Poisoned { cause: format!("{what} while the log was open").into() }
}
