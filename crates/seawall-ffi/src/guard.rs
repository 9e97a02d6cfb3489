//! The border to C: panics become a status, errors an object.

use crate::error::{Error, ErrorObject};
use crate::fault::Fault;
use crate::pointer::Out;
use crate::status::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that returns a status, and stores its error in `error`.
#[inline]
pub(crate) fn status(
    error: Out<*mut Error>,
    body: impl FnOnce() -> Result<Status, Fault>,
) -> Status {
    match caught(body) {
        Ok(status) => {
            error.put(std::ptr::null_mut());
            status
        }
        Err(fault) => report(&error, fault),
    }
}

/// Runs the body of a function without a place for an error; a failure returns `otherwise`.
pub(crate) fn value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Fault>) -> T {
    caught(body).unwrap_or(otherwise)
}

/// Runs the body of a function that returns a status without an error object.
pub(crate) fn bare(body: impl FnOnce() -> Result<(), Fault>) -> Status {
    caught(body).map_or_else(|fault| fault.status(), |()| Status::Ok)
}

fn caught<T>(body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    // The log poisons itself if a panic leaves it half changed; the handles of this crate hold no
    // other state.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => Err(Fault::of_panic(&*panic)),
    }
}

#[cold]
fn report(error: &Out<*mut Error>, fault: Fault) -> Status {
    let status = fault.status();
    if error.is_wanted() {
        // Making the object takes memory; if that fails the process ends, as everywhere in Rust.
        error.put(ErrorObject::new(fault).into_c());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_with_any_payload_is_a_status() {
        let run = |body: fn() -> Result<Status, Fault>| status(Out::none(), body);
        assert_eq!(run(|| panic!("a text")), Status::Bug);
        assert_eq!(run(|| panic!("{}", 7)), Status::Bug);
        assert_eq!(run(|| std::panic::panic_any(7)), Status::Bug);
        assert_eq!(value(3, || panic!("a text")), 3);
        assert_eq!(bare(|| panic!("a text")), Status::Bug);
    }

    #[test]
    fn success_clears_the_place_of_the_error() {
        let mut place = std::ptr::dangling_mut();
        assert_eq!(status(Out::to(&mut place), || Ok(Status::Ok)), Status::Ok);
        assert!(place.is_null());
    }
}
