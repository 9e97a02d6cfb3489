#!/usr/bin/env bash
# Runs the C and C++ programs with sanitizers that also instrument the library and Rust's standard
# library: AddressSanitizer, then ThreadSanitizer.
#
#     bash crates/seawall-ffi/tests/sanitizers.sh
#
# Installs nothing: without a nightly toolchain and its source, exits with 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

nightly=${SEAWALL_NIGHTLY:-nightly}
sysroot=$(rustc "+$nightly" --print sysroot 2>/dev/null || true)
if [ ! -f "${sysroot:-none}/lib/rustlib/src/rust/library/std/src/lib.rs" ]; then
    echo "sanitizers: SKIPPED, nothing was instrumented; missing: rustup toolchain install nightly -c rust-src"
    exit 77
fi
target=$(rustc "+$nightly" -vV | sed -n 's/^host: //p')

# For each sanitizer: the tests to run, and the linker flags for its runtime.
address=(memory_errors every_function garbage random_calls threads_share both_faces cwal::)
address_runtime=
thread=(races threads_that_share)
# gcc's own runtime may lack functions that the instrumented library calls.
thread_runtime="-nodefaultlibs -Wl,--whole-archive $(echo "$sysroot/lib/rustlib/$target/lib/"*_rt.tsan.a) \
    -Wl,--no-whole-archive -Wl,--export-dynamic -lc -lgcc_s -lgcc -lm -ldl"
for sanitizer in address thread; do
    built=${CARGO_TARGET_DIR:-$(pwd)/target}/sanitizers/$sanitizer
    RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR=$built cargo "+$nightly" build --quiet --locked \
        -Zbuild-std --target "$target" -p seawall-ffi --lib
    declare -n tests=$sanitizer runtime=${sanitizer}_runtime
    SEAWALL_FFI_RUNTIME=$runtime SEAWALL_FFI_SANITIZER=$sanitizer SEAWALL_LIBRARIES=$built/$target/debug \
        cargo test --quiet --locked -p seawall-ffi --test all -- "${tests[@]}" --skip benchmarks
done
echo "the sanitizers reported only the planted bugs"
