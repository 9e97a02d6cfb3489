//! The scanner of one segment, in either layout.

use crate::binary::batch::{BatchHeader, Life};
use crate::binary::scan::BatchCursor;
use crate::binary::step::{Cause, Limit, Part, Progress, Start, Step, Window};
use crate::files::before::Before;
use crate::files::segment::SegmentHeader;
use crate::ids::{Lsn, Offset};
use crate::text::line_set::LineCursor;
use crate::types::Layout;

/// Walks the batches of one segment.
///
/// A scanner holds little but numbers. The caller reads the file and shows it windows, so the same
/// code serves recovery, readers and `verify`, over any device.
#[derive(Clone, Debug)]
pub struct Scanner {
    progress: Progress,
    pub(super) cursor: Cursor,
    limit: Limit,
    before: Before,
}

/// Finds what comes next, in the layout of the segment.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a scan has one cursor, which is never moved")]
pub(super) enum Cursor {
    Binary(BatchCursor),
    Text(LineCursor),
}

impl Cursor {
    fn step<'a>(&mut self, progress: &mut Progress, window: Window<'a>) -> Step<'a> {
        match self {
            Self::Binary(batches) => batches.step(progress, window),
            Self::Text(lines) => lines.step(progress, window),
        }
    }
}

impl Scanner {
    /// Starts at the first batch of a segment whose file has `length` bytes. A text is read to its
    /// end.
    #[must_use]
    pub fn new(header: &SegmentHeader, length: u64, limit: Limit) -> Self {
        let progress = Progress {
            life: Life::of(header),
            end: (header.layout == Layout::Binary).then_some(length.min(header.size)),
            at: Offset(header.data_start()),
            next: header.base,
            chain: header.chain(),
        };
        let cursor = match header.layout {
            Layout::Binary => Cursor::Binary(BatchCursor::default()),
            Layout::Text => Cursor::Text(LineCursor::default()),
        };
        let before = if header.is_reused { Before::Unknown } else { Before::Zeros };
        Self { progress, cursor, limit, before }
    }

    /// The layout of the records.
    #[must_use]
    pub fn layout(&self) -> Layout {
        match self.cursor {
            Cursor::Binary(_) => Layout::Binary,
            Cursor::Text(_) => Layout::Text,
        }
    }

    /// The available lines of the set that the scan could not complete.
    #[must_use]
    pub fn part(&self) -> Option<&Part> {
        match &self.cursor {
            Cursor::Binary(_) => None,
            Cursor::Text(lines) => lines.part.as_ref(),
        }
    }

    /// Whether every line so far is as the writer writes it; batches always are.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        match &self.cursor {
            Cursor::Binary(_) => true,
            Cursor::Text(lines) => !lines.is_rewritten,
        }
    }

    /// Where the valid batches so far end.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.progress.at
    }

    /// P, where the valid bytes so far end: after the last batch, or the last line of a set that is
    /// not whole.
    #[must_use]
    pub fn valid_end(&self) -> Offset {
        self.part().map_or(self.offset(), |part| part.end)
    }

    /// Where to search for the next batch after a stop at [`valid_end`](Self::valid_end).
    ///
    /// A line is identified by its own LSN. A binary header may be the damaged one, so the search
    /// starts after it.
    #[must_use]
    pub fn search_start(&self, cause: Cause) -> Offset {
        match self.cursor {
            Cursor::Binary(_) if cause != Cause::Order => self.valid_end().plus(8),
            Cursor::Binary(_) | Cursor::Text(_) => self.valid_end(),
        }
    }

    /// Bytes that are lost if no batch follows: up to `used`, where the empty part of the file of
    /// `length` bytes begins.
    #[must_use]
    pub fn lost_bytes(&self, used: Offset, length: u64) -> u64 {
        let at = self.valid_end().0;
        let lost = used.0.saturating_sub(at);
        match self.cursor {
            Cursor::Binary(_) => lost.next_multiple_of(8).min(length.saturating_sub(at)),
            Cursor::Text(_) => lost,
        }
    }

    /// The chain value of the batch before the one with this header, if it states that.
    #[must_use]
    pub fn chain_before(&self, header: &BatchHeader) -> Option<u64> {
        match self.cursor {
            Cursor::Binary(_) => Some(header.chain),
            Cursor::Text(_) => None,
        }
    }

    /// Whether the set of this header, found further on, may have begun before it.
    #[must_use]
    pub fn may_miss_start_of(&self, header: &BatchHeader) -> bool {
        matches!(self.cursor, Cursor::Text(_)) && header.first > self.next_lsn()
    }

    /// The frames of a set that is not whole, after space for a header. `None` if frames are stored
    /// as such, so that those after the stop can be read from the file.
    #[must_use]
    pub fn frames_of_part(&self) -> Option<Vec<u8>> {
        match &self.cursor {
            Cursor::Binary(_) => None,
            Cursor::Text(lines) => {
                Some(lines.part.as_ref().map_or_else(Vec::new, |part| part.bytes.clone()))
            }
        }
    }

    /// The record that comes next.
    #[must_use]
    pub fn next_lsn(&self) -> Lsn {
        self.progress.next
    }

    /// The chain value of the last batch found, or of the segment header.
    #[must_use]
    pub fn chain(&self) -> u64 {
        self.progress.chain
    }

    /// The life that the checksums of this segment are bound to.
    #[must_use]
    pub fn life(&self) -> &Life {
        &self.progress.life
    }

    /// What the file held before; unknown in a reused file until the caller states it.
    #[must_use]
    pub fn before(&self) -> &Before {
        &self.before
    }

    /// States what a reused file held before.
    pub fn set_before(&mut self, before: Before) {
        self.before = before;
    }

    /// Looks at the next batch.
    pub fn step<'a>(&mut self, window: Window<'a>) -> Step<'a> {
        if self.limit.excludes(self.progress.next) {
            return Step::Finished;
        }
        self.cursor.step(&mut self.progress, window)
    }

    /// Checks a part of what the last step needs, as soon as the caller has it and while it is in
    /// the processor's cache. The next step must get the very same bytes, not bytes that were read
    /// again, because it does not check them a second time.
    pub fn look_ahead(&mut self, window: Window<'_>) {
        if let Cursor::Binary(batches) = &mut self.cursor {
            batches.look_ahead(&self.progress, window);
        }
    }

    /// Takes the memory of a set that is no longer needed, to reuse it for a later set.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        if let Cursor::Text(lines) = &mut self.cursor {
            lines.spare = memory;
        }
    }

    /// Sets where the file ends, so that an unfinished set remains unfinished. Returns `false` for
    /// a file of fixed size, which must not end there.
    pub fn ends_at(&mut self, end: Offset) -> bool {
        let may_end = matches!(self.cursor, Cursor::Text(_));
        if may_end {
            self.progress.end = Some(end.0);
        }
        may_end
    }

    /// Forgets where a text ends, because it may have grown.
    pub fn forget_end(&mut self) {
        if matches!(self.cursor, Cursor::Text(_)) {
            self.progress.end = None;
        }
    }

    /// Continues at a batch that an earlier scan found.
    pub fn begin_at(&mut self, start: Start) {
        let progress = &mut self.progress;
        (progress.at, progress.next, progress.chain) = (start.offset, start.first, start.chain);
    }

    /// Sets up to where records count from now on.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Continues at a header that was found further on, and trusts its numbers.
    pub fn resume_at(&mut self, offset: Offset, header: &BatchHeader) {
        let progress = &mut self.progress;
        (progress.at, progress.next, progress.chain) = (offset, header.first, header.chain);
        if let Cursor::Text(lines) = &mut self.cursor {
            lines.part = None;
        }
    }

    /// Continues after the batch of `header`, at which the scan stopped.
    pub fn pass(&mut self, header: &BatchHeader) {
        self.progress.pass(header);
    }
}

#[cfg(test)]
mod tests;
