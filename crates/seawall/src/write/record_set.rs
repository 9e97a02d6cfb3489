//! Encoded records on their way into a batch, as one atomic set.

use crate::base::codec::Codec;
use crate::base::error::{Error, Result};
use seawall_format::batch::HEADER_SIZE;
use seawall_format::frame::{self, Frames};
use seawall_format::{Layout, Lsn, lines};
use std::cell::Cell;

/// A thread keeps at most this much memory between two appends, in bytes.
const KEPT_MAX: usize = 4 << 20;

/// Shorter sets are copied, not swapped, so that small buffers stay small and in the cache; in
/// bytes.
const SWAP_MIN: usize = 16 << 10;

/// A longer record is framed before the lock is taken; in bytes.
const INLINE_MAX: usize = 512;

/// Records of a readable log carry sums while their set takes at most this part of a batch, so that
/// the limits of a set do not depend on the sums.
const SUMMED_PART: usize = 8;

/// No batch is larger, so bytes beyond this are only counted.
const SIZE_MAX: usize = 64 << 20;

thread_local! {
    /// Buffer for encoding, so that an append does not allocate.
    static SCRATCH: Cell<RecordSet> = const { Cell::new(RecordSet::NEW) };
}

/// Records that get consecutive LSNs and survive a crash together or not at all.
#[derive(Debug)]
pub(crate) struct RecordSet {
    /// Space for a batch header, then frames without LSNs.
    frames: Vec<u8>,
    /// Size of all frames, including those that were left out.
    size: usize,
    count: usize,
    /// Offset of the last frame.
    last: usize,
    /// Buffer for one encoded record.
    payload: Vec<u8>,
    target: Target,
    /// Whether records of a readable log carry sums.
    is_summed: bool,
}

/// The log that a set is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) layout: Layout,
    /// Size of a batch at most, in bytes.
    pub(crate) batch_max: usize,
}

impl RecordSet {
    const NEW: Self = Self {
        frames: Vec::new(),
        size: 0,
        count: 0,
        last: 0,
        payload: Vec::new(),
        target: Target { layout: Layout::Binary, batch_max: 0 },
        is_summed: true,
    };

    /// Runs `act` with an empty set for this log.
    pub(crate) fn with_empty<R>(
        target: Target,
        act: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        // Moved out, not borrowed: encoding a record may append to another log. The destructor of
        // another thread local may append when this one is gone.
        let mut set = SCRATCH.try_with(|set| set.replace(Self::NEW)).unwrap_or(Self::NEW);
        set.clear();
        set.target = target;
        let done = act(&mut set);
        if set.frames.capacity() + set.payload.capacity() <= KEPT_MAX {
            let _ = SCRATCH.try_with(|scratch| scratch.set(set));
        }
        done
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.frames.resize(HEADER_SIZE, 0);
        (self.size, self.count, self.is_summed) = (0, 0, true);
    }

    /// Encodes a record and adds it.
    pub(crate) fn push<T: ?Sized, C: Codec<T>>(&mut self, record: &T) -> Result<()> {
        if let Some(payload) = C::payload_of(record)
            && !self.target.layout.takes_json_only()
        {
            self.add(payload);
            return Ok(());
        }
        // Encoded separately: a codec must not touch the frames of earlier records.
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let encoded = C::encode(record, &mut payload);
        let encoded = encoded.map_err(|source| Error::Encode { log: None, source });
        let encoded = encoded.and_then(|()| self.add_encoded(&mut payload));
        self.payload = payload;
        encoded
    }

    /// Adds a record, unless it cannot be a line of a readable log.
    fn add_encoded(&mut self, payload: &mut Vec<u8>) -> Result<()> {
        if !self.target.layout.takes_json_only() {
            self.add(payload);
            return Ok(());
        }
        if !lines::add_sum(payload) {
            let why = "a record of a readable log must be one JSON value on one line, without \
                       duplicate names in an object, and nested at most 127 deep";
            return Err(Error::Encode { log: None, source: why.into() });
        }
        if self.is_summed && self.size + payload.len() > self.target.batch_max / SUMMED_PART {
            self.remove_sums();
        }
        self.add(if self.is_summed { payload } else { lines::without_sum(payload) });
        Ok(())
    }

    /// Removes the sums of the records so far.
    fn remove_sums(&mut self) {
        let summed = std::mem::replace(self, Self { target: self.target, ..Self::NEW });
        self.clear();
        self.is_summed = false;
        summed.payloads().for_each(|payload| self.add(lines::without_sum(payload)));
    }

    /// The payloads, in order.
    fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        let (_, frames) = self.frames.split_at(HEADER_SIZE);
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        Frames::new(frames, Lsn::FIRST, count).map(|frame| frame.payload)
    }

    fn add(&mut self, payload: &[u8]) {
        self.size = self.size.saturating_add(frame::size_on_disk(payload.len()));
        self.count += 1;
        if self.size > SIZE_MAX {
            // `enqueue` will refuse the set for its size.
            return;
        }
        if let (2.., Some(before)) = (self.count, self.frames.get_mut(self.last..)) {
            frame::let_set_go_on(before);
        }
        self.last = self.frames.len();
        if self.target.layout.takes_json_only() {
            frame::push_without_crc(&mut self.frames, payload, false);
        } else {
            frame::push_unbound(&mut self.frames, payload, false);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// Records that get their LSNs together.
pub(crate) trait EncodedRecords {
    /// Size of the frames, in bytes.
    fn size(&self) -> usize;

    /// Number of records.
    fn count(&self) -> usize;

    /// Appends the frames to `batch`, which starts with space for its header. The set is empty
    /// afterwards.
    fn move_to(&mut self, batch: &mut Vec<u8>);
}

impl EncodedRecords for RecordSet {
    fn size(&self) -> usize {
        self.size
    }

    fn count(&self) -> usize {
        self.count
    }

    /// Swaps the buffers instead if the batch has no frames and the set is large.
    fn move_to(&mut self, batch: &mut Vec<u8>) {
        if batch.len() == HEADER_SIZE && self.size > SWAP_MIN {
            std::mem::swap(batch, &mut self.frames);
        } else {
            let (_, frames) = self.frames.split_at(HEADER_SIZE);
            batch.extend_from_slice(frames);
        }
        self.clear();
    }
}

/// One record that is already encoded and short enough to be framed under the lock: computing its
/// checksum there takes less time than a second copy.
#[derive(Debug)]
pub(crate) struct InlineRecord<'a>(&'a [u8]);

impl<'a> InlineRecord<'a> {
    /// `None` if the record is long, or must be checked first.
    #[inline]
    pub(crate) fn new(payload: &'a [u8], target: Target) -> Option<Self> {
        (payload.len() <= INLINE_MAX && !target.layout.takes_json_only()).then_some(Self(payload))
    }
}

impl EncodedRecords for InlineRecord<'_> {
    fn size(&self) -> usize {
        frame::size_on_disk(self.0.len())
    }

    fn count(&self) -> usize {
        1
    }

    fn move_to(&mut self, batch: &mut Vec<u8>) {
        frame::push_unbound(batch, self.0, false);
    }
}

#[cfg(test)]
impl RecordSet {
    /// A set of these payloads.
    pub(crate) fn of(payloads: &[&[u8]]) -> Self {
        let mut set = Self::NEW;
        set.clear();
        for payload in payloads {
            set.add(payload);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINARY: Target = Target { layout: Layout::Binary, batch_max: 8 << 20 };

    #[test]
    fn frames_are_the_same_whether_copied_or_swapped() {
        for size in [1, 100, SWAP_MIN] {
            let payloads = [vec![1; size], vec![2; 3], vec![]];
            let [one, two, three] = &payloads;
            let mut expected = vec![0; HEADER_SIZE];
            frame::push_unbound(&mut expected, one, true);
            frame::push_unbound(&mut expected, two, true);
            frame::push_unbound(&mut expected, three, false);
            let mut set = RecordSet::of(&[one, two, three]);
            assert_eq!(set.payloads().collect::<Vec<_>>(), [&one[..], two, three]);
            assert_eq!((set.size() + HEADER_SIZE, set.count()), (expected.len(), 3));
            let mut batch = vec![0; HEADER_SIZE];
            set.move_to(&mut batch);
            assert_eq!(batch, expected);
            assert_eq!((set.size(), set.count(), set.payloads().count()), (0, 0, 0));
            let mut later = RecordSet::of(&[one, two, three]);
            later.move_to(&mut batch);
            assert_eq!(batch.split_off(expected.len()), expected.split_off(HEADER_SIZE));
        }
    }

    #[test]
    fn inline_record_is_framed_like_a_set_of_one() {
        let mut batches = [vec![0; HEADER_SIZE], vec![0; HEADER_SIZE]];
        for size in [0, 1, 7, 8, 9, INLINE_MAX] {
            let payload = vec![7; size];
            let (mut short, mut set) =
                (InlineRecord::new(&payload, BINARY).unwrap(), RecordSet::of(&[&payload]));
            assert_eq!((short.size(), short.count()), (set.size(), set.count()));
            short.move_to(&mut batches[0]);
            set.move_to(&mut batches[1]);
            assert_eq!(batches[0], batches[1], "{size}");
        }
        assert!(
            InlineRecord::new(&[7; INLINE_MAX + 1], BINARY).is_none(),
            "others do not wait for a long one"
        );
    }

    #[test]
    fn record_that_cannot_be_encoded_leaves_the_set_unchanged() {
        let mut set = RecordSet::of(&[b"kept"]);
        let refused = set.push::<f64, crate::base::json::Json>(&f64::NAN);
        assert!(matches!(refused, Err(Error::Encode { .. })), "{refused:?}");
        assert_eq!((set.payloads().collect::<Vec<_>>(), set.count()), (vec![&b"kept"[..]], 1));
    }

    #[cfg(feature = "json")]
    #[test]
    fn limit_of_a_readable_set_does_not_depend_on_sums() {
        use crate::base::json::Json;
        let target = Target { layout: Layout::Text, batch_max: 1024 };
        let payloads_of = |count| {
            let payloads = RecordSet::with_empty(target, |set| {
                (0..count).try_for_each(|_| set.push::<_, Json>(&"text".to_owned()))?;
                let sizes = set.payloads().map(|payload| frame::size_on_disk(payload.len()));
                assert_eq!((sizes.sum(), set.payloads().count()), (set.size(), set.count()));
                Ok(set.payloads().map(<[u8]>::to_vec).collect::<Vec<_>>())
            });
            payloads.unwrap()
        };
        for (count, is_summed) in [(1, true), (5, true), (6, false), (7, false), (100, false)] {
            for payload in payloads_of(count) {
                assert_eq!(lines::without_sum(&payload), b"\"text\"");
                assert_eq!(payload.len() > 6, is_summed, "{count} records");
            }
        }
    }

    #[test]
    fn records_beyond_the_largest_batch_are_counted_and_not_kept() {
        let large = vec![7; SIZE_MAX];
        let set = RecordSet::of(&[b"kept", &large, b"left out"]);
        assert_eq!((set.size(), set.count()), (16 + SIZE_MAX + 8 + 16, 3));
        assert!(set.frames.len() < 100);
    }
}
