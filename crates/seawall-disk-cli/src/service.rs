//! A served disk: its requests and answers.

use super::answers::{Answer, Home, Measured, Outcome, Power, Work};
use super::control::request::Request;
use super::export::{Place, Transport};
use super::serve::sandbox::Standing;
use crate::state::named::{Names, Removed};
use crate::state::place;
use seawall_disk::{Calibration, Disarmed, Disk, Emergency, Recovered, Status, Supply};
use seawall_io::{Clock, SystemClock};
use seawall_output::answer;
use seawall_output::report::say;
use seawall_output::text::{bytes, to_u64};
use serde::Serialize;
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a dump is tried that the device refuses. Each time all of it is written again.
const DUMPS_MAX: u32 = 3;

/// State shared by all threads of a server.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) disk: Arc<Disk>,
    pub(super) names: Names,
    pub(super) image: String,
    pub(super) place: Arc<place::Place>,
    pub(super) at: Place,
    pub(super) residence: Residence,
    /// The user and sandbox of the keeper, if it reports them; or why no keeper has the memory.
    pub(super) kept: Arc<Mutex<Result<Option<Standing>, String>>>,
    /// The user and sandbox of this process.
    pub(super) standing: Standing,
    pub(super) recovered: Option<Recovered>,
    /// Flushed data of an earlier server may be lost.
    pub(super) has_lost: bool,
    pub(super) clock: Arc<SystemClock>,
    /// The total size of all buffers.
    pub(super) room: u64,
    pub(super) transport: Mutex<Option<Transport>>,
    pub(super) arming: Mutex<Arming>,
    /// What the monitor of the power source says, if it has one.
    pub(super) power: Mutex<Option<String>>,
    /// The result of the emergency dump, if there was one.
    pub(super) emergency: Mutex<Option<Result<Emergency, String>>>,
}

/// Whether to arm the disk when possible. Locked while measuring.
#[derive(Debug, Default)]
pub(super) struct Arming {
    pub(super) is_by_hand: bool,
}

/// Whether the process stays in memory.
#[derive(Debug)]
pub(super) struct Residence {
    /// Whether its memory is locked, or why not.
    pub(super) locked: Result<(), String>,
    /// The process's adjustment for the kernel's OOM killer, if the system has one.
    pub(super) oom_score: Option<i32>,
}

impl Residence {
    /// Locks the memory, if that is possible; serving works without it.
    pub(super) fn ask(oom_score: Option<i32>) -> Self {
        let locked = seawall_host::lock_memory().map_err(|error| error.to_string());
        Self { locked, oom_score }
    }
}

impl Service {
    /// Handles a request.
    pub(super) fn answer(&self, request: Request) -> Value {
        let began = self.clock.now();
        let done = match request {
            Request::Status => {
                self.has_names();
                return as_value(&DiskStatus::of(self, &self.disk.status()));
            }
            Request::Flush => self.disk.flush().map(|()| None),
            Request::Drain => self.disk.drain().map(|()| None),
            Request::Disarm => self.disarm().map(|()| None),
            Request::Arm => self.arm_by_hand().map(|()| None),
            Request::EmergencyFlush => self.emergency().map(Some).map_err(io::Error::other),
            Request::Stop => Err(io::Error::other("the main thread does that")),
        };
        let took = self.clock.now().saturating_sub(began);
        as_value(&Answer {
            schema: format!("seawall.disk.{}/1", request.name()),
            image: &self.image,
            state: self.state(&self.disk.status()).0,
            outcome: Outcome::new(took, done),
        })
    }

    /// Dumps what is not on the device, unless a call before has done so. Waits until it is on the
    /// image instead if the dump area fails.
    pub(super) fn emergency(&self) -> Result<Emergency, String> {
        let done = self.dump();
        let Err(error) = &done else { return done };
        if self.disk.drain().is_err() {
            return done;
        }
        say(&format!("seawall: the dump failed: {error}; all of it is on the image instead"));
        // If this fails, the next start reports a loss that did not happen.
        let _ = self.place.note_armed(false);
        // Nothing is left to dump. The area may have a part of the dump that failed.
        self.dump()
    }

    /// Dumps what is not on the device. Tries again what fails.
    fn dump(&self) -> Result<Emergency, String> {
        let mut emergency = lock(&self.emergency);
        let mut done = self.disk.emergency();
        for _ in 1..DUMPS_MAX {
            // The power may be gone before an operator can try again.
            done = done.or_else(|_| self.disk.emergency());
        }
        let done = done.map_err(|error| error.to_string());
        if done.as_ref().is_ok_and(|done| done.bytes == 0) {
            // No dump shows the next start that nothing is owed. If this fails, that start reports
            // a loss that did not happen.
            let _ = self.place.note_armed(false);
        }
        *emergency = Some(done.clone());
        done
    }

    /// The result of the emergency dump; `None` while it is being written.
    pub(super) fn dumped(&self) -> Option<Result<Emergency, String>> {
        self.emergency.try_lock().ok().and_then(|emergency| emergency.clone())
    }

    /// Measures the device, so that flushes can return early if the power source is healthy.
    pub(super) fn calibrate(&self) -> io::Result<()> {
        if let Some(removed) = self.names.removed() {
            return Err(io::Error::other(removed.why()));
        }
        self.disk.rearm();
        self.disk.calibrate().map(drop)
    }

    /// Measures again when due, unless an operator disarmed the disk. Disarms it once a file of it
    /// was removed.
    pub(super) fn keep_armed(&self) -> io::Result<()> {
        let arming = lock(&self.arming);
        let is_wanted = self.has_names() && !arming.is_by_hand && self.disk.wants_calibration();
        if is_wanted { self.calibrate() } else { Ok(()) }
    }

    /// Returns whether the image and the dump area still have their names. Otherwise disarms the
    /// disk.
    fn has_names(&self) -> bool {
        let has_names = self.names.removed().is_none();
        if !has_names {
            self.disk.disarm();
        }
        has_names
    }

    /// The user and sandbox of the keeper, if it reports them; or why no keeper has the memory.
    pub(super) fn kept(&self) -> Result<Option<Standing>, String> {
        lock(&self.kept).clone()
    }

    /// What the monitor of the power source says.
    fn power_says(&self) -> Option<String> {
        lock(&self.power).clone()
    }

    /// Records that the power source is healthy, which counts for `time`. Does not measure the
    /// device: the monitor would not be queried meanwhile.
    pub(super) fn power_holds(&self, time: Duration, says: &str) {
        *lock(&self.power) = Some(says.to_owned());
        let supply = Supply { is_healthy: true, ..self.disk.status().supply };
        self.disk.supplied_for(supply, time);
    }

    /// Records that the power source is not healthy: flushes wait for the device.
    pub(super) fn power_fails(&self, says: &str) {
        *lock(&self.power) = Some(says.to_owned());
        self.disk.supplied(Supply { is_healthy: false, ..self.disk.status().supply });
    }

    /// Whether what was acknowledged early must be dumped now: `passed` after the failure of the
    /// power source was detected, the hold-up time is only enough for a dump, and for `pause`,
    /// after which the caller looks again.
    pub(super) fn must_dump(&self, passed: Duration, pause: Duration) -> bool {
        let status = self.disk.status();
        if !status.is_owing || status.armed == Err(Disarmed::Emergency) {
            return false;
        }
        let left = status.supply.hold_up.saturating_sub(status.supply.detection + passed);
        status.calibration.is_none_or(|found| left <= dump_time(status.dirty, &found) + pause)
    }

    fn arm_by_hand(&self) -> io::Result<()> {
        let mut arming = lock(&self.arming);
        arming.is_by_hand = false;
        self.calibrate()
    }

    fn disarm(&self) -> io::Result<()> {
        lock(&self.arming).is_by_hand = true;
        self.disk.disarm();
        // All data acknowledged early is safe once the answer is sent.
        self.disk.drain()
    }

    /// The state as a word and a sentence.
    pub(super) fn state(&self, status: &Status) -> (&'static str, String) {
        let (state, says) = self.state_but_for_debts(status);
        if status.uncovered == 0 {
            return (state, says);
        }
        let owed = bytes(to_u64(status.uncovered));
        (state, format!("{says}; {owed} ARE ON THEIR WAY that the power does not hold for"))
    }

    fn state_but_for_debts(&self, status: &Status) -> (&'static str, String) {
        match &status.armed {
            Err(Disarmed::Emergency) => ("emergency", self.state_of_emergency()),
            // Also while the device still fails for this reason.
            _ if self.names.removed() == Some(Removed::Image) => {
                ("read-only", format!("no flush succeeds: {}", Removed::Image.why()))
            }
            _ if status.is_read_only => {
                let said = status.failure.as_deref().unwrap_or("it does not say why");
                ("read-only", format!("the device failed too often: {said}"))
            }
            Ok(capacity) => {
                let most = bytes(self.room.min(*capacity));
                (
                    "armed",
                    format!("flushes return early while {most} or less are not on the device"),
                )
            }
            Err(_) if self.names.removed().is_some() => {
                let why = Removed::Area.why();
                ("write-through", format!("every flush waits for the device: {why}"))
            }
            Err(why) => {
                let is_old = status.supply.is_healthy;
                let why = match (why, self.power_says()) {
                    (Disarmed::PowerSource, Some(says)) if is_old => {
                        format!("{says}, and no answer since")
                    }
                    (Disarmed::PowerSource, Some(says)) => says,
                    (Disarmed::PowerSource, None) => format!("{why} (start with --power to arm)"),
                    _ => why.to_string(),
                };
                ("write-through", format!("every flush waits for the device: {why}"))
            }
        }
    }

    fn state_of_emergency(&self) -> String {
        match self.dumped() {
            Some(Ok(done)) => {
                let dumped = bytes(to_u64(done.bytes));
                format!("{dumped} were dumped; writes are refused until a restart")
            }
            Some(Err(error)) => format!("the dump FAILED: {error}"),
            None => "the dump is being written".to_owned(),
        }
    }

    /// Whether the disk accepts writes, and the power holds for everything that is acknowledged.
    pub(super) fn is_safe(&self) -> bool {
        let status = self.disk.status();
        let is_on_image = self.names.removed() != Some(Removed::Image);
        is_on_image && !status.is_read_only && status.uncovered == 0
    }

    /// Whether acknowledged data may be lost.
    fn is_broken(&self, status: &Status) -> bool {
        let is_torn = self.recovered.as_ref().is_some_and(|recovered| recovered.lost > 0);
        let is_emergency = status.armed == Err(Disarmed::Emergency);
        let is_undumped = is_emergency && !matches!(self.dumped(), Some(Ok(_)));
        // Nothing that was acknowledged outlives the server, or what is owed cannot be dumped.
        let is_removed = match self.names.removed() {
            Some(Removed::Image) => true,
            Some(Removed::Area) => status.is_owing,
            None => false,
        };
        is_removed
            || status.is_read_only
            || is_torn
            || self.has_lost
            || is_undumped
            || status.uncovered > 0
    }

    /// The number of connected clients; `None` once the server ends.
    fn connections(&self) -> Option<usize> {
        lock(&self.transport).as_ref().map(Transport::connections)
    }
}

answer! {
    /// The answer to `status`.
    #[serde(tag = "schema", rename = "seawall.disk.status/1")]
    struct DiskStatus(service: &Service, status: &Status) {
        image: String = service.image.clone(),
        dir: String = service.place.path().display().to_string(),
        state: &'static str = service.state(status).0,
        says: String = service.state(status).1,
        broken: bool = service.is_broken(status),
        ready: String = service.at.ready.clone(),
        uri: String = service.at.uri.clone(),
        bytes: u64 = service.disk.size(),
        connections: Option<usize> = service.connections(),
        capacity: Option<u64> = status.armed.as_ref().ok().copied(),
        armed: bool = status.armed.is_ok(),
        dirty: usize = status.dirty,
        dirty_max: usize = status.dirty_max,
        uncovered: usize = status.uncovered,
        read_only: bool = status.is_read_only,
        failure: Option<String> = status.failure.clone(),
        counts: Work = Work::of(&status.counts),
        supply: Power = Power::of(&status.supply, service.power_says()),
        calibration: Option<Measured> =
            status.calibration.as_ref().map(|found| Measured::of(&status.supply, found)),
        memory_locked: bool = service.residence.locked.is_ok(),
        memory_why: Option<String> = service.residence.locked.clone().err(),
        oom_score_adj: Option<i32> = service.residence.oom_score,
        kept: bool = service.kept().is_ok(),
        kept_why: Option<String> = service.kept().err(),
        lost: bool = service.has_lost,
        recovered: Option<Home> = service.recovered.as_ref().map(Home::of),
        emergency: Option<Outcome> = service.dumped().as_ref().map(Outcome::of_emergency),
        server: Standing = service.standing.clone(),
        keeper: Option<Standing> = service.kept().ok().flatten(),
    }
}

/// How long a dump may take, as [the budget](seawall_disk::Budget::capacity) counts it.
fn dump_time(dirty: usize, found: &Calibration) -> Duration {
    let bandwidth = u128::from(found.bandwidth.max(1));
    let nanos = u128::from(to_u64(dirty)) * 2 * 1_000_000_000 / bandwidth;
    let written = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    written.saturating_add(found.flush_worst.saturating_mul(2))
}

fn as_value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).expect("text and numbers")
}

/// Starts a thread of the server.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(format!("seawall-{name}")).spawn(work).map(drop)
}

/// Locks a mutex even if another thread panicked: each value is replaced in one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
