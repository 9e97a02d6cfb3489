//! Watches the power source, so that the disk is armed only while the source is healthy.
//!
//! The server queries a monitor several times a second. On battery, or without an answer, every
//! flush waits for the device from then on, and data acknowledged early is written to the device.

pub(super) mod holdup;
mod monitor;
mod script;

use super::service::{Service, spawn};
use crate::args::{DiskServe, Monitor, Power};
use monitor::{Reading, Source};
use seawall_io::{Clock, SystemClock};
use seawall_output::report::{Exit, Failure, say};
use seawall_output::text::{bytes, to_u64};
use std::fmt;
use std::io;
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
/// The maximum time from a failure of the power source, or of its monitor, until no flush returns
/// early. The last good answer tells what was so when it was requested. It arrives, the pause
/// passes, and the next answer arrives, or does not. No answer counts for longer than this.
const DETECTION: Duration = Duration::from_millis(1200);
/// The number of consecutive `Online` answers that arm the disk again.
const GOOD_ANSWERS: u32 = 2;

const _: () = assert!(
    DETECTION.as_millis() >= 2 * PATIENCE.as_millis() + PAUSE.as_millis() + LATENESS.as_millis()
);

/// The time from a failure of the power source until this process learns of it. A monitor knows it
/// only after the time that the operator gives, or after the interval at which it asks the UPS.
pub(super) fn detection(args: &DiskServe) -> Duration {
    let (own, interval) = match &args.power {
        Power::Watched(monitor) => (DETECTION, interval(monitor)),
        Power::Ok | Power::Unknown => (Duration::ZERO, AT_ONCE),
    };
    args.detection.unwrap_or(interval).saturating_add(own)
}

/// How long a notification takes by itself.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The interval at which a monitor asks the UPS, unless it is configured otherwise.
fn interval(monitor: &Monitor) -> Duration {
    match monitor {
        // `pollinterval` in ups.conf.
        Monitor::Nut { .. } => Duration::from_secs(2),
        // `POLLTIME` in apcupsd.conf.
        Monitor::Apcupsd { .. } => Duration::from_secs(60),
        Monitor::Command(_) | Monitor::Descriptor(_) => AT_ONCE,
    }
}

/// The state of the power source.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Online,
    OnBattery,
    /// The battery may not take over, as this word tells.
    Unprotected(&'static str),
    /// There is no answer, for this reason.
    Lost(String),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Online => f.write_str("online"),
            Self::OnBattery => f.write_str("on battery"),
            Self::Unprotected(word) => write!(f, "the UPS may not take over: {word}"),
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

impl Default for Watch {
    /// A first good answer is enough.
    fn default() -> Self {
        let condition = Condition::Lost("no answer yet".to_owned());
        Self { condition, good_answers: GOOD_ANSWERS - 1 }
    }
}

impl Watch {
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
    clock: SystemClock,
    /// When the state that the last answer tells was so.
    known_at: Duration,
}

impl PowerWatch {
    /// Asks the monitor for the first time, if there is one.
    pub(super) fn start(args: &DiskServe) -> Result<Option<Self>, Failure> {
        let Power::Watched(monitor) = &args.power else { return Ok(None) };
        let (hold_up, detection, image) = (args.hold_up, detection(args), &args.image);
        if hold_up <= detection {
            let (hold_up, detection) = (hold_up.as_millis(), detection.as_millis());
            let what = format!(
                "a hold-up time of {hold_up} ms is too short for {monitor}, which can take \
                 {detection} ms to tell"
            );
            let next = "give how long the UPS bridges at least, such as --hold-up 120000, and by \
                        --detection how often the monitor asks it";
            return Err(Failure::new(Exit::Usage, what).at(image.display()).next(next));
        }
        Self::ask_first(monitor).map(Some).map_err(|error| {
            let failure = Failure::new(Exit::Failed, format!("cannot watch {monitor}: {error}"));
            failure.at(image.display()).next("check the value of --power")
        })
    }

    fn ask_first(monitor: &Monitor) -> io::Result<Self> {
        let (source, clock) = (Source::open(monitor)?, SystemClock::new());
        let (name, watch, known_at) = (monitor.to_string(), Watch::default(), Duration::ZERO);
        let mut watch = Self { name, source, watch, clock, known_at };
        watch.ask();
        Ok(watch)
    }

    /// Queries the monitor. Returns whether the condition of the power source has changed.
    pub(super) fn ask(&mut self) -> bool {
        self.known_at = self.clock.now().saturating_sub(self.source.age());
        let reading = self.source.read(PATIENCE);
        self.watch.judge(reading)
    }

    /// How long the last answer still counts: not at all if this process was stopped before it was
    /// read.
    pub(super) fn counts_for(&self) -> Duration {
        (self.known_at + DETECTION).saturating_sub(self.clock.now())
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
            let mut failing_since = None;
            loop {
                self.clock.sleep(PAUSE);
                let is_new = self.ask();
                if self.is_healthy() {
                    service.power_holds(self.counts_for(), &self.says());
                    failing_since = None;
                }
                if is_new {
                    tell(&service, self.is_healthy(), &self.says());
                }
                if !self.is_healthy() {
                    let now = self.clock.now();
                    let passed = now.saturating_sub(*failing_since.get_or_insert(now));
                    if service.must_dump(passed, PAUSE + PATIENCE + LATENESS) {
                        dump(&service, &self.says());
                    }
                }
            }
        })
    }
}

/// Reports a new state of the power source. An unhealthy one disarms the disk.
fn tell(service: &Arc<Service>, is_healthy: bool, says: &str) {
    if is_healthy {
        return say(&format!("seawall: {says}"));
    }
    let dirty = bytes(to_u64(service.disk.status().dirty));
    service.power_fails(says);
    let (its, says) = (service.clone(), says.to_owned());
    // The device may take longer than the power holds, so this thread must not wait for it. Without
    // another thread, the disk is drained all the same.
    let _ = spawn("drain", move || match its.disk.drain() {
        Ok(()) => {
            say(&format!("seawall: {says}: flushes wait; {dirty} were written to the device"));
        }
        Err(error) => say(&format!("seawall: {says}: {error}")),
    });
}

/// Dumps what is not on the device because of `why`, and reports it.
pub(super) fn dump(service: &Service, why: &str) {
    match service.emergency() {
        Ok(done) => {
            let (dumped, took) = (bytes(to_u64(done.bytes)), done.took.as_micros());
            say(&format!("seawall: {why}: {dumped} were dumped in {took} us"));
        }
        Err(error) => {
            let failure = Failure::new(Exit::Contract, format!("{why}: THE DUMP FAILED: {error}"));
            failure.at(&service.image).next("keep the power on, and check the device").tell();
        }
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
        let mut watch = Watch::default();
        assert!(watch.judge(Ok(Online)) && watch.condition == Condition::Online, "a first one");
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
        assert_eq!(watch.condition.to_string(), "the UPS may not take over: NOBATT");
    }

    #[test]
    fn watch_begins_disarmed_without_a_good_answer() {
        for first in [Ok(OnBattery), Ok(Unprotected("OFF")), lost()] {
            let mut watch = Watch::default();
            watch.judge(first);
            assert_ne!(watch.condition, Condition::Online);
            assert!(!watch.judge(Ok(Online)) && watch.judge(Ok(Online)));
        }
    }
}
