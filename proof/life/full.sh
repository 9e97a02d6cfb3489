#!/usr/bin/env bash
# Fills a small file system and frees space, again and again, while a log is written.
# Usage: full.sh [--log-format json] [CYCLES], 20 by default.
#
# Four threads of the example `committers` append to a log on a tmpfs and retry refused records; a
# filler file keeps the tmpfs full. In each cycle the log hits the full disk, and `verify` and `cat`
# must work. Then the filler shrinks and the writer must continue; in every second cycle the filler
# takes the remaining space again. At the end each record must be there once, with its content,
# under the acknowledged LSN. The only errors may be DiskFull and failovers.
#
# FS=ext4 uses a file system of that kind in an image file instead.
#
# The mount is private (unshare -m). Without permission to mount, the script exits with 77.

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
    echo "skipped: this needs permission to mount a tmpfs (root, or user namespaces)" >&2
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

# Waits until more than $3 lines of file $2 match $1. Fails after a timeout or if the writer ends.
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

# Checks that `verify` and `cat` work while the disk is full.
read_while_full() {
    local before
    before=$(count . acks)
    timeout $patience "$SEAWALL" verify "$log" -q > /dev/null 2> "$folder/said" ||
        complain "verify on a full disk ended with $?: $(head -n 2 "$folder/said")"
    timeout $patience "$SEAWALL" cat "$log" > "$folder/now" 2> "$folder/said" ||
        complain "cat on a full disk ended with $?: $(head -n 2 "$folder/said")"
    [ "$(wc -l < "$folder/now")" -ge "$before" ] ||
        complain "$before records acknowledged, but cat shows $(wc -l < "$folder/now")"
}

# Runs one cycle: the disk is full, then space is freed.
fill_and_free() {
    local refused acknowledged
    refused=$(count '^refused: .*no space for another segment' errors)
    wait_for_more '^refused: .*no space for another segment' errors "$refused" || complain "the disk did not become full"
    read_while_full
    acknowledged=$(count . acks)
    truncate -s -${free_kib}K "$filler"
    wait_for_more . acks "$acknowledged" || complain "the log does not use freed space"
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
[ "$(wc -l < "$folder/found")" -eq $records ] || complain "$(wc -l < "$folder/found") of $records found"
other=$(grep -v -c -e '^refused: .*no space for another segment' -e 'went on in segment' "$folder/errors")
[ "$other" -eq 0 ] || complain "errors other than DiskFull: $(grep -v '^refused: .*no space for another segment' "$folder/errors" | head -n 2)"
if [ $broken -gt 0 ]; then echo "$broken promises broken"; exit 1; fi
echo "filled and freed $cycles times: $records acknowledged, 0 lost," \
    "$(count '^refused' errors) DiskFull errors, $(count 'went on in segment' errors) failovers"
