#!/usr/bin/env bash
# Plants each bug of the table in README.md in a copy of the tree and runs the test that must catch it.
# Usage: bash proof/run.sh [NAME...]     The copy and its build go to a temporary directory, or to
# CARGO_TARGET_DIR if that is set. Exit 1 if a bug was missed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tree=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
copy=$scratch/tree
mkdir "$copy"
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents -t "$copy" 2>/dev/null ||
    true
cd "$copy"
git init --quiet .
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$scratch/target} RUST_BACKTRACE=0

caught=0
missed=0
# Outcome, seconds, name, and what the test said first.
tell() {
    printf '%-7s %4s s  %-36s %s\n' "$1" "$2" "$3" "$4"
}

# Builds the test that `cargo test -p CRATE --test FILE ...` would run.
builds() {
    "${@:1:6}" --no-run
}

# A test that fails before anything is planted proves nothing.
{ cargo build --quiet -p seawall --examples && cargo test --quiet -p seawall -p seawall-cli -p seawall-foreign -p seawall-hunt --tests; } \
    >"$scratch/out" 2>&1 || {
    tail -20 "$scratch/out"
    echo "the tests fail without a bug"
    exit 2
}

while IFS='|' read -r _ name _ command _; do
    name=$(tr -d '` ' <<<"$name")
    read -r -a command <<<"$(tr -d '`' <<<"$command")"
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    began=$SECONDS
    if ! git apply "$tree/proof/$name.patch"; then
        outcome=STALE
    elif ! builds "${command[@]}" >"$scratch/out" 2>&1; then
        outcome=STALE
        tail -20 "$scratch/out"
    elif timeout 300 "${command[@]}" >"$scratch/out" 2>&1; then
        outcome=MISSED
    else
        outcome=caught
    fi
    git apply --reverse "$tree/proof/$name.patch" 2>/dev/null || true
    said=$(grep -m 1 -A 1 "panicked at" "$scratch/out" | tail -1 | cut -c 1-120) || true
    tell "$outcome" $((SECONDS - began)) "$name" "$said"
    if [ "$outcome" = caught ]; then caught=$((caught + 1)); else missed=$((missed + 1)); fi
done < <(grep '^| `' "$tree/proof/README.md")

echo "$caught caught, $missed not"
[ "$missed" -eq 0 ]
