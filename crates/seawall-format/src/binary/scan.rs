//! Finds the batches of one segment. format.md sections 3.3, 7.

use crate::binary::batch::{BatchHeader, HEADER_SIZE, Judged, Life};
use crate::binary::step::{Batch, Body, Cause, Progress, Step, Window};
use crate::ids::Offset;

/// Finds batch after batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchCursor {
    /// What was seen already of the batch that the last step needs more of.
    ahead: Option<Judged>,
}

impl BatchCursor {
    /// Looks at the next batch.
    pub(crate) fn step<'a>(&mut self, progress: &mut Progress, window: Window<'a>) -> Step<'a> {
        let file_end = progress.end.unwrap_or(0);
        if progress.at.plus(size_of_header()).0 > file_end {
            return Step::Stopped(Cause::Header, None);
        }
        let Some(bytes) = window.range(progress.at, size_of_header()) else {
            return Step::Need { offset: progress.at, length: size_of_header() };
        };
        let Some(header) = BatchHeader::decode(bytes, progress.at, &progress.life) else {
            let refused = BatchHeader::refused(bytes, progress.at, &progress.life);
            return refused.map_or(Step::Stopped(Cause::Header, None), Step::Refused);
        };
        // Before the first batch of a segment that was named ahead, the chain value can be unknown.
        let follows = progress.chain == 0 || header.chain == progress.chain;
        if header.first != progress.next || !follows {
            return Step::Stopped(Cause::Order, Some(header));
        }
        if progress.at.plus(header.size()).0 > file_end {
            return Step::Stopped(Cause::Extent, Some(header));
        }
        let body_at = progress.at.plus(size_of_header());
        let ahead = self.ahead.take().filter(|ahead| ahead.is_of(&header));
        let Some(body) = window.range(body_at, u64::from(header.body_length)) else {
            self.ahead = Some(Judged::new(header));
            return Step::Need { offset: progress.at, length: header.size() };
        };
        if !ahead.unwrap_or_else(|| Judged::new(header)).judge(body, progress.at, &progress.life) {
            return Step::Stopped(Cause::Body, Some(header));
        }
        let offset = progress.at;
        progress.pass(&header);
        Step::Batch(Batch { offset, header, body: Body::InPlace(body), end: progress.at })
    }

    /// Looks at a part of what the last step needs, as soon as the caller has it and while it is in
    /// the processor's cache. The next step must be shown the very same bytes, none that were read
    /// again: it does not look at them a second time.
    pub(crate) fn look_ahead(&mut self, progress: &Progress, window: Window<'_>) {
        let Some(ahead) = &mut self.ahead else { return };
        let body_at = progress.at.plus(size_of_header());
        let held = window.end().0.saturating_sub(body_at.0).min(ahead.length());
        if let Some(body) = window.range(body_at, held) {
            ahead.go_on(body);
        }
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
