//! C and C++ programs against the built library. A compiler or tool that is missing is named on the
//! error output as SKIPPED. It is a failure with `SEAWALL_FFI_COMPLETE=1`, and a compiler or its
//! sanitizers with `CI`, too.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::indexing_slicing, reason = "in a test a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "compilers read and write files, not logs")]

mod abi;
mod cwal;
mod header;
mod manual;
mod packages;
mod programs;
mod sanitizers;
mod toolchain;
