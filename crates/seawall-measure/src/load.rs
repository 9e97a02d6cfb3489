//! Detects whether other programs used the processors during a measurement.
//!
//! Another program can run between a sync and the thread that waits for it, and it evicts cache
//! lines that a scan needs. Real-time priority protects the processor time, but not the disk. So a
//! measurement with other programs running is flagged, and its results are not ranked.
//!
//! The load of others is the processor time of all programs except this process and the kernel
//! threads. Kernel threads do the I/O of the measured program and alone can exceed the limit.
//! Interrupts are excluded for the same reason.

use crate::proc::{after_name, own_folder, text_of_system};
use seawall_io::PosixStorage;
use std::path::Path;

/// The share of processor time that makes a machine busy. Background jobs and the coarse clock
/// ticks stay below it. A single working thread exceeds it: it uses 6 % of sixteen processors and
/// 50 % of two.
pub const BUSY_MIN: f64 = 0.05;

/// The rounding error of each figure, in ticks.
const TICKS_UNSURE: u64 = 1;

/// Measures the processor use of other programs from its start on.
#[derive(Debug)]
pub struct Watch {
    begin: Option<Ticks>,
}

impl Watch {
    /// Starts measuring now.
    #[must_use]
    pub fn start() -> Self {
        Self { begin: Ticks::now() }
    }

    /// The processor use of others since the start.
    #[must_use]
    pub fn others(&self) -> Others {
        let share = |begin: &Ticks| Some(Ticks::now()?.of_others(begin));
        Others(self.begin.as_ref().and_then(share))
    }
}

/// The share of all processors that others used, if known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Others(Option<f64>);

impl Others {
    /// Creates a value from a share between 0 and 1; `None` if unknown.
    #[must_use]
    pub fn of(share: Option<f64>) -> Self {
        Self(share)
    }

    /// The share, from 0 to 1.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        self.0
    }

    /// Returns whether other programs are known to have used almost no processor time.
    #[must_use]
    pub fn is_quiet(self) -> bool {
        self.0.is_some_and(|share| share < BUSY_MIN)
    }

    /// Returns the larger share of two runs; unknown if either is.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self(self.0.zip(other.0).map(|(one, other)| one.max(other)))
    }

    /// Explains why the machine was not quiet; `None` if it was.
    #[must_use]
    pub fn says(self) -> Option<String> {
        match self.0 {
            None => Some("the load of the processors is unknown without /proc/stat".to_owned()),
            Some(_) if self.is_quiet() => None,
            Some(share) => {
                let percent = share * 100.0;
                Some(format!("other programs used {percent:.0} % of the processors"))
            }
        }
    }
}

/// Processor time in clock ticks of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ticks {
    /// The time of all processors, including idle time.
    all: u64,
    /// The time of programs, and of other guests on the same host.
    programs: u64,
    /// The time of the kernel.
    kernel: u64,
    /// The time of this process in user mode and in the kernel.
    own: [u64; 2],
    /// The time of the kernel threads; `None` if they are not visible, as in a container.
    threads: Option<u64>,
}

impl Ticks {
    fn now() -> Option<Self> {
        let process = text_of_system(&own_folder(), "stat")?;
        let found = Self::read(&text_of_system("/proc", "stat")?, &process)?;
        Some(Self { threads: of_kernel_threads(), ..found })
    }

    /// Parses `/proc/stat` and a process's `stat` as described in proc(5).
    fn read(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let fields = line.split_whitespace().map_while(|field| field.parse().ok());
        // The guest times that follow are part of the user time.
        let [user, nice, system, idle, waiting, irq, softirq, steal, ..] =
            fields.collect::<Vec<u64>>()[..]
        else {
            return None;
        };
        Some(Self {
            all: user + nice + system + idle + waiting + irq + softirq + steal,
            programs: user + nice + steal,
            kernel: system,
            own: times(process)?,
            threads: None,
        })
    }

    /// Returns the share of processor time that other programs used between `begin` and now.
    fn of_others(&self, begin: &Self) -> f64 {
        let less = |now: u64, begin: u64| now.saturating_sub(begin);
        let [in_program, in_kernel] = self.own;
        let own = [less(in_program, begin.own[0]), less(in_kernel, begin.own[1])];
        let programs = less(self.programs, begin.programs);
        let mut others = programs.saturating_sub(own[0] + TICKS_UNSURE);
        if let Some((now, begin_threads)) = self.threads.zip(begin.threads) {
            let kernel = less(self.kernel, begin.kernel).saturating_sub(own[1] + TICKS_UNSURE);
            others += kernel.saturating_sub(less(now, begin_threads));
        }
        let all = less(self.all, begin.all);
        crate::human::to_f64(others) / crate::human::to_f64(all.max(1))
    }
}

/// The time of a process in user mode and in the kernel.
fn times(stat: &str) -> Option<[u64; 2]> {
    let mut fields = after_name(stat)?.skip(14 - 3);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?])
}

/// The id of the process that is the parent of all kernel threads.
const KERNEL: &str = "2";

fn of_kernel_threads() -> Option<u64> {
    let stat = |process: &str| text_of_system(&format!("/proc/{process}"), "stat");
    stat(KERNEL).filter(|stat| stat.contains("(kthreadd)"))?;
    let processes = PosixStorage::open(Path::new("/proc")).ok()?.list_others().ok()?;
    let processes = processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    // Skip a process that has ended meanwhile.
    let of_kernel = processes.filter_map(|process| {
        let stat = stat(process)?;
        let parent = after_name(&stat)?.nth(4 - 3)?.to_owned();
        (parent == KERNEL).then(|| times(&stat)).flatten()
    });
    Some(of_kernel.map(|[in_program, in_kernel]| in_program + in_kernel).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "cpu  100 20 30 800 40 5 5 0 7 0\ncpu0 50 10 15 400 20 2 3 0 3 0\n";

    fn process(user: u64, system: u64) -> String {
        format!("42 (a ) b) S 1 42 42 0 -1 4194560 99 0 0 0 {user} {system} 0 0 20 0 1 0 5")
    }

    #[test]
    fn load_figures_are_parsed_from_proc() {
        let ticks = Ticks::read(MACHINE, &process(11, 4)).unwrap();
        let (own, threads) = ([11, 4], None);
        assert_eq!(ticks, Ticks { all: 1000, programs: 120, kernel: 30, own, threads });
        assert_eq!(Ticks::read("intr 1 2 3", &process(1, 1)), None);
        assert_eq!(Ticks::read(MACHINE, "42 (short) S 1"), None);
        assert_eq!(Ticks::read("cpu  1 2 3", &process(1, 1)), None);
    }

    #[test]
    fn own_and_kernel_threads_do_not_count_as_load() {
        let begin = Ticks { all: 1000, ..Ticks::default() };
        let share = |programs, kernel, threads| {
            let own = [40, 20];
            Ticks { all: 1200, programs, kernel, own, threads }.of_others(&begin)
        };
        let is = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        is(share(41, 21, None), 0.0);
        is(share(81, 21, None), 0.2);
        // Without the time of kernel threads, other programs' kernel time is not counted.
        is(share(41, 61, None), 0.0);
        let begin = Ticks { threads: Some(10), ..begin };
        let share = |programs, kernel, threads| {
            let (own, threads) = ([40, 20], Some(threads));
            Ticks { all: 1200, programs, kernel, own, threads }.of_others(&begin)
        };
        is(share(41, 61, 50), 0.0);
        is(share(41, 61, 30), 0.1);
        is(share(81, 61, 30), 0.3);
    }

    #[test]
    fn busy_machine_or_unknown_load_is_reported() {
        let said = |share| Others::of(share).says().unwrap_or_default();
        assert_eq!((said(Some(0.0)), said(Some(0.049))), (String::new(), String::new()));
        assert_eq!(said(Some(0.372)), "other programs used 37 % of the processors");
        assert!(said(None).contains("unknown"));
        let quiet = Others::of(Some(0.01));
        assert!(quiet.is_quiet() && !quiet.worse(Others::of(None)).is_quiet());
        assert_eq!(quiet.worse(Others::of(Some(0.3))), Others::of(Some(0.3)));
    }

    #[test]
    fn share_of_other_programs_is_between_0_and_1() {
        let watch = Watch::start();
        let share = watch.others().share();
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
    }
}
