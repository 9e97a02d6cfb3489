//! How much may be acknowledged before it is on the device: as much as can still get there when the
//! power fails.

use std::fmt;
use std::time::Duration;

/// How long a calibration counts.
const FRESH: Duration = Duration::from_secs(3600);
/// How long a device that was too slow is left alone before it is measured again.
const AGAIN: Duration = Duration::from_secs(10);

/// What feeds the machine, and who tells when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// How long the machine runs on when the power has failed. Unless it was measured there: 10 ms.
    pub hold_up: Duration,
    /// How long it takes until that is known here.
    pub detection: Duration,
    /// Whether whoever watches the power source says that it is well.
    pub is_healthy: bool,
}

/// What was measured of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The longest flush.
    pub flush_worst: Duration,
    /// Bytes a second of one sequential write.
    pub bandwidth: u64,
    /// When.
    pub at: Duration,
}

/// Why nothing may be acknowledged early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disarmed {
    /// The device was never measured.
    NeverCalibrated,
    /// It was measured too long ago.
    Stale,
    /// The power source is not well, or nobody knows.
    PowerSource,
    /// The power holds for less than the flush under way and one more can take.
    HoldUp,
    /// The device failed.
    Device,
    /// The power fails: everything is being written.
    Emergency,
    /// Somebody asked for it.
    ByHand,
}

/// All of them, what weighs most first.
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

/// Decides what may be acknowledged early.
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
    calibration: Option<Calibration>,
    /// When the device was given what it flushes now.
    flushing_since: Option<Duration>,
    /// For each reason whether it stands until it is taken back: one does not make another one
    /// forgotten.
    held: [bool; REASONS.len()],
}

impl Budget {
    /// Nothing may be acknowledged early until the device [was measured](Budget::calibrated).
    #[must_use]
    pub fn new(supply: Supply) -> Self {
        let held = [false; REASONS.len()];
        Self { supply, calibration: None, flushing_since: None, held }
    }

    /// The bytes that may be dirty with all of them acknowledged:
    /// (hold-up - detection - 2 x the worst flush) x bandwidth / 2.
    ///
    /// Two flushes, as one may be under way that has to end first; half, as the bandwidth of an
    /// emergency is that of no measurement. A flush that is under way counts as long as it takes
    /// already: one that does not end is seen before it has ended.
    ///
    /// # Errors
    ///
    /// Why none may be.
    pub fn capacity(&self, now: Duration) -> Result<u64, Disarmed> {
        if let Some(held) = self.held() {
            return Err(held);
        }
        if !self.supply.is_healthy {
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

    /// Whether a write may be acknowledged when so many bytes are dirty with it.
    #[must_use]
    pub fn covers(&self, dirty: usize, now: Duration) -> bool {
        let dirty = u64::try_from(dirty).unwrap_or(u64::MAX);
        self.capacity(now).is_ok_and(|capacity| dirty <= capacity)
    }

    /// Whether it is time to measure the device: it never was, or half as long ago as a
    /// measurement counts, or a flush took so long that nothing is left of the hold-up, and that is
    /// a while ago.
    #[must_use]
    pub fn wants_calibration(&self, now: Duration) -> bool {
        if self.held().is_some() || !self.supply.is_healthy {
            return false;
        }
        let age = self.calibration.map(|calibration| now.saturating_sub(calibration.at));
        match (age, self.capacity(now)) {
            (None, _) => true,
            (Some(age), Err(_)) => age >= AGAIN,
            (Some(age), Ok(_)) => age >= FRESH / 2,
        }
    }

    /// What was measured, if that still counts, with the longest flush since then.
    #[must_use]
    pub fn calibration(&self) -> Option<Calibration> {
        self.calibration
    }

    /// What feeds the machine, as far as it is known.
    #[must_use]
    pub fn supply(&self) -> Supply {
        self.supply
    }

    /// Whether the power fails: that is never taken back.
    #[must_use]
    pub fn is_emergency(&self) -> bool {
        self.held() == Some(Disarmed::Emergency)
    }

    /// What was measured does not count any more.
    pub fn forget_calibration(&mut self) {
        self.calibration = None;
    }

    /// The device was measured.
    pub fn calibrated(&mut self, calibration: Calibration) {
        self.calibration = Some(calibration);
    }

    /// The device gets bytes now, and a flush behind them.
    pub fn flush_begins(&mut self, now: Duration) {
        self.flushing_since = Some(now);
    }

    /// That is over, well or not.
    pub fn flush_ends(&mut self) {
        self.flushing_since = None;
    }

    /// A flush took so long: if that is longer than any before, it is the worst from now on.
    pub fn flushed(&mut self, time: Duration) {
        if let Some(calibration) = &mut self.calibration {
            calibration.flush_worst = calibration.flush_worst.max(time);
        }
    }

    /// What is known of the power source now.
    pub fn supplied(&mut self, supply: Supply) {
        self.supply = supply;
    }

    /// Nothing is acknowledged early until this is [taken back](Budget::rearm).
    pub fn disarm(&mut self, why: Disarmed) {
        self.hold(why, true);
    }

    /// What was [disarmed](Budget::disarm) for this reason no longer is, unless it is for another
    /// one, too. The device is measured anew before anything is acknowledged early again. An
    /// emergency stays one.
    pub fn rearm(&mut self, why: Disarmed) {
        if why != Disarmed::Emergency && self.hold(why, false) {
            self.calibration = None;
        }
    }

    /// The weightiest of what stands.
    fn held(&self) -> Option<Disarmed> {
        let mut held = REASONS.iter().zip(self.held).filter(|(_, is_held)| *is_held);
        held.next().map(|(why, _)| *why)
    }

    /// Notes whether a reason stands; whether it did.
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
    fn it_is_what_the_hold_up_leaves() {
        let budget = armed();
        assert_eq!(budget.capacity(ms(0)), Ok(3_500_000));
        assert!(budget.covers(3_500_000, ms(0)) && !budget.covers(3_500_001, ms(0)));
    }

    #[test]
    fn whatever_is_not_known_to_be_well_disarms() {
        let mut budget = armed();
        assert_eq!(budget.capacity(FRESH + ms(1)), Err(Disarmed::Stale));
        budget.supplied(Supply { is_healthy: false, ..SUPPLY });
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::PowerSource));
        assert!(!budget.covers(0, ms(0)));
        budget.supplied(SUPPLY);
        budget.flushed(ms(5));
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::HoldUp));
    }

    #[test]
    fn the_device_is_measured_again_when_that_may_change_something() {
        let mut budget = Budget::new(SUPPLY);
        assert!(budget.wants_calibration(ms(0)));
        budget.calibrated(MEASURED);
        assert!(!budget.wants_calibration(FRESH / 2 - ms(1)));
        assert!(budget.wants_calibration(FRESH / 2));
        budget.flushed(ms(50));
        assert_eq!(budget.capacity(ms(1)), Err(Disarmed::HoldUp));
        assert!(!budget.wants_calibration(AGAIN - ms(1)) && budget.wants_calibration(AGAIN));
        budget.supplied(Supply { is_healthy: false, ..SUPPLY });
        assert!(!budget.wants_calibration(AGAIN));
        budget.supplied(SUPPLY);
        budget.disarm(Disarmed::ByHand);
        assert!(!budget.wants_calibration(AGAIN));
    }

    #[test]
    fn a_slow_flush_counts_from_then_on() {
        let mut budget = armed();
        budget.flushed(ms(3));
        budget.flushed(ms(1));
        assert_eq!(budget.capacity(ms(0)), Ok(1_500_000));
    }

    #[test]
    fn a_flush_under_way_counts_as_long_as_it_takes_already() {
        let mut budget = armed();
        budget.flush_begins(ms(100));
        assert_eq!(budget.capacity(ms(101)), Ok(3_500_000));
        assert_eq!(budget.capacity(ms(103)), Ok(1_500_000));
        assert_eq!(budget.capacity(ms(105)), Err(Disarmed::HoldUp));
        budget.flush_ends();
        assert_eq!(budget.capacity(ms(105)), Ok(3_500_000));
    }

    #[test]
    fn a_device_that_failed_is_measured_anew_and_an_emergency_stays_one() {
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
    fn a_hand_that_arms_again_does_not_heal_the_device() {
        let mut budget = armed();
        budget.disarm(Disarmed::Device);
        budget.disarm(Disarmed::ByHand);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::Device));
        budget.rearm(Disarmed::ByHand);
        budget.calibrated(MEASURED);
        assert_eq!(budget.capacity(ms(0)), Err(Disarmed::Device));
        // Nor the other way round.
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
