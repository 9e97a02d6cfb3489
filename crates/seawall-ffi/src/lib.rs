//! Seawall for C and C++ programs: `include/seawall.h` is made from this crate.
//!
//! Three rules hold for every function:
//!
//! - guard.rs catches panics: the caller gets [`Status::Bug`](status::Status), and no unwinding
//!   crosses into C.
//! - Only pointer.rs dereferences what C passes, after checks.
//! - Threads may share a handle, except where its type says otherwise; then a second thread gets
//!   an error.

#![expect(clippy::needless_pass_by_value, reason = "C passes pointers by value")]
#![expect(clippy::doc_markdown, reason = "the comments become those of a C header")]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod append;
pub mod error;
mod fault;
mod guard;
pub mod log;
pub mod maintenance;
pub mod options;
pub mod pointer;
pub mod read;
pub mod reader;
pub mod report;
pub mod stats;
pub mod status;
pub mod ticket;

use error::{Error, ErrorObject};
use pointer::Freed;
use std::ffi::{CStr, c_char};

/// The version of this interface. It increases if a program that was compiled for an earlier one
/// would no longer work; new functions, and new fields at the end of structures that the library
/// allocates, do not change it.
pub const ABI_VERSION: u32 = 1;

/// Returns the ABI version of the library, which must be SEAWALL_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_abi_version() -> u32 {
    guard::value(0, || Ok(ABI_VERSION))
}

/// Returns the version of Seawall, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn seawall_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    guard::value(std::ptr::null(), || {
        let version = CStr::from_bytes_with_nul(VERSION.as_bytes());
        Ok(version.map_or(std::ptr::null(), CStr::as_ptr))
    })
}

/// Releases an error; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_error_free(error: Freed<Error>) {
    guard::bare(|| error.take_whole::<ErrorObject>().map(drop));
}

/// Threads may share these handles.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<log::Log>();
    is_shared::<reader::Reader>();
    is_shared::<ticket::Ticket>();
    is_shared::<read::Cursor>();
    is_shared::<read::Follower>();
    is_shared::<read::Buffer>();
    is_shared::<options::Options>();
};

/// Panics, to test that the panic does not reach the caller. Not in release builds, not in the
/// header.
#[cfg(debug_assertions)]
#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C" fn seawall_test_panic(error: pointer::Out<*mut Error>) -> status::Status {
    guard::status(error, || panic!("a panic of the test"))
}
