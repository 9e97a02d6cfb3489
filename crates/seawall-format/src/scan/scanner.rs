//! The scanner of one segment, in either layout.

use crate::binary::batch::{BatchHeader, Life};
use crate::binary::scan::BatchCursor;
use crate::binary::step::{Limit, Part, Progress, Start, Step, Window};
use crate::files::segment::SegmentHeader;
use crate::ids::{Lsn, Offset};
use crate::text::line_set::LineCursor;
use crate::types::Layout;

/// Walks the batches of one segment.
///
/// It holds little but numbers: the caller reads the file and shows it windows, so the same walk
/// serves recovery, readers and `verify`, over any device.
#[derive(Clone, Debug)]
pub struct Scanner {
    progress: Progress,
    cursor: Cursor,
    limit: Limit,
}

/// Finds what comes next, in the layout of the segment.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a walk has one cursor, and none is moved")]
enum Cursor {
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
    /// A walk from the first batch of a segment whose file has `length` bytes; a text is read to
    /// its end.
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
        Self { progress, cursor, limit }
    }

    /// How the records stand there.
    #[must_use]
    pub fn layout(&self) -> Layout {
        match self.cursor {
            Cursor::Binary(_) => Layout::Binary,
            Cursor::Text(_) => Layout::Text,
        }
    }

    /// What stands of the set that the walk could not finish.
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

    /// Where the valid prefix ends so far.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.progress.at
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

    /// What checksums here are bound to.
    #[must_use]
    pub fn life(&self) -> &Life {
        &self.progress.life
    }

    /// Looks at the next batch.
    pub fn step<'a>(&mut self, window: Window<'a>) -> Step<'a> {
        if self.limit.excludes(self.progress.next) {
            return Step::Finished;
        }
        self.cursor.step(&mut self.progress, window)
    }

    /// Looks at a part of what the last step needs, as soon as the caller has it and while it is in
    /// the processor's cache. The next step must be shown the very same bytes, none that were read
    /// again: it does not look at them a second time.
    pub fn look_ahead(&mut self, window: Window<'_>) {
        if let Cursor::Binary(batches) = &mut self.cursor {
            batches.look_ahead(&self.progress, window);
        }
    }

    /// Takes the memory of a set that is needed no more, for one to come.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        if let Cursor::Text(lines) = &mut self.cursor {
            lines.spare = memory;
        }
    }

    /// The file ends there: nothing more will come of what is unfinished.
    pub fn ends_at(&mut self, end: Offset) {
        self.progress.end = Some(end.0);
    }

    /// A text has grown, perhaps.
    pub fn forget_end(&mut self) {
        if self.layout() == Layout::Text {
            self.progress.end = None;
        }
    }

    /// Goes on at a batch that a walk found before.
    pub fn begin_at(&mut self, start: Start) {
        let progress = &mut self.progress;
        (progress.at, progress.next, progress.chain) = (start.offset, start.first, start.chain);
    }

    /// From now on the records up to `limit` count.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Goes on at a header that was found further on, believing its numbers.
    pub fn resume_at(&mut self, offset: Offset, header: &BatchHeader) {
        let progress = &mut self.progress;
        (progress.at, progress.next, progress.chain) = (offset, header.first, header.chain);
        if let Cursor::Text(lines) = &mut self.cursor {
            lines.part = None;
        }
    }

    /// Goes on behind the batch of `header`, which stands where the walk stopped.
    pub fn pass(&mut self, header: &BatchHeader) {
        self.progress.pass(header);
    }
}

#[cfg(test)]
mod tests;
