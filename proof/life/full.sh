#!/usr/bin/env bash
# A small file system is filled and freed under load. Usage: full.sh [--log-format json] [CYCLES],
# 20 by default.
#
# Four threads of the example `committers` append to a log, a readable one if asked for, on a tmpfs that
# a filler file keeps full, and try again what was refused. Each time the log has met the full disk, `verify` and `cat` must
# work; then the filler gives some room back, in every other cycle while it tries to take the same
# room again, and the writer must go on. In the end every record is there once, with its content,
# under the number that was acknowledged; and a full disk never was more than DiskFull.
#
# FS=ext4 takes a file system of that kind in an image file instead.
#
# It is mounted where nobody else sees it (unshare -m); without the right to, this ends with 77.

format=
if [ "${1:-}" = --log-format ]; then
    format=$2
    shift 2
fi
cycles=${1:-20}
if [ "${2:-}" != inside ]; then
    for how in -m -rm; do
        # shellcheck disable=SC2016
        if unshare $how sh -c 'mount -t tmpfs none "$1"' sh "${DIR:-.}" 2> /dev/null; then
            exec unshare $how bash "$0" ${format:+--log-format "$format"} "$cycles" inside
        fi
    done
    echo "skipped: this needs the right to mount a tmpfs (root, or user namespaces)" >&2
    exit 77
fi
. "$(dirname "$0")/common.sh"

patience=30
free_kib=1536
disk_kib=$((16384 + cycles * 2048))
records=$((600 + cycles * 150))
disk=$folder/disk
log=$disk/log
filler=$disk/filler
broken=0
mkdir "$disk"
if [ "${FS:-tmpfs}" = tmpfs ]; then
    mount -t tmpfs -o size=${disk_kib}k none "$disk" || exit 77
else
    truncate -s ${disk_kib}K "$folder/image" && "mkfs.$FS" -q "$folder/image" &&
        mount -o loop "$folder/image" "$disk" || exit 77
fi
trap '[ "$BASHPID" = $$ ] && { umount "$disk"; rm -rf "$folder"; }' EXIT

complain() {
    echo "PROMISE BROKEN: cycle $cycle: $1" >&2
    broken=$((broken + 1))
}

count() {
    grep -c "$1" "$folder/$2"
}

# Waits until there are more than $3 lines with $1 in file $2.
wait_for_more() {
    local tries=$((patience * 50))
    while [ "$(count "$1" "$2")" -le "$3" ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] && kill -0 $writer 2> /dev/null || return 1
        sleep 0.02
    done
}

take_all_room() {
    cat /dev/zero >> "$filler" 2> /dev/null
}

# The log can be judged and read while the disk is full.
read_while_full() {
    local before
    before=$(count . acks)
    timeout $patience "$SEAWALL" verify "$log" -q > /dev/null 2> "$folder/said" ||
        complain "verify on a full disk ended with $?: $(head -n 2 "$folder/said")"
    timeout $patience "$SEAWALL" cat "$log" > "$folder/now" 2> "$folder/said" ||
        complain "cat on a full disk ended with $?: $(head -n 2 "$folder/said")"
    [ "$(wc -l < "$folder/now")" -ge "$before" ] ||
        complain "$before acknowledged and $(wc -l < "$folder/now") shown"
}

# One time full, one time freed.
fill_and_free() {
    local refused acknowledged
    refused=$(count '^refused: no room' errors)
    wait_for_more '^refused: no room' errors "$refused" || complain "the log does not meet the full disk"
    read_while_full
    acknowledged=$(count . acks)
    truncate -s -${free_kib}K "$filler"
    wait_for_more . acks "$acknowledged" || complain "room was made, and the log does not go on"
    [ $((cycle % 2)) -eq 1 ] || take_all_room
}

make_records 4 $records
: > "$folder/acks"
: > "$folder/errors"
take_all_room
truncate -s -4M "$filler"
"$examples/committers" "$log" 4 $records $format > "$folder/acks" 2> "$folder/errors" &
writer=$!
cycle=0
printf '%6s %13s %9s %9s %9s %9s\n' cycle acknowledged refused failovers 'log KiB' 'free KiB'
for ((cycle = 1; cycle <= cycles; cycle++)); do
    fill_and_free
    printf '%6d %13d %9d %9d %9d %9d\n' $cycle "$(count . acks)" "$(count '^refused' errors)" \
        "$(count 'went on in segment' errors)" "$(du -sk "$log" | cut -f 1)" \
        "$(df -k --output=avail "$disk" | tail -n 1)"
    kill -0 $writer 2> /dev/null || { complain "the writer ended"; break; }
done
rm -f "$filler"
wait_for_more . acks $((records - 1)) || kill -9 $writer 2> /dev/null
wait $writer
code=$?
[ $code -eq 0 ] || complain "the writer ended with $code"

acknowledged > "$folder/acked"
"$SEAWALL" cat "$log" | sed 's/\t"\(.*\)"$/\t\1/' > "$folder/found"
[ "${PIPESTATUS[0]}" -eq 0 ] || complain "cat failed"
"$SEAWALL" verify "$log" -q || complain "verify ended with $?"
amiss=$(compare "$folder/found")
[ -z "$amiss" ] || complain "$amiss"
[ "$(wc -l < "$folder/found")" -eq $records ] || complain "$(wc -l < "$folder/found") of $records there"
other=$(grep -v -c -e '^refused: no room' -e 'went on in segment' "$folder/errors")
[ "$other" -eq 0 ] || complain "a full disk was more than DiskFull: $(grep -v '^refused: no room' "$folder/errors" | head -n 2)"
if [ $broken -gt 0 ]; then echo "$broken promises broken"; exit 1; fi
echo "$cycles times full and freed: $records acknowledged, 0 lost," \
    "$(count '^refused' errors) times DiskFull, $(count 'went on in segment' errors) failovers"
