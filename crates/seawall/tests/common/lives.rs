//! Lives of a log: a workload that tracks what was acknowledged, and a check of the device after
//! it.

use std::ops::RangeInclusive;

use super::sample::Sample;
use super::{
    Bytes, Found, Random, again, judge, laid_out, names, open, payload_in, read, read_from,
};
use seawall::recovery::TailState;
use seawall::verify::Verdict;
use seawall::{Error, Layout, Level, Lsn, Result};
use seawall_io::Storage;
use seawall_testkit::{MemStorage, Pending};

/// One call of a workload. Numbers are record sizes.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Append(usize),
    Set(&'static [usize]),
    Confirm,
    Reopen,
    /// Removes all segments but the newest.
    Prune,
}

/// One process's use of a log: the records it wrote and the promises it got.
#[derive(Debug)]
pub struct Life {
    pub device: MemStorage,
    pub layout: Layout,
    /// All records that may be stored: those shown at the last open, then those written since.
    pub submitted: Vec<Vec<u8>>,
    pub sets: Vec<RangeInclusive<u64>>,
    /// The last record that was acknowledged, or shown.
    pub acknowledged: u64,
    /// The last record after whose acknowledgement the device still worked. If the device stops at
    /// the write of `live`, a record is durable but readers do not see it yet.
    pub told: u64,
    pub confirmed: u64,
    pub number: u64,
    /// The last record that may have been pruned.
    pub pruned: u64,
    /// The error that ended the life early.
    pub error: Option<Error>,
    /// Whether the life ended during an append.
    pub appending: bool,
}

impl Life {
    /// Returns a life before anything is written.
    pub fn unborn(layout: Layout) -> Self {
        Self {
            device: MemStorage::new(),
            layout,
            submitted: vec![],
            sets: vec![],
            acknowledged: 0,
            told: 0,
            confirmed: 0,
            number: 0,
            pruned: 0,
            error: None,
            appending: false,
        }
    }
}

/// Opens the log on `device` as the life after `before`, and runs `acts` until an error.
pub fn live(device: &MemStorage, acts: &[Act], level: Level, before: &Life) -> Life {
    let mut life = Life {
        device: device.clone(),
        submitted: before.submitted.clone(),
        sets: before.sets.clone(),
        number: before.number + 1,
        error: None,
        ..*before
    };
    life.appending = false;
    if let Err(error) = life.act(acts, level) {
        life.error = Some(error);
    }
    life
}

impl Life {
    fn act(&mut self, acts: &[Act], level: Level) -> Result<()> {
        let mut log = self.open(level)?;
        for act in acts {
            match act {
                Act::Append(size) => self.append(&log, &[*size], level)?,
                Act::Set(sizes) => self.append(&log, sizes, level)?,
                Act::Confirm => {
                    log.confirm()?;
                    self.confirmed = self.acknowledged;
                }
                Act::Reopen => {
                    log.close()?;
                    log = self.open(level)?;
                }
                Act::Prune => {
                    self.pruned = self.acknowledged;
                    log.truncate_before(super::lsn(self.acknowledged + 1))?;
                }
            }
        }
        // The drop of a dying process writes nothing more.
        self.device.stop_after(self.device.steps());
        drop(log);
        self.device.stop_after(u64::MAX);
        Ok(())
    }

    fn open(&mut self, level: Level) -> Result<Bytes> {
        let options = again((self.number << 16) + self.device.steps() + 1);
        let log = open(&laid_out(options, self.layout).level(level), &self.device)?;
        let shown = Found::take(log.read_from(log.oldest())?)?;
        assert!(shown.follows(self.pruned), "{shown:?}");
        let end = shown.end().unwrap_or(self.pruned);
        assert!(end >= self.acknowledged, "{shown:?}");
        self.submitted.truncate(usize::try_from(end).unwrap());
        self.are_as_submitted(&shown, "at open");
        self.acknowledged = super::lsn_count(&self.submitted);
        self.sets.retain(|set| *set.end() <= self.acknowledged);
        Ok(log)
    }

    fn are_as_submitted(&self, shown: &Found, what: &str) {
        for (lsn, found) in &shown.records {
            let written = &self.submitted[usize::try_from(*lsn).unwrap() - 1];
            assert!(found == written, "{what}: record {lsn} is not what was written");
        }
    }

    fn append(&mut self, log: &Bytes, sizes: &[usize], level: Level) -> Result<()> {
        let first = self.acknowledged + 1;
        let numbered = (first..).zip(sizes);
        let set: Vec<_> = numbered
            .map(|(lsn, size)| payload_in(self.layout, (lsn, self.number), *size))
            .collect();
        let last = self.acknowledged + super::lsn_count(&set);
        self.submitted.extend(set.iter().cloned());
        self.sets.push(first..=last);
        self.appending = true;
        let lsns = log.append_batch(set.iter().map(Vec::as_slice))?;
        self.appending = false;
        assert_eq!((lsns.start().get(), lsns.end().get()), (first, last));
        self.acknowledged = last;
        if self.device.list().is_ok() {
            self.told = last;
        }
        if level == Level::Confirmed {
            self.confirmed = last;
        }
        Ok(())
    }
}

/// Returns the possible states after a power cut now: every choice of the pending items, or a
/// random sample of `max` choices if there are more. `live` is lost, except in one extra state that
/// keeps everything.
pub fn cuts(device: &MemStorage, seed: u64, max: u64) -> Vec<(u64, MemStorage)> {
    let is_choice = |item: &Pending| item.file != "live";
    let count = device.pending().iter().filter(|item| is_choice(item)).count();
    let all = if count < 64 { (1_u64 << count) - 1 } else { u64::MAX };
    let masks: Vec<u64> = if all < max {
        (0..=all).collect()
    } else {
        let lot = Random::new(seed).map(|mask| mask & all);
        [0, all].into_iter().chain(lot).take(usize::try_from(max).unwrap()).collect()
    };
    let cut = |mask: u64| {
        let mut index = 0;
        device.power_cut(|item| {
            let kept = is_choice(item) && mask >> (index % 64) & 1 == 1;
            index += u32::from(is_choice(item));
            kept
        })
    };
    let with_live = (u64::MAX, device.power_cut(|_| true));
    masks.into_iter().map(|mask| (mask, cut(mask))).chain([with_live]).collect()
}

/// Faults besides crashes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Faults {
    None,
    /// A sync failed, so the page cache may have shown data that the disk had lost.
    FailedSync,
}

/// The number of states checked, by verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub states: u64,
    pub clean: u64,
    pub torn: u64,
    pub unsure: u64,
}

impl Tally {
    pub fn add(&mut self, verdict: Verdict) {
        self.states += 1;
        match verdict {
            Verdict::Clean => self.clean += 1,
            Verdict::Torn => self.torn += 1,
            _ => self.unsure += 1,
        }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.states += other.states;
        self.clean += other.clean;
        self.torn += other.torn;
        self.unsure += other.unsure;
    }
}

/// Verifies and recovers `left`, the state after a crash, and compares it with the promises of
/// `life`.
pub fn check(life: &Life, left: &MemStorage, faults: Faults, what: &str) -> Verdict {
    let before = judge(left);
    let verdict = match &before {
        Ok(found) => found.verdict,
        Err(Error::NotALog { .. }) if life.acknowledged == 0 => Verdict::Clean,
        Err(error) => panic!("{what}: {error}"),
    };
    let sound = matches!(verdict, Verdict::Clean | Verdict::Torn)
        || (faults == Faults::FailedSync && verdict == Verdict::Unsure);
    assert!(sound, "{what}: a crash alone is no damage: {before:#?}");
    let device = left.kill();
    let log = match open(&laid_out(again(1 << 30), life.layout), &device) {
        Ok(log) => log,
        Err(error) => panic!("{what}: {error}"),
    };
    let unsure = log.recovery().tail == TailState::Ambiguous;
    assert!(!unsure || faults == Faults::FailedSync, "{what}");
    let shown = Found::take(log.read_from(log.oldest()).unwrap()).unwrap();
    compare(life, &shown, what);
    let end = shown.end().unwrap_or(life.pruned);
    assert_eq!(log.recovery().last.map_or(0, Lsn::get), end, "{what}");
    if let Ok(found) = before {
        assert_eq!(found.records, shown.count(), "{what}: verify saw what open shows");
    }
    verdict
}

fn compare(life: &Life, shown: &Found, what: &str) {
    assert!(shown.follows(life.pruned), "{what}: {:?}", shown.records.keys());
    let count = shown.end().unwrap_or(life.pruned);
    assert!(count >= life.acknowledged, "{what}: {count} of {} are there", life.acknowledged);
    assert!(count <= super::lsn_count(&life.submitted), "{what}: more than was written");
    life.are_as_submitted(shown, what);
    let halved = life.sets.iter().find(|set| *set.start() <= count && *set.end() > count);
    assert!(halved.is_none(), "{what}: {count} records end within the set {halved:?}");
}

/// Damages one run at a time, at every sector of every file, and removes each file once: no record
/// up to `confirmed` is ever silently missing. Returns the number of faults.
pub fn each_run(device: &MemStorage, life: &Life, sample: &mut Sample, what: &str) -> u64 {
    let promised = (life.pruned + 1..=life.confirmed, &*life.submitted);
    let reach = usize::try_from(super::GEOMETRY.reach).unwrap();
    let mut faults = 0;
    for file in device.names() {
        let length = device.bytes(&file).unwrap().len();
        for start in (0..length).step_by(512) {
            for (from, fill) in [(start, false), (start, true), (start + 200, true)] {
                if !sample.takes_next() {
                    continue;
                }
                let run = from.min(length)..(from + reach).min(length);
                let damaged = device.kill();
                damaged.edit(&file, |bytes| spoil(&mut bytes[run.clone()], fill));
                let what = || format!("{what}, {file}, {run:?}, garbage: {fill}");
                is_there_or_named(&damaged, &promised, &what);
                faults += 1;
            }
        }
        let damaged = device.kill();
        damaged.remove_raw(&file);
        is_there_or_named(&damaged, &promised, &|| format!("{what}, {file} lost"));
        faults += 1;
    }
    faults
}

fn spoil(bytes: &mut [u8], garbage: bool) {
    bytes.fill(0);
    if garbage {
        for (byte, random) in bytes.iter_mut().zip(Random::new(5)) {
            *byte = random.to_le_bytes()[0];
        }
    }
}

fn is_there_or_named(
    damaged: &MemStorage,
    (confirmed, written): &(RangeInclusive<u64>, &[Vec<u8>]),
    what: &dyn Fn() -> String,
) {
    let found = match judge(damaged) {
        Ok(found) => found,
        Err(Error::NotALog { .. }) if *confirmed.end() == 0 => return,
        Err(error) => panic!("{}: {error}", what()),
    };
    let delivered = match read(damaged, true) {
        Err(Error::Pruned { oldest, .. }) => read_from(damaged, oldest).unwrap(),
        read => read.unwrap(),
    };
    for lsn in confirmed.clone() {
        let written = &written[usize::try_from(lsn).unwrap() - 1];
        if let Some(payload) = delivered.records.get(&lsn) {
            assert!(payload == written, "{}: record {lsn}", what());
            continue;
        }
        let lost = || found.damage.iter().filter_map(|damage| damage.lost);
        let named = found.verdict == Verdict::Lost && lost().any(|lost| names(&lost, lsn));
        assert!(named, "{}: record {lsn} is silently missing: {found:#?}", what());
    }
}
