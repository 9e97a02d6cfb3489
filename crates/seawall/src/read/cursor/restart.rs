//! Starting the scan over: the writer moved on, or parity restored what is damaged.

use crate::base::error::{Damage, Error, Result};
use crate::files::directory::is_not_found;
use crate::files::live::{Watermark, read_watermark};
use crate::read::cursor::{ATTEMPTS, Cursor, known_scan};
use crate::read::read_repair::load_repaired_catalog;
use seawall_format::SegmentId;

impl Cursor {
    /// A file that vanished was pruned: the walk starts over, or says that its place is gone.
    pub(super) fn restart_after_missing_file(&mut self, mut error: Error) -> Result<()> {
        while is_not_found(&error) && self.attempts < ATTEMPTS {
            self.attempts += 1;
            let watermark = self.watermark_now();
            match watermark.and_then(|watermark| self.start_over(watermark)) {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
        self.finished = true;
        Err(error)
    }

    /// A new walk from where this one is.
    pub(super) fn start_over(&mut self, watermark: Option<Watermark>) -> Result<()> {
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

    /// What the writer says now; one in this process is asked between two batches, when no cut is
    /// under way.
    pub(super) fn watermark_now(&self) -> Result<Option<Watermark>> {
        let Some(coordinator) = &self.writer else { return read_watermark(&*self.storage) };
        // A log that is closed or poisoned is cut no more.
        let _ = coordinator.clone().wait_for_turn();
        Ok(Some(Watermark::own(coordinator.live())))
    }

    /// Before damage is believed: whether the writer moved on meanwhile, and the walk starts over
    /// where it was (R16). A writer elsewhere may be unable to say so, and is not believed at once.
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

    /// Whether parity gives back what is damaged in these segments: then the walk starts over where
    /// it was, in a log that is sound there.
    pub(super) fn restart_if_repaired(
        &mut self,
        damaged: impl IntoIterator<Item = Option<SegmentId>>,
    ) -> Result<bool> {
        let Some(view) = self.read_repair.view(&self.storage, damaged)? else { return Ok(false) };
        self.storage = view;
        self.start_over(self.watermark)?;
        Ok(true)
    }

    /// Whether parity's view shows damage of which the device knows no more: then the walk starts
    /// over where it was, in the log as it is.
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
