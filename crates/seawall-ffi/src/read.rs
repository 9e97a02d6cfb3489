//! Reading records: cursors, followers, and buffers that outlive them.

use crate::error::Error;
use crate::fault::Fault;
use crate::guard;
use crate::log::Bytes;
use crate::log::{Log, lsn, open_log};
use crate::pointer::{Freed, Handle, In, InMut, Out, give};
use crate::status::Status;
use seawall::Raw;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// Waits without an end, as `timeout_ms`.
pub const FOREVER: u64 = u64::MAX;

/// A record. The bytes are borrowed: the function that returns them says until when they are valid.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// The record's number.
    pub lsn: u64,
    /// The first byte; never null.
    pub data: *const c_void,
    /// How many bytes.
    pub size: usize,
    /// When the record's batch was written, in microseconds since 1970; 0 if unknown.
    pub time_us: u64,
    /// The schema number of the log when the record was appended.
    pub schema: u32,
    /// 1 if the atomic set continues with the next record, otherwise 0.
    pub set_continues: u32,
}

/// Reads the records of a log in order, without copying them. One thread at a time may use it.
#[derive(Debug)]
pub struct Cursor {
    cursor: Mutex<seawall::Cursor>,
}

/// Reads the records of a log as they become durable. One thread at a time may use it.
#[derive(Debug)]
pub struct Follower {
    state: Mutex<Following>,
    /// Set when the handle that appends is closed; `None` if another process appends.
    is_closed: Option<Arc<AtomicBool>>,
}

#[derive(Debug)]
struct Following {
    follower: seawall::Follower<[u8], Raw>,
    /// The bytes that the last call lent.
    lent: Vec<u8>,
}

/// Bytes that the caller owns, for use again and again. One thread at a time may use it.
#[derive(Debug)]
pub struct Buffer {
    bytes: Mutex<Vec<u8>>,
}

impl Handle for Cursor {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b05;
}

impl Handle for Follower {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b06;
}

impl Handle for Buffer {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b07;
}

/// Refuses a second thread: it would invalidate bytes that the first one has.
fn alone<'a, T>(state: &'a Mutex<T>, what: &str) -> Result<MutexGuard<'a, T>, Fault> {
    match state.try_lock() {
        Ok(state) => Ok(state),
        Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
        Err(TryLockError::WouldBlock) => {
            Err(Fault::argument(format!("another thread uses this {what} at the moment")))
        }
    }
}

/// Gives a cursor to C.
pub(crate) fn cursor_into_c(cursor: seawall::Cursor, place: &Out<*mut Cursor>) {
    place.put(give(Cursor { cursor: Mutex::new(cursor) }));
}

/// Gives a follower to C.
pub(crate) fn follower_into_c(
    follower: seawall::Follower<[u8], Raw>,
    is_closed: Option<Arc<AtomicBool>>,
    place: &Out<*mut Follower>,
) {
    let state = Mutex::new(Following { follower, lent: vec![] });
    place.put(give(Follower { state, is_closed }));
}

/// Stores what a lookup found in the caller's buffer.
pub(crate) fn found_into(
    buffer: &InMut<Buffer>,
    find: impl FnOnce() -> Result<Option<Vec<u8>>, Fault>,
) -> Result<Status, Fault> {
    let mut bytes = alone(&buffer.handle("buffer")?.bytes, "buffer")?;
    bytes.clear();
    let Some(found) = find()? else { return Ok(Status::None) };
    *bytes = found;
    Ok(Status::Ok)
}

/// Makes a buffer; null if that fails. Free it with seawall_buffer_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_buffer_new() -> *mut Buffer {
    guard::value(std::ptr::null_mut(), || Ok(give(Buffer { bytes: Mutex::default() })))
}

/// The bytes of a buffer, valid until it is filled again or freed; null if `buffer` is invalid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_buffer_data(buffer: In<Buffer>) -> *const c_void {
    guard::value(std::ptr::null(), || {
        Ok(alone(&buffer.handle("buffer")?.bytes, "buffer")?.as_ptr().cast())
    })
}

/// How many bytes a buffer has; 0 if `buffer` is invalid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_buffer_size(buffer: In<Buffer>) -> usize {
    guard::value(0, || Ok(alone(&buffer.handle("buffer")?.bytes, "buffer")?.len()))
}

/// Releases a buffer; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_buffer_free(buffer: Freed<Buffer>) {
    guard::bare(|| buffer.take().map(drop));
}

/// Copies the record `lsn` to `buffer`. SEAWALL_STATUS_NONE after the last durable record.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_get(
    log: In<Log>,
    lsn: u64,
    buffer: InMut<Buffer>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        let log: &Bytes = open_log(&log)?;
        found_into(&buffer, || Ok(log.get(self::lsn(lsn)?)?))
    })
}

/// Reads the durable records from `from` on, as of now. Begin at seawall_log_replay_start. Free the
/// cursor with seawall_cursor_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_read(
    log: In<Log>,
    from: u64,
    cursor: Out<*mut Cursor>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        cursor.required("cursor")?;
        cursor.put(std::ptr::null_mut());
        cursor_into_c(open_log(&log)?.cursor(lsn(from)?)?, &cursor);
        Ok(Status::Ok)
    })
}

/// Follows the log: the durable records from `from` on, then new ones. Free the follower with
/// seawall_follower_free.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_follow(
    log: In<Log>,
    from: u64,
    follower: Out<*mut Follower>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        follower.required("follower")?;
        follower.put(std::ptr::null_mut());
        let is_closed = log.handle("log")?.is_closed().clone();
        follower_into_c(open_log(&log)?.follow(lsn(from)?)?, Some(is_closed), &follower);
        Ok(Status::Ok)
    })
}

/// Gets the next record; SEAWALL_STATUS_NONE at the end. The bytes are valid until the next call
/// with this cursor. After an error reading ends, unless the reader skips damage.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_cursor_next(
    cursor: InMut<Cursor>,
    record: Out<Record>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        record.required("record")?;
        let mut cursor = alone(&cursor.handle("cursor")?.cursor, "cursor")?;
        let Some(found) = cursor.next_record()? else { return Ok(Status::None) };
        record.put(shown(&found, found.payload));
        Ok(Status::Ok)
    })
}

/// As seawall_cursor_next, but copies the bytes to `buffer`: they are valid until the buffer is
/// filled again or freed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_cursor_next_copy(
    cursor: InMut<Cursor>,
    buffer: InMut<Buffer>,
    record: Out<Record>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        record.required("record")?;
        let mut cursor = alone(&cursor.handle("cursor")?.cursor, "cursor")?;
        let mut bytes = alone(&buffer.handle("buffer")?.bytes, "buffer")?;
        let Some(found) = cursor.next_record()? else { return Ok(Status::None) };
        bytes.clear();
        bytes.extend_from_slice(found.payload);
        record.put(shown(&found, &bytes));
        Ok(Status::Ok)
    })
}

/// The record as C sees it, with its bytes at `data`.
fn shown(record: &seawall::Record<'_>, data: &[u8]) -> Record {
    Record {
        lsn: record.lsn.get(),
        data: data.as_ptr().cast(),
        size: data.len(),
        time_us: record.time_us,
        schema: record.schema,
        set_continues: u32::from(record.goes_on),
    }
}

/// Releases a cursor; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_cursor_free(cursor: Freed<Cursor>) {
    guard::bare(|| cursor.take().map(drop));
}

/// Waits up to `timeout_ms` milliseconds, or SEAWALL_FOREVER, for the next record;
/// SEAWALL_STATUS_NONE if there is none by then. The bytes are valid until the next call with this
/// follower. After an error a later call tries again at the same position.
///
/// Closing the log in this process ends the wait with SEAWALL_STATUS_REOPEN. `time_us` and `schema`
/// are 0.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_follower_next(
    follower: InMut<Follower>,
    timeout_ms: u64,
    record: Out<Record>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        record.required("record")?;
        let follower = follower.handle("follower")?;
        let mut state = alone(&follower.state, "follower")?;
        let Following { follower: new_records, lent } = &mut *state;
        let Some((lsn, bytes)) = follower.wait(new_records, timeout_ms)? else {
            return Ok(Status::None);
        };
        *lent = bytes;
        record.put(shown(&seawall::Record::new(lsn, lent), lent));
        Ok(Status::Ok)
    })
}

/// As seawall_follower_next, but copies the bytes to `buffer`: they are valid until the buffer is
/// filled again or freed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_follower_next_copy(
    follower: InMut<Follower>,
    timeout_ms: u64,
    buffer: InMut<Buffer>,
    record: Out<Record>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        record.required("record")?;
        let follower = follower.handle("follower")?;
        let mut state = alone(&follower.state, "follower")?;
        let mut place = alone(&buffer.handle("buffer")?.bytes, "buffer")?;
        let Some((lsn, bytes)) = follower.wait(&mut state.follower, timeout_ms)? else {
            return Ok(Status::None);
        };
        *place = bytes;
        record.put(shown(&seawall::Record::new(lsn, &place), &place));
        Ok(Status::Ok)
    })
}

impl Follower {
    fn wait(
        &self,
        new_records: &mut seawall::Follower<[u8], Raw>,
        timeout_ms: u64,
    ) -> Result<Option<(seawall::Lsn, Vec<u8>)>, Fault> {
        let timeout = match timeout_ms {
            FOREVER => Duration::MAX,
            limit => Duration::from_millis(limit),
        };
        let found = new_records.next_within(timeout)?;
        let is_closed = || self.is_closed.as_ref().is_some_and(|set| set.load(Ordering::Relaxed));
        // An error, because a caller that waits in a loop would otherwise never end.
        if found.is_none() && is_closed() { Err(Fault::Closed) } else { Ok(found) }
    }
}

/// The number of the record that comes next: store it to continue there. 0 if `follower` is
/// invalid or another thread waits in it.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_follower_position(follower: In<Follower>) -> u64 {
    guard::value(0, || {
        let state = alone(&follower.handle("follower")?.state, "follower")?;
        Ok(state.follower.position().get())
    })
}

/// Releases a follower; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_follower_free(follower: Freed<Follower>) {
    guard::bare(|| follower.take().map(drop));
}
