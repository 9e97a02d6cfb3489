//! Walking the batches of one segment, or the sets of lines of a text: bytes in; what was found
//! out. format.md sections 3.3, 7, 9.3.

use crate::batch::{BatchHeader, HEADER_SIZE, Judged, Life};
use crate::{Layout, Lsn, Offset, Refused, SegmentHeader};
use std::ops::Deref;

/// A stretch of a segment file, as far as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Where in the file it begins.
    pub start: Offset,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// `length` bytes at `offset`, if the window has them.
    #[must_use]
    pub fn range(&self, offset: Offset, length: u64) -> Option<&'a [u8]> {
        let from = usize::try_from(offset.0.checked_sub(self.start.0)?).ok()?;
        let length = usize::try_from(length).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Where it ends.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.start.plus(u64::try_from(self.bytes.len()).expect("fits in 64 bits"))
    }
}

/// A valid batch, with the bytes of its frames; or a valid set of lines, as the batch that says the
/// same.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// Where it stands in its segment.
    pub offset: Offset,
    /// Its header.
    pub header: BatchHeader,
    /// Its frames, checked.
    pub body: Body<'a>,
    /// Where it ends in its segment.
    pub end: Offset,
}

/// The frames of a batch.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// As they stand in the window.
    InPlace(&'a [u8]),
    /// As a set of lines says them, behind room for the header of a batch.
    Made(Vec<u8>),
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::InPlace(frames) => frames,
            Self::Made(bytes) => bytes.get(HEADER_SIZE..).unwrap_or_default(),
        }
    }
}

/// Why the bytes at some place are not the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No valid batch header stands there.
    Header,
    /// A valid header that does not continue the batch before: one is missing, or out of place.
    Order,
    /// The batch would reach beyond the end of the file.
    Extent,
    /// The header is valid and the frames are not what was written.
    Body,
}

/// What one step found.
#[derive(Debug)]
pub enum Step<'a> {
    /// The caller must show these bytes of the file, and call again.
    Need {
        /// From here.
        offset: Offset,
        /// At least so many bytes; they lie within the file, but for a text, which may end earlier:
        /// [`Scanner::ends_at`] says so.
        length: u64,
    },
    /// The next batch; the scanner stands behind it.
    Batch(Batch<'a>),
    /// The scanner stands where no valid batch is, and stays there.
    Stopped(Cause, Option<BatchHeader>),
    /// It stands at a batch that a newer program wrote, and nobody may say what is in it.
    Refused(Refused),
    /// All records that count in this segment were found.
    Finished,
}

/// Where a valid batch stands, as far as a walk needs it to begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its place in the segment.
    pub offset: Offset,
    /// Its first record.
    pub first: Lsn,
    /// The chain value of the batch before.
    pub chain: u64,
}

/// Up to where the records of a segment count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As far as they go: the newest segment.
    Open,
    /// Up to this record, because a successor or `live` says so; `None`: none of them.
    At(Option<Lsn>),
}

impl Limit {
    /// Whether record `next` is one too many.
    #[must_use]
    pub fn excludes(self, next: Lsn) -> bool {
        matches!(self, Self::At(last) if Some(next) > last)
    }
}

/// Walks the batches of one segment.
///
/// It holds little but numbers: the caller reads the file and shows it windows, so the same walk
/// serves recovery, readers and `verify`, over any device.
#[derive(Clone, Debug)]
pub struct Scanner {
    pub(crate) life: Life,
    layout: Layout,
    /// Where the part of the file ends that may hold batches; of a text, once it was seen.
    pub(crate) end: Option<u64>,
    pub(crate) at: Offset,
    pub(crate) next: Lsn,
    pub(crate) chain: u64,
    limit: Limit,
    /// What stands of the set that the walk could not finish.
    pub(crate) part: Option<Part>,
    /// Whether every line so far is as the writer writes it.
    pub(crate) is_exact: bool,
    /// Memory for the next set.
    pub(crate) spare: Vec<u8>,
    /// What was seen already of the batch that the last step needs more of.
    ahead: Option<Judged>,
}

/// The valid lines of a set that is not there to its end.
#[derive(Clone, Debug)]
pub struct Part {
    /// Room for the header of a batch, then their frames, bound.
    pub bytes: Vec<u8>,
    /// P, the end of the last of them.
    pub end: Offset,
    /// The highest record that one of them confirms.
    pub confirmed: Option<Lsn>,
}

impl Scanner {
    /// A walk from the first batch of a segment whose file has `length` bytes; a text is read to
    /// its end.
    #[must_use]
    pub fn new(header: &SegmentHeader, length: u64, limit: Limit) -> Self {
        Self {
            life: Life::of(header),
            layout: header.layout,
            end: (header.layout == Layout::Binary).then_some(length.min(header.size)),
            at: Offset(header.data_start()),
            next: header.base,
            chain: header.chain(),
            limit,
            part: None,
            is_exact: true,
            spare: vec![],
            ahead: None,
        }
    }

    /// How the records stand there.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// What stands of the set that the walk could not finish.
    #[must_use]
    pub fn part(&self) -> Option<&Part> {
        self.part.as_ref()
    }

    /// Whether every line so far is as the writer writes it; batches always are.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Where the valid prefix ends so far.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.at
    }

    /// The record that comes next.
    #[must_use]
    pub fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// The chain value of the last batch found, or of the segment header.
    #[must_use]
    pub fn chain(&self) -> u64 {
        self.chain
    }

    /// What checksums here are bound to.
    #[must_use]
    pub fn life(&self) -> &Life {
        &self.life
    }

    /// Looks at the next batch.
    pub fn step<'a>(&mut self, window: Window<'a>) -> Step<'a> {
        if self.limit.excludes(self.next) {
            return Step::Finished;
        }
        match self.layout {
            Layout::Binary => self.step_batch(window),
            Layout::Text => self.step_lines(window),
        }
    }

    fn step_batch<'a>(&mut self, window: Window<'a>) -> Step<'a> {
        let file_end = self.end.unwrap_or(0);
        if self.at.plus(size_of_header()).0 > file_end {
            return Step::Stopped(Cause::Header, None);
        }
        let Some(bytes) = window.range(self.at, size_of_header()) else {
            return Step::Need { offset: self.at, length: size_of_header() };
        };
        let Some(header) = BatchHeader::decode(bytes, self.at, &self.life) else {
            let refused = BatchHeader::refused(bytes, self.at, &self.life);
            return refused.map_or(Step::Stopped(Cause::Header, None), Step::Refused);
        };
        if header.first != self.next || header.chain != self.chain {
            return Step::Stopped(Cause::Order, Some(header));
        }
        if self.at.plus(header.size()).0 > file_end {
            return Step::Stopped(Cause::Extent, Some(header));
        }
        let body_at = self.at.plus(size_of_header());
        let ahead = self.ahead.take().filter(|ahead| ahead.is_of(&header));
        let Some(body) = window.range(body_at, u64::from(header.body_length)) else {
            self.ahead = Some(Judged::new(header));
            return Step::Need { offset: self.at, length: header.size() };
        };
        if !ahead.unwrap_or_else(|| Judged::new(header)).judge(body, self.at, &self.life) {
            return Step::Stopped(Cause::Body, Some(header));
        }
        let offset = self.at;
        self.pass(&header);
        Step::Batch(Batch { offset, header, body: Body::InPlace(body), end: self.at })
    }

    /// Looks at a part of what the last step needs, as soon as the caller has it and while it is in
    /// the processor's cache. The next step must be shown the very same bytes, none that were read
    /// again: it does not look at them a second time.
    pub fn look_ahead(&mut self, window: Window<'_>) {
        let Some(ahead) = &mut self.ahead else { return };
        let body_at = self.at.plus(size_of_header());
        let held = window.end().0.saturating_sub(body_at.0).min(ahead.length());
        if let Some(body) = window.range(body_at, held) {
            ahead.go_on(body);
        }
    }

    /// Takes the memory of a set that is needed no more, for one to come.
    pub fn reuse(&mut self, memory: Vec<u8>) {
        self.spare = memory;
    }

    /// The file ends there: nothing more will come of what is unfinished.
    pub fn ends_at(&mut self, end: Offset) {
        self.end = Some(end.0);
    }

    /// A text has grown, perhaps.
    pub fn forget_end(&mut self) {
        if self.layout == Layout::Text {
            self.end = None;
        }
    }

    /// Goes on at a batch that a walk found before.
    pub fn begin_at(&mut self, start: Start) {
        (self.at, self.next, self.chain) = (start.offset, start.first, start.chain);
    }

    /// From now on the records up to `limit` count.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Goes on at a header that was found further on, believing its numbers.
    pub fn resume_at(&mut self, offset: Offset, header: &BatchHeader) {
        (self.at, self.next, self.chain) = (offset, header.first, header.chain);
        self.part = None;
    }

    /// Goes on behind the batch of `header`, which stands where the walk stopped.
    pub fn pass(&mut self, header: &BatchHeader) {
        self.at = self.at.plus(header.size());
        self.next = header.last().next();
        self.chain = header.chain_value();
    }
}

/// Every valid batch header at a multiple of 8 bytes in `window`, from `from` on.
pub fn headers<'a>(
    window: Window<'a>,
    from: Offset,
    life: &'a Life,
) -> impl Iterator<Item = (Offset, BatchHeader)> + 'a {
    let end = window.end();
    let first = from.max(window.start).0.next_multiple_of(8);
    (first..end.0).step_by(8).filter_map(move |at| {
        let bytes = window.range(Offset(at), size_of_header())?;
        Some((Offset(at), BatchHeader::decode(bytes, Offset(at), life)?))
    })
}

fn size_of_header() -> u64 {
    u64::try_from(HEADER_SIZE).expect("fits in 64 bits")
}

#[cfg(test)]
mod tests;
