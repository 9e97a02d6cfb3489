//! The oracle's memory: what the log promised, and to which reader.
//!
//! The ledger never asks how the log works. It knows what was handed over, what was acknowledged or
//! shown, what was cut off or given up, and compares that with what is delivered later.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use seawall_format::SegmentId;

use crate::given_up::{Disk, GivenUp, Open};
use crate::plan::Keep;
use crate::world::to_u64;

/// The bytes of a record.
pub(crate) type Payload = Vec<u8>;

/// What was promised so far.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Ledger {
    /// Records whose number was returned by a call, or shown by a reader.
    known: BTreeMap<u64, Known>,
    /// Those that were cut off in this life: a reader that started before may still deliver them.
    gone: Vec<Gone>,
    /// Those of the lives before: what a cut took stays on the disk, hidden by what was made since.
    gone_before: Vec<Gone>,
    /// Those that opens did not find any more.
    given_up: GivenUp,
    /// Truncations that happened in this life: when, and after which record.
    past_cuts: Vec<(Moment, u64)>,
    /// Sets with their first and last number, those of several records only.
    sets: Vec<(u64, u64)>,
    /// Appended, and nothing was promised.
    flying: Vec<Flying>,
    /// Counts what happens.
    moment: Moment,
    /// Up to here everything is promised to survive.
    pub(crate) durable: u64,
    /// Calls returned up to here. Other readers may have been shown more.
    acknowledged: u64,
    /// Up to here no single fault may hide a record.
    pub(crate) confirmed: u64,
    /// A cut after this record was asked for, and whether it came to pass is not known.
    cutting: Option<u64>,
    /// The highest segment when the last cut began.
    cut_in: Option<SegmentId>,
    /// What the disk said at each open of a damaged log since one returned.
    disks: Vec<Disk>,
    /// The log begins here at least, or further on.
    first_min: u64,
    /// And no further than here.
    first_max: u64,
    /// Where the newest checkpoint may be.
    pub(crate) checkpoints: Vec<u64>,
    /// Numbers whose records are lost and given up, knowingly.
    holes: BTreeSet<u64>,
    /// Whether the log gives up records by itself.
    pub(crate) keeps_less: bool,
    /// Whether it may give up any but the newest.
    pub(crate) is_ring: bool,
    /// How many cuts began so far.
    cuts: u64,
    /// A device was damaged: what is missing is excused if nothing that is left speaks of it.
    pub(crate) damaged: bool,
    /// Whether a torn write lies at the end that could also be damage, until the next open.
    pub(crate) may_be_unsure: bool,
    /// Whether it was ever opened.
    pub(crate) is_born: bool,
}

/// A point between two things that happened.
pub(crate) type Moment = u64;

/// A record with its number.
#[derive(Clone, Debug)]
struct Known {
    payload: Payload,
    /// When it was handed over.
    since: Moment,
}

/// One that was cut off.
#[derive(Clone, Debug)]
struct Gone {
    /// `None` if its number was neither returned nor shown.
    lsn: Option<u64>,
    payload: Payload,
    stood: Stood,
    /// The highest segment when the cut began that took it.
    segment: Option<SegmentId>,
}

/// When a record stood in the log: from when it was handed over until the cut that took it
/// returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stood {
    from: Moment,
    until: Moment,
}

impl Stood {
    /// For all that is known.
    const ALWAYS: Self = Self { from: 0, until: Moment::MAX };

    /// Whether there was a moment at which both stood there.
    pub(crate) fn together(self, other: Self) -> bool {
        self.from < other.until && other.from < self.until
    }
}

#[derive(Clone, Debug)]
struct Flying {
    /// When it was handed over; no two have the same.
    turn: Moment,
    payloads: Vec<Payload>,
    /// Its first number, if a reader saw it.
    first: Option<u64>,
}

/// Records that are shorter may be equal, in bytes.
const NAMED_MIN: usize = 12;

/// A record that was delivered.
pub(crate) type Delivered<'a> = (u64, &'a [u8]);

type Judged = Result<(), String>;

impl Ledger {
    /// A life begins, in which the log keeps so much.
    pub(crate) fn begin(&mut self, keep: Keep) {
        self.keeps_less = keep != Keep::All;
        self.is_ring |= matches!(keep, Keep::Ring(_));
        if self.keeps_less {
            self.first_max = self.checkpoints.iter().copied().fold(self.first_max, u64::max);
        }
    }

    /// What cannot be lost by a single fault that leaves evidence up to `bound`.
    pub(crate) fn sure(&self, bound: u64) -> u64 {
        let sure = self.durable.min(bound.max(self.confirmed));
        // A cut that was under way may have come to pass.
        self.cutting.map_or(sure, |cut| sure.min(cut))
    }

    /// A call returned that promises everything up to `lsn`.
    pub(crate) fn acknowledge(&mut self, lsn: u64) -> Judged {
        self.acknowledged = self.acknowledged.max(lsn);
        self.promise(lsn)
    }

    /// This moment, for a reader that starts: it is passed to [`Ledger::shown`].
    pub(crate) fn now(&self) -> Moment {
        self.moment
    }

    /// Up to which record calls returned.
    pub(crate) fn acknowledged(&self) -> u64 {
        // While a cut is under way it may have come to pass.
        let acknowledged = self.acknowledged.min(self.durable);
        self.cutting.map_or(acknowledged, |cut| cut.min(acknowledged))
    }

    /// What of the records up to `lsn` no cut took since that moment, and none may have taken.
    pub(crate) fn left_since(&self, since: Moment, lsn: u64) -> u64 {
        let cuts = self.past_cuts.iter().filter(|(moment, _)| *moment > since);
        cuts.map(|(_, cut)| *cut).chain(self.cutting).fold(lsn, u64::min)
    }

    /// How many cuts began so far.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Whether a cut is under way, or was left half done.
    pub(crate) fn is_cutting(&self) -> bool {
        self.cutting.is_some()
    }

    /// Records are appended; the returned value names them until they are acknowledged.
    pub(crate) fn hand_over(&mut self, payloads: Vec<Payload>) -> u64 {
        self.moment += 1;
        self.flying.push(Flying { turn: self.moment, payloads, first: None });
        self.moment
    }

    /// They were refused: the log does not have them.
    pub(crate) fn refused(&mut self, turn: u64) -> Judged {
        let place = self.flying.iter().position(|set| set.turn == turn);
        let gone = place.map(|place| self.flying.remove(place));
        match gone.and_then(|set| set.first) {
            Some(first) => Err(format!("record {first} was shown, and then refused")),
            None => Ok(()),
        }
    }

    /// They have these numbers; `payload` is the first of them.
    pub(crate) fn numbered(&mut self, turn: u64, (first, payload): Delivered<'_>) -> Judged {
        let Some(set) = self.flying.iter_mut().find(|set| set.turn == turn) else {
            // It was shown already, or truncated since.
            return self.known.get(&first).map_or(Ok(()), |known| known.is(first, payload));
        };
        match set.first.replace(first) {
            Some(other) if other != first => {
                Err(format!("a record was shown as {other} and is now {first}"))
            }
            _ => Ok(()),
        }
    }

    /// Everything up to `lsn` is promised to survive; what is numbered up to there is known.
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

    fn learn(&mut self, set: Flying) -> Judged {
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

    /// A record was delivered to a reader that started, or last looked at the log's end, at the
    /// moment `since`: it must be one that was there at some time since then, and if it is there
    /// now, it is promised from here on.
    pub(crate) fn shown(
        &mut self,
        (lsn, payload): Delivered<'_>,
        since: Moment,
    ) -> Result<Stood, String> {
        let known = self.known.get(&lsn);
        if let Some(known) = known.filter(|known| known.payload == payload) {
            // Another that is as short may have stood there before.
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

    /// The log was given up, and a new one begins.
    pub(crate) fn start_over(&mut self) {
        *self = Self { moment: self.moment, cuts: self.cuts, ..Self::default() };
    }

    /// The log was closed: all that was handed over is durable.
    pub(crate) fn closed(&mut self) {
        self.confirmed = self.durable;
    }

    /// Finds the unacknowledged set that a record is from.
    fn recognise(&mut self, (lsn, payload): Delivered<'_>) -> Result<Stood, String> {
        if payload.len() < NAMED_MIN
            && self.flying.iter().any(|set| set.payloads.iter().any(|own| own == payload))
        {
            // It is too short to say which one it is.
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

    /// A damaged log is opened. If that open does not return, the next one finds what it made of
    /// what came back.
    pub(crate) fn saw(&mut self, disk: Disk) {
        self.disks.push(disk);
    }

    /// What the log delivers after it was opened, in order, is all there is from now on.
    ///
    /// `excused` says which missing records nothing that is left speaks of.
    pub(crate) fn opened(
        &mut self,
        found: &[(u64, Payload)],
        ((first, last), excused): ((u64, u64), &dyn Fn(u64) -> bool),
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
            // With more than the cut left it did not come to pass: damage took what is missing.
            if last <= cut {
                self.cut(cut);
            }
        }
        let max = if self.is_ring { u64::MAX } else { self.first_max.max(1) };
        if !self.damaged && !(self.first_min..=max).contains(&first) {
            let min = self.first_min;
            return Err(format!("the log begins with {first}, not from {min} to {max}"));
        }
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
                // A device that lied about a cut may bring back what that took.
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

    /// Whether a cut of the life before took this record.
    fn was_cut(&self, lsn: u64, payload: &Payload) -> bool {
        self.gone.iter().any(|gone| gone.is(lsn, payload))
    }

    /// Whether a cut or an open of whichever life took this record, and nothing on the disk says
    /// so. A cut made a segment, and what was written since went to that or later ones.
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
        // The readers of the life before are gone, too.
        self.gone_before.append(&mut self.gone);
        self.past_cuts.clear();
        self.holes = (first..=last).filter(|lsn| !self.known.contains_key(lsn)).collect();
        self.flying.clear();
        self.may_be_unsure = false;
        (self.durable, self.acknowledged, self.confirmed) = (last, last, last);
        self.first_min = first;
        self.first_max = self.first_max.max(first);
    }

    /// Notes what is known or was on its way, and is not among the numbers that are left.
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

    /// Everything up to `lsn` is confirmed.
    pub(crate) fn confirm(&mut self, lsn: u64) {
        self.confirmed = self.confirmed.max(lsn.min(self.durable));
    }

    /// A cut after `lsn` begins, with that one the highest segment.
    pub(crate) fn begin_cut(&mut self, lsn: u64, highest: Option<SegmentId>) {
        self.cuts += 1;
        self.cutting = Some(lsn);
        self.cut_in = highest;
    }

    /// It was refused: all is as it was.
    pub(crate) fn cut_refused(&mut self) {
        self.cutting = None;
    }

    /// It is done: what it took never comes back.
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
        self.sets.retain(|(_, to)| *to <= lsn);
        // What was handed over and has no answer was written before it, or fails.
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

    /// Records before `lsn` may go from now on.
    pub(crate) fn may_prune(&mut self, lsn: u64) {
        self.first_max = self.first_max.max(lsn);
    }

    /// A checkpoint came to be.
    pub(crate) fn checkpointed(&mut self, lsn: u64) {
        self.checkpoints = vec![lsn];
    }

    /// A checkpoint is asked for; a log that keeps less than everything may give up what stands
    /// before it.
    pub(crate) fn begin_checkpoint(&mut self, lsn: u64) {
        self.checkpoints.push(lsn);
        if self.keeps_less {
            self.first_max = self.first_max.max(lsn);
        }
    }

    /// Whether a record between others is known to be lost.
    pub(crate) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Records before `lsn` are gone for good.
    pub(crate) fn pruned(&mut self, lsn: u64) -> Judged {
        if lsn > self.first_max.max(1) && !self.is_ring {
            return Err(format!("the log begins with {lsn}; up to {} may go", self.first_max));
        }
        self.first_min = self.first_min.max(lsn);
        Ok(())
    }

    /// Whether all before that record may be gone.
    pub(crate) fn may_begin_with(&self, lsn: u64) -> bool {
        self.is_ring || lsn <= self.first_max
    }

    /// Whether records at the start may be gone.
    pub(crate) fn may_begin_later(&self) -> bool {
        self.first_max > 1 || self.keeps_less || self.is_ring
    }

    /// The content of record `lsn`, if it was promised.
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

/// A payload in short.
fn name(payload: &[u8]) -> String {
    let mut text = format!("{} bytes ", payload.len());
    for byte in payload.iter().take(20) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
