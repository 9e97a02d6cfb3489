#!/usr/bin/env bash
# The most memory that each program takes, for logs of 10^4, 10^5, ... records.
# Usage: memory.sh [EXPONENT], 7 by default: 10^7 records take some 0.7 GB on the disk.
#
# A log is walked segment by segment, in windows. Read at once is what lies behind the last record of
# the newest segment, so that a log whose segments grow to 64 MiB may take as much more than a short
# one. An append holds two batches at most, the one on its way and the one that opens behind it, of
# 8 MiB each. So the bounds are 16 MiB for a log whose segments have 1 MiB, and 64 + 16 MiB.

. "$(dirname "$0")/../syscalls/common.sh"

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

# Compares the last line with the first.
bound() {
    # What append, cat, verify and open took, first and last.
    local names=(append cat verify open) i
    for i in 0 1 2 3; do
        if [ $((last[i] - first[i])) -gt $(($1 * 1024)) ]; then
            echo "GROWN: ${names[i]} took ${first[i]} KiB and takes ${last[i]} KiB; $1 MiB more may be" >&2
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
    if [ $size = 1MiB ]; then bound 16; else bound 80; fi
done
if [ $grown -gt 0 ]; then echo "$grown programs take more memory for a longer log"; exit 1; fi
echo "the peak in KiB does not grow with the log"
