//! Sequences of calls from C, as the tests of seawall-ffi make them.

#![no_main]

use seawall_ffi as _;

#[path = "../../../crates/seawall-ffi/tests/all/abi/calls.rs"]
mod calls;

libfuzzer_sys::fuzz_target!(|data: &[u8]| calls::run(data));
