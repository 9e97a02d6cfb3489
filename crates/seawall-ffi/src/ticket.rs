//! Tickets of submitted records: wait, poll, a callback, a file descriptor.

use crate::error::{Error, ErrorObject};
use crate::fault::Fault;
use crate::guard;
use crate::pointer::{Freed, Handle, In, Out, duplicate};
use crate::status::Status;
use rustix::fs::{FileType, OFlags};
use seawall::Lsn;
use std::ffi::{c_int, c_void};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A submitted record. Threads may share it.
#[derive(Debug)]
pub struct Ticket {
    ticket: seawall::Ticket,
}

/// Called once when a record is as durable as the log's level requires (SEAWALL_STATUS_OK), or when
/// that failed: then `error` says why. The library releases it after the call.
///
/// It runs on a thread that appends, on one of the log, or at once in seawall_ticket_on_done. It
/// may call any function, also with the same log, and free the ticket, but must not free the log: a
/// call may still use it. While it runs, other callbacks may wait. It must not throw or longjmp.
pub type DoneCallback =
    Option<extern "C" fn(context: *mut c_void, status: Status, lsn: u64, error: *const Error)>;

impl Handle for Ticket {
    const KIND: u64 = 0x7c1e_55a1_0e44_0b04;
}

impl Ticket {
    pub(crate) fn new(ticket: seawall::Ticket) -> Self {
        Self { ticket }
    }
}

/// Waits for one record on behalf of C. The log's waker keeps it alive until then.
#[derive(Debug)]
struct Completion {
    /// `None` once the record is done.
    ticket: Mutex<Option<seawall::Ticket>>,
    lsn: Lsn,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Call(extern "C" fn(*mut c_void, Status, u64, *const Error), AtomicPtr<c_void>),
    Signal(OwnedFd),
}

impl Wake for Completion {
    fn wake(self: Arc<Self>) {
        self.advance();
    }
}

impl Completion {
    /// Takes a copy of the ticket, because a callback may free the one that C has.
    fn start(ticket: seawall::Ticket, action: Action) {
        let (lsn, ticket) = (ticket.lsn(), Mutex::new(Some(ticket)));
        Arc::new(Self { ticket, lsn, action }).advance();
    }

    /// Acts if the record is done; otherwise the log wakes this again.
    fn advance(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let (ticket, result) = {
            let mut place = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(ticket) = place.as_mut() else { return };
            let Poll::Ready(result) = Pin::new(ticket).poll(&mut Context::from_waker(&waker))
            else {
                return;
            };
            (place.take(), result)
        };
        drop(ticket);
        self.finish(result.map_err(Fault::from));
    }

    fn finish(&self, result: Result<Lsn, Fault>) {
        match &self.action {
            Action::Call(callback, context) => {
                let context = context.load(Ordering::Relaxed);
                let failed = result.err().map(|fault| (fault.status(), ErrorObject::new(fault)));
                let status = failed.as_ref().map_or(Status::Ok, |(status, _)| *status);
                let error = failed.as_ref().map_or(std::ptr::null(), |(_, error)| error.lend());
                callback(context, status, self.lsn.get(), error);
            }
            Action::Signal(descriptor) => signal(descriptor),
        }
    }
}

/// Adds 1 to an eventfd. A full one has events already.
fn signal(descriptor: &OwnedFd) {
    let _ = add(descriptor, 1);
}

/// Writes a number as an eventfd takes it.
#[expect(clippy::host_endian_bytes, reason = "the kernel expects native byte order")]
fn add(descriptor: &OwnedFd, number: u64) -> rustix::io::Result<usize> {
    rustix::io::retry_on_intr(|| rustix::io::write(descriptor, &number.to_ne_bytes()))
}

/// Refuses a descriptor that is not an eventfd: a write to a closed pipe or socket would end the
/// process, and one to a file would change it.
fn check_eventfd(descriptor: &OwnedFd) -> Result<(), Fault> {
    let status = rustix::fs::fstat(descriptor);
    // Linux gives no type to files without a name in a file system. Of these, only an eventfd takes
    // a number; 0 leaves it as it is.
    let is_nameless =
        status.is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Unknown);
    if is_nameless && add(descriptor, 0) == Ok(size_of::<u64>()) {
        return Ok(());
    }
    Err(Fault::argument("the file descriptor is not an eventfd"))
}

/// The record's number; 0 if `ticket` is invalid.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_ticket_lsn(ticket: In<Ticket>) -> u64 {
    guard::value(0, || Ok(ticket.handle("ticket")?.ticket.lsn().get()))
}

/// Waits as seawall_log_append does.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_ticket_wait(ticket: In<Ticket>, error: Out<*mut Error>) -> Status {
    guard::status(error, || {
        ticket.handle("ticket")?.ticket.clone().wait()?;
        Ok(Status::Ok)
    })
}

/// Returns at once: SEAWALL_STATUS_NONE if the record is not yet as durable as the log's level
/// requires.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_ticket_poll(ticket: In<Ticket>, error: Out<*mut Error>) -> Status {
    guard::status(error, || {
        let mut ticket = ticket.handle("ticket")?.ticket.clone();
        match Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map(|_| Status::Ok).map_err(Fault::from),
            Poll::Pending => Ok(Status::None),
        }
    })
}

/// Calls `callback` once when the record is as durable as the log's level requires or has failed,
/// also if the ticket is freed before. `context` is passed to it. Each call of this function adds a
/// callback.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_ticket_on_done(
    ticket: In<Ticket>,
    callback: DoneCallback,
    context: *mut c_void,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        let ticket = ticket.handle("ticket")?.ticket.clone();
        let callback = callback.ok_or_else(|| Fault::argument("callback is null"))?;
        Completion::start(ticket, Action::Call(callback, AtomicPtr::new(context)));
        Ok(Status::Ok)
    })
}

/// Adds 1 to the eventfd `descriptor` when the record is as durable as the log's level requires or
/// has failed; then seawall_ticket_poll tells which. The descriptor must be non-blocking; others
/// than eventfds are refused. The library uses a duplicate, so the caller may close it at any time.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_ticket_signal(
    ticket: In<Ticket>,
    descriptor: c_int,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        let ticket = ticket.handle("ticket")?.ticket.clone();
        let descriptor = duplicate(descriptor)?;
        let flags = rustix::fs::fcntl_getfl(&descriptor).unwrap_or(OFlags::empty());
        if !flags.contains(OFlags::NONBLOCK) {
            return Err(Fault::argument("the file descriptor is not non-blocking"));
        }
        check_eventfd(&descriptor)?;
        Completion::start(ticket, Action::Signal(descriptor));
        Ok(Status::Ok)
    })
}

/// Releases a ticket; null is allowed. The record is still written, and callbacks are still called.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_ticket_free(ticket: Freed<Ticket>) {
    guard::bare(|| ticket.take().map(drop));
}
