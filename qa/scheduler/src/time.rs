//! The simulated time of one execution: starts at zero, and stands still until a task advances it.
//!
//! A task that waits for a time sets an alarm; advancing the time notifies the tasks whose alarms
//! are due. An alarm remains until its owner removes it, because other tasks can run between
//! setting the alarm and waiting: a notification in that time is lost and must be repeated.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::sync;
use shuttle::sync::Condvar;

/// The simulated time and its waiters.
#[derive(Debug, Default)]
struct Times {
    now: Duration,
    /// The waiting tasks by time; the number distinguishes equal times.
    alarms: BTreeMap<(Duration, u64), Arc<Condvar>>,
    numbers: u64,
    /// The task that advances the time as soon as another task waits for it.
    flow: Option<Waker>,
}

shuttle::lazy_static! {
    /// Shuttle creates this for each execution. The lock is std's, which is no scheduling point: no
    /// other task runs while it is held.
    static ref TIMES: Mutex<Times> = Mutex::default();
}

fn times() -> MutexGuard<'static, Times> {
    TIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time since this execution began.
#[must_use]
pub fn now() -> Duration {
    times().now
}

/// Advances the time, and wakes the tasks that waited for it.
pub fn advance(time: Duration) {
    let due: Vec<Arc<Condvar>> = {
        let mut times = times();
        times.now = times.now.saturating_add(time);
        times.alarms.range(..=(times.now, u64::MAX)).map(|(_, alarm)| alarm.clone()).collect()
    };
    for condvar in due {
        condvar.notify_all();
    }
}

/// Returns the earliest time that a task waits for. That time may have passed already if the
/// task has not run since.
#[must_use]
pub fn next_alarm() -> Option<Duration> {
    times().alarms.first_key_value().map(|((time, _), _)| *time)
}

/// Advances the time to the next alarm, if there is one.
pub fn advance_to_next_alarm() {
    if let Some(time) = next_alarm() {
        advance(time.saturating_sub(now()));
    }
}

/// Waits until `time` has passed.
pub fn sleep(time: Duration) {
    let until = now().saturating_add(time);
    let (mutex, condvar) = (shuttle::sync::Mutex::new(()), sync::Condvar::new());
    let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    while now() < until {
        let waited = condvar.wait_timeout(guard, until.saturating_sub(now()));
        guard = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Makes time pass by itself from now on: whenever a task waits for a time, the clock advances to
/// the next alarm, at a moment that the scheduler chooses. To other tasks this looks as if the
/// machine were slow.
///
/// The clock stands still while no task waits for a time. So a task that would wait forever is
/// still detected as deadlocked, and the execution can end.
pub fn flow() {
    let flow = async {
        loop {
            poll_fn(|context| {
                let mut times = times();
                if times.alarms.is_empty() {
                    times.flow = Some(context.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            advance_to_next_alarm();
            shuttle::future::yield_now().await;
        }
    };
    // Drops the handle, so that no task waits for this one to end.
    drop(shuttle::future::spawn(flow));
}

/// The alarm of a task that waits for a time.
#[derive(Debug)]
pub(crate) struct Alarm {
    key: (Duration, u64),
}

impl Alarm {
    /// Arranges that `condvar` is notified after `time`.
    pub(crate) fn set(condvar: &Arc<Condvar>, time: Duration) -> Self {
        let mut times = times();
        times.numbers += 1;
        let key = (times.now.saturating_add(time), times.numbers);
        times.alarms.insert(key, condvar.clone());
        let flow = times.flow.take();
        drop(times);
        if let Some(waker) = flow {
            waker.wake();
        }
        Self { key }
    }

    /// Returns whether the time of the alarm has come.
    pub(crate) fn is_due(&self) -> bool {
        self.key.0 <= now()
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let alarm = times().alarms.remove(&self.key);
        drop(alarm);
    }
}

/// The simulated time as a [`seawall_io::Clock`]: while a task sleeps, other tasks run.
#[derive(Debug, Default)]
pub struct Clock;

/// The wall clock at the start of an execution, in microseconds since 1970: the year 2020.
const START_US: u64 = 1_577_836_800_000_000;

impl seawall_io::Clock for Clock {
    fn now(&self) -> Duration {
        now()
    }

    fn wall_us(&self) -> u64 {
        let passed = u64::try_from(now().as_micros()).unwrap_or(u64::MAX);
        START_US.saturating_add(passed)
    }

    fn sleep(&self, time: Duration) {
        sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs `test` under a hundred schedules.
    fn scheduled(test: impl Fn() + Send + Sync + 'static) {
        let random = shuttle::scheduler::RandomScheduler::new_from_seed(1, 100);
        shuttle::Runner::new(random, crate::config()).run(test);
    }

    /// A flag that tasks wait for.
    #[derive(Default)]
    struct Door {
        open: sync::Mutex<bool>,
        condvar: sync::Condvar,
    }

    impl Door {
        fn wait_within(&self, time: Duration) -> bool {
            let until = now() + time;
            let mut open = self.open.lock().unwrap();
            while !*open && now() < until {
                open = self.condvar.wait_timeout(open, until - now()).unwrap().0;
            }
            *open
        }

        fn open(&self) {
            *self.open.lock().unwrap() = true;
            self.condvar.notify_all();
        }
    }

    #[test]
    fn each_execution_begins_at_zero_and_time_stands_still_unless_it_is_moved() {
        scheduled(|| {
            assert_eq!((now(), next_alarm()), (Duration::ZERO, None));
            shuttle::thread::yield_now();
            advance(SECOND);
            assert_eq!(now(), SECOND);
        });
    }

    #[test]
    fn a_timed_wait_ends_when_its_time_has_come_and_not_before() {
        scheduled(|| {
            let door = Arc::new(Door::default());
            let inside = Arc::clone(&door);
            let waiter = shuttle::thread::spawn(move || (inside.wait_within(SECOND * 2), now()));
            while next_alarm().is_none() {
                shuttle::thread::yield_now();
            }
            advance(SECOND);
            while now() < SECOND * 2 || next_alarm().is_some() {
                shuttle::thread::yield_now();
                advance_to_next_alarm();
            }
            assert_eq!(waiter.join().unwrap(), (false, SECOND * 2));
        });
    }

    #[test]
    fn a_timed_wait_ends_early_when_it_is_notified() {
        scheduled(|| {
            let door = Arc::new(Door::default());
            let inside = Arc::clone(&door);
            let waiter = shuttle::thread::spawn(move || inside.wait_within(SECOND));
            door.open();
            assert!(waiter.join().unwrap());
            assert_eq!((now(), next_alarm()), (Duration::ZERO, None));
        });
    }

    #[test]
    fn time_that_flows_wakes_sleepers_in_order_and_ends_with_the_execution() {
        scheduled(|| {
            flow();
            let sleepers = [3, 1, 2].map(|seconds| {
                shuttle::thread::spawn(move || {
                    sleep(SECOND * seconds);
                    now()
                })
            });
            let woken = sleepers.map(|sleeper| sleeper.join().unwrap());
            assert!(woken.iter().zip([3, 1, 2]).all(|(at, seconds)| *at >= SECOND * seconds));
            assert!(now() <= SECOND * 6);
        });
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn flowing_time_does_not_wake_a_task_that_waits_without_a_time() {
        scheduled(|| {
            flow();
            sleep(SECOND);
            let door = Door::default();
            drop(door.condvar.wait(door.open.lock().unwrap()));
        });
    }
}
