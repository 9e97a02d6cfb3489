//! Whether others used the processors while something was measured.
//!
//! A job beside a measurement stands between a sync that returned and the thread that waits for it,
//! and takes the caches that a scan lives by. Real-time priority keeps it from the processor, not
//! from the disk. So a run beside others is flagged, and nothing in it is ranked.
//!
//! What counts is the time of all processors, less our own and that of the kernel's threads: those
//! do the input and output of what is measured, and can be more than a run alone would be called
//! busy for. Interrupts are left out for the same reason.

use crate::proc::{after_name, own_folder, text_of_system};
use seawall_io::PosixStorage;
use std::path::Path;

/// What others may use of all processors before a run is busy. Every machine has jobs that wake up
/// now and then, and ticks of the clock are a coarse measure: together they stay below. One thread
/// that works is above: it is 6 % of sixteen processors, and 50 % of two.
pub const BUSY_MIN: f64 = 0.05;

/// Each figure is cut to a whole tick.
const TICKS_UNSURE: u64 = 1;

/// Watches the processors from its start on.
#[derive(Debug)]
pub struct Watch {
    begin: Option<Ticks>,
}

impl Watch {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { begin: Ticks::now() }
    }

    /// What others used since then.
    #[must_use]
    pub fn others(&self) -> Others {
        let share = |begin: &Ticks| Some(Ticks::now()?.of_others(begin));
        Others(self.begin.as_ref().and_then(share))
    }
}

/// The part of all processors that others used, if that can be seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Others(Option<f64>);

impl Others {
    /// That share, from 0 to 1; `None` where the system does not tell.
    #[must_use]
    pub fn of(share: Option<f64>) -> Self {
        Self(share)
    }

    /// From 0 to 1.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        self.0
    }

    /// Whether nobody else is known to have been at work.
    #[must_use]
    pub fn is_quiet(self) -> bool {
        self.0.is_some_and(|share| share < BUSY_MIN)
    }

    /// What stands for both of two runs.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self(self.0.zip(other.0).map(|(one, other)| one.max(other)))
    }

    /// What to say of it; `None` if it is quiet.
    #[must_use]
    pub fn says(self) -> Option<String> {
        match self.0 {
            None => Some(
                "it is unknown how busy the processors are, as there is no /proc/stat".to_owned(),
            ),
            Some(_) if self.is_quiet() => None,
            Some(share) => {
                let percent = share * 100.0;
                Some(format!("other programs used {percent:.0} % of the processors"))
            }
        }
    }
}

/// Ticks of the clock that the kernel counts processor time by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ticks {
    /// Of all processors, whatever they did.
    all: u64,
    /// Those that programs took, and guests of the same host.
    programs: u64,
    /// Those that the kernel took.
    kernel: u64,
    /// Ours, of both.
    own: [u64; 2],
    /// Those of the threads of the kernel; `None` where they are not to be seen, as in a container.
    threads: Option<u64>,
}

impl Ticks {
    fn now() -> Option<Self> {
        let process = text_of_system(&own_folder(), "stat")?;
        let found = Self::read(&text_of_system("/proc", "stat")?, &process)?;
        Some(Self { threads: of_kernel_threads(), ..found })
    }

    /// Reads `/proc/stat` and a process's `stat`, as proc(5) has them.
    fn read(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let fields = line.split_whitespace().map_while(|field| field.parse().ok());
        // The time of guests, behind these, is part of the user's.
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

    /// The share of others from `begin` to these.
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

/// What a process took outside of the kernel and inside.
fn times(stat: &str) -> Option<[u64; 2]> {
    let mut fields = after_name(stat)?.skip(14 - 3);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?])
}

/// The process that all threads of the kernel come from.
const KERNEL: &str = "2";

fn of_kernel_threads() -> Option<u64> {
    let stat = |process: &str| text_of_system(&format!("/proc/{process}"), "stat");
    stat(KERNEL).filter(|stat| stat.contains("(kthreadd)"))?;
    let processes = PosixStorage::open(Path::new("/proc")).ok()?.list_others().ok()?;
    let processes = processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    // One that ends meanwhile is none.
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
    fn figures_are_those_of_proc() {
        let ticks = Ticks::read(MACHINE, &process(11, 4)).unwrap();
        let (own, threads) = ([11, 4], None);
        assert_eq!(ticks, Ticks { all: 1000, programs: 120, kernel: 30, own, threads });
        assert_eq!(Ticks::read("intr 1 2 3", &process(1, 1)), None);
        assert_eq!(Ticks::read(MACHINE, "42 (short) S 1"), None);
        assert_eq!(Ticks::read("cpu  1 2 3", &process(1, 1)), None);
    }

    #[test]
    fn own_work_and_that_of_the_kernels_threads_is_not_that_of_others() {
        let begin = Ticks { all: 1000, ..Ticks::default() };
        let share = |programs, kernel, threads| {
            let own = [40, 20];
            Ticks { all: 1200, programs, kernel, own, threads }.of_others(&begin)
        };
        let is = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        is(share(41, 21, None), 0.0);
        is(share(81, 21, None), 0.2);
        // What the kernel did for others cannot be told from what its threads did.
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
    fn a_busy_machine_is_named_and_so_is_one_that_does_not_tell() {
        let said = |share| Others::of(share).says().unwrap_or_default();
        assert_eq!((said(Some(0.0)), said(Some(0.049))), (String::new(), String::new()));
        assert_eq!(said(Some(0.372)), "other programs used 37 % of the processors");
        assert!(said(None).contains("unknown"));
        let quiet = Others::of(Some(0.01));
        assert!(quiet.is_quiet() && !quiet.worse(Others::of(None)).is_quiet());
        assert_eq!(quiet.worse(Others::of(Some(0.3))), Others::of(Some(0.3)));
    }

    #[test]
    fn a_process_that_works_is_not_beside_itself() {
        // Whatever others do, no share is more than all there is.
        let watch = Watch::start();
        let share = watch.others().share();
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
    }
}
