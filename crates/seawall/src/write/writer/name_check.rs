//! Checks that the files which an open log relies on still have their names.
//!
//! If the lock file is removed, an older version of Seawall lets in a second writer; a file without
//! a name is gone once it is closed. The writer is notified of neither, so it checks: the
//! tail before each acknowledgement, all files before it writes a mark or the manifest or
//! starts a segment.

use crate::base::error::{Error, Result};
use crate::files::directory::{MANIFEST, file_place};
use crate::write::writer::Writer;
use crate::write::writer::run_once::RunOnce;
use seawall_io::File;

impl Writer {
    /// Refuses to acknowledge records in a file that cannot be opened again.
    pub(crate) fn check_tail(&self) -> Result<()> {
        self.check_file(&*self.tail.file, || self.tail.header.data_name())?;
        if self.tail.header.layout.has_growing_file() {
            self.check_file(&*self.tail.head, || self.tail.header.head_name())?;
        }
        Ok(())
    }

    /// Checks all files that the log relies on, and the lock.
    pub(crate) fn check_names(&self) -> Result<()> {
        self.lock.check().map_err(|error| lost(&error.to_string()))?;
        self.check_tail()
    }

    /// Writes the manifest, unless its file was removed.
    pub(crate) fn write_manifest(&mut self) -> Result<()> {
        self.begin_manifest_write()?.finish()
    }

    /// Completes the write of the manifest that was left to the preallocator. Until then the log
    /// on disk still begins with segments that the chain no longer has.
    pub(crate) fn finish_deferred_write(&mut self) -> Result<()> {
        self.deferred_write.as_ref().map_or(Ok(()), RunOnce::finish)?;
        self.deferred_write = None;
        Ok(())
    }

    /// Like [`write_manifest`](Self::write_manifest), but leaves the write to the caller. An
    /// earlier one has ended.
    pub(crate) fn begin_manifest_write(&mut self) -> Result<RunOnce> {
        self.finish_deferred_write()?;
        self.check_names()?;
        self.check_file(&*self.manifest.file, || MANIFEST.to_owned())?;
        let write = self.manifest.begin_write(self.env.clock.wall_us())?;
        Ok(RunOnce::new(|| write.run()))
    }

    fn check_file(&self, file: &dyn File, name: impl Fn() -> String) -> Result<()> {
        let place = || file_place(&*self.env.storage, &name());
        match file.has_name() {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost(&format!("{} was removed", place()))),
            Err(error) => Err(Error::io(format!("check the name of {}", name()))(error)),
        }
    }
}

/// Poisons the log: only reopening shows which records survived.
fn lost(what: &str) -> Error {
    Error::Poisoned { log: None, cause: format!("{what} while the log was open").into() }
}
