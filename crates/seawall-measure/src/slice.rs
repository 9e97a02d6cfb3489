//! One slice: what some threads did for a short while, and what its times say.

use seawall_io::{Clock, SystemClock};
use std::sync::Barrier;
use std::time::Duration;

/// What one slice did.
#[derive(Debug)]
pub struct Slice {
    /// How many there were a second.
    pub per_second: f64,
    /// How long each commit took, in nanoseconds.
    pub times: Vec<u32>,
}

/// What so many threads do in that time that call `act` again and again, each with its number from
/// 0 on.
///
/// # Errors
///
/// The first of those of `act`; the thread that met it stops there, the others go on to the end.
pub fn by_threads<E: Send>(
    (writers, time): (usize, Duration),
    act: &(dyn Fn(usize) -> Result<(), E> + Sync),
) -> Result<Slice, E> {
    let (clock, barrier) = (SystemClock::new(), Barrier::new(writers));
    let one = |number| one_thread((&barrier, time), &clock, &|| act(number));
    let one = &one;
    let done: Vec<_> = std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || one(number));
        let threads: Vec<_> = (1..writers).map(start).collect();
        // This thread is one of the writers, as it is the plain one: a lone writer then runs on the
        // same processor as what it is compared with, as near to the disk's interrupts.
        let mut done = vec![one(0)];
        let others = threads.into_iter().map(|thread| thread.join().expect("a writer returns"));
        done.extend(others);
        done
    });
    let (mut begin, mut end, mut times) = (Duration::MAX, Duration::ZERO, vec![]);
    for part in done {
        let part = part?;
        begin = begin.min(part.begin);
        end = end.max(part.end);
        times.extend(part.times);
    }
    Ok(Slice { per_second: rate(times.len(), end.saturating_sub(begin)), times })
}

fn one_thread<E>(
    (barrier, time): (&Barrier, Duration),
    clock: &SystemClock,
    act: &dyn Fn() -> Result<(), E>,
) -> Result<Part, E> {
    barrier.wait();
    let begin = clock.now();
    let (mut times, mut now) = (vec![], begin);
    while now - begin < time {
        act()?;
        let then = std::mem::replace(&mut now, clock.now());
        times.push(nanoseconds(now - then));
    }
    Ok(Part { begin, end: now, times })
}

/// What one writer did in a slice.
#[derive(Debug)]
struct Part {
    begin: Duration,
    end: Duration,
    times: Vec<u32>,
}

/// The one in the middle; sorts the values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The time that so many of a thousand are below; sorts the times, which are in nanoseconds. In
/// microseconds, with one digit.
pub fn per_mille(times: &mut [u32], place: usize) -> f64 {
    times.sort_unstable();
    let place = times.len().saturating_sub(1) * place / 1000;
    let nanoseconds = times.get(place).copied().unwrap_or_default();
    f64::from(nanoseconds / 100) / 10.0
}

/// As [`Slice::times`] holds it: four seconds at most.
#[must_use]
pub fn nanoseconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// So many of them in that time, a second.
#[must_use]
pub fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_acts_under_its_number_and_is_counted() {
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

    #[test]
    fn an_error_of_any_thread_is_told() {
        let fail = |number| if number == 1 { Err(number) } else { Ok(()) };
        assert_eq!(by_threads((2, Duration::from_millis(1)), &fail).unwrap_err(), 1);
    }

    #[test]
    fn a_place_is_that_among_the_sorted_times() {
        let mut times: Vec<u32> = (1..=101).rev().map(|n| n * 1000).collect();
        assert_eq!((per_mille(&mut times, 500), per_mille(&mut times, 990)), (51.0, 100.0));
        assert!(per_mille(&mut [], 500).abs() < f64::EPSILON);
    }
}
