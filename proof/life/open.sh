#!/usr/bin/env bash
# Measures how much of a log an open reads, and how long it takes. Usage: open.sh [EXPONENT], 6 by
# default: logs of 10^4 to 10^6 records of about 240 bytes, in segments of 1 MiB and of the default
# size.
#
# Without a checkpoint an open reads the whole log. Then the example `checkpoint` sets one at the
# last record, and an open reads only the newest segment, the manifest, and the header and seal of
# each segment. Bytes are those of /proc/PID/io up to the first acknowledgement, including what the
# program reads to start. Only bytes have limits. Times are medians of 7, with start and close.

. "$(dirname "$0")/common.sh"

exponent_max=${1:-6}
log=$folder/log
wrong=0
mkfifo "$folder/in" "$folder/out"

complain() {
    echo "PROMISE BROKEN: 10^$exponent records: $1" >&2
    wrong=$((wrong + 1))
}

# Prints the KiB read until the log is open and has acknowledged a record.
kib_read() {
    "$SEAWALL" append "$log" --ack -q < "$folder/in" > "$folder/out" &
    local writer=$! lsn
    exec 7> "$folder/in" 8< "$folder/out"
    echo one more >&7
    read -r lsn <&8 || complain "the open failed"
    awk '$1 == "rchar:" { print int($2 / 1024) }' /proc/$writer/io
    exec 7>&- 8<&-
    wait $writer
}

# Prints the median time of 7 opens, in ms.
ms_to_open() {
    local i start
    for i in 1 2 3 4 5 6 7; do
        start=$(now_ms)
        "$SEAWALL" append "$log" -q < /dev/null
        echo $(($(now_ms) - start))
    done | sort -n | sed -n 4p
}

# Prints one row of the table.
try() {
    local size_mib=$1 size segments stored whole whole_ms short short_ms
    rm -rf "$log"
    seq -f "record %.0f $(printf '%0220d' 0)" $((10 ** exponent)) |
        "$SEAWALL" append "$log" --level buffered --segment-size "${size_mib}MiB" -q || exit 1
    size=$(du -sk "$log" | cut -f 1)
    segments=$(ls "$log" | grep -c 'seg$')
    stored=$("$SEAWALL" stat "$log" --json | sed -n 's/.*"stored_bytes":\([0-9]*\).*/\1/p')
    whole=$(kib_read)
    whole_ms=$(ms_to_open)
    "$examples/checkpoint" "$log" > /dev/null || complain "the checkpoint failed"
    short=$(kib_read)
    short_ms=$(ms_to_open)
    printf '%8s %9s %9d %9d %13d %9d %18d %9d\n' "10^$exponent" "${size_mib}MiB" "$size" "$segments" \
        "$whole" "$whole_ms" "$short" "$short_ms"
    # Without a checkpoint an open reads all records. If not, the measurement is wrong. The files are
    # larger: they end with room that was preallocated and not needed, which an open does not read.
    [ $((whole * 1024)) -ge "${stored:?stat names no stored_bytes}" ] ||
        complain "only $whole KiB of $((stored / 1024)) were read"
    # The limit: 2.5 times the size of the newest segment, 1 MiB, and 8 KiB for each segment.
    [ "$short" -le $(((size_mib * 5 / 2 + 1) * 1024 + 8 * segments)) ] ||
        complain "$short KiB were read despite the checkpoint"
}

printf '%8s %9s %9s %9s %13s %9s %18s %9s\n' records 'seg. size' 'log KiB' segments 'read KiB' ms \
    'checkpoint: KiB' ms
for size_mib in 1 64; do
    for ((exponent = 4; exponent <= exponent_max; exponent++)); do
        try $size_mib
    done
done
if [ $wrong -gt 0 ]; then echo "$wrong promises broken"; exit 1; fi
echo "with a checkpoint at the end, an open reads the newest segment, and headers and seals"
