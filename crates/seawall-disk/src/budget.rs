//! How many bytes may be acknowledged before they are on the device: as many as can still be
//! written to it after the power fails.

use std::fmt;
use std::time::Duration;

/// How long a calibration is valid.
const FRESH: Duration = Duration::from_secs(3600);
/// How long to wait before a device that was too slow is measured again.
const AGAIN: Duration = Duration::from_secs(10);
/// How many runs share the first flush.
const RUNS_FIRST: usize = 8;
/// How many runs share a flush of a device that does not seek.
const RUNS_MAX: usize = 1024;

/// The power source of the machine, as its monitor describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// How long the machine keeps running after the power has failed; 10 ms unless it was measured
    /// on this machine.
    pub hold_up: Duration,
    /// How long it takes until this process learns of the failure.
    pub detection: Duration,
    /// Whether the monitor of the power source reports it as healthy.
    pub is_healthy: bool,
}

/// A measurement of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The longest flush.
    pub flush_worst: Duration,
    /// The bandwidth of one sequential write, in bytes a second.
    pub bandwidth: u64,
    /// The time of the measurement.
    pub at: Duration,
}

/// Why no write may be acknowledged early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disarmed {
    /// The device was never measured.
    NeverCalibrated,
    /// The last measurement is too old.
    Stale,
    /// The power source is not healthy, or its state is unknown.
    PowerSource,
    /// The hold-up time does not suffice for the flush in progress and one more.
    HoldUp,
    /// The device failed.
    Device,
    /// The power is failing: everything is being written.
    Emergency,
    /// An operator disarmed the disk.
    ByHand,
}

/// All reasons, the most important first.
const REASONS: [Disarmed; 7] = [
    Disarmed::Emergency,
    Disarmed::Device,
    Disarmed::ByHand,
    Disarmed::PowerSource,
    Disarmed::NeverCalibrated,
    Disarmed::Stale,
    Disarmed::HoldUp,
];

impl fmt::Display for Disarmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverCalibrated => "the device was not measured yet",
            Self::Stale => "the device was measured too long ago",
            Self::PowerSource => "the power source is not known to be well",
            Self::HoldUp => "the power would fail before the device has flushed twice",
            Self::Device => "the device failed",
            Self::Emergency => "the power fails",
            Self::ByHand => "by hand",
        })
    }
}

/// Decides how many bytes may be acknowledged early.
///
/// # Examples
///
/// ```
/// use seawall_disk::{Budget, Calibration, Disarmed, Supply};
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let supply = Supply { hold_up: ms(10), detection: ms(1), is_healthy: true };
/// let mut budget = Budget::new(supply);
/// assert_eq!(budget.capacity(ms(0)), Err(Disarmed::NeverCalibrated));
///
/// // 100 MB a second, and no flush took longer than 2 ms: (10 - 1 - 2 x 2) ms x 100 MB/s / 2.
/// budget.calibrated(Calibration { flush_worst: ms(2), bandwidth: 100_000_000, at: ms(0) });
/// assert_eq!(budget.capacity(ms(0)), Ok(250_000));
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    supply: Supply,
    /// When the state of the power source is too old to be relied on.
    expires_at: Duration,
    calibration: Option<Calibration>,
    /// The measurement that a new one replaces. It counts for what was acknowledged before.
    old: Option<Calibration>,
    /// The longest flush of the calibration itself.
    flush_alone: Duration,
    /// The most runs to write before a flush.
    runs_max: usize,
    /// When the flush in progress started.
    flushing_since: Option<Duration>,
    /// Which reasons apply until they are withdrawn. Each is recorded on its own, so that one does
    /// not hide another.
    held: [bool; REASONS.len()],
}

impl Budget {
    /// Returns a budget without capacity until the device [is measured](Budget::calibrated).
    #[must_use]
    pub fn new(supply: Supply) -> Self {
        let (calibration, old, flushing_since, flush_alone) = (None, None, None, Duration::ZERO);
        let (expires_at, runs_max, held) = (Duration::MAX, RUNS_FIRST, [false; REASONS.len()]);
        Self { supply, expires_at, calibration, old, flush_alone, runs_max, flushing_since, held }
    }

    /// The number of bytes that may be dirty and acknowledged, with what a dump adds to each run:
    /// (hold-up - detection - 2 x the worst flush) x bandwidth / 2.
    ///
    /// Two flushes are subtracted because one may be in progress, and it must end first. The
    /// bandwidth is halved because an emergency may be slower than the measurement. A flush in
    /// progress counts with its time so far, so that a flush that never ends is noticed.
    ///
    /// # Errors
    ///
    /// The reason why no byte may be acknowledged early.
    pub fn capacity(&self, now: Duration) -> Result<u64, Disarmed> {
        if let Some(held) = self.held() {
            return Err(held);
        }
        if !self.supply.is_healthy || self.expires_at <= now {
            return Err(Disarmed::PowerSource);
        }
        let Calibration { flush_worst, bandwidth, at } =
            self.calibration.ok_or(Disarmed::NeverCalibrated)?;
        if now.saturating_sub(at) > FRESH {
            return Err(Disarmed::Stale);
        }
        let under_way = self.flushing_since.map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let worst = flush_worst.max(under_way);
        let spent = self.supply.detection.saturating_add(worst.saturating_mul(2));
        let left = self.supply.hold_up.saturating_sub(spent);
        let bytes = left.as_nanos() * u128::from(bandwidth) / 2 / 1_000_000_000;
        match u64::try_from(bytes).unwrap_or(u64::MAX) {
            0 => Err(Disarmed::HoldUp),
            bytes => Ok(bytes),
        }
    }

    /// The size of a dump for which the power holds: the [capacity](Budget::capacity), but also
    /// during a measurement and after [`Disarmed::ByHand`]. In an emergency it no longer matters.
    pub(crate) fn covered(&self, now: Duration) -> u64 {
        let mut armed = self.clone();
        armed.hold(Disarmed::ByHand, false);
        armed.calibration = armed.calibration.or(armed.old);
        match armed.capacity(now) {
            Err(Disarmed::Emergency) => u64::MAX,
            capacity => capacity.unwrap_or_default(),
        }
    }

    /// Returns whether a dump of `size` bytes is within the [capacity](Budget::capacity).
    #[must_use]
    pub fn covers(&self, size: usize, now: Duration) -> bool {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        self.capacity(now).is_ok_and(|capacity| size <= capacity)
    }

    /// Returns whether the device should be measured: it never was, the measurement has reached
    /// half of its validity, or a slow flush left nothing of the hold-up time and the measurement
    /// is at least ten seconds old.
    #[must_use]
    pub fn wants_calibration(&self, now: Duration) -> bool {
        let age = self.calibration.map_or(FRESH, |found| now.saturating_sub(found.at));
        match self.capacity(now) {
            Err(Disarmed::NeverCalibrated | Disarmed::Stale | Disarmed::HoldUp) => age >= AGAIN,
            Ok(_) => age >= FRESH / 2,
            Err(_) => false,
        }
    }

    /// The last measurement if it is still valid, with the longest flush since then.
    #[must_use]
    pub fn calibration(&self) -> Option<Calibration> {
        self.calibration
    }

    /// Returns the last recorded state of the power source.
    #[must_use]
    pub fn supply(&self) -> Supply {
        self.supply
    }

    /// Returns whether the power is failing. That state is final.
    #[must_use]
    pub fn is_emergency(&self) -> bool {
        self.held() == Some(Disarmed::Emergency)
    }

    /// Discards the measurement, except for what was acknowledged before.
    pub fn forget_calibration(&mut self) {
        self.old = self.calibration.take().or(self.old);
    }

    /// Records a measurement of the device.
    pub fn calibrated(&mut self, calibration: Calibration) {
        self.flush_alone = calibration.flush_worst;
        self.calibration = Some(calibration);
    }

    /// Records that the device now receives bytes and then a flush.
    pub fn flush_begins(&mut self, now: Duration) {
        self.flushing_since = Some(now);
    }

    /// Records that the flush has ended, successfully or not.
    pub fn flush_ends(&mut self) {
        self.flushing_since = None;
    }

    /// Records how long it took to write and flush `runs` runs. Raises the worst flush if `time` is
    /// longer.
    pub fn flushed(&mut self, time: Duration, runs: usize) {
        for found in self.calibration.iter_mut().chain(&mut self.old) {
            found.flush_worst = found.flush_worst.max(time);
        }
        let long = (self.supply.hold_up / 4).max(self.flush_alone * 2);
        if time > long {
            self.runs_max = (runs / 2).max(1);
        } else if runs >= self.runs_max && time < long * 3 / 4 {
            self.runs_max = (self.runs_max * 2).min(RUNS_MAX);
        }
    }

    /// Returns the most runs to write before a flush for which a dump may have to wait. A device
    /// that seeks takes time for each run, and a long flush leaves less of the hold-up time. So the
    /// limit is halved after a flush that took longer than both a quarter of the hold-up time and
    /// two flushes of the calibration, and doubled after shorter ones.
    #[must_use]
    pub fn runs_max(&self) -> usize {
        self.runs_max
    }

    /// Records the state of the power source. It counts until the next one.
    pub fn supplied(&mut self, supply: Supply) {
        self.supplied_until(supply, Duration::MAX);
    }

    /// Records the state of the power source as its monitor reports it. From `expires_at` on no
    /// byte may be acknowledged early, so that a monitor that hangs is noticed.
    pub fn supplied_until(&mut self, supply: Supply, expires_at: Duration) {
        (self.supply, self.expires_at) = (supply, expires_at);
    }

    /// When the state of the power source expires; [`Duration::MAX`] if it never does or already
    /// has.
    pub(crate) fn expires_at(&self, now: Duration) -> Duration {
        if now < self.expires_at { self.expires_at } else { Duration::MAX }
    }

    /// Forbids early acknowledgement until this reason is [withdrawn](Budget::rearm).
    pub fn disarm(&mut self, why: Disarmed) {
        self.hold(why, true);
    }

    /// Withdraws a reason that was given to [`disarm`](Budget::disarm); other reasons stay. The
    /// device must be measured again before anything is acknowledged early. An emergency cannot be
    /// withdrawn.
    pub fn rearm(&mut self, why: Disarmed) {
        if why != Disarmed::Emergency && self.hold(why, false) {
            (self.calibration, self.old) = (None, None);
        }
    }

    /// The most important reason that applies.
    fn held(&self) -> Option<Disarmed> {
        let mut held = REASONS.iter().zip(self.held).filter(|(_, is_held)| *is_held);
        held.next().map(|(why, _)| *why)
    }

    /// Sets whether a reason applies; returns whether it did before.
    fn hold(&mut self, why: Disarmed, is_held: bool) -> bool {
        let mut slots = REASONS.iter().zip(&mut self.held);
        let slot = slots.find(|(each, _)| **each == why);
        slot.is_some_and(|(_, slot)| std::mem::replace(slot, is_held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const SUPPLY: Supply = Supply { hold_up: ms(10), detection: ms(1), is_healthy: true };
    const MEASURED: Calibration =
        Calibration { flush_worst: ms(1), bandwidth: 1_000_000_000, at: ms(0) };

    fn armed() -> Budget {
        let mut budget = Budget::new(SUPPLY);
        budget.calibrated(MEASURED);
        budget
    }

    #[test]
    fn budget_is_what_fits_into_the_hold_up() {
        let budget = armed();
        assert_eq!(budget.capacity(ms(0)), Ok(3_500_000));
        assert!(budget.covers(3_500_000, ms(0)) && !budget.covers(3_500_001, ms(0)));
    }

    /// In an emergency, one disk after the other finishes its flush, writes its dump and flushes.
    #[test]
    fn disks_with_a_share_of_the_hold_up_each_are_dumped_within_it() {
        for (count, flush_worst, bandwidth) in [(2, 1, 50_000_000), (3, 7, 1_000_000_000)] {
            let hold_up = ms(150);
            let mut budget = Budget::new(Supply { hold_up: hold_up / count, ..SUPPLY });
            budget.calibrated(Calibration { flush_worst: ms(flush_worst), bandwidth, at: ms(0) });
            let dump = budget.capacity(ms(0)).unwrap() * 2 * 1_000_000_000 / bandwidth;
            let each = ms(2 * flush_worst) + Duration::from_nanos(dump);
            assert!(SUPPLY.detection + each * count <= hold_up, "{count} disks");
        }
    }

    #[test]
    fn unknown_or_failed_power_disarms() {
        let mut budget = armed();
        assert_eq!(budget.capacity(FRESH + ms(1)), Err(Disarmed::Stale));
        budget.supplied(Supply { is_healthy: false, ..SUPPLY });
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::PowerSource));
        assert!(!budget.covers(0, ms(0)));
        budget.supplied(SUPPLY);
        budget.flushed(ms(5), 1);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::HoldUp));
    }

    /// The monitor hangs after its last answer.
    #[test]
    fn old_state_of_the_power_source_disarms() {
        let mut budget = armed();
        budget.supplied_until(SUPPLY, ms(700));
        assert_eq!(budget.capacity(ms(699)), Ok(3_500_000));
        assert_eq!(budget.capacity(ms(700)), Err(Disarmed::PowerSource));
        assert!(!budget.covers(0, ms(700)) && !budget.wants_calibration(FRESH));
        assert_eq!(budget.expires_at(ms(699)), ms(700));
        assert_eq!(budget.expires_at(ms(700)), Duration::MAX);
        budget.supplied_until(SUPPLY, ms(1400));
        assert_eq!(budget.capacity(ms(1399)), Ok(3_500_000));
        budget.supplied(SUPPLY);
        assert_eq!(budget.capacity(FRESH), Ok(3_500_000));
    }

    #[test]
    fn device_is_measured_again_only_if_it_can_matter() {
        let mut budget = Budget::new(SUPPLY);
        assert!(budget.wants_calibration(ms(0)));
        budget.calibrated(MEASURED);
        assert!(!budget.wants_calibration(FRESH / 2 - ms(1)));
        assert!(budget.wants_calibration(FRESH / 2));
        budget.flushed(ms(50), 1);
        assert_eq!(budget.capacity(ms(1)), Err(Disarmed::HoldUp));
        assert!(!budget.wants_calibration(AGAIN - ms(1)) && budget.wants_calibration(AGAIN));
        budget.supplied(Supply { is_healthy: false, ..SUPPLY });
        assert!(!budget.wants_calibration(AGAIN));
        budget.supplied(SUPPLY);
        budget.disarm(Disarmed::ByHand);
        assert!(!budget.wants_calibration(AGAIN));
    }

    #[test]
    fn slow_flush_reduces_the_budget_afterwards() {
        let mut budget = armed();
        budget.flushed(ms(3), 1);
        budget.flushed(ms(1), 1);
        assert_eq!(budget.capacity(ms(0)), Ok(1_500_000));
    }

    /// Each seek takes 5 ms, and a flush 8 ms.
    #[test]
    fn device_that_seeks_gets_fewer_runs_before_a_flush() {
        let mut budget = Budget::new(Supply { hold_up: ms(150), ..SUPPLY });
        budget.calibrated(Calibration { flush_worst: ms(8), ..MEASURED });
        let mut long = 0;
        for _ in 0..100 {
            let runs = budget.runs_max().min(256);
            let time = ms(8 + 5 * u64::try_from(runs).unwrap());
            assert!(time < ms(75), "{runs} runs");
            long += u32::from(time > ms(150) / 4);
            budget.flushed(time, runs);
        }
        assert!(long <= 51, "{long} long flushes");
        for _ in 0..100 {
            let runs = budget.runs_max().min(256);
            budget.flushed(ms(9), runs);
        }
        assert!(budget.runs_max() >= 256, "a device that does not seek");
    }

    #[test]
    fn flush_in_progress_counts_with_its_time_so_far() {
        let mut budget = armed();
        budget.flush_begins(ms(100));
        assert_eq!(budget.capacity(ms(101)), Ok(3_500_000));
        assert_eq!(budget.capacity(ms(103)), Ok(1_500_000));
        assert_eq!(budget.capacity(ms(105)), Err(Disarmed::HoldUp));
        budget.flush_ends();
        assert_eq!(budget.capacity(ms(105)), Ok(3_500_000));
    }

    #[test]
    fn failed_device_is_measured_again_and_an_emergency_remains() {
        let mut budget = armed();
        budget.disarm(Disarmed::Device);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::Device));
        budget.rearm(Disarmed::ByHand);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::Device));
        budget.rearm(Disarmed::Device);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::NeverCalibrated));
        budget.calibrated(MEASURED);
        budget.disarm(Disarmed::Emergency);
        budget.disarm(Disarmed::ByHand);
        budget.rearm(Disarmed::ByHand);
        budget.rearm(Disarmed::Emergency);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::Emergency));
    }

    #[test]
    fn arming_by_hand_does_not_clear_a_device_failure() {
        let mut budget = armed();
        budget.disarm(Disarmed::Device);
        budget.disarm(Disarmed::ByHand);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::Device));
        budget.rearm(Disarmed::ByHand);
        budget.calibrated(MEASURED);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::Device));
        // The same with the two reasons exchanged.
        budget.disarm(Disarmed::ByHand);
        budget.rearm(Disarmed::Device);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::ByHand));
        for why in REASONS {
            let mut budget = armed();
            budget.disarm(why);
            assert_eq!(budget.capacity(ms(0)), Err(why));
        }
    }
}
