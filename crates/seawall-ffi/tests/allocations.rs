//! Once its buffers have grown, the log allocates nothing for a record that C appends or submits.

use seawall_ffi as _;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::process::Command;
use std::ptr::{null, null_mut};

/// The system's allocator, counted by thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
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
    fn seawall_log_submit(
        log: *const c_void,
        data: *const c_void,
        size: usize,
        lsn: *mut u64,
        ticket: *mut *mut c_void,
        error: *mut *mut c_void,
    ) -> i32;
    fn seawall_log_flush(log: *const c_void, last: *mut u64, error: *mut *mut c_void) -> i32;
    fn seawall_log_free(log: *mut c_void);
}

fn append(log: *const c_void) {
    let (record, mut error) = ([b'x'; 100], null_mut());
    let data = record.as_ptr().cast();
    // SAFETY: the handle is open, and the record and the place are live.
    let status = unsafe { seawall_log_append(log, data, 100, null_mut(), &raw mut error) };
    assert_eq!(status, 0);
}

/// Submits a record without a ticket, and waits for it now and then.
fn submit(log: *const c_void, number: u32) {
    let (record, mut error) = ([b'x'; 100], null_mut());
    let (data, none) = (record.as_ptr().cast(), (null_mut(), null_mut()));
    // SAFETY: the handle is open, and the record and the place are live.
    let status = unsafe { seawall_log_submit(log, data, 100, none.0, none.1, &raw mut error) };
    assert_eq!(status, 0);
    if number.is_multiple_of(20) {
        // SAFETY: the handle is open, and the place is live.
        let status = unsafe { seawall_log_flush(log, null_mut(), &raw mut error) };
        assert_eq!(status, 0);
    }
}

/// How often this thread allocates in 400 calls, once 100 have grown the buffers.
fn allocations(name: &str, call: fn(*const c_void, u32)) -> u64 {
    let name = format!("seawall-ffi-alloc-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let path = CString::new(folder.to_str().expect("a plain path")).expect("no zero");
    let mut log = null_mut();
    // SAFETY: all pointers are null or lead to live values.
    let status = unsafe { seawall_log_open(path.as_ptr(), null(), &raw mut log, null_mut()) };
    assert_eq!(status, 0);
    (0..100).for_each(|number| call(log, number));
    let before = ALLOCATIONS.get();
    (0..400).for_each(|number| call(log, number));
    let allocations = ALLOCATIONS.get() - before;
    // SAFETY: the handle is used no more.
    unsafe { seawall_log_free(log) };
    Command::new("rm").arg("-r").arg(folder).status().expect("it is there");
    allocations
}

// The log asks for its next file now and then.

#[test]
fn append_from_c_allocates_nothing_for_its_record() {
    let found = allocations("append", |log, _| append(log));
    assert!(found < 20, "{found}");
}

#[test]
fn submit_from_c_without_a_ticket_allocates_nothing_for_its_record() {
    let found = allocations("submit", submit);
    assert!(found < 20, "{found}");
}
