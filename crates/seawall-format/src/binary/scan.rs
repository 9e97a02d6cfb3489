//! Finds the batches of one segment. format.md sections 3.3, 7.

use crate::binary::batch::{BatchHeader, EPOCH_TAG, HEADER_SIZE, Judged, Life};
use crate::binary::step::{Batch, Body, Cause, Progress, Step, Window};
use crate::ids::Offset;
use std::ops::Range;

/// Finds batch after batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchCursor {
    /// The check, as far as it got, of the batch that the last step needs more bytes of.
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

    /// Checks a part of what the last step needs, as soon as the caller has it and while it is in
    /// the processor's cache. The next step must get the very same bytes, not bytes that were read
    /// again, because it does not check them a second time.
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
    let end = window.end().0;
    let first = from.max(window.start).0.next_multiple_of(8);
    let (step, size) = (usize::from(STRETCH), u64::from(STRETCH));
    let stretches = (first..end).step_by(step).map(move |at| at..end.min(at + size));
    let may_hold_some = move |places: &Range<u64>| {
        let length = end.min(places.end + size_of_header()) - places.start;
        window.range(Offset(places.start), length).is_some_and(|bytes| has_tag(bytes, life))
    };
    let places = stretches.filter(may_hold_some).flat_map(|places| places.step_by(8));
    places.filter_map(move |at| {
        let bytes = window.range(Offset(at), size_of_header())?;
        Some((Offset(at), BatchHeader::decode(bytes, Offset(at), life)?))
    })
}

/// Bytes that are searched for the tag at once. Most of a segment has no header, so no tag.
const STRETCH: u16 = 4096;

/// Whether the tag that each header repeats is in `bytes`, where headers begin at multiples of 8.
fn has_tag(bytes: &[u8], life: &Life) -> bool {
    const _: () = assert!(EPOCH_TAG.at % 8 == 4 && EPOCH_TAG.size == 4, "the end of a word");
    let (words, _) = bytes.as_chunks::<8>();
    let is_tag = |word: &[u8; 8]| u64::from_le_bytes(*word) >> 32 == life.epoch.tag();
    // Comparing every word is faster than stopping at the first match.
    words.iter().fold(false, |found, word| found | is_tag(word))
}

fn size_of_header() -> u64 {
    u64::try_from(HEADER_SIZE).expect("fits in 64 bits")
}
