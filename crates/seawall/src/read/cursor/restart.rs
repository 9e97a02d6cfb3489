//! Restarts of the scan: after the writer changed the log, and after a repair from parity.
//!
//! All restarts of a scan share one budget of retries: beside a busy writer, whose watermark always
//! moves, every damage would use up a budget of its own.

use crate::base::error::{Damage, Error, Result};
use crate::files::consistent_read::{Change, Doubt, Reading, is_moved};
use crate::files::live::{LiveSource, Watermark};
use crate::files::local_writer::LocalWriter;
use crate::read::cursor::{Cursor, known_scan};
use crate::read::snapshot::Snapshot;
use seawall_format::SegmentId;
use std::sync::Arc;

impl Cursor {
    /// Restarts after a file vanished, because it was pruned. Fails if this position was pruned,
    /// too.
    pub(super) fn restart_after_missing_file(&mut self, error: Error) -> Result<()> {
        if !is_moved(&error) || !self.retries.again(Doubt::Moved) {
            self.finished = true;
            return Err(error);
        }
        let watermark = self.watermark_now();
        let restarted = watermark.and_then(|watermark| self.start_over(watermark));
        self.finished |= restarted.is_err();
        restarted
    }

    /// Starts a new scan at the current position. If the writer has pruned the segment that
    /// `watermark` names, a newer watermark is used.
    pub(super) fn start_over(&mut self, watermark: Option<Watermark>) -> Result<()> {
        let (writer, files) = (self.writer().cloned(), self.snapshot.files.clone());
        let source = writer.as_ref().map_or(LiveSource::File(&*files), LiveSource::InProcess);
        let mut retries = self.retries;
        let started = retries.read(source, watermark, |watermark| {
            self.start_over_once(watermark).map(Reading::Certain)
        });
        self.retries = retries;
        started
    }

    fn start_over_once(&mut self, watermark: Option<&Watermark>) -> Result<()> {
        let files = &self.snapshot.files;
        let snapshot = Snapshot::load_at(watermark, files, &mut self.read_repair)?;
        self.snapshot.files = snapshot.files.clone();
        // The batch before a segment that does not follow it may have changed since: read it again.
        let previous = self.next.previous().filter(|_| self.rechecks_link);
        let place = (self.next, self.read_in);
        let (scan, bound) = known_scan(&snapshot, place, previous.unwrap_or(self.next))?;
        let scan = scan.following(&self.scan).skip_io_errors(self.skip_damaged);
        (self.scan, self.bound) = (scan, bound);
        self.snapshot = snapshot;
        Ok(())
    }

    /// The writer in this process. Once it has closed the log, it knows nothing of later changes.
    pub(super) fn writer(&self) -> Option<&Arc<dyn LocalWriter>> {
        self.writer.as_ref().filter(|writer| !writer.is_closed())
    }

    /// The current watermark. A writer in this process answers between two batches, when no
    /// truncation is in progress.
    pub(super) fn watermark_now(&self) -> Result<Option<Watermark>> {
        match self.writer() {
            Some(coordinator) => LiveSource::InProcess(coordinator).settled(),
            None => LiveSource::File(&*self.snapshot.files).settled(),
        }
    }

    /// Restarts the scan if the writer changed the log, before damage is reported.
    pub(super) fn restart_if_writer_moved(&mut self) -> Result<bool> {
        let now = self.watermark_now()?;
        let change = Change::between(self.snapshot.watermark.as_ref(), now.as_ref());
        let again = self.retries.again(Doubt::Damage(change));
        if again {
            self.start_over(now)?;
        }
        Ok(again)
    }

    /// Restarts the scan on a view in which parity repaired these segments. Returns whether it did.
    pub(super) fn restart_if_repaired(
        &mut self,
        damaged: impl IntoIterator<Item = Option<SegmentId>>,
    ) -> Result<bool> {
        let Some(view) = self.read_repair.view(&self.snapshot.files.storage, damaged)? else {
            return Ok(false);
        };
        self.snapshot.files = self.snapshot.files.with_storage(view);
        self.start_over(self.snapshot.watermark)?;
        Ok(true)
    }

    /// Restarts the scan without the repaired view, if the view shows damage that the device no
    /// longer has. Returns whether it did.
    pub(super) fn restart_if_view_is_stale(&mut self, damages: &[Damage]) -> Result<bool> {
        let is_stale = !damages.iter().all(|damage| self.read_repair.is_still_there(damage));
        // The device changed, not the writer: a further read without the view is a retry as well.
        let again = is_stale && self.retries.again(Doubt::Moved);
        if again {
            if let Some(unrepaired) = self.read_repair.discard_view() {
                self.snapshot.files = self.snapshot.files.with_storage(unrepaired);
            }
            self.start_over(self.snapshot.watermark)?;
        }
        Ok(again)
    }
}
