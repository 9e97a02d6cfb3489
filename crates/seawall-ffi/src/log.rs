//! The handle of a log that is open for append: open, bounds, checkpoint, truncate, close.

use crate::error::{Error, number};
use crate::fault::Fault;
use crate::guard;
use crate::options::{self, Options};
use crate::pointer::{Freed, Handle, In, Out, give};
use crate::report::{Recovery, RecoveryObject};
use crate::status::Status;
use seawall::{Lsn, Raw};
use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The log of plain bytes that each handle has.
pub(crate) type Bytes = seawall::Log<[u8], Raw>;

/// A log that is open for append. Threads may share it, and threads that append at the same time
/// share device syncs.
#[derive(Debug)]
pub struct Log {
    bytes: Bytes,
    /// Followers see it, too.
    is_closed: Arc<AtomicBool>,
    recovery: Box<RecoveryObject>,
}

impl Handle for Log {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b03;
}

impl Log {
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn is_closed(&self) -> &Arc<AtomicBool> {
        &self.is_closed
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// The log of a handle that was not closed.
#[inline]
pub(crate) fn open_log(log: &In<Log>) -> Result<&Bytes, Fault> {
    let handle = log.handle("log")?;
    if handle.is_closed.load(Ordering::Relaxed) { Err(Fault::Closed) } else { Ok(&handle.bytes) }
}

/// The record number that C passes.
pub(crate) fn lsn(number: u64) -> Result<Lsn, Fault> {
    Lsn::new(number).ok_or_else(|| Fault::argument("record numbers start at 1"))
}

/// Opens the log in the directory `path`, or creates it. Recovers from a crash;
/// seawall_log_recovery reports what was found.
///
/// `options` may be null, for the defaults. `*log` is the handle, or null after an error. Release
/// it with seawall_log_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_open(
    path: In<c_char>,
    options: In<Options>,
    log: Out<*mut Log>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        log.required("log")?;
        log.put(std::ptr::null_mut());
        let options = options::settings(&options)?.log;
        let opened: Bytes = options.open(path.path("path")?)?;
        let recovery = Box::new(RecoveryObject::new(opened.recovery()));
        log.put(give(Log { bytes: opened, is_closed: Arc::default(), recovery }));
        Ok(Status::Ok)
    })
}

/// Writes everything appended, records the clean close, and lets other processes open the log.
///
/// Later calls with this handle return SEAWALL_STATUS_REOPEN, and threads that wait in one return.
/// The handle must still be freed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_close(log: In<Log>, error: Out<*mut Error>) -> Status {
    guard::status(error, || {
        let handle = log.handle("log")?;
        if handle.is_closed.swap(true, Ordering::Relaxed) {
            return Err(Fault::Closed);
        }
        handle.bytes.close_shared()?;
        Ok(Status::Ok)
    })
}

/// Releases the handle, and closes the log without a report if seawall_log_close was not called;
/// null is allowed. No other call may use the handle meanwhile or later. Tickets, cursors and
/// followers of it stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_free(log: Freed<Log>) {
    guard::bare(|| log.take().map(drop));
}

/// What opening found. Valid until the handle is freed; null if `log` is invalid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_recovery(log: In<Log>) -> *const Recovery {
    guard::value(std::ptr::null(), || Ok(log.handle("log")?.recovery.shown()))
}

/// The last durable record; 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_durable(log: In<Log>) -> u64 {
    guard::value(0, || Ok(number(log.handle("log")?.bytes.durable())))
}

/// The first record of the log, or the next one if the log is empty; 0 if `log` is invalid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_oldest(log: In<Log>) -> u64 {
    guard::value(0, || Ok(log.handle("log")?.bytes.oldest().get()))
}

/// Where replay starts: the newest checkpoint, or the oldest record without one; 0 if `log` is
/// invalid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_replay_start(log: In<Log>) -> u64 {
    guard::value(0, || Ok(log.handle("log")?.bytes.replay_start().get()))
}

/// Waits until every record appended so far is durable. `last`, if not null, gets the last of them,
/// or 0 if the log is empty.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_flush(
    log: In<Log>,
    last: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        last.put(number(open_log(&log)?.flush()?));
        Ok(Status::Ok)
    })
}

/// Waits until every record appended so far is confirmed: durable, with durable evidence in another
/// place. `last` as in seawall_log_flush.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_confirm(
    log: In<Log>,
    last: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        last.put(number(open_log(&log)?.confirm()?));
        Ok(Status::Ok)
    })
}

/// Sets a checkpoint durably: replay needs no record before `from`, which must exist.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_checkpoint(
    log: In<Log>,
    from: u64,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        open_log(&log)?.checkpoint(lsn(from)?)?;
        Ok(Status::Ok)
    })
}

/// Removes the segments that hold only records before `from`, durably. Whole segments are removed,
/// so some records before `from` may stay: `oldest`, if not null, gets the first one left.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_truncate_before(
    log: In<Log>,
    from: u64,
    oldest: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        oldest.put(open_log(&log)?.truncate_before(lsn(from)?)?.get());
        Ok(Status::Ok)
    })
}

/// Removes every record after `last`, durably; 0: all records. The next record gets the first
/// number that this frees.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_truncate_after(
    log: In<Log>,
    last: u64,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        open_log(&log)?.truncate_after(Lsn::new(last))?;
        Ok(Status::Ok)
    })
}
