#!/usr/bin/env bash
# Runs each fuzz target for SECONDS, starting with the inputs in qa/fuzz/seeds and qa/fuzz/found.
# Usage: bash qa/fuzz/run.sh SECONDS [TARGET...]
# Installs nothing: without cargo-fuzz or a nightly toolchain, exits with 77 (skipped).
# Exits with 1 if a target found a bug; qa/fuzz/artifacts then has the input.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:?"usage: bash qa/fuzz/run.sh SECONDS [TARGET...]"}
shift
nightly=${SEAWALL_NIGHTLY:-nightly}
missing=()
cargo "+$nightly" --version >/dev/null 2>&1 || missing+=("a nightly toolchain: rustup toolchain install nightly")
cargo "+$nightly" fuzz --version >/dev/null 2>&1 || missing+=("cargo-fuzz: cargo install cargo-fuzz")
if [ ${#missing[@]} -gt 0 ]; then
    printf 'fuzz: SKIPPED, nothing was fuzzed; missing: %s\n' "${missing[@]}" >&2
    exit 77
fi
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(cargo "+$nightly" fuzz list --fuzz-dir qa/fuzz)
fi

# AddressSanitizer keeps freed memory in quarantine to detect its use. The quarantine is small, or
# it alone would reach the memory limit below within ten minutes.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=32"

failed=0
for target in "${targets[@]}"; do
    mkdir -p "qa/fuzz/corpus/$target" "qa/fuzz/seeds/$target" "qa/fuzz/found/$target"
    log=$(mktemp)
    # No input of 64 KiB may cause an allocation of 256 MiB: lengths must be checked before use.
    if cargo "+$nightly" fuzz run --fuzz-dir qa/fuzz "$target" "qa/fuzz/corpus/$target" "qa/fuzz/seeds/$target" \
        "qa/fuzz/found/$target" -- -max_total_time="$seconds" -rss_limit_mb=512 -malloc_limit_mb=256 \
        -max_len=65536 -timeout=20 -print_final_stats=1 >"$log" 2>&1; then
        verdict="no bug"
    else
        verdict="BUG FOUND"
        failed=1
        tail -40 "$log"
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    cover=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
    printf '%-10s %10s runs  %-12s %s\n' "$target" "${runs:-?}" "$cover" "$verdict"
    rm -f "$log"
done
exit "$failed"
