//! A slice: the operations of one or more threads during a short time, with their latencies.

use crate::human::{to_f64, to_u64};
use crate::tour::Tour;
use seawall_io::{Clock, SystemClock};
use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// The result of one slice.
#[derive(Debug)]
pub struct Slice {
    /// Operations per second.
    pub per_second: f64,
    /// The latency of each operation, in nanoseconds.
    pub times: Vec<u32>,
}

impl Slice {
    /// The time from the first operation to the end of the last.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let count = f64::from(u32::try_from(self.times.len()).unwrap_or(u32::MAX));
        Duration::from_secs_f64(count / self.per_second.max(1e-9))
    }
}

/// Calls `act` repeatedly on this thread for `time`, at least once. Moves the thread from processor
/// to processor meanwhile.
///
/// # Errors
///
/// The first error of `act`.
pub fn by_one<E>(time: Duration, mut act: impl FnMut() -> Result<(), E>) -> Result<Slice, E> {
    by_one_while(time, || act().map(|()| true))
}

fn by_one_while<E>(time: Duration, mut act: impl FnMut() -> Result<bool, E>) -> Result<Slice, E> {
    let clock = SystemClock::new();
    let begin = clock.now();
    let mut tour = Tour::new(begin, time);
    let (mut times, mut now) = (vec![], clock.now());
    while (times.is_empty() || now - begin < time) && act()? {
        let then = std::mem::replace(&mut now, clock.now());
        times.push(nanoseconds(now - then));
        if tour.go_on(now) {
            now = clock.now();
        }
    }
    Ok(Slice { per_second: rate(times.len(), now - begin), times })
}

/// Calls `act` repeatedly on several threads, with the thread's number from 0 on. The system
/// chooses their processors. For a single thread see [`by_one`].
///
/// # Errors
///
/// The first error of `act`. The thread that got it stops; the others continue until the end.
///
/// # Panics
///
/// As [`by_threads_while`].
pub fn by_threads<E: Send>(
    (writers, time): (usize, Duration),
    act: &(dyn Fn(usize) -> Result<(), E> + Sync),
) -> Result<Slice, E> {
    by_threads_while((writers, time), &|number| act(number).map(|()| true))
}

/// As [`by_threads`], but a thread also stops when `act` returns false, which does not count as an
/// operation.
///
/// # Errors
///
/// As [`by_threads`].
///
/// # Panics
///
/// If the system does not start all threads. [`check_threads`] tells it before.
pub fn by_threads_while<E: Send>(
    (writers, time): (usize, Duration),
    act: &(dyn Fn(usize) -> Result<bool, E> + Sync),
) -> Result<Slice, E> {
    if writers == 1 {
        return by_one_while(time, || act(0));
    }
    let clock = SystemClock::new();
    let done = together(writers, &|number| one_of_many(time, &clock, &|| act(number)));
    let done = done.expect("the system starts the threads");
    let (mut begin, mut end, mut times) = (Duration::MAX, Duration::ZERO, vec![]);
    for part in done {
        let part = part?;
        begin = begin.min(part.begin);
        end = end.max(part.end);
        times.extend(part.times);
    }
    Ok(Slice { per_second: rate(times.len(), end.saturating_sub(begin)), times })
}

/// Starts this number of threads and ends them again.
///
/// # Errors
///
/// The system's error if it does not start all of them.
pub fn check_threads(writers: usize) -> io::Result<()> {
    together(writers, &|_| ()).map(drop)
}

/// Calls `act` on each of several threads once all have started; on none if one does not start.
fn together<T: Send>(threads: usize, act: &(dyn Fn(usize) -> T + Sync)) -> io::Result<Vec<T>> {
    let has_all: &OnceLock<bool> = &OnceLock::new();
    thread::scope(|scope| {
        let one = |number| move || has_all.wait().then(|| act(number));
        let start = |number| thread::Builder::new().spawn_scoped(scope, one(number));
        let started: io::Result<Vec<_>> = (0..threads).map(start).collect();
        // Those that have started wait for this, and would wait for ever.
        has_all.get_or_init(|| started.is_ok());
        let ended = started?.into_iter().map(|thread| thread.join().expect("a writer returns"));
        Ok(ended.flatten().collect())
    })
}

fn one_of_many<E>(
    time: Duration,
    clock: &SystemClock,
    act: &dyn Fn() -> Result<bool, E>,
) -> Result<Part, E> {
    let begin = clock.now();
    let (mut times, mut now) = (vec![], begin);
    while (times.is_empty() || now - begin < time) && act()? {
        let then = std::mem::replace(&mut now, clock.now());
        times.push(nanoseconds(now - then));
    }
    Ok(Part { begin, end: now, times })
}

/// Runs several tasks on this thread, each of which repeatedly awaits the future that `act`
/// returns. Needs no async runtime, and polls only woken tasks.
///
/// # Errors
///
/// The first error of `act` or of a future.
pub fn by_tasks<T, E, F: Future<Output = Result<T, E>> + Unpin>(
    (tasks, time): (usize, Duration),
    act: &dyn Fn() -> Result<F, E>,
) -> Result<Slice, E> {
    let clock = SystemClock::new();
    let (bells, rung) = channel();
    let bell = |task| Waker::from(Arc::new(Bell { task, bells: bells.clone() }));
    let wakers: Vec<_> = (0..tasks).map(bell).collect();
    let begin = clock.now();
    let mut running = vec![];
    for waker in &wakers {
        waker.wake_by_ref();
        running.push(Some((act()?, begin)));
    }
    let (mut times, mut now, mut left) = (vec![], begin, tasks);
    while left > 0 {
        let task: usize = rung.recv().expect("this function holds a sender");
        let place = running.get_mut(task).expect("one entry for each task");
        // A finished task may be woken once more.
        let Some((awaited, since)) = place else { continue };
        let waker = wakers.get(task).expect("one entry for each task");
        let Poll::Ready(done) = Pin::new(awaited).poll(&mut Context::from_waker(waker)) else {
            continue;
        };
        done?;
        now = clock.now();
        times.push(nanoseconds(now - *since));
        if now - begin < time {
            *place = Some((act()?, now));
            waker.wake_by_ref();
        } else {
            *place = None;
            left -= 1;
        }
    }
    Ok(Slice { per_second: rate(times.len(), now - begin), times })
}

/// Wakes one task by sending its number.
struct Bell {
    task: usize,
    bells: Sender<usize>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // The receiver is gone after the end of the slice.
        let _ = self.bells.send(self.task);
    }
}

/// The operations of one writer in a slice.
#[derive(Debug)]
struct Part {
    begin: Duration,
    end: Duration,
    times: Vec<u32>,
}

/// Returns the median; sorts the values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns the mean of latencies, in microseconds; the times are in nanoseconds.
pub fn mean_us(times: &[u32]) -> f64 {
    let sum: u64 = times.iter().copied().map(u64::from).sum();
    to_f64(sum) / to_f64(to_u64(times.len().max(1))) / 1e3
}

/// Returns the latency at `place` per mille, in microseconds with one digit; sorts the times, which
/// are in nanoseconds.
pub fn per_mille(times: &mut [u32], place: usize) -> f64 {
    times.sort_unstable();
    let place = times.len().saturating_sub(1) * place / 1000;
    let nanoseconds = times.get(place).copied().unwrap_or_default();
    f64::from(nanoseconds / 100) / 10.0
}

/// Converts a latency to nanoseconds, up to four seconds.
#[must_use]
pub fn nanoseconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// The rate per second of `count` operations in `time`.
#[must_use]
pub fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_gets_its_number_and_is_counted() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let done = [const { AtomicUsize::new(0) }; 3];
        let slice = by_threads((3, Duration::from_millis(20)), &|number| {
            done[number].fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(())
        });
        let done = done.map(AtomicUsize::into_inner);
        assert!(done.iter().all(|count| *count > 0), "{done:?}");
        assert_eq!(slice.unwrap().times.len(), done.iter().sum::<usize>());
    }

    /// Runs this test again in a process that has memory for a few threads only.
    #[test]
    #[cfg(target_os = "linux")]
    fn threads_that_have_started_do_not_wait_for_one_that_does_not() {
        const CHILD: &str = "SEAWALL_FEW_THREADS";
        if std::env::var_os(CHILD).is_some() {
            check_threads(2).unwrap();
            check_threads(64).unwrap_err();
            return;
        }
        let name = "threads_that_have_started_do_not_wait_for_one_that_does_not";
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -v 4000000; exec timeout 60 \"$0\" \"$1\""]);
        shell.arg(std::env::current_exe().unwrap()).arg(name);
        // 256 MiB each.
        let ran = shell.env(CHILD, "").env("RUST_MIN_STACK", "268435456").output().unwrap();
        assert!(ran.status.success() && ran.stdout.windows(8).any(|text| text == b"1 passed"));
    }

    #[test]
    fn slice_without_time_still_measures_each_thread_once() {
        for threads in [1, 3] {
            let slice = by_threads((threads, Duration::ZERO), &|_| Ok::<_, ()>(())).unwrap();
            assert_eq!(slice.times.len(), threads);
        }
    }

    #[test]
    fn thread_stops_when_nothing_is_left_to_do() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        for threads in [1, 3] {
            let left = AtomicUsize::new(100);
            let act = |_| Ok::<_, ()>(left.fetch_sub(1, Ordering::Relaxed) > 3);
            let slice = by_threads_while((threads, Duration::from_secs(60)), &act).unwrap();
            assert_eq!(slice.times.len(), 97);
            let elapsed = slice.elapsed();
            assert!(Duration::ZERO < elapsed && elapsed < Duration::from_secs(60), "{elapsed:?}");
        }
        let none = by_threads_while((1, Duration::ZERO), &|_| Ok::<_, ()>(false)).unwrap();
        assert_eq!((none.times.len(), none.elapsed()), (0, Duration::ZERO));
    }

    #[test]
    fn error_of_any_thread_is_returned() {
        let fail = |number| if number == 1 { Err(number) } else { Ok(()) };
        assert_eq!(by_threads((2, Duration::from_millis(1)), &fail).unwrap_err(), 1);
    }

    #[test]
    fn every_task_runs_until_the_time_is_over() {
        use std::cell::Cell;
        use std::future::ready;
        let begun = Cell::new(0);
        let slice = by_tasks((3, Duration::from_millis(5)), &|| {
            begun.set(begun.get() + 1);
            Ok::<_, ()>(ready(Ok(())))
        });
        assert!(begun.get() > 3);
        assert_eq!(slice.unwrap().times.len(), begun.get());
        let none = by_tasks((2, Duration::ZERO), &|| Ok(ready(Ok::<_, ()>(()))));
        assert_eq!(none.unwrap().times.len(), 2, "each of them once");
        assert_eq!(by_tasks((2, Duration::ZERO), &|| Ok(ready(Err::<(), _>(7)))).unwrap_err(), 7);
    }

    #[test]
    fn percentile_is_taken_from_the_sorted_times() {
        let mut times: Vec<u32> = (1..=101).rev().map(|n| n * 1000).collect();
        assert_eq!((per_mille(&mut times, 500), per_mille(&mut times, 990)), (51.0, 100.0));
        assert!(per_mille(&mut [], 500).abs() < f64::EPSILON);
    }
}
