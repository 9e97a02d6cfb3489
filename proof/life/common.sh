# Shared by these scripts: the program, a temporary folder, a clock. Sourced, not run.

set -u
LC_ALL=C
export LC_ALL

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# SEAWALL names the program, which has `examples` beside it. Default: a release build.
if [ -z "${SEAWALL:-}" ]; then
    (cd "$root" && cargo build --quiet --release -p seawall-cli &&
        cargo build --quiet --release -p seawall-tests --examples) || exit 1
    SEAWALL=${CARGO_TARGET_DIR:-$root/target}/release/seawall
fi
examples=$(dirname "$SEAWALL")/examples

# On the disk to test: in DIR, or in the current folder.
folder=$(mktemp -d "${DIR:-.}/seawall-proof-XXXXXX") || exit 1
folder=$(cd "$folder" && pwd)
# Not in a background child, which may be killed before it resets the inherited trap.
trap '[ "$BASHPID" = $$ ] && rm -rf "$folder"' EXIT

now_ms() {
    local now=${EPOCHREALTIME/[.,]/}
    echo $((now / 1000))
}

# Prints the acknowledgements in file $1, without a last line that a kill left incomplete.
whole_lines() {
    if [ -s "$1" ] && [ -n "$(tail -c 1 "$1")" ]; then sed '$d' "$1"; else cat "$1"; fi
}

# Writes $2 records to `input`, dealt out to $1 threads as the example `committers` does: line n is
# record n. With one thread the lines name no thread.
make_records() {
    threads=$1
    awk -v threads="$1" -v records="$2" 'BEGIN {
        for (n = 1; n <= records; n++) {
            if (threads > 1) printf "thread %d ", (n - 1) % threads + 1
            printf "record %d %0*d\n", n, 50 + n * 37 % 24000, 0
        }
    }' > "$folder/input"
}

# Prints lines "LSN number". If an acknowledgement has only an LSN, that is also the number.
acknowledged() {
    whole_lines "$folder/acks" | awk '{ print $1, $NF }'
}

# Prints what is wrong with the records in file $1, the output of `cat`; nothing if all is well.
compare() {
    awk -v threads="$threads" '
        which == 1 { content[FNR] = $0 }
        which == 2 { acknowledged[$1] = $2 }
        which == 3 {
            text = substr($0, index($0, "\t") + 1)
            match(text, /record [0-9]+/)
            n = substr(text, RSTART + 7, RLENGTH - 7) + 0
            if ($1 != FNR || text != content[n]) other++
            if (n != (n - 1) % threads + 1 + threads * seen[n % threads]++) disordered++
            found[$1] = n
        }
        END {
            for (lsn in acknowledged) if (found[lsn] != acknowledged[lsn]) lost++
            if (lost) print lost " acknowledged records are missing"
            if (other) print other " records with wrong content or LSN"
            if (disordered) print disordered " records out of order, duplicated, or after a gap"
        }' which=1 "$folder/input" which=2 "$folder/acked" which=3 "$1"
}
