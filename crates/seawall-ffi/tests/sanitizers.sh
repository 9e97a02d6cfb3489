#!/usr/bin/env bash
# The C and C++ programs with a library that sanitizers instrument, too, the standard library included:
# AddressSanitizer, then ThreadSanitizer.
#
#     bash crates/seawall-ffi/tests/sanitizers.sh
#
# It installs nothing: without a nightly toolchain and its source it says so and ends with 77.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

nightly=${SEAWALL_NIGHTLY:-nightly}
sysroot=$(rustc "+$nightly" --print sysroot 2>/dev/null || true)
if [ ! -f "${sysroot:-none}/lib/rustlib/src/rust/library/std/src/lib.rs" ]; then
    echo "sanitizers: SKIPPED, nothing was instrumented; missing: rustup toolchain install nightly -c rust-src"
    exit 77
fi
target=$(rustc "+$nightly" -vV | sed -n 's/^host: //p')

# The tests that run programs with a sanitizer, and what links them.
address=(memory_errors every_function garbage random_calls threads_share both_faces cwal::)
address_runtime=
thread=(races threads_that_share)
# gcc's may lack functions that this library calls.
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
echo "no report of a sanitizer, except for planted bugs"
