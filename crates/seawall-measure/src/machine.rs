//! Properties of the machine during a measurement: time, priority, and load.

use crate::load::Others;
use crate::proc::{after_name, own_folder, text_of_system};
use seawall_host::HostInfo;
use seawall_io::{Clock, SystemClock};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// The warning to show if [`is_in_memory`] is true.
pub const IN_MEMORY: &str = "this is memory, not a disk: the speed means nothing";

/// Returns whether files in `folder` are in memory; false if unknown.
#[must_use]
pub fn is_in_memory(folder: &Path) -> bool {
    HostInfo::of(folder).is_ok_and(|around| around.is_in_memory())
}

/// The conditions of a measurement. Results are only ranked under good conditions.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    is_real_time: bool,
    others: Others,
}

impl Conditions {
    /// The conditions of this process, with the highest load of all `parts` of a run.
    #[must_use]
    pub fn of(parts: impl IntoIterator<Item = Others>) -> Self {
        let worst = parts.into_iter().reduce(Others::worse).unwrap_or(Others::of(None));
        Self { is_real_time: is_real_time(), others: worst }
    }

    /// Returns whether results may be ranked.
    #[must_use]
    pub fn are_good(&self) -> bool {
        self.is_real_time && self.others.is_quiet()
    }

    /// The processor use of other programs.
    #[must_use]
    pub fn others(&self) -> Others {
        self.others
    }

    /// Explains in lines of text why nothing is ranked; empty if results are ranked.
    #[must_use]
    pub fn says(&self) -> Vec<String> {
        match (self.others.says(), self.is_real_time) {
            (None, true) => vec![],
            (Some(busy), true) => vec![format!("not ranked: {busy}")],
            (None, false) => vec![
                "not ranked: another program can run between a sync and the thread that".to_owned(),
                "waits for it; run this under `chrt -f 1` where the system allows it".to_owned(),
            ],
            (Some(busy), false) => vec![
                format!("not ranked: {busy};"),
                "they can run between a sync and the thread that waits for it. Run this".to_owned(),
                "alone, and under `chrt -f 1` where the system allows it".to_owned(),
            ],
        }
    }
}

/// Measures elapsed time.
#[derive(Debug)]
pub struct Stopwatch(SystemClock);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(SystemClock::new())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.now()
    }
}

/// Returns whether standard error is a terminal.
#[must_use]
pub fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Returns whether this process has a real-time scheduling policy. Only then does no other program
/// run between a sync and the thread that waits for it.
#[must_use]
pub fn is_real_time() -> bool {
    let process = text_of_system(&own_folder(), "stat");
    // Fields 40 and 41 of proc(5): the priority, and the policy; SCHED_FIFO is 1, SCHED_RR 2.
    let mut fields = process.as_deref().and_then(after_name).into_iter().flatten().skip(40 - 3);
    let mut next = || fields.next()?.parse::<u32>().ok();
    next().is_some_and(|priority| priority > 0) && matches!(next(), Some(1 | 2))
}

/// The peak memory use of this process, in bytes.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    let status = text_of_system(&own_folder(), "status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = peak.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the number of bytes that this process read from storage, not from the page cache,
/// including read-ahead.
#[must_use]
pub fn bytes_from_below() -> Option<u64> {
    let counts = text_of_system(&own_folder(), "io")?;
    counts.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

/// The processor time used by this process, with a resolution of ten milliseconds.
#[must_use]
pub fn processor_time() -> Option<Duration> {
    let process = text_of_system(&own_folder(), "stat")?;
    // Fields 14 and 15 of proc(5): in user mode and in the kernel, in hundredths of a second.
    let ticks = after_name(&process)?.skip(14 - 3).take(2);
    let ticks: Option<u64> = ticks.map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks? * 10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use seawall_host::RawFile;
    use seawall_io::{PosixStorage, Storage};

    #[test]
    fn nothing_is_ranked_under_load_or_without_priority() {
        let of = |is_real_time, share| Conditions { is_real_time, others: Others::of(share) };
        assert!(of(true, Some(0.01)).are_good() && of(true, Some(0.01)).says().is_empty());
        let busy = of(true, Some(0.5));
        assert!(!busy.are_good());
        assert_eq!(busy.says(), ["not ranked: other programs used 50 % of the processors"]);
        assert!(!of(true, None).are_good() && of(true, None).says().len() == 1);
        assert!(!of(false, Some(0.0)).are_good() && of(false, Some(0.5)).says().len() == 3);
    }

    #[test]
    fn peak_memory_of_this_process_is_known() {
        let Some(before) = peak_memory() else { return };
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = peak_memory().unwrap();
        assert!(after >= before && after > 64 << 20, "{before} and {after}, with {}", block.len());
    }
    #[test]
    fn data_evicted_from_the_page_cache_is_read_back_unchanged() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-forgotten").unwrap();
        let storage = PosixStorage::open(scratch.path()).unwrap();
        let bytes = vec![7; 1 << 20];
        storage.create("file").unwrap().write_at(&bytes, 0).unwrap();
        let file = RawFile::open(&scratch.path().join("file")).unwrap();
        let fetched = || {
            let before = bytes_from_below()?;
            let mut found = vec![0; 1 << 20];
            file.read(&mut found, 0).unwrap();
            assert!(found == bytes);
            Some(bytes_from_below()? - before)
        };
        match file.forget_cached() {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return,
            forgotten => forgotten.unwrap(),
        }
        // A file system in memory reads from no device, and some systems do not count the bytes.
        let first = fetched();
        let second = fetched();
        assert!(first >= second, "{first:?} and {second:?}");
    }
}
