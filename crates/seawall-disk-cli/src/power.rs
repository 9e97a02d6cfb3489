//! Watches the power source, so that the disk is armed only while the source is healthy.
//!
//! The server queries a monitor several times a second. On battery, or without an answer, every
//! flush waits for the device from then on, and data acknowledged early is written to the device.

pub(super) mod holdup;
mod monitor;
mod script;

use super::service::{Service, spawn};
use crate::args::{Monitor, Power};
use monitor::{Reading, Source};
use seawall_io::{Clock, SystemClock};
use seawall_output::report::{Exit, Failure, say};
use seawall_output::text::{bytes, to_u64};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// SIGPWR, where its number is known: Linux's signal for a power failure.
pub(super) const SIGPWR: Option<i32> =
    if cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        Some(30)
    } else {
        None
    };
/// The pause between two queries of the monitor.
const PAUSE: Duration = Duration::from_millis(150);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// How late a thread may run.
const LATENESS: Duration = Duration::from_millis(50);
/// The maximum time until a failure of the power source, or of its monitor, is noticed.
pub(super) const DETECTION: Duration = Duration::from_millis(700);
/// The number of consecutive `Online` answers that arm the disk again.
const GOOD_ANSWERS: u32 = 2;

const _: () = assert!(
    DETECTION.as_millis() >= PAUSE.as_millis() + PATIENCE.as_millis() + LATENESS.as_millis()
);

/// The state of the power source.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Online,
    OnBattery,
    /// The battery would not take over, as this word tells.
    Unprotected(&'static str),
    /// There is no answer, for this reason.
    Lost(String),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Online => f.write_str("online"),
            Self::OnBattery => f.write_str("on battery"),
            Self::Unprotected(word) => write!(f, "the UPS would not take over: {word}"),
            Self::Lost(why) => write!(f, "no contact: {why}"),
        }
    }
}

/// Judges the answers of a monitor, one after the other.
#[derive(Debug)]
struct Watch {
    condition: Condition,
    good_answers: u32,
}

impl Watch {
    /// Starts with the monitor's first answer.
    fn new(first: Result<Reading, String>) -> Self {
        let mut watch = Self {
            condition: Condition::Lost("no answer yet".to_owned()),
            good_answers: GOOD_ANSWERS - 1,
        };
        watch.judge(first);
        watch
    }

    /// Takes the next answer. Returns whether the condition has changed.
    fn judge(&mut self, reading: Result<Reading, String>) -> bool {
        self.good_answers =
            if reading == Ok(Reading::Online) { self.good_answers.saturating_add(1) } else { 0 };
        let condition = match reading {
            Ok(Reading::Online) if self.good_answers < GOOD_ANSWERS => return false,
            Ok(Reading::Online) => Condition::Online,
            Ok(Reading::OnBattery) => Condition::OnBattery,
            Ok(Reading::Unprotected(word)) => Condition::Unprotected(word),
            Err(why) => Condition::Lost(why),
        };
        let is_new = condition != self.condition;
        self.condition = condition;
        is_new
    }
}

/// A monitor and what it answered so far.
#[derive(Debug)]
pub(super) struct PowerWatch {
    name: String,
    source: Source,
    watch: Watch,
}

impl PowerWatch {
    /// Asks the monitor for the first time, if there is one.
    pub(super) fn start(
        power: &Power,
        hold_up: Duration,
        image: &Path,
    ) -> Result<Option<Self>, Failure> {
        let Power::Watched(monitor) = power else { return Ok(None) };
        if hold_up <= DETECTION {
            let (hold_up, detection) = (hold_up.as_millis(), DETECTION.as_millis());
            let what = format!(
                "a hold-up time of {hold_up} ms is too short for {monitor}, which can take \
                 {detection} ms to tell"
            );
            let next = "give how long the UPS bridges at least, such as --hold-up 60000";
            return Err(Failure::new(Exit::Usage, what).at(image.display()).next(next));
        }
        Self::ask_first(monitor).map(Some).map_err(|error| {
            let failure = Failure::new(Exit::Failed, format!("cannot watch {monitor}: {error}"));
            failure.at(image.display()).next("check the value of --power")
        })
    }

    fn ask_first(monitor: &Monitor) -> io::Result<Self> {
        let mut source = Source::open(monitor)?;
        let watch = Watch::new(source.read(PATIENCE));
        Ok(Self { name: monitor.to_string(), source, watch })
    }

    /// Queries the monitor again: writing a dump to the image may have taken minutes since.
    pub(super) fn ask_again(&mut self) {
        self.watch.judge(self.source.read(PATIENCE));
    }

    /// Whether the power source is healthy.
    pub(super) fn is_healthy(&self) -> bool {
        self.watch.condition == Condition::Online
    }

    /// The name of the monitor, and the condition of the power source.
    pub(super) fn says(&self) -> String {
        format!("{}: {}", self.name, self.watch.condition)
    }

    /// The TCP ports of its monitor.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.source.ports()
    }

    /// Queries the monitor on a separate thread until the process ends.
    pub(super) fn go_on(mut self, service: &Arc<Service>) -> io::Result<()> {
        let service = service.clone();
        self.source.begin()?;
        spawn("power", move || {
            let clock = SystemClock::new();
            loop {
                clock.sleep(PAUSE);
                if self.watch.judge(self.source.read(PATIENCE)) {
                    tell(&service, self.is_healthy(), &self.says());
                }
            }
        })
    }
}

/// Arms or disarms the disk, and reports that.
fn tell(service: &Service, is_healthy: bool, says: &str) {
    let dirty = bytes(to_u64(service.disk.status().dirty));
    match service.power_changed(is_healthy, says) {
        Ok(()) if is_healthy => say(&format!("seawall: {says}")),
        Ok(()) => {
            say(&format!("seawall: {says}: flushes wait; {dirty} were written to the device"));
        }
        Err(error) => say(&format!("seawall: {says}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reading::{OnBattery, Online, Unprotected};

    fn lost() -> Result<Reading, String> {
        Err("gone".to_owned())
    }

    #[test]
    fn one_bad_answer_disarms_and_two_good_ones_arm() {
        let mut watch = Watch::new(Ok(Online));
        assert_eq!(watch.condition, Condition::Online, "a first good answer is enough");
        for bad in [Ok(OnBattery), Ok(Unprotected("NOBATT")), lost()] {
            assert!(watch.judge(bad.clone()) && watch.condition != Condition::Online);
            assert!(!watch.judge(bad.clone()), "nothing new");
            assert!(!watch.judge(Ok(Online)) && watch.condition != Condition::Online);
            assert!(!watch.judge(bad), "it flickers");
            assert!(!watch.judge(Ok(Online)));
            assert!(watch.judge(Ok(Online)) && watch.condition == Condition::Online);
            assert!(!watch.judge(Ok(Online)));
        }
        assert!(watch.judge(Ok(OnBattery)) && watch.judge(lost()), "both are reported");
        assert_eq!(watch.condition.to_string(), "no contact: gone");
        assert!(watch.judge(Ok(Unprotected("NOBATT"))));
        assert_eq!(watch.condition.to_string(), "the UPS would not take over: NOBATT");
    }

    #[test]
    fn watch_begins_disarmed_without_a_good_answer() {
        for first in [Ok(OnBattery), Ok(Unprotected("OFF")), lost()] {
            let mut watch = Watch::new(first);
            assert_ne!(watch.condition, Condition::Online);
            assert!(!watch.judge(Ok(Online)) && watch.judge(Ok(Online)));
        }
    }
}
