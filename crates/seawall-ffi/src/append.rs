//! Appending records: one, an atomic set, without waiting.

use crate::error::Error;
use crate::guard;
use crate::log::{Log, open_log};
use crate::pointer::{In, Out, Slice, give};
use crate::status::Status;
use crate::ticket::Ticket;
use std::ffi::c_void;

/// Appends a record and waits until it is as durable as the log's level requires. `lsn`, if not
/// null, gets its number.
///
/// After SEAWALL_STATUS_RETRY and SEAWALL_STATUS_USAGE the log is unchanged. After
/// SEAWALL_STATUS_REOPEN, open the log again to learn whether this record survived.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_append(
    log: In<Log>,
    data: In<c_void>,
    size: usize,
    lsn: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        lsn.put(open_log(&log)?.append(data.bytes(size)?)?.get());
        Ok(Status::Ok)
    })
}

/// Appends `count` records as one atomic set, of 8 MiB at most: after a crash either all of them
/// exist or none. `first` and `last`, if not null, get the first and the last number.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_append_batch(
    log: In<Log>,
    records: In<Slice>,
    count: usize,
    first: Out<u64>,
    last: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        let log = open_log(&log)?;
        let records = records.slices(count)?;
        // All are checked before the first is used.
        records.iter().try_for_each(|record| record.bytes().map(drop))?;
        let records = records.iter().map(|record| record.bytes().unwrap_or_default());
        let lsns = log.append_batch(records)?;
        first.put(lsns.start().get());
        last.put(lsns.end().get());
        Ok(Status::Ok)
    })
}

/// Appends a record without waiting until it is durable. Blocks while 2 MiB wait to be written, and
/// during a checkpoint or truncation.
///
/// `lsn` and `ticket` may be null. Free the ticket with seawall_ticket_free. Without a ticket,
/// seawall_log_flush waits for the record.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_submit(
    log: In<Log>,
    data: In<c_void>,
    size: usize,
    lsn: Out<u64>,
    ticket: Out<*mut Ticket>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        ticket.put(std::ptr::null_mut());
        let submitted = open_log(&log)?.submit(data.bytes(size)?)?;
        hand_over(submitted, &lsn, &ticket);
        Ok(Status::Ok)
    })
}

/// As seawall_log_submit, but where that would block the error has the code
/// SEAWALL_ERROR_CODE_WOULD_BLOCK and the status SEAWALL_STATUS_RETRY.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_try_submit(
    log: In<Log>,
    data: In<c_void>,
    size: usize,
    lsn: Out<u64>,
    ticket: Out<*mut Ticket>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        ticket.put(std::ptr::null_mut());
        let submitted = open_log(&log)?.try_submit(data.bytes(size)?)?;
        hand_over(submitted, &lsn, &ticket);
        Ok(Status::Ok)
    })
}

fn hand_over(submitted: seawall::Ticket, lsn: &Out<u64>, ticket: &Out<*mut Ticket>) {
    lsn.put(submitted.lsn().get());
    if ticket.is_wanted() {
        ticket.put(give(Ticket::new(submitted)));
    }
}
