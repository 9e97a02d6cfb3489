//! What a submit from C costs beside one from Rust, in slices that alternate: nanoseconds of the
//! caller, medians. `cargo bench -p seawall-ffi`.

#![expect(clippy::print_stdout, reason = "it prints its result")]

use seawall::{Level, Log, Options, Raw};
use seawall_ffi as _;
use seawall_io::{Clock, SystemClock};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

type Bytes = Log<[u8], Raw>;

/// Records in a slice: too few for the log to write them meanwhile.
const RECORDS: u32 = 4_000;
const SLICES: usize = 101;
const SIZE: usize = 100;

// As seawall.h declares them.
// SAFETY: the signatures are those of the header.
unsafe extern "C" {
    fn seawall_options_new() -> *mut c_void;
    fn seawall_options_set_level(options: *mut c_void, level: i32) -> i32;
    fn seawall_log_open(
        path: *const c_char,
        options: *const c_void,
        log: *mut *mut c_void,
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
    fn seawall_log_flush(log: *const c_void, last: *mut u64, error: *mut *mut c_void) -> c_int;
    fn seawall_log_free(log: *mut c_void);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("seawall-ffi-cost-{}", std::process::id()));
    let log: Bytes = Options::new().level(Level::Buffered).open(folder.with_extension("rust"))?;
    let c_log = open_from_c(&folder.with_extension("c").display().to_string())?;
    let record = [b'x'; SIZE];
    let (mut by_rust, mut by_c, clock) = (vec![], vec![], SystemClock::new());
    for _ in 0..SLICES {
        by_rust.push(time(&clock, || log.submit(&record).is_ok()));
        log.flush()?;
        by_c.push(time(&clock, || submit_from_c(c_log, &record)));
        // SAFETY: the handle is open, and nothing asks for results.
        assert_eq!(unsafe { seawall_log_flush(c_log, null_mut(), null_mut()) }, 0);
    }
    let (rust, c) = (median(by_rust), median(by_c));
    println!(
        "a submit of {SIZE} bytes, medians of {SLICES} slices: Rust {rust:.1} ns, C {c:.1} ns"
    );
    println!("C - Rust: {:.1} ns", c - rust);
    // SAFETY: the handle is used no more.
    unsafe { seawall_log_free(c_log) };
    drop(log);
    for end in ["rust", "c"] {
        std::process::Command::new("rm").arg("-r").arg(folder.with_extension(end)).status()?;
    }
    Ok(())
}

fn open_from_c(path: &str) -> Result<*mut c_void, Box<dyn std::error::Error>> {
    let (path, mut log) = (CString::new(path)?, null_mut());
    // SAFETY: it has no arguments.
    let options = unsafe { seawall_options_new() };
    // SAFETY: the options were just made.
    assert_eq!(unsafe { seawall_options_set_level(options, 0) }, 0);
    // SAFETY: all pointers lead to live values.
    let status = unsafe { seawall_log_open(path.as_ptr(), options, &raw mut log, null_mut()) };
    if status == 0 { Ok(log) } else { Err(format!("status {status}").into()) }
}

fn submit_from_c(log: *const c_void, record: &[u8]) -> bool {
    let (data, mut lsn, mut error) = (record.as_ptr().cast(), 0, null_mut());
    let places = (&raw mut lsn, null_mut(), &raw mut error);
    // SAFETY: the handle is open, and the record and the places are live.
    let status =
        unsafe { seawall_log_submit(log, data, record.len(), places.0, places.1, places.2) };
    status == 0 && lsn > 0
}

/// Nanoseconds a call.
fn time(clock: &SystemClock, call: impl Fn() -> bool) -> f64 {
    let start = clock.now();
    for _ in 0..RECORDS {
        assert!(call(), "the log takes the record");
    }
    (clock.now() - start).as_secs_f64() * 1e9 / f64::from(RECORDS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
