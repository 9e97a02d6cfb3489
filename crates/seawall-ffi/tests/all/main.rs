//! C and C++ programs against the built library. A missing compiler or tool is reported as SKIPPED
//! on the error output. With `SEAWALL_FFI_COMPLETE=1` it is a failure; with `CI`, a missing
//! compiler or sanitizer is one too.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]
#![expect(clippy::indexing_slicing, reason = "a test reports failure by panicking")]
#![expect(clippy::disallowed_methods, reason = "compilers read and write files, not logs")]

mod abi;
mod cwal;
mod header;
mod manual;
mod packages;
mod programs;
mod sanitizers;
mod toolchain;
