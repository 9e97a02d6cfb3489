//! The parts of a disk server's answers; `service` has the answer to `status`.

use seawall_disk::{Calibration, Counts, Emergency, Recovered, Supply};
use seawall_output::answer;
use seawall_output::text::to_f64;
use serde::Serialize;
use std::fmt::Display;
use std::time::Duration;

answer! {
    /// What the disk has done since it was opened.
    pub(super) struct Work(counts: &Counts) {
        writes: u64 = counts.writes,
        bytes: u64 = counts.bytes,
        deferred: u64 = counts.deferred,
        flushes_idle: u64 = counts.flushes_idle,
        flushes_early: u64 = counts.flushes_early,
        flushes_waited: u64 = counts.flushes_waited,
        drained_runs: u64 = counts.drained_runs,
        drained_bytes: u64 = counts.drained_bytes,
        device_flushes: u64 = counts.device_flushes,
        failures: u64 = counts.failures,
    }
}

answer! {
    /// The power source, as configured, and what its monitor says, if it has one.
    pub(super) struct Power(supply: &Supply, monitor: Option<String>) {
        healthy: bool = supply.is_healthy,
        monitor: Option<String> = monitor,
        hold_up_ms: f64 = millis(supply.hold_up),
        detection_ms: f64 = millis(supply.detection),
    }
}

answer! {
    /// The measured device. The margin is what is left of the hold-up time after detecting a power
    /// failure and two flushes; negative if it is too short.
    pub(super) struct Measured(supply: &Supply, found: &Calibration) {
        flush_worst_ms: f64 = millis(found.flush_worst),
        bytes_per_s: u64 = found.bandwidth,
        margin_ms: f64 =
            millis(supply.hold_up) - millis(supply.detection) - 2.0 * millis(found.flush_worst),
    }
}

answer! {
    /// The dump that was restored when the disk was opened.
    pub(super) struct Home(recovered: &Recovered) {
        generation: u64 = recovered.generation,
        runs: usize = recovered.runs,
        lost: u32 = recovered.lost,
    }
}

/// The answer to a request other than `status`.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) schema: String,
    pub(super) image: &'a str,
    pub(super) state: &'static str,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// The result of a request.
#[derive(Default, Serialize)]
pub(super) struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    /// The size of a dump.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Outcome {
    pub(super) fn new(took: Duration, done: Result<Option<Emergency>, impl Display>) -> Self {
        let ms = Some(millis(took));
        match done {
            Ok(Some(dump)) => Self::of_dump(&dump),
            Ok(None) => Self { ms, ..Self::default() },
            Err(error) => Self { ms, ..Self::failed(error) },
        }
    }

    pub(super) fn failed(error: impl Display) -> Self {
        Self { error: Some(error.to_string()), ..Self::default() }
    }

    fn of_dump(dump: &Emergency) -> Self {
        Self { ms: Some(millis(dump.took)), bytes: Some(dump.bytes), error: None }
    }

    /// The result of an emergency.
    pub(super) fn of_emergency(emergency: &Result<Emergency, String>) -> Self {
        emergency.as_ref().map_or_else(Self::failed, Self::of_dump)
    }
}

/// The answer to `stop`, sent once everything is on the device.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "seawall.disk.stop/1")]
pub(super) struct Stopped<'a> {
    pub(super) image: &'a str,
    pub(super) error: Option<&'a str>,
    /// Acknowledged data is lost, or only in the memory of the keeper.
    pub(super) broken: bool,
}

/// Converts a duration to milliseconds, with three decimals.
fn millis(time: Duration) -> f64 {
    to_f64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)) / 1000.0
}
