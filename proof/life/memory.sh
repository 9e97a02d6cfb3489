#!/usr/bin/env bash
# Checks that the peak memory of each command does not grow with the log: 10^4, 10^5, ... records.
# Usage: memory.sh [EXPONENT], 7 by default: 10^7 records take about 0.7 GB on the disk.
#
# A scan holds one batch, of at most 8 MiB, and one window of the file, also after the last record.
# So memory may grow by 16 MiB in commands that read and in an open. An append fills one batch while
# it writes another, keeps the batches of the last block in memory, and reuses buffers. Its limit is
# 16 MiB in segments of 1 MiB, where batches are small, and 48 MiB in larger ones.

. "$(dirname "$0")/common.sh"

exponent_max=${1:-7}
log=$folder/log
grown=0

# Runs a command and sets `peak` to its peak memory, in KiB. Without GNU time, /proc is polled while
# the command runs, so its last growth may be missed.
measure() {
    if [ -x /usr/bin/time ]; then
        /usr/bin/time -f %M -o "$folder/peak" "$@" > /dev/null || echo "$1 $2 ended with $?" >&2
        peak=$(tail -n 1 "$folder/peak")
        return
    fi
    local seen
    "$@" <&0 > /dev/null &
    while seen=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' /proc/$!/status 2> /dev/null) && [ -n "$seen" ]; do
        peak=$seen
    done
    wait $! || echo "$1 $2 ended with $?" >&2
}

# Prints one row of the table: the log is written, read, verified, opened.
try() {
    local exponent=$1 size=$2 records=$((10 ** $1)) row=() bytes
    rm -rf "$log"
    measure "$SEAWALL" append "$log" --level buffered --segment-size "$size" -q \
        < <(seq -f 'record %.0f, as long as they are' $records)
    row+=("$peak")
    bytes=$(du -sk "$log" | cut -f 1)
    measure "$SEAWALL" cat "$log"
    row+=("$peak")
    measure "$SEAWALL" verify "$log"
    row+=("$peak")
    measure "$SEAWALL" append "$log" -q < /dev/null
    row+=("$peak")
    printf '%8s %9s %9d %9d %9d %9d %9d\n' "10^$exponent" "$size" "$bytes" "${row[@]}"
    last=("${row[@]}")
}

# Checks the growth from the first row to the last: up to $1 MiB for append, 16 MiB for the others.
bound() {
    local names=(append cat verify open) more=("$1" 16 16 16) i
    for i in 0 1 2 3; do
        if [ $((last[i] - first[i])) -gt $((more[i] * 1024)) ]; then
            echo "GROWN: ${names[i]} peaks at ${first[i]} KiB for a short log, ${last[i]} KiB for a" \
                "long one; the limit is ${more[i]} MiB more" >&2
            grown=$((grown + 1))
        fi
    done
}

printf '%8s %9s %9s %9s %9s %9s %9s\n' records segments 'log KiB' append cat verify open
for size in 1MiB 64MiB; do
    try 4 $size
    first=("${last[@]}")
    for ((exponent = 5; exponent <= exponent_max; exponent++)); do
        try $exponent $size
    done
    if [ $size = 1MiB ]; then bound 16; else bound 48; fi
done
if [ $grown -gt 0 ]; then echo "memory grew with the log in $grown cases"; exit 1; fi
echo "peak memory, in KiB, does not grow with the log"
