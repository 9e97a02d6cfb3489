//! The oracle's memory: what the log promised, and what each reader may see.
//!
//! The ledger does not depend on how the log works. It knows which records were appended,
//! acknowledged, shown, truncated or given up, and compares that with the records delivered later.

pub(crate) mod given_up;
pub(crate) mod removals;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use seawall_format::{SegmentHeader, SegmentId};

use crate::ledger::given_up::{Disk, GivenUp, Open};
use crate::ledger::removals::Removals;
use crate::plan::Keep;
use crate::world::to_u64;

/// The bytes of a record.
pub(crate) type Payload = Vec<u8>;

/// What the log promised so far.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(crate) struct Ledger {
    /// Records whose LSN was returned by a call or shown by a reader.
    known: BTreeMap<u64, Known>,
    /// Records truncated in this life. A reader that started before the truncation may still
    /// deliver them.
    gone: Vec<Gone>,
    /// Records truncated in earlier lives. Their bytes stay on the disk, hidden by later segments.
    gone_before: Vec<Gone>,
    /// Records that an open did not find.
    given_up: GivenUp,
    /// Truncations in this life: the moment, and the last LSN that was kept.
    past_cuts: Vec<(Moment, u64)>,
    /// First and last LSN of each set of several records.
    sets: Vec<(u64, u64)>,
    /// Records that were appended and not yet promised.
    flying: Vec<Flying>,
    /// The current moment; appends and truncations advance it.
    moment: Moment,
    /// Everything up to this LSN is promised to survive.
    pub(crate) durable: u64,
    /// The number of records that were appended and promised in this life.
    new_records: u64,
    /// The highest LSN that a call acknowledged. Readers may have been shown more.
    acknowledged: u64,
    /// No single fault may hide a record up to this LSN.
    pub(crate) confirmed: u64,
    /// A truncation after this LSN was requested, and its outcome is unknown.
    cutting: Option<u64>,
    /// The highest segment id when the last truncation began.
    cut_in: Option<SegmentId>,
    /// The disk before each open since the last one that succeeded, if damage or wrong reads were
    /// possible.
    disks: Vec<Disk>,
    /// The lowest LSN with which the log may begin.
    first_min: u64,
    /// The highest LSN with which the log may begin, whatever its size.
    pruned_max: u64,
    /// The highest checkpoint that retention could see.
    checkpoint_max: u64,
    /// What retention may have removed because of its size.
    pub(crate) removals: Removals,
    /// The possible LSNs of the newest checkpoint.
    pub(crate) checkpoints: Vec<u64>,
    /// LSNs whose records are known to be lost and were given up.
    holes: BTreeSet<u64>,
    /// The retention of this life.
    keep: Keep,
    /// Whether retention may have removed records without a checkpoint since the last open that was
    /// checked.
    is_ring: bool,
    /// Number of truncations begun so far.
    cuts: u64,
    /// Whether the device was damaged. A missing record is then excused if no remaining evidence
    /// proves that it was durable.
    pub(crate) damaged: bool,
    /// Whether the device was damaged at any time.
    pub(crate) was_damaged: bool,
    /// Whether the last open delivered everything that was promised.
    pub(crate) is_whole: bool,
    /// Whether the log may end with a torn write that could also be damage, until the next open.
    pub(crate) may_be_unsure: bool,
    /// Whether the log was ever opened.
    pub(crate) is_born: bool,
}

/// A point in time between two events.
pub(crate) type Moment = u64;

/// A record whose LSN is known.
#[derive(Clone, Debug)]
struct Known {
    payload: Payload,
    /// When the append began.
    since: Moment,
}

/// A record that was truncated.
#[derive(Clone, Debug)]
struct Gone {
    /// `None` if its LSN was neither returned nor shown.
    lsn: Option<u64>,
    payload: Payload,
    stood: Stood,
    /// The highest segment id when the truncation began.
    segment: Option<SegmentId>,
}

/// When a record was in the log: from the start of its append until the truncation that removed it
/// returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stood {
    from: Moment,
    until: Moment,
}

impl Stood {
    /// The longest interval, for a record about which nothing narrower is known.
    const ALWAYS: Self = Self { from: 0, until: Moment::MAX };

    /// Whether both records were in the log at the same moment.
    pub(crate) fn together(self, other: Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}

#[derive(Clone, Debug)]
struct Flying {
    /// When the append began; unique.
    turn: Moment,
    payloads: Vec<Payload>,
    /// The first LSN, if a call returned it or a reader saw it.
    first: Option<u64>,
}

/// Payloads shorter than this many bytes may be equal.
const NAMED_MIN: usize = 12;

/// The LSN and payload of a delivered record.
pub(crate) type Delivered<'a> = (u64, &'a [u8]);

/// The first and last LSN of an opened log, the segment with which it begins, and whether a missing
/// record has no evidence left that it was durable.
pub(crate) type Opened<'a> = ((u64, u64), Option<&'a SegmentHeader>, &'a dyn Fn(u64) -> bool);

type Judged = Result<(), String>;

impl Ledger {
    /// Begins a life with the retention `keep`.
    pub(crate) fn begin(&mut self, keep: Keep) {
        self.keep = keep;
        self.new_records = 0;
        self.is_ring |= matches!(keep, Keep::Ring(_));
        self.removals.limit(keep.limit());
        if self.keeps_less() {
            self.checkpoint_max =
                self.checkpoints.iter().copied().fold(self.checkpoint_max, u64::max);
        }
    }

    /// Whether retention may remove records in this life.
    pub(crate) fn keeps_less(&self) -> bool {
        self.keep != Keep::All
    }

    /// Returns the highest LSN that a single fault cannot hide if it leaves evidence up to `bound`.
    pub(crate) fn sure(&self, bound: u64) -> u64 {
        let sure = self.durable.min(bound.max(self.confirmed));
        // The running truncation may have taken effect.
        self.cutting.map_or(sure, |cut| sure.min(cut))
    }

    /// Notes that a call promised everything up to `lsn`.
    pub(crate) fn acknowledge(&mut self, lsn: u64) -> Judged {
        self.acknowledged = self.acknowledged.max(lsn);
        self.promise(lsn)
    }

    /// Returns the current moment. A reader that starts now passes it to [`Ledger::shown`] later.
    pub(crate) fn now(&self) -> Moment {
        self.moment
    }

    /// Returns the highest LSN that a call acknowledged, without what a running truncation may
    /// remove.
    pub(crate) fn acknowledged(&self) -> u64 {
        let acknowledged = self.acknowledged.min(self.durable);
        self.cutting.map_or(acknowledged, |cut| cut.min(acknowledged))
    }

    /// Returns the highest LSN up to `lsn` that no truncation since that moment removed, or may
    /// have removed.
    pub(crate) fn left_since(&self, since: Moment, lsn: u64) -> u64 {
        let cuts = self.past_cuts.iter().filter(|(moment, _)| *moment > since);
        cuts.map(|(_, cut)| *cut).chain(self.cutting).fold(lsn, u64::min)
    }

    /// Returns the number of truncations begun so far.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Whether a truncation is running, or failed halfway.
    pub(crate) fn is_cutting(&self) -> bool {
        self.cutting.is_some()
    }

    /// Notes that an append begins. The returned value names its records until they are
    /// acknowledged.
    pub(crate) fn hand_over(&mut self, payloads: Vec<Payload>) -> u64 {
        self.moment += 1;
        self.flying.push(Flying { turn: self.moment, payloads, first: None });
        self.moment
    }

    /// Notes that an append failed, so that the log does not have its records.
    pub(crate) fn refused(&mut self, turn: u64) -> Judged {
        let place = self.flying.iter().position(|set| set.turn == turn);
        let gone = place.map(|place| self.flying.remove(place));
        match gone.and_then(|set| set.first) {
            Some(first) => Err(format!("record {first} was shown, and then refused")),
            None => Ok(()),
        }
    }

    /// Notes the LSN of the first record of an append, whose payload is `payload`.
    pub(crate) fn numbered(&mut self, turn: u64, (first, payload): Delivered<'_>) -> Judged {
        let Some(set) = self.flying.iter_mut().find(|set| set.turn == turn) else {
            // A reader already showed the record, or it was truncated.
            return self.known.get(&first).map_or(Ok(()), |known| known.is(first, payload));
        };
        match set.first.replace(first) {
            Some(other) if other != first => {
                Err(format!("a record was shown as {other} and is now {first}"))
            }
            _ => Ok(()),
        }
    }

    /// Notes that everything up to `lsn` is promised to survive.
    pub(crate) fn promise(&mut self, lsn: u64) -> Judged {
        self.durable = self.durable.max(lsn);
        let durable = self.durable;
        let (reached, flying) = std::mem::take(&mut self.flying)
            .into_iter()
            .partition(|set| set.first.is_some_and(|first| first <= durable));
        self.flying = flying;
        let reached: Vec<Flying> = reached;
        reached.into_iter().try_for_each(|set| self.learn(set))
    }

    /// Returns the number of records that were appended and promised in this life.
    pub(crate) fn new_records(&self) -> u64 {
        self.new_records
    }

    fn learn(&mut self, set: Flying) -> Judged {
        self.new_records += to_u64(set.payloads.len());
        let first = set.first.expect("it was chosen by that");
        let last = first + to_u64(set.payloads.len()) - 1;
        if last > first {
            self.sets.push((first, last));
        }
        for (lsn, payload) in (first..).zip(set.payloads) {
            if let Some(other) = self.known.insert(lsn, Known { payload, since: set.turn }) {
                let other = name(&other.payload);
                return Err(format!("number {lsn} was given twice; first to {other}"));
            }
        }
        Ok(())
    }

    /// Checks a record delivered to a reader that started, or last looked for the log's end, at the
    /// moment `since`. The record must have been in the log at some time since then. If it still
    /// is, it is promised from now on.
    pub(crate) fn shown(
        &mut self,
        (lsn, payload): Delivered<'_>,
        since: Moment,
    ) -> Result<Stood, String> {
        let known = self.known.get(&lsn);
        if let Some(known) = known.filter(|known| known.payload == payload) {
            // An equal short record may have had this LSN before.
            let from = if payload.len() < NAMED_MIN { 0 } else { known.since };
            return Ok(Stood { from, ..Stood::ALWAYS });
        }
        let was_there = |gone: &&Gone| {
            let fits = gone.lsn.is_none_or(|gone| gone == lsn) && gone.payload == payload;
            fits && gone.stood.until > since
        };
        if let Some(gone) = self.gone.iter().rev().find(was_there) {
            return Ok(if payload.len() < NAMED_MIN { Stood::ALWAYS } else { gone.stood });
        }
        if let Some(known) = known {
            known.is(lsn, payload)?;
        }
        let stood = self.recognise((lsn, payload))?;
        self.promise(lsn)?;
        Ok(stood)
    }

    /// Forgets the log: it was given up, and a new one begins.
    pub(crate) fn start_over(&mut self) {
        *self = Self { moment: self.moment, cuts: self.cuts, ..Self::default() };
    }

    /// Notes a clean close: it has written everything that has an LSN, and confirmed it.
    pub(crate) fn closed(&mut self) -> Judged {
        let last = |set: &Flying| Some(set.first? + to_u64(set.payloads.len()) - 1);
        let judged = self.promise(self.flying.iter().filter_map(last).max().unwrap_or(0));
        self.confirmed = self.durable;
        judged
    }

    /// Finds the unacknowledged append that a record is from.
    fn recognise(&mut self, (lsn, payload): Delivered<'_>) -> Result<Stood, String> {
        if payload.len() < NAMED_MIN
            && self.flying.iter().any(|set| set.payloads.iter().any(|own| own == payload))
        {
            // The payload is too short to identify the append.
            return Ok(Stood::ALWAYS);
        }
        let fits = |set: &&mut Flying| {
            let place = |at: u64| set.payloads.get(usize::try_from(at).unwrap_or(usize::MAX));
            match set.first {
                Some(first) => first <= lsn && place(lsn - first).is_some_and(|own| own == payload),
                None => set.payloads.iter().any(|own| own == payload),
            }
        };
        let Some(set) = self.flying.iter_mut().find(fits) else {
            return Err(format!("record {lsn} is {}, which was not appended there", name(payload)));
        };
        let place = set.payloads.iter().position(|own| own == payload).unwrap_or(0);
        set.first.get_or_insert(lsn.saturating_sub(to_u64(place)));
        Ok(Stood { from: set.turn, ..Stood::ALWAYS })
    }

    /// Notes the state of the disk before an open. If the open fails, the next one starts from the
    /// files that it left, so both states count.
    pub(crate) fn saw(&mut self, disk: Disk) {
        self.disks.push(disk);
    }

    /// Checks what the log delivers, in order, after it was opened. These are all of its records
    /// from now on.
    pub(crate) fn opened(
        &mut self,
        found: &[(u64, Payload)],
        ((first, last), oldest, excused): Opened<'_>,
    ) -> Judged {
        if let Some(cut) = self.cutting.take()
            && last < self.durable
        {
            if last != cut && !self.damaged {
                return Err(format!(
                    "a truncation after {cut} was running, {} were there, and now there are {last}",
                    self.durable
                ));
            }
            // If more records are left, the truncation had no effect, and damage took what is
            // missing.
            if last <= cut {
                self.cut(cut);
            }
        }
        if !self.damaged && (first < self.first_min || !self.may_begin_with(first, oldest)) {
            let Self { first_min, pruned_max, checkpoint_max, removals, .. } = self;
            return Err(format!(
                "the log begins with {first}, and before with {first_min}; {pruned_max} was \
                 pruned, {checkpoint_max} is a checkpoint, {removals:?}"
            ));
        }
        let may_begin = first >= self.first_min && self.may_begin_with(first, oldest);
        let is_complete = to_u64(found.len()) == (last + 1).saturating_sub(first);
        self.is_whole = may_begin && is_complete && last >= self.durable;
        self.compare(found, (first, last), excused)?;
        self.restart(found, (first, last));
        Ok(())
    }

    fn compare(
        &mut self,
        found: &[(u64, Payload)],
        (first, last): (u64, u64),
        excused: &dyn Fn(u64) -> bool,
    ) -> Judged {
        let delivered: BTreeMap<u64, &Payload> = found.iter().map(|(n, p)| (*n, p)).collect();
        for lsn in first..=last.max(self.durable) {
            match (delivered.get(&lsn), self.known.get(&lsn)) {
                (Some(payload), Some(known)) if known.payload == **payload => {}
                // A device that lost the writes of a truncation may bring back what it removed.
                (Some(payload), None) if self.damaged && self.was_cut(lsn, payload) => {}
                (Some(payload), None) if self.damaged && self.is_rolled_back(lsn, payload) => {}
                (Some(payload), Some(known)) => {
                    if !(self.damaged && self.is_rolled_back(lsn, payload)) {
                        known.is(lsn, payload)?;
                    }
                }
                (Some(payload), None) => drop(self.recognise((lsn, payload))?),
                (None, _) if lsn > self.durable || self.holes.contains(&lsn) => {}
                (None, _) if !(self.damaged && excused(lsn)) => {
                    return Err(format!(
                        "record {lsn} was promised and is not there: the log has {first} to {last}"
                    ));
                }
                (None, _) => {}
            }
        }
        let seen = self.flying.iter().filter_map(|set| {
            set.first.map(|first| (first, first + to_u64(set.payloads.len()) - 1))
        });
        let mut sets = self.sets.iter().copied().chain(seen);
        let halved = |&(from, to): &(u64, u64)| from <= last && to > last && first <= from;
        match sets.find(|set| !self.damaged && halved(set)) {
            Some((from, to)) => Err(format!("of the set {from} to {to} the log has up to {last}")),
            None => Ok(()),
        }
    }

    /// Whether a truncation of the previous life removed this record.
    fn was_cut(&self, lsn: u64, payload: &Payload) -> bool {
        self.gone.iter().any(|gone| gone.is(lsn, payload))
    }

    /// Whether a truncation or an open in any life removed this record, and nothing on the disk
    /// shows that. A truncation creates a segment, and later writes go to that segment or later
    /// ones.
    fn is_rolled_back(&self, lsn: u64, payload: &Payload) -> bool {
        let mut gone = self.gone.iter().chain(&self.gone_before);
        let Some(disk) = self.disks.iter().copied().reduce(Disk::at_most) else { return false };
        gone.any(|gone| gone.is(lsn, payload) && disk.highest <= gone.segment)
            || self.given_up.may_return((lsn, payload), disk)
    }

    fn restart(&mut self, found: &[(u64, Payload)], (first, last): (u64, u64)) {
        self.give_up((first, last));
        let sets: Vec<(u64, u64)> = self
            .flying
            .iter()
            .filter_map(|set| set.first.map(|n| (n, n + to_u64(set.payloads.len()) - 1)))
            .collect();
        self.sets.extend(sets.into_iter().filter(|(from, to)| from < to));
        self.sets.retain(|(from, to)| *from >= first && *to <= last);
        let known =
            |(lsn, payload): &(u64, Payload)| (*lsn, Known { payload: payload.clone(), since: 0 });
        self.known = found.iter().map(known).collect();
        // The readers of the previous life have ended, too.
        self.gone_before.append(&mut self.gone);
        self.past_cuts.clear();
        self.holes = (first..=last).filter(|lsn| !self.known.contains_key(lsn)).collect();
        self.flying.clear();
        self.may_be_unsure = false;
        (self.durable, self.acknowledged, self.confirmed) = (last, last, last);
        self.first_min = first;
        if self.damaged {
            self.pruned_max = self.pruned_max.max(first);
        } else {
            // What was removed, is removed: from here on only this life counts.
            self.pruned_max = first;
            self.is_ring = matches!(self.keep, Keep::Ring(_));
            self.removals.restart(self.keep.limit());
            self.checkpoint_max = if self.keeps_less() { self.checkpoint_max } else { 0 };
        }
    }

    /// Gives up the known and unacknowledged records that are not among the remaining LSNs.
    fn give_up(&mut self, (first, last): (u64, u64)) {
        let highest = std::mem::take(&mut self.disks).last().and_then(|disk| disk.highest);
        let open = Open { left: first..=last, highest };
        for (lsn, known) in &self.known {
            self.given_up.add((Some(*lsn), &known.payload), &open);
        }
        for set in &self.flying {
            for (place, payload) in (0..).zip(&set.payloads) {
                let lsn = set.first.map(|first| first + place);
                self.given_up.add((lsn, payload), &open);
            }
        }
    }

    /// Notes that everything up to `lsn` is confirmed.
    pub(crate) fn confirm(&mut self, lsn: u64) {
        self.confirmed = self.confirmed.max(lsn.min(self.durable));
    }

    /// Notes that a truncation after `lsn` begins; `highest` is the highest segment id.
    pub(crate) fn begin_cut(&mut self, lsn: u64, highest: Option<SegmentId>) {
        self.cuts += 1;
        self.cutting = Some(lsn);
        // A truncation lowers the checkpoints first.
        let lowered: Vec<u64> = self.checkpoints.iter().map(|old| (lsn + 1).min(*old)).collect();
        self.checkpoints.extend(lowered);
        self.cut_in = highest;
    }

    /// Notes that the truncation failed without an effect.
    pub(crate) fn cut_refused(&mut self) {
        self.cutting = None;
    }

    /// Notes that the truncation is complete: the records after `lsn` must never return.
    pub(crate) fn cut(&mut self, lsn: u64) {
        self.cutting = None;
        self.moment += 1;
        let until = self.moment;
        self.past_cuts.push((until, lsn));
        let segment = self.cut_in;
        let cut = self.known.split_off(&(lsn + 1)).into_iter();
        self.gone.extend(cut.map(|(lsn, Known { payload, since })| Gone {
            lsn: Some(lsn),
            payload,
            stood: Stood { from: since, until },
            segment,
        }));
        // What a truncation leaves of a set is kept or lost as a whole.
        for (_, to) in &mut self.sets {
            *to = lsn.min(*to);
        }
        self.sets.retain(|(from, to)| from < to);
        // Appends without a result were written before the truncation, or fail.
        for Flying { turn, payloads, first } in std::mem::take(&mut self.flying) {
            let stood = Stood { from: turn, until };
            self.gone.extend((0..).zip(payloads).map(|(place, payload)| Gone {
                lsn: first.map(|first| first + place),
                payload,
                stood,
                segment,
            }));
        }
        self.durable = self.durable.min(lsn);
        self.acknowledged = self.acknowledged.min(lsn);
        self.confirmed = self.confirmed.min(lsn);
        for checkpoint in &mut self.checkpoints {
            *checkpoint = (*checkpoint).min(lsn + 1);
        }
    }

    /// Notes that records before `lsn` may be pruned from now on.
    pub(crate) fn may_prune(&mut self, lsn: u64) {
        self.pruned_max = self.pruned_max.max(lsn);
    }

    /// Notes that a checkpoint at `lsn` was set.
    pub(crate) fn checkpointed(&mut self, lsn: u64) {
        self.checkpoints = vec![lsn];
    }

    /// Notes that a checkpoint at `lsn` is being set. With a retention limit the log may remove the
    /// records before it.
    pub(crate) fn begin_checkpoint(&mut self, lsn: u64) {
        self.checkpoints.push(lsn);
        if self.keeps_less() {
            self.checkpoint_max = self.checkpoint_max.max(lsn);
        }
    }

    /// Whether a record is from a set of several records.
    pub(crate) fn is_in_a_set(&self, lsn: u64) -> bool {
        self.sets.iter().any(|(from, to)| (*from..=*to).contains(&lsn))
    }

    /// Whether a record in the middle of the log is known to be lost.
    pub(crate) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Checks a prune that removed the records before `lsn` for good.
    pub(crate) fn pruned(&mut self, lsn: u64) -> Judged {
        let max = self.pruned_max.max(self.checkpoint_max).max(1);
        if lsn > max && !self.is_ring {
            return Err(format!("the log begins with {lsn}; up to {max} may go"));
        }
        self.first_min = self.first_min.max(lsn);
        Ok(())
    }

    /// Whether the log may begin with `lsn`, in the segment `oldest`.
    pub(crate) fn may_begin_with(&self, lsn: u64, oldest: Option<&SegmentHeader>) -> bool {
        let is_needless = self.is_ring || lsn <= self.checkpoint_max;
        let may_go = || oldest.is_none_or(|oldest| self.removals.may_begin_with(oldest));
        lsn <= self.pruned_max.max(1) || (is_needless && may_go())
    }

    /// Whether records at the start of the log may be missing.
    pub(crate) fn may_begin_later(&self) -> bool {
        self.pruned_max.max(self.checkpoint_max) > 1 || self.keeps_less() || self.is_ring
    }

    /// Returns the payload of record `lsn`, if it was promised.
    pub(crate) fn known(&self, lsn: u64) -> Option<&Payload> {
        self.known.get(&lsn).filter(|_| lsn <= self.durable).map(|known| &known.payload)
    }
}

impl Gone {
    fn is(&self, lsn: u64, payload: &Payload) -> bool {
        self.lsn == Some(lsn) && self.payload == *payload
    }
}

impl Known {
    fn is(&self, lsn: u64, payload: &[u8]) -> Judged {
        if self.payload == payload {
            return Ok(());
        }
        Err(format!("record {lsn} is {} and was {}", name(payload), name(&self.payload)))
    }
}

/// Returns the length and the first bytes of a payload, in hexadecimal.
fn name(payload: &[u8]) -> String {
    let mut text = format!("{} bytes ", payload.len());
    for byte in payload.iter().take(20) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
