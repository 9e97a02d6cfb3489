//! Copies of a log, and repair from them.

use crate::error::{Error, number};
use crate::guard;
use crate::pointer::{In, Out};
use crate::report::{Verification, give_verification};
use crate::status::Status;
use seawall::Maintenance;
use std::ffi::c_char;

/// Copies the log in the directory `path` to the new directory `target`, durably, also while a
/// writer has it open. `last`, if not null, gets the last record of the copy, or 0.
///
/// An error leaves no `target`, unless it says that `target` is complete; a crash leaves
/// `target.partial`, which can be removed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_back_up(
    path: In<c_char>,
    target: In<c_char>,
    last: Out<u64>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        let copied = Maintenance::at(path.path("path")?).back_up(target.path("target")?)?;
        last.put(number(copied.last));
        Ok(Status::Ok)
    })
}

/// Repairs the log in the directory `path`, which no writer may have open, from its parity and from
/// a copy of the same log in the directory `replica`, which may be null.
///
/// `verification`, if not null, gets what could not be repaired. Free it with
/// seawall_verification_free. The replaced bytes are kept in quarantine.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_repair(
    path: In<c_char>,
    replica: In<c_char>,
    verification: Out<*mut Verification>,
    error: Out<*mut Error>,
) -> Status {
    guard::status(error, || {
        verification.put(std::ptr::null_mut());
        let replica = replica.optional_path("replica")?;
        let done = Maintenance::at(path.path("path")?).replicas(replica).repair()?;
        if verification.is_wanted() {
            give_verification(&done.after, &verification);
        }
        Ok(Status::Ok)
    })
}
