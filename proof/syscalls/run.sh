#!/usr/bin/env bash
# Fails each system call of an append that writes or syncs, one after the other, and looks at what
# the log is like afterwards. Usage: run.sh [--all]; without --all every 7th call.
#
# Needs strace. Afterwards, without it: every acknowledged record is read back with its content, in
# order; verify ends with 0 (or 3, counted: see docs/DURABILITY.md, section 2); the next append
# works; nobody hung. One failed write or sync of a segment ends nothing: the append itself ends
# with 0. strace counts calls by thread, so one run may fail a call in each of several threads;
# that last promise is held against runs with one failed call only.

if ! command -v strace > /dev/null || ! strace -qq -o /dev/null true 2> /dev/null; then
    echo "skipped: this needs strace (Debian: apt install strace), and the right to trace" >&2
    exit 77
fi
. "$(dirname "$0")/common.sh"

every=7
[ "${1:-}" = --all ] && every=1
patience=20
records=400
writes='pwrite64,fdatasync,fsync,/^rename,fallocate,ftruncate,write,unlinkat'

# Some 5 MiB, so that the log goes through segments that are made ahead.
seq -f 'record %.0f' $records | awk '{ printf "%s %0*d\n", $0, 50 + NR * 37 % 24000, 0 }' > "$folder/input"

# One run of append under strace, with the given injection if there is one.
append_traced() {
    rm -rf "$folder/log" "$folder"/acks "$folder"/trace
    # shellcheck disable=SC2086
    strace -f -y -qq -o "$folder/trace" -e trace="$writes" ${1:+-e inject=$1} \
        timeout -s KILL $patience "$SEAWALL" append "$folder/log" --ack \
        < "$folder/input" > "$folder/acks" 2> "$folder/errors"
}

# Compares what is there with what was acknowledged.
judge() {
    local code=$1 call=$2 error=$3
    local injected hit
    injected=$(grep -c -e '(INJECTED)' -e '+++ killed by SIGKILL' "$folder/trace")
    [ "$error" = KILL ] && injected=$(grep -q 'killed by SIGKILL' "$folder/trace" && echo 1 || echo 0)
    [ "$injected" -eq 0 ] && return
    runs=$((runs + 1))
    if [ "$code" -eq 0 ]; then survived=$((survived + 1)); else ended=$((ended + 1)); fi
    if [ "$code" -eq 137 ] && [ "$error" != KILL ]; then hung=$((hung + 1)); complain "hung"; fi

    local last=0
    last=$(whole_lines "$folder/acks" | tail -n 1)
    last=${last:-0}
    timeout $patience "$SEAWALL" verify "$folder/log" --json > "$folder/verdict" 2> /dev/null
    case $?,$last in
        0,*) ;;
        3,*) unsure=$((unsure + 1)) ;;
        [18],0) ;; # The creation failed, and nothing was promised.
        *) wrong=$((wrong + 1)); complain "verify: $(cut -c 1-200 "$folder/verdict")" ;;
    esac
    local found=0
    if [ -e "$folder/log" ]; then
        timeout $patience "$SEAWALL" cat "$folder/log" -o raw > "$folder/found" 2> /dev/null
        found=$(wc -l < "$folder/found")
    else
        : > "$folder/found"
    fi
    if [ "$found" -lt "$last" ] || ! head -n "$found" "$folder/input" | cmp -s - "$folder/found"; then
        lost=$((lost + 1))
        complain "acknowledged $last, found $found, or other content"
    fi
    # The open may find records that were under way: more than a reader was shown, never less.
    local next
    next=$(echo after | timeout $patience "$SEAWALL" append "$folder/log" --ack -q 2> /dev/null)
    timeout $patience "$SEAWALL" cat "$folder/log" -o raw > "$folder/again" 2> /dev/null
    if [ "${next:-0}" -le "$found" ] ||
        ! { head -n $((next - 1)) "$folder/input"; echo after; } | cmp -s - "$folder/again"; then
        wrong=$((wrong + 1))
        complain "the next append got ${next:-no number} behind $found"
    fi
    grep -q 'went on in segment' "$folder/errors" && failovers=$((failovers + 1))
    hit=$(grep -m 1 '(INJECTED)' "$folder/trace")
    if [ "$error" != KILL ] && [ "$injected" -eq 1 ] && [ "$code" -ne 0 ]; then
        case $hit in
            *renameat* | *unlinkat* | *' fsync('* | *' write('*) ;;
            *.seg\>*)
                wrong=$((wrong + 1)); complain "one failed call on a segment ended the append" ;;
        esac
    fi
}

complain() {
    echo "PROMISE BROKEN: $call $error, call $k: $1" >&2
    grep -m 3 '(INJECTED)' "$folder/trace" | cut -c 1-160 >&2
    head -n 3 "$folder/errors" >&2
}

append_traced ''
clean=$?
[ $clean -eq 0 ] || { echo "the append fails without any fault" >&2; exit 1; }
bytes=$(wc -c < "$folder/input")
echo "a run without faults: $(whole_lines "$folder/acks" | wc -l) acknowledged," \
    "$(ls "$folder/log" | grep -c seg$) segments," \
    "$(grep -c . "$folder/trace") calls; every ${every}th of each kind fails"
cp "$folder/trace" "$folder/counts"

printf '\n%-10s %-7s %6s %9s %9s %9s %9s %7s %9s %6s %6s\n' call error calls injected survived \
    failover ended unsure "acks lost" wrong hung
broken=0
for call in pwrite64 fdatasync fsync rename fallocate ftruncate unlinkat; do
    # The busiest thread: strace counts each on its own.
    calls=$(grep -E "^[0-9]+ +$call" "$folder/counts" | awk '{ n[$1]++ } END { for (p in n) if (n[p] > m) m = n[p]; print m + 0 }')
    for error in EIO ENOSPC KILL; do
        runs=0 survived=0 failovers=0 ended=0 unsure=0 lost=0 wrong=0 hung=0
        step=$every
        # Few calls of a kind are all tried.
        [ "$calls" -le $((every * 3)) ] && step=1
        for ((k = 1; k <= calls; k += step)); do
            fault="error=$error"
            [ $error = KILL ] && fault=signal=KILL
            append_traced "/^$call:$fault:when=$k" 2> /dev/null
            judge $? $call $error
        done
        printf '%-10s %-7s %6d %9d %9d %9d %9d %7d %9d %6d %6d\n' $call $error "$calls" $runs \
            $survived $failovers $ended $unsure $lost $wrong $hung
        broken=$((broken + lost + wrong + hung))
    done
done
echo
if [ $broken -gt 0 ]; then echo "$broken promises broken"; exit 1; fi
echo "no acknowledged record was lost, and nobody hung"
