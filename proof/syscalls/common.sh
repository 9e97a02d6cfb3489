# What both proofs need: the program, a folder, a clock. Sourced, not run.

set -u
LC_ALL=C
export LC_ALL

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# The release build, unless SEAWALL names a program.
if [ -z "${SEAWALL:-}" ]; then
    (cd "$root" && cargo build --quiet --release -p seawall-cli) || exit 1
    SEAWALL=${CARGO_TARGET_DIR:-$root/target}/release/seawall
fi

# On the disk that is to be tried: DIR, or here.
folder=$(mktemp -d "${DIR:-.}/seawall-proof-XXXXXX") || exit 1
folder=$(cd "$folder" && pwd)
# Not in a child that is killed before it has forgotten the trap.
trap '[ "$BASHPID" = $$ ] && rm -rf "$folder"' EXIT

now_ms() {
    local now=${EPOCHREALTIME/[.,]/}
    echo $((now / 1000))
}

# Numbers that were acknowledged, without a last line that a kill cut in two.
whole_lines() {
    if [ -s "$1" ] && [ -n "$(tail -c 1 "$1")" ]; then sed '$d' "$1"; else cat "$1"; fi
}
