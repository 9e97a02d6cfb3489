#!/usr/bin/env bash
# The most memory that each program takes, for logs of 10^4, 10^5, ... records.
# Usage: memory.sh [EXPONENT], 7 by default: 10^7 records take some 0.7 GB on the disk.
#
# A log is walked segment by segment, in windows, and so is what lies behind its last record: a reader
# holds a batch and a window of 8 MiB at most each, so the bound is 16 MiB, whatever the size of the
# segments. An append holds the batch on its way and the one that opens behind it. In segments of
# 1 MiB batches are small, and 16 MiB are enough; in larger ones a slow disk makes batches of 8 MiB, one
# more is kept in case its block must be written anew, and buffers are used again: 48 MiB.

. "$(dirname "$0")/common.sh"

exponent_max=${1:-7}
log=$folder/log
grown=0

# Runs a program and puts the most memory that it had, in KiB, into `peak`. Without GNU time it looks
# while the program runs, and may miss what came last.
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

# One line of the table: the log is written, read, judged, opened.
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

# Compares the last line with the first: $1 MiB more for an append, 16 MiB for what reads.
bound() {
    local names=(append cat verify open) more=("$1" 16 16 16) i
    for i in 0 1 2 3; do
        if [ $((last[i] - first[i])) -gt $((more[i] * 1024)) ]; then
            echo "GROWN: ${names[i]} took ${first[i]} KiB and takes ${last[i]} KiB;" \
                "${more[i]} MiB more may be" >&2
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
if [ $grown -gt 0 ]; then echo "$grown programs take more memory for a longer log"; exit 1; fi
echo "the peak in KiB does not grow with the log"
