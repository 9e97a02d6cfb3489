//! Once its buffers have grown, an append from C allocates nothing for its record.

use seawall_ffi as _;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted on one thread.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if IS_COUNTED.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: what the trait asks of `alloc` is asked of the caller.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: what the trait asks of `dealloc` is asked of the caller.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds what `dealloc` asks for.
        unsafe { System.dealloc(pointer, layout) }
    }

    // SAFETY: what the trait asks of `realloc` is asked of the caller.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller upholds what `realloc` asks for.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the signatures are those of the header.
unsafe extern "C" {
    fn seawall_log_open(
        path: *const c_char,
        options: *const c_void,
        log: *mut *mut c_void,
        error: *mut *mut c_void,
    ) -> i32;
    fn seawall_log_append(
        log: *const c_void,
        data: *const c_void,
        size: usize,
        lsn: *mut u64,
        error: *mut *mut c_void,
    ) -> i32;
    fn seawall_log_free(log: *mut c_void);
}

fn append(log: *const c_void) {
    let (record, mut error) = ([b'x'; 100], null_mut());
    let data = record.as_ptr().cast();
    // SAFETY: the handle is open, and the record and the place are live.
    let status = unsafe { seawall_log_append(log, data, 100, null_mut(), &raw mut error) };
    assert_eq!(status, 0);
}

#[test]
fn append_from_c_allocates_nothing_for_its_record() {
    let folder = std::env::temp_dir().join(format!("seawall-ffi-alloc-{}", std::process::id()));
    let path = CString::new(folder.to_str().expect("a plain path")).expect("no zero");
    let mut log = null_mut();
    // SAFETY: all pointers are null or lead to live values.
    let status = unsafe { seawall_log_open(path.as_ptr(), null(), &raw mut log, null_mut()) };
    assert_eq!(status, 0);
    for _ in 0..50 {
        append(log);
    }
    IS_COUNTED.set(true);
    for _ in 0..200 {
        append(log);
    }
    IS_COUNTED.set(false);
    // SAFETY: the handle is used no more.
    unsafe { seawall_log_free(log) };
    Command::new("rm").arg("-r").arg(folder).status().expect("it is there");
    // The log asks for its next file now and then.
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(allocations < 20, "{allocations}");
}
