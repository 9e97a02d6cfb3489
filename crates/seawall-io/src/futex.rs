//! Sleeping until a word in memory changes.

use rustix::thread::futex;
use std::sync::atomic::AtomicU32;

/// Sleeps as long as `word` holds `value` and nobody wakes whoever sleeps there; or shorter: look
/// again.
///
/// The kernel compares and falls asleep in one step, so what is changed first and woken then is
/// never slept through: futex(2).
pub fn futex_wait(word: &AtomicU32, value: u32) {
    // Changed already, interrupted, woken: the caller looks again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, value, None);
}

/// Wakes `count` of those who sleep at `word`, or all if they are fewer.
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
    // The kernel counts with a sign.
    let count = count.min(u32::MAX >> 1);
    // Nothing that can fail: the word is there and aligned.
    let _ = futex::wake(word, futex::Flags::PRIVATE, count);
}
