#!/usr/bin/env bash
# Fails each system call of a writer that writes or syncs, one after the other, and looks at what
# the log is like afterwards. Usage: run.sh [--all] [--threads N]; without --all every 7th call.
# One thread is `seawall append`, several are the example `committers`.
#
# Needs strace. Afterwards, without it: every acknowledged record is read back with its content and
# under its number; the records of each thread are there in order and without a gap; verify ends
# with 0 (or 3, counted: see docs/DURABILITY.md, section 2); the next append works; nobody hung. One
# failed write or sync of a segment ends nothing: all is acknowledged and the writer ends with 0.
# strace counts calls by thread, so one run may fail a call in each of several threads; that last
# promise is held against runs with one failed call only.

if ! command -v strace > /dev/null || ! strace -qq -o /dev/null true 2> /dev/null; then
    echo "skipped: this needs strace (Debian: apt install strace), and the right to trace" >&2
    exit 77
fi
. "$(dirname "$0")/common.sh"

every=7
threads=1
while [ $# -gt 0 ]; do
    case $1 in
        --all) every=1 ;;
        --threads) threads=$2; shift ;;
        *) echo "usage: run.sh [--all] [--threads N]" >&2; exit 2 ;;
    esac
    shift
done
patience=20
records=400
writes='pwrite64,fdatasync,fsync,/^rename,fallocate,ftruncate,write,unlinkat'

# Some 5 MiB, so that the log goes through segments that are made ahead.
make_records "$threads" $records

if [ "$threads" -gt 1 ]; then
    writer=("$examples/committers" "$folder/log" "$threads" $records)
else
    writer=("$SEAWALL" append "$folder/log" --ack)
fi

# One run of the writer under strace, with the given injection if there is one.
append_traced() {
    rm -rf "$folder/log" "$folder"/acks "$folder"/trace
    # shellcheck disable=SC2086
    strace -f -y -qq -o "$folder/trace" -e trace="$writes" ${1:+-e inject=$1} \
        timeout -s KILL $patience "${writer[@]}" \
        < "$folder/input" > "$folder/acks" 2> "$folder/errors"
}

read_log() {
    : > "$1"
    [ ! -e "$folder/log" ] || timeout $patience "$SEAWALL" cat "$folder/log" > "$1" 2> /dev/null
}

# The calls that failed, with their arguments: strace cuts a call in two where threads take turns.
failed_calls() {
    awk '/<unfinished \.\.\.>$/ { begun[$1] = $0 }
        /\(INJECTED\)/ { print ($2 == "<..." ? begun[$1] : $0) }' "$folder/trace"
}

# Compares what is there with what was acknowledged.
judge() {
    local code=$1 call=$2 error=$3
    local injected
    injected=$(grep -c '(INJECTED)' "$folder/trace")
    [ "$error" = KILL ] && injected=$(grep -c -m 1 'killed by SIGKILL' "$folder/trace")
    [ "$injected" -eq 0 ] && return
    runs=$((runs + 1))
    [ "$injected" -eq 1 ] && single=$((single + 1))
    if [ "$code" -eq 0 ]; then survived=$((survived + 1)); else ended=$((ended + 1)); fi
    if [ "$code" -eq 137 ] && [ "$error" != KILL ]; then hung=$((hung + 1)); complain "hung"; fi
    grep -q 'went on in segment' "$folder/errors" && failovers=$((failovers + 1))

    acknowledged > "$folder/acked"
    look_back
    append_after
    if [ "$error" != KILL ] && [ "$injected" -eq 1 ]; then must_survive "$code"; fi
}

# What the log is like for who only reads.
look_back() {
    timeout $patience "$SEAWALL" verify "$folder/log" --json > "$folder/verdict" 2> /dev/null
    case $?,$(wc -l < "$folder/acked") in
        0,*) ;;
        3,*) unsure=$((unsure + 1)) ;;
        [18],0) ;; # The creation failed, and nothing was promised.
        *) wrong=$((wrong + 1)); complain "verify: $(cut -c 1-200 "$folder/verdict")" ;;
    esac
    read_log "$folder/found"
    local amiss
    amiss=$(compare "$folder/found")
    if [ -n "$amiss" ]; then lost=$((lost + 1)); complain "$amiss"; fi
}

# The open may find records that were under way: more than a reader was shown, never less.
append_after() {
    local next amiss
    next=$(echo after | timeout $patience "$SEAWALL" append "$folder/log" --ack -q 2> /dev/null)
    read_log "$folder/again"
    head -n -1 "$folder/again" > "$folder/before"
    amiss=$(compare "$folder/before")
    [ "$(tail -n 1 "$folder/again")" = "${next:-0}"$'\t'after ] || amiss="$amiss; it is not there"
    [ "${next:-0}" -gt "$(wc -l < "$folder/found")" ] || amiss="$amiss; its number was in use"
    if [ -n "$amiss" ]; then
        wrong=$((wrong + 1)); complain "the next append got ${next:-no number}: $amiss"
    fi
}

# One failed write or sync of a segment is no reason to end, or to refuse anything.
must_survive() {
    case $(failed_calls) in
        *renameat* | *unlinkat* | *' fsync('* | *' write('*) return ;;
        *.seg\>*) ;;
        *) return ;;
    esac
    if [ "$1" -ne 0 ] || [ "$(wc -l < "$folder/acked")" -ne $records ] ||
        grep -q '^refused' "$folder/errors"; then
        wrong=$((wrong + 1)); complain "one failed call on a segment ended the writer, or an append"
    fi
}

complain() {
    echo "PROMISE BROKEN: $call $error, call $k: $1" >&2
    failed_calls | cut -c 1-160 | head -n 3 >&2
    head -n 3 "$folder/errors" >&2
}

append_traced ''
clean=$?
acknowledged > "$folder/acked"
read_log "$folder/found"
call=none error=none k=0
amiss=$(compare "$folder/found")
[ $clean -eq 0 ] && [ -z "$amiss" ] || { echo "it fails without any fault: $amiss" >&2; exit 1; }
echo "a run of $threads threads without faults: $(wc -l < "$folder/acked") acknowledged," \
    "$(ls "$folder/log" | grep -c seg$) segments," \
    "$(grep -c . "$folder/trace") calls; every ${every}th of each kind fails"
cp "$folder/trace" "$folder/counts"

printf '\n%-10s %-7s %6s %9s %7s %9s %9s %9s %7s %9s %6s %6s\n' call error calls injected single survived \
    failover ended unsure "acks lost" wrong hung
broken=0
for call in pwrite64 fdatasync fsync rename fallocate ftruncate unlinkat; do
    # The busiest thread: strace counts each on its own.
    calls=$(grep -E "^[0-9]+ +$call" "$folder/counts" | awk '{ n[$1]++ } END { for (p in n) if (n[p] > m) m = n[p]; print m + 0 }')
    for error in EIO ENOSPC KILL; do
        runs=0 single=0 survived=0 failovers=0 ended=0 unsure=0 lost=0 wrong=0 hung=0
        step=$every
        # Few calls of a kind are all tried.
        [ "$calls" -le $((every * 3)) ] && step=1
        for ((k = 1; k <= calls; k += step)); do
            fault="error=$error"
            [ $error = KILL ] && fault=signal=KILL
            append_traced "/^$call:$fault:when=$k" 2> /dev/null
            judge $? $call $error
        done
        printf '%-10s %-7s %6d %9d %7d %9d %9d %9d %7d %9d %6d %6d\n' $call $error "$calls" $runs \
            $single $survived $failovers $ended $unsure $lost $wrong $hung
        broken=$((broken + lost + wrong + hung))
    done
done
echo
if [ $broken -gt 0 ]; then echo "$broken promises broken"; exit 1; fi
echo "no acknowledged record was lost, and nobody hung"
