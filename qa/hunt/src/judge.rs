//! Checks the promises for a damaged log, given the evidence that remains: guarantees.md, sections
//! 1 and 2.
//!
//! - Every delivered record is exactly as written, in order, and delivered once.
//! - `verify` and the reader report each acknowledged record that is not delivered, unless no
//!   evidence confirms it any more and the verdict says that records may be missing.
//! - An open refuses a log that lacks records for which there is evidence; any other log opens and
//!   accepts appends.

mod repairs;

use crate::change::Change;
use crate::random::Random;
use crate::sample::{Bytes, End, Evidence, Sample, contents, open};
use seawall::damage::{Damage, Lost};
use seawall::recovery::TailState;
use seawall::verify::{Verdict, Verification};
use seawall::{Cursor, Error, Layout, Lsn, Maintenance, OpenMode};
use seawall_format::tail::is_blank;
use seawall_format::{HEADER_SIZE, SegmentHeader};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// After this many errors the reader is taken to loop.
const ERRORS_MAX: usize = 10_000;

/// The results for one damaged log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict of `verify`.
    pub verdict: Verdict,
    /// Number of records that were not delivered.
    pub missing: u64,
    /// Number of missing records that no evidence confirms, so that they are not reported.
    pub in_window: u64,
    /// Whether an open for append accepted the log.
    pub opened: Option<bool>,
}

/// The records that a reader delivered.
#[derive(Debug, Default)]
struct Reading {
    delivered: BTreeSet<u64>,
    lost: Vec<Lost>,
    errors: usize,
}

/// A changed log, its original, and the change.
struct Case<'a> {
    sample: &'a Sample,
    change: &'a Change,
    damaged: MemStorage,
}

/// Uses a changed log in every way that reads. `random` selects the other ways to use it.
///
/// # Panics
///
/// If a promise is broken.
#[must_use]
pub fn judge(sample: &Sample, change: &Change, random: &mut Random) -> Outcome {
    let case = Case { sample, change, damaged: change.made(sample) };
    let before = contents(&case.damaged);
    let storage: Arc<dyn Storage> = Arc::new(case.damaged.clone());
    let found = sample.kind.maintenance(&storage).verify();
    let found = found.unwrap_or_else(|error| panic!("verify: {error}"));
    if sample.kind.is_encrypted() {
        case.is_verified_without_the_key(&found);
    }
    let plain = case.read(false);
    let skipping = case.read(true);
    assert!(contents(&case.damaged) == before, "readers change nothing");
    case.compare(&found, &plain, &skipping);
    let in_window = case.missing_is_named(&found, &skipping);
    case.untouched_is_delivered(&found, &skipping);
    if random.once_in(4) {
        case.look_up(&skipping, random);
    }
    if random.once_in(4) {
        case.side_by_side(&skipping, 2 + random.below(3));
    }
    let opened = random.once_in(3).then(|| case.opens(&found, &skipping, random));
    if random.once_in(12) {
        case.salvages(&skipping);
    }
    if random.once_in(12) {
        case.cuts(&found, &skipping);
    }
    let missing = (sample.first..=sample.last()).filter(|lsn| !skipping.delivered.contains(lsn));
    let missing = u64::try_from(missing.count()).unwrap();
    Outcome { verdict: found.verdict, missing, in_window, opened }
}

fn names(lost: impl IntoIterator<Item = Lost>, lsn: u64) -> bool {
    let holds = |lost: Lost| lost.from.get() <= lsn && lost.to.is_none_or(|to| to.get() >= lsn);
    lost.into_iter().any(holds)
}

fn lost(damage: &[Damage]) -> impl Iterator<Item = Lost> + '_ {
    damage.iter().filter_map(|damage| damage.lost)
}

impl Reading {
    /// Adds a record, and compares it with what was written.
    fn take(&mut self, lsn: Lsn, payload: &[u8], sample: &Sample) {
        let lsn = lsn.get();
        let last = self.delivered.last().copied();
        assert!(Some(lsn) > last, "record {lsn} is delivered after {last:?}");
        assert!(sample.record(lsn) == Some(payload), "record {lsn} is not what was written");
        self.delivered.insert(lsn);
    }

    fn of(log: &Bytes, sample: &Sample, last: u64) -> Self {
        let mut reading = Self::default();
        for entry in log.read_from(log.oldest()).unwrap_or_else(|error| panic!("read: {error}")) {
            match entry {
                Ok((lsn, payload)) if lsn.get() <= last => reading.take(lsn, &payload, sample),
                Ok((lsn, payload)) => assert_eq!(payload, NEXT, "record {lsn}"),
                Err(Error::Damaged { damage, .. }) => {
                    reading.errors += 1;
                    reading.lost.extend(damage.lost);
                    break;
                }
                Err(error) => panic!("the log reads itself: {error}"),
            }
        }
        reading
    }
}

/// The record that is appended after an open.
const NEXT: &[u8] = b"7";

impl Case<'_> {
    fn read(&self, skip: bool) -> Reading {
        let storage = Arc::new(self.damaged.clone());
        let reader = self.sample.kind.reader(storage);
        let reader = reader.unwrap_or_else(|error| panic!("a reader opens: {error}"));
        let from = Lsn::new(self.sample.first).unwrap();
        let cursor = reader.skip_damaged(skip).cursor(from);
        let cursor = cursor.unwrap_or_else(|error| panic!("a reader begins: {error}"));
        let mut reading = Reading::default();
        self.read_to_the_end(cursor, &mut reading);
        reading
    }

    fn read_to_the_end(&self, mut cursor: Cursor, reading: &mut Reading) {
        let most = reading.errors + ERRORS_MAX;
        loop {
            match cursor.next_record() {
                Ok(Some(record)) => reading.take(record.lsn, record.payload, self.sample),
                Ok(None) => return,
                Err(Error::Damaged { damage, .. }) => {
                    reading.errors += 1;
                    reading.lost.extend(damage.lost);
                }
                Err(error) => panic!("the reader fails: {error}"),
            }
            assert!(reading.errors < most, "the reader goes in circles");
        }
    }

    /// Checks that `count` parallel cursors together deliver and report the same as one cursor.
    fn side_by_side(&self, alone: &Reading, count: usize) {
        let storage = Arc::new(self.damaged.clone());
        let reader = self.sample.kind.reader(storage).expect("it opened before");
        let from = Lsn::new(self.sample.first).unwrap();
        let cursors = reader.skip_damaged(true).cursors(from, count);
        let cursors = cursors.unwrap_or_else(|error| panic!("readers begin: {error}"));
        let mut together = Reading::default();
        for cursor in cursors {
            self.read_to_the_end(cursor, &mut together);
        }
        assert_eq!(together.delivered, alone.delivered, "{count} side by side");
        assert_eq!(together.lost, alone.lost, "{count} side by side");
    }

    /// Checks that `verify` reports the same damage without the key.
    fn is_verified_without_the_key(&self, found: &Verification) {
        let storage: Arc<dyn Storage> = Arc::new(self.damaged.clone());
        let without = Maintenance::on(&storage).verify();
        let without = without.unwrap_or_else(|error| panic!("verify without the key: {error}"));
        let said = |found: &Verification| (found.verdict, found.damage.clone(), found.records);
        assert_eq!(said(&without), said(found), "without the key");
    }

    /// Checks that `verify`, a reader that stops at damage and a reader that skips it agree.
    fn compare(&self, found: &Verification, plain: &Reading, skipping: &Reading) {
        let before: BTreeSet<_> =
            skipping.delivered.iter().take(plain.delivered.len()).copied().collect();
        assert_eq!(
            before, plain.delivered,
            "a reader that stops at damage shows all records before it"
        );
        if self.sample.kind.end == End::Killed {
            // The readers of a killed writer's log know more: records that `live` lists as durable
            // are not torn.
            return;
        }
        let ends = |of: &BTreeSet<u64>| (of.first().copied(), of.last().copied());
        let number = |lsn: Option<Lsn>| lsn.map(Lsn::get);
        let counted = u64::try_from(skipping.delivered.len()).unwrap();
        assert_eq!(
            (found.records, (number(found.first_lsn), number(found.last_lsn))),
            (counted, ends(&skipping.delivered)),
            "verify and the reader count the same: {found:?}"
        );
        assert_eq!(plain.errors > 0, !found.damage.is_empty(), "both meet damage: {found:?}");
    }

    /// Checks that each missing record is reported, or that no remaining evidence confirms it.
    /// Returns the number of records that are missing and not reported.
    fn missing_is_named(&self, found: &Verification, skipping: &Reading) -> u64 {
        if self.change.file == "live" {
            // A `live` that is older than the log makes readers stop early; it is never evidence.
            assert_eq!(found.verdict, Verdict::Clean, "what is no evidence: {found:?}");
            return 0;
        }
        let confirmed = self.confirmed();
        let mut silent = 0;
        for lsn in self.sample.first..=self.sample.last() {
            if skipping.delivered.contains(&lsn) {
                continue;
            }
            let named = found.verdict == Verdict::Lost && names(lost(&found.damage), lsn);
            if named && names(skipping.lost.iter().copied(), lsn) {
                continue;
            }
            assert!(lsn > confirmed, "record {lsn} is silently missing: {found:?}");
            let owns_up = found.tail != TailState::Clean;
            assert!(
                owns_up || self.is_blank_behind(found, skipping),
                "record {lsn} is missing under a sure verdict: {found:?}"
            );
            silent += 1;
        }
        silent
    }

    /// Checks that the records of untouched batches are delivered, whatever is damaged around them.
    /// A set in several lines counts as one batch.
    fn untouched_is_delivered(&self, found: &Verification, skipping: &Reading) {
        if self.change.act.is_copy() || self.change.file == "keys" {
            // A valid batch in a wrong place can make others wrong; without keys none is readable.
            return;
        }
        let (last, confirmed) = (self.sample.last(), self.confirmed());
        for lsn in (self.sample.first..=last).filter(|lsn| !skipping.delivered.contains(lsn)) {
            let may_be_torn = lsn > confirmed && found.tail == TailState::Ambiguous;
            let mut lsns = self.sample.set_of(lsn).filter(|lsn| *lsn >= self.sample.first);
            let is_untouched = lsns.all(|lsn| self.is_untouched(lsn));
            assert!(
                may_be_torn || !is_untouched,
                "record {lsn} is untouched, and not delivered: {found:?}"
            );
        }
    }

    /// Whether the batch or line of this record, and the header of its segment, are unchanged.
    fn is_untouched(&self, lsn: u64) -> bool {
        let (sample, stored) = (self.sample, &self.sample.stored[&lsn]);
        let header = sample.kind.stored(0, HEADER_SIZE);
        let is_spared =
            |file: &str, bytes: &[Range<usize>]| self.change.spares(sample, file, bytes);
        is_spared(&stored.file, std::slice::from_ref(&stored.bytes))
            && is_spared(&stored.head, &header)
    }

    /// The highest LSN that intact evidence confirms. Returns `u64::MAX` if the damage shows by
    /// itself: it is not in the newest segment, or it hits the header or truncates the file.
    fn confirmed(&self) -> u64 {
        let (sample, change) = (self.sample, self.change);
        let is_text = sample.kind.layout == Layout::Text;
        if ![sample.newest.as_str(), &sample.newest_head].contains(&change.file.as_str())
            || !change.spares(sample, &sample.newest_head, &sample.kind.stored(0, HEADER_SIZE))
        {
            return u64::MAX;
        }
        if !is_text {
            let header = SegmentHeader::decode(&sample.files[&sample.newest]).unwrap();
            if u64::try_from(change.bytes.len()).unwrap() < header.size {
                return u64::MAX;
            }
        }
        let is_left = |one: &&Evidence| change.spares(sample, &one.file, &one.bytes);
        let (last_word, others): (Vec<_>, Vec<_>) =
            sample.evidence.iter().filter(is_left).partition(|one| one.is_final);
        let others = others.iter().map(|one| one.confirmed).max();
        others.max(last_word.first().map(|one| one.confirmed)).unwrap_or(0)
    }

    /// Whether nothing but blank bytes follows the last delivered record.
    fn is_blank_behind(&self, found: &Verification, skipping: &Reading) -> bool {
        let sample = self.sample;
        let last = skipping.delivered.last().copied().unwrap_or(0);
        let bytes = self.damaged.bytes(&sample.newest).unwrap_or_default();
        let header = SegmentHeader::decode(&sample.files[&sample.newest_head]).unwrap();
        let start = usize::try_from(header.data_start()).unwrap();
        let end = sample.ends.iter().rfind(|(lsn, _)| *lsn <= last).map_or(start, |(_, end)| *end);
        if sample.kind.layout == Layout::Binary {
            return bytes.get(end..).unwrap_or_default().iter().all(|byte| *byte == 0);
        }
        // Lines are valid at any offset: the last one may have moved.
        let end = found.tail_at.map_or(end, |(_, at)| usize::try_from(at.0).unwrap());
        bytes.get(end..).unwrap_or_default().iter().all(|byte| is_blank(*byte))
    }

    /// Checks that `get` returns the same records as a cursor.
    fn look_up(&self, skipping: &Reading, random: &mut Random) {
        let storage = Arc::new(self.damaged.clone());
        let reader = self.sample.kind.reader(storage).unwrap();
        for _ in 0..3 {
            let index = random.below(self.sample.records.len());
            let lsn = self.sample.first + u64::try_from(index).unwrap();
            match reader.get(Lsn::new(lsn).unwrap()) {
                Ok(Some(payload)) => {
                    assert_eq!(payload, self.sample.records[index], "got as record {lsn}");
                }
                Ok(None) => {
                    assert!(!skipping.delivered.contains(&lsn), "record {lsn} is there, not got");
                }
                // `get` may refuse a record that it cannot reach because of damage.
                Err(Error::Damaged { .. }) => {}
                Err(error) => panic!("get record {lsn}: {error}"),
            }
        }
    }

    /// Opens a copy for append in a random mode and returns whether the open succeeded. If so,
    /// checks that every record is there and that appends continue.
    fn opens(&self, found: &Verification, skipping: &Reading, random: &mut Random) -> bool {
        let mode = *random.pick(&[OpenMode::Standard, OpenMode::Strict, OpenMode::Salvage]);
        let device = self.damaged.kill();
        let options = self.sample.kind.options(random.draw()).mode(mode);
        let log = match open(&options, &device) {
            Ok(log) => log,
            Err(Error::Damaged { .. }) => {
                assert!(!found.damage.is_empty(), "sound, and refused: {found:?}");
                return false;
            }
            Err(Error::Ambiguous { .. }) => {
                assert_eq!((mode, found.tail), (OpenMode::Strict, TailState::Ambiguous));
                return false;
            }
            Err(error) => panic!("open: {error}"),
        };
        assert!(mode != OpenMode::Strict || found.tail != TailState::Ambiguous, "{found:?}");
        let (first, last) = (self.sample.first, log.recovery().last.map_or(0, Lsn::get));
        if mode != OpenMode::Salvage {
            // An open does not check bodies before the checkpoint; reading them does.
            let needed = |lost: &Lost| lost.to.is_none_or(|to| to.get() >= self.sample.checkpoint);
            assert!(!lost(&found.damage).any(|lost| needed(&lost)), "opened: {found:?}");
            let mut kept = skipping.delivered.last().copied().unwrap_or(first - 1);
            if self.sample.kind.end == End::Killed {
                // `live` is no evidence: format.md section 5.
                kept = kept.min(self.confirmed());
            }
            assert!(last >= kept, "records up to {kept} were there, and {last} is the last now");
        }
        assert!(last <= self.sample.last(), "record {last} was never written");
        let shown = Reading::of(&log, self.sample, last);
        if shown.errors == 0 && mode != OpenMode::Salvage {
            let all = first..=last;
            assert!(shown.delivered.iter().copied().eq(all), "{:?}", shown.delivered);
        }
        let next = log.append(NEXT).unwrap_or_else(|error| panic!("append: {error}"));
        assert!(next.get() > last, "{next} was used again");
        log.close().unwrap_or_else(|error| panic!("it closes: {error}"));
        let after =
            self.sample.kind.maintenance(&(Arc::new(device) as Arc<dyn Storage>)).verify().unwrap();
        assert!(after.verdict == Verdict::Clean || !found.damage.is_empty(), "{after:?}");
        assert!(after.records > found.records, "{mode:?} lost records: {found:?}, then {after:?}");
        true
    }
}
