//! What measuring asks of the machine: the time, and whether it works for us first.

use seawall_io::{Access, Clock, PosixStorage, Storage, SystemClock};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// What to say where [`is_real_time`] is false.
pub const NOT_RANKED: [&str; 2] = [
    "not ranked: other work can stand between a sync and the thread that waits for",
    "it; where the system allows it, run this under `chrt -f 1`",
];

/// Measures one span of time.
#[derive(Debug)]
pub struct Stopwatch(SystemClock);

impl Stopwatch {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self(SystemClock::new())
    }

    /// The time since then.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.now()
    }
}

/// Whether a person watches standard error.
#[must_use]
pub fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether this process runs under a real-time policy: only then do other jobs of the machine
/// not stand between a sync that returned and the thread that waits for it.
#[must_use]
pub fn is_real_time() -> bool {
    let status = read_stat();
    // The name of the program comes second, in parentheses, and may hold anything.
    let fields = status.as_deref().and_then(|text| text.rsplit_once(')'));
    let mut fields = fields.map_or("", |(_, behind)| behind).split_whitespace();
    // Fields 40 and 41 of proc(5): the priority, and the policy; SCHED_FIFO is 1, SCHED_RR 2.
    let priority = fields.nth(40 - 3).and_then(|field| field.parse::<u32>().ok());
    let policy = fields.next().and_then(|field| field.parse::<u32>().ok());
    priority.is_some_and(|priority| priority > 0) && matches!(policy, Some(1 | 2))
}

fn read_stat() -> Option<String> {
    let folder = format!("/proc/{}", std::process::id());
    let file = PosixStorage::open(Path::new(&folder)).ok()?.open("stat", Access::Read).ok()?;
    let mut bytes = vec![0; 4096];
    let read = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(read);
    String::from_utf8(bytes).ok()
}
