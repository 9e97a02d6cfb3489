//! Restarts of the scan: after the writer changed the log, and after a repair from parity.

use crate::base::error::{Damage, Error, Result};
use crate::files::directory::is_not_found;
use crate::files::live::{LiveSource, Watermark};
use crate::read::cursor::{ATTEMPTS, Cursor, known_scan};
use crate::read::read_repair::load_repaired_catalog;
use seawall_format::SegmentId;

impl Cursor {
    /// Restarts after a file vanished, because it was pruned. Fails if this position was pruned,
    /// too.
    pub(super) fn restart_after_missing_file(&mut self, error: Error) -> Result<()> {
        let restarted = self.retry_start_over(error);
        self.finished |= restarted.is_err();
        restarted
    }

    /// Starts a new scan at the current position. If the writer has pruned the segment that
    /// `watermark` names, a newer watermark is used.
    pub(super) fn start_over(&mut self, watermark: Option<Watermark>) -> Result<()> {
        self.start_over_once(watermark).or_else(|error| self.retry_start_over(error))
    }

    /// Starts over as long as a file is not found, each time with a new watermark.
    fn retry_start_over(&mut self, mut error: Error) -> Result<()> {
        while is_not_found(&error) && self.attempts < ATTEMPTS {
            self.attempts += 1;
            let watermark = self.watermark_now();
            match watermark.and_then(|watermark| self.start_over_once(watermark)) {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
        Err(error)
    }

    fn start_over_once(&mut self, watermark: Option<Watermark>) -> Result<()> {
        let (found, view) =
            load_repaired_catalog(&self.storage, watermark.as_ref(), &mut self.read_repair)?;
        if let Some(view) = view {
            self.storage = view;
        }
        let place = (self.next, self.read_in);
        let (scan, bound) = known_scan(&found, watermark.as_ref(), place)?;
        (self.scan, self.watermark) = (scan.skip_io_errors(self.skip_damaged), watermark);
        (self.catalog, self.bound) = (found, bound);
        Ok(())
    }

    /// The current watermark. A writer in this process answers between two batches, when no
    /// truncation is in progress.
    pub(super) fn watermark_now(&self) -> Result<Option<Watermark>> {
        match &self.writer {
            Some(coordinator) => LiveSource::InProcess(coordinator).settled(),
            None => LiveSource::File(&*self.storage).settled(),
        }
    }

    /// Restarts the scan if the writer changed the log, before damage is reported (R16). The
    /// watermark of another process may lag, so the first damage always restarts.
    pub(super) fn restart_if_writer_moved(&mut self) -> Result<bool> {
        let watermark = self.watermark_now()?;
        let is_running = watermark.is_some_and(|watermark| watermark.is_running());
        let is_first = !is_running && self.attempts == 0;
        let again = (watermark != self.watermark || is_first) && self.attempts < ATTEMPTS;
        if again {
            self.attempts += 1;
            self.start_over(watermark)?;
        }
        Ok(again)
    }

    /// Restarts the scan on a view in which parity repaired these segments. Returns whether it did.
    pub(super) fn restart_if_repaired(
        &mut self,
        damaged: impl IntoIterator<Item = Option<SegmentId>>,
    ) -> Result<bool> {
        let Some(view) = self.read_repair.view(&self.storage, damaged)? else { return Ok(false) };
        self.storage = view;
        self.start_over(self.watermark)?;
        Ok(true)
    }

    /// Restarts the scan without the repaired view, if the view shows damage that the device no
    /// longer has. Returns whether it did.
    pub(super) fn restart_if_view_is_stale(&mut self, damages: &mut [Damage]) -> Result<bool> {
        let still_there = |all, one| self.read_repair.is_still_there(one) && all;
        let restart_if_view_is_stale =
            !damages.iter_mut().fold(true, still_there) && self.attempts < ATTEMPTS;
        if restart_if_view_is_stale {
            self.attempts += 1;
            self.storage = self.read_repair.discard_view().unwrap_or_else(|| self.storage.clone());
            self.start_over(self.watermark)?;
        }
        Ok(restart_if_view_is_stale)
    }
}
