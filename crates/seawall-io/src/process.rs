//! Telling a process from the children that `fork` makes of it, without a system call.
//!
//! A process id does not: in a pid namespace of its own a child may have its parent's. The kernel
//! is asked to hand one page of memory to each child as zeros (`MADV_WIPEONFORK`, Linux 4.14), and
//! a number in it names the process.

#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of the process that calls: the same at each call, and another one in each child that
/// `fork` makes of it, and in theirs.
///
/// Costs a load from memory. Where the kernel keeps no such page, it is the process id, which costs
/// a system call and may be the same in a child that is in another pid namespace.
///
/// Unrelated processes may have the same number. A process that shares the memory of another
/// (`vfork`, `clone` with `CLONE_VM`) counts as a thread of it.
#[must_use]
pub fn process_token() -> u64 {
    match page() {
        Some(page) => match page.load(Ordering::Relaxed) {
            0 => name_process(page),
            token => token,
        },
        None => u64::from(std::process::id()),
    }
}

/// How many tokens this process and those that it was forked from have had. In ordinary memory,
/// which a child has a copy of: a token is never that of a process it descends from.
static TOKENS: AtomicU64 = AtomicU64::new(0);

/// Gives this process a token, unless another thread does.
#[cold]
fn name_process(page: &AtomicU64) -> u64 {
    let token = TOKENS.fetch_add(1, Ordering::Relaxed) + 1;
    match page.compare_exchange(0, token, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => token,
        Err(of_another_thread) => of_another_thread,
    }
}

/// The page that is zeros in a forked child, if the kernel keeps one. It stays to the end of the
/// process.
#[cfg(target_os = "linux")]
fn page() -> Option<&'static AtomicU64> {
    static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    if let Some(page) = PAGE.get() {
        return *page;
    }
    // Made before the cell is taken: a child that is forked meanwhile would wait for ever for a
    // thread that it does not have. A page that another thread was quicker with stays unused.
    let made = map_page();
    *PAGE.get_or_init(|| made)
}

#[cfg(not(target_os = "linux"))]
fn page() -> Option<&'static AtomicU64> {
    None
}

#[cfg(target_os = "linux")]
fn map_page() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    use std::ptr::null_mut;

    // The kernel makes a whole page of it.
    let length = size_of::<AtomicU64>();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without an address the kernel takes one where nothing is.
    let page = unsafe { mmap_anonymous(null_mut(), length, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page was mapped above, and nothing refers to it yet.
    let wiped = unsafe { madvise(page, length, Advice::LinuxWipeOnFork) };
    // There is no file that a hole could be made in, and a kernel says so. QEMU before 7.1 takes
    // any advice for a program that it runs, and follows none.
    // SAFETY: the page was mapped above, and nothing refers to it yet.
    let any_advice = unsafe { madvise(page, length, Advice::LinuxRemove) };
    if wiped.is_err() || any_advice.is_ok() {
        return None;
    }
    // SAFETY: the page is aligned, all zeros, and never unmapped; all use it as this atomic.
    Some(unsafe { AtomicU64::from_ptr(page.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_sees_the_same_token() {
        let tokens = [(); 8].map(|()| std::thread::spawn(process_token));
        let tokens = tokens.map(|thread| thread.join().unwrap());
        assert_eq!(tokens, [process_token(); 8]);
        assert_ne!(process_token(), 0);
    }

    /// A child's page is all zeros.
    #[test]
    fn wiped_page_gets_another_token() {
        let page = AtomicU64::new(0);
        let parent = name_process(&page);
        assert_eq!(name_process(&page), parent);
        page.store(0, Ordering::Relaxed);
        assert_ne!(name_process(&page), parent);
    }
}
