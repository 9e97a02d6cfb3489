#!/usr/bin/env bash
# How much of a log is read to open it, and how long that takes. Usage: open.sh [EXPONENT], 6 by
# default: logs of 10^4 to 10^6 records of some 240 bytes, in segments of 1 MiB and in those of the
# default size.
#
# Once each log is opened as it was closed, and all of it is read; then with a checkpoint at its last
# record (the example `checkpoint`), when its newest segment, the manifest, and the header and seal
# of each segment are all that is read. The bytes are those of /proc/PID/io up to the first
# acknowledgement; what the program reads to start is in them. The bounds are for bytes; the times,
# medians of 7 with start and close, are for the eye.

. "$(dirname "$0")/common.sh"

exponent_max=${1:-6}
log=$folder/log
wrong=0
mkfifo "$folder/in" "$folder/out"

complain() {
    echo "PROMISE BROKEN: 10^$exponent records: $1" >&2
    wrong=$((wrong + 1))
}

# KiB that are read until the log is open, and took a record.
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

# The median of the times, in ms, of 7 opens.
ms_to_open() {
    local i start
    for i in 1 2 3 4 5 6 7; do
        start=$(now_ms)
        "$SEAWALL" append "$log" -q < /dev/null
        echo $(($(now_ms) - start))
    done | sort -n | sed -n 4p
}

# One line of the table.
try() {
    local size_mib=$1 size segments whole whole_ms short short_ms
    rm -rf "$log"
    seq -f "record %.0f $(printf '%0220d' 0)" $((10 ** exponent)) |
        "$SEAWALL" append "$log" --level buffered --segment-size "${size_mib}MiB" -q || exit 1
    size=$(du -sk "$log" | cut -f 1)
    segments=$(ls "$log" | grep -c 'seg$')
    whole=$(kib_read)
    whole_ms=$(ms_to_open)
    "$examples/checkpoint" "$log" > /dev/null || complain "the checkpoint failed"
    short=$(kib_read)
    short_ms=$(ms_to_open)
    printf '%8s %9s %9d %9d %13d %9d %18d %9d\n' "10^$exponent" "${size_mib}MiB" "$size" "$segments" \
        "$whole" "$whole_ms" "$short" "$short_ms"
    # Without a checkpoint it is the log, or the figures mean something else than they say.
    [ "$whole" -ge $((size * 9 / 10)) ] || complain "only $whole KiB of $size were read"
    # The newest segment twice, for the end and for the batches in its last block; half a segment for
    # windows that end within a batch, which is then read anew; a MiB; 8 KiB for each segment.
    [ "$short" -le $(((size_mib * 5 / 2 + 1) * 1024 + 8 * segments)) ] ||
        complain "$short KiB were read in spite of the checkpoint"
}

printf '%8s %9s %9s %9s %13s %9s %18s %9s\n' records of 'log KiB' segments 'read KiB' ms \
    'checkpoint: KiB' ms
for size_mib in 1 64; do
    for ((exponent = 4; exponent <= exponent_max; exponent++)); do
        try $size_mib
    done
done
if [ $wrong -gt 0 ]; then echo "$wrong promises broken"; exit 1; fi
echo "with a checkpoint at the end, an open reads the end, and headers and seals of the rest"
