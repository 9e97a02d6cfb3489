//! Every target of `seawall_hunt::targets`: this file is built once for each, and the name of the
//! program says which.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (seawall_hunt::targets::target(env!("CARGO_BIN_NAME")).run)(data);
});
