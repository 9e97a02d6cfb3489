//! Sleeping until a word in memory changes.

use rustix::thread::futex;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `value` until a thread wakes the sleepers of `word`. It may return
/// earlier, so the caller must check the word again.
///
/// The kernel compares and falls asleep in one step, so a change before a wake-up is never missed:
/// futex(2).
pub fn futex_wait(word: &AtomicU32, value: u32) {
    // Changed already, interrupted or woken: the caller checks the word again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, value, None);
}

/// Wakes up to `count` threads that sleep on `word`.
///
/// # Examples
///
/// ```
/// use seawall_io::{futex_wait, futex_wake};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let word = AtomicU32::new(0);
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         while word.load(Ordering::Acquire) == 0 {
///             futex_wait(&word, 0);
///         }
///     });
///     word.store(1, Ordering::Release);
///     futex_wake(&word, u32::MAX);
/// });
/// ```
pub fn futex_wake(word: &AtomicU32, count: u32) {
    // The kernel uses a signed count.
    let count = count.min(u32::MAX >> 1);
    // This cannot fail: the word exists and is aligned.
    let _ = futex::wake(word, futex::Flags::PRIVATE, count);
}
