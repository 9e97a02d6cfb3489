//! How far long work has come, for whoever waits for it.

use crate::base::num::to_u64;
use crate::scan::catalog::Catalog;
use crate::scan::scanner::LogScanner;
use seawall_format::SegmentId;
use std::collections::BTreeMap;
use std::fmt;

/// So many bytes at least lie between two words on how far the work has come.
const STEP: u64 = 256 << 10;

/// How far the work on a log has come, in bytes of its files.
///
/// It is a word for people and no promise: beside a writer the work may start over, and then `done`
/// falls back, and `total` may be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// How much there is to do.
    pub total: u64,
}

/// Counts the work on a log, and tells of it now and then.
pub(crate) struct ProgressReporter<'a> {
    report: &'a mut dyn FnMut(Progress),
    /// How many bytes stand in the segments before each.
    before: BTreeMap<SegmentId, u64>,
    done: u64,
    told: u64,
    total: u64,
}

impl<'a> ProgressReporter<'a> {
    pub(crate) fn new(report: &'a mut dyn FnMut(Progress)) -> Self {
        Self { report, before: BTreeMap::new(), done: 0, told: 0, total: 0 }
    }

    /// Begins, or starts over: all segments of a survey are gone through, `times` over.
    pub(crate) fn begin(&mut self, catalog: &Catalog, times: u64) {
        let mut bytes = 0;
        self.before.clear();
        for link in &catalog.chain {
            self.before.insert(link.segment.header.id, bytes);
            bytes += link.segment.length;
        }
        (self.done, self.told, self.total) = (0, 0, bytes * times);
    }

    /// The walk over the segments is where it is.
    pub(crate) fn walked(&mut self, scan: &LogScanner) {
        let Some((segment, offset)) = scan.place() else { return };
        let before = self.before.get(&segment).copied().unwrap_or(0);
        self.reach(before + offset.0);
    }

    /// The first of two times over is done.
    pub(crate) fn half(&mut self) {
        self.reach(self.total / 2);
    }

    /// So much more was done, past the walk.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.reach(self.done + to_u64(bytes));
    }

    /// So many bytes are done; it goes back only by starting over.
    pub(crate) fn reach(&mut self, done: u64) {
        self.done = done.clamp(self.done, self.total.max(self.done));
        if self.done >= self.told + STEP {
            self.say();
        }
    }

    /// All is done.
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
