//! Tells a process from its forked children without a system call.
//!
//! A process id does not suffice: in its own pid namespace a child may have the id of its parent.
//! Instead, the kernel replaces one page of memory with zeros in each child (`MADV_WIPEONFORK`,
//! Linux 4.14), and a number in that page identifies the process.

#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that identifies the calling process. It is the same at each call and differs in each
/// child that `fork` makes, and in their children.
///
/// The call costs one load from memory. Where the kernel does not support such a page, the number
/// is the process id: that costs a system call, and a child in another pid namespace may have the
/// same one.
///
/// Unrelated processes may have the same number. A process that shares the memory of another
/// (`vfork`, `clone` with `CLONE_VM`) counts as a thread of it.
#[must_use]
#[inline]
pub fn process_token() -> u64 {
    match page() {
        Some(page) => match page.load(Ordering::Relaxed) {
            0 => name_process(page),
            token => token,
        },
        None => u64::from(std::process::id()),
    }
}

/// The number of tokens used by this process and its ancestors. It is in ordinary memory, which a
/// child copies, so a token never equals that of an ancestor.
static TOKENS: AtomicU64 = AtomicU64::new(0);

/// Gives this process a token, unless another thread did.
#[cold]
fn name_process(page: &AtomicU64) -> u64 {
    let token = TOKENS.fetch_add(1, Ordering::Relaxed) + 1;
    match page.compare_exchange(0, token, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => token,
        Err(of_another_thread) => of_another_thread,
    }
}

/// The page that the kernel zeroes in a forked child, if it supports that. It is never unmapped.
#[cfg(target_os = "linux")]
#[inline]
fn page() -> Option<&'static AtomicU64> {
    static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    if let Some(page) = PAGE.get() {
        return *page;
    }
    // Map the page before the cell is locked: a child forked while another thread holds the cell
    // would wait forever for a thread that it does not have. If two threads map a page, one of the
    // pages stays unused.
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

    // The kernel rounds this up to a whole page.
    let length = size_of::<AtomicU64>();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without an address hint the kernel chooses an unused range.
    let page = unsafe { mmap_anonymous(null_mut(), length, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page was mapped above, and nothing refers to it yet.
    let wiped = unsafe { madvise(page, length, Advice::LinuxWipeOnFork) };
    // `MADV_REMOVE` must fail here because there is no file. QEMU before 7.1 accepts any advice in
    // user mode and follows none, so success means that the first advice did nothing, either.
    // SAFETY: the page was mapped above, and nothing refers to it yet.
    let any_advice = unsafe { madvise(page, length, Advice::LinuxRemove) };
    if wiped.is_err() || any_advice.is_ok() {
        return None;
    }
    // SAFETY: the page is aligned, all zeros and never unmapped, and it is used only as this
    // atomic.
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

    /// After a fork, the kernel gives the child a page of zeros.
    #[test]
    fn wiped_page_gets_another_token() {
        let page = AtomicU64::new(0);
        let parent = name_process(&page);
        assert_eq!(name_process(&page), parent);
        page.store(0, Ordering::Relaxed);
        assert_ne!(name_process(&page), parent);
    }
}
