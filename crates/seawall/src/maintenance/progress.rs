//! Progress of long operations on a log.

use crate::base::num::to_u64;
use crate::scan::catalog::Catalog;
use crate::scan::scanner::LogScanner;
use seawall_format::SegmentId;
use std::collections::BTreeMap;
use std::fmt;

/// Minimum number of bytes between two reports.
const STEP: u64 = 256 << 10;

/// Progress of an operation, in bytes of the log's files.
///
/// The numbers are an estimate for people. If a running writer makes the operation start over,
/// `done` goes back and `total` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes processed.
    pub done: u64,
    /// Bytes to process.
    pub total: u64,
}

/// Counts processed bytes and reports them from time to time.
pub(crate) struct ProgressReporter<'a> {
    report: &'a mut dyn FnMut(Progress),
    /// Bytes in all segments before each one.
    before: BTreeMap<SegmentId, u64>,
    done: u64,
    told: u64,
    total: u64,
}

impl<'a> ProgressReporter<'a> {
    pub(crate) fn new(report: &'a mut dyn FnMut(Progress)) -> Self {
        Self { report, before: BTreeMap::new(), done: 0, told: 0, total: 0 }
    }

    /// Starts or restarts an operation that reads all segments of `catalog` `times` times.
    pub(crate) fn begin(&mut self, catalog: &Catalog, times: u64) {
        let mut bytes = 0;
        self.before.clear();
        for link in &catalog.chain {
            self.before.insert(link.segment.header.id, bytes);
            bytes += link.segment.length;
        }
        (self.done, self.told, self.total) = (0, 0, bytes * times);
    }

    /// Reports the position of a scan.
    pub(crate) fn walked(&mut self, scan: &LogScanner) {
        let Some((segment, offset)) = scan.place() else { return };
        let before = self.before.get(&segment).copied().unwrap_or(0);
        self.reach(before + offset.0);
    }

    /// Reports that the first of two passes is complete.
    pub(crate) fn half(&mut self) {
        self.reach(self.total / 2);
    }

    /// Reports further bytes, beyond those of the scan.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.reach(self.done + to_u64(bytes));
    }

    /// Sets the number of processed bytes; ignores a lower number.
    pub(crate) fn reach(&mut self, done: u64) {
        self.done = done.clamp(self.done, self.total.max(self.done));
        if self.done >= self.told + STEP {
            self.say();
        }
    }

    /// Reports completion.
    pub(crate) fn end(&mut self) {
        self.done = self.total;
        self.say();
    }

    fn say(&mut self) {
        self.told = self.done;
        (self.report)(Progress { done: self.done, total: self.total });
    }
}

impl fmt::Debug for ProgressReporter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, total, .. } = self;
        f.debug_struct("ProgressReporter")
            .field("done", done)
            .field("total", total)
            .finish_non_exhaustive()
    }
}
