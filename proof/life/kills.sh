#!/usr/bin/env bash
# Kills the writer of a log again and again. Usage: kills.sh [--log-format json] [N], 100 kills by
# default.
#
# In each life `seawall append --ack` reads lines until SIGKILL ends it after a random time,
# sometimes while it still opens the log. After each generation of 50 kills every acknowledged
# record must be there, with its content. Then the older records are truncated, as a program with a
# snapshot would do, so disk use and the time to open must stay bounded.

. "$(dirname "$0")/common.sh"

layout=()
if [ "${1:-}" = --log-format ]; then
    layout=(--log-format "$2")
    shift 2
fi
kills=${1:-100}
generation=50
# The longest life. It doubles, to some 10 s, until a record is acknowledged: on a busy machine an open
# takes longer.
life_ms=${LIFE_MS:-60}
log=$folder/log
RANDOM=${SEED:-$$}
acknowledged=0 lost=0
exec 3>&2

disk_use() {
    du -sk "$log" | cut -f 1
}

# Prints the milliseconds for an open with recovery and a clean close.
open_time() {
    local start
    start=$(now_ms)
    "$SEAWALL" append "$log" "${layout[@]}" -q < /dev/null || echo "the open after a kill failed: $?" >&2
    echo $(($(now_ms) - start))
}

# Prints lines "CYCLE NUMBER", flushing each. Their number is bounded, so that a fast machine does not
# write millions.
feed() {
    awk -v cycle="$1" 'BEGIN { for (n = 1; n <= 200000; n++) { print cycle, n; fflush() } }' 2> /dev/null
}

live_and_die() {
    local cycle=$1 delay_ms=$((RANDOM % life_ms))
    # The kill may come before the redirection empties `acks`: remove those of the previous life.
    rm -f "$folder/pipe" "$folder/acks"
    : > "$folder/acks"
    mkfifo "$folder/pipe"
    # Keeps the pipe open: a writer that has read every line waits for more until it is killed.
    exec 4<> "$folder/pipe"
    feed "$cycle" > "$folder/pipe" 4>&- &
    local feeder=$!
    "$SEAWALL" append "$log" "${layout[@]}" --ack -q < "$folder/pipe" > "$folder/acks" 2> "$folder/errors" 4>&- &
    local writer=$!
    sleep "$((delay_ms / 1000)).$(printf '%03d' $((delay_ms % 1000)))"
    kill -9 $writer
    wait $writer 2> /dev/null
    local code=$?
    exec 4>&-
    kill -9 $feeder 2> /dev/null
    wait $feeder 2> /dev/null
    [ $code -eq 137 ] || { echo "cycle $cycle: exit $code: $(head -n 3 "$folder/errors")" >&3; lost=$((lost + 1)); }
    # The n-th acknowledgement of a life is for its n-th line.
    whole_lines "$folder/acks" | awk -v cycle="$cycle" '{ print $1 "\t" cycle " " NR }' >> "$folder/expected"
}

# Counts acknowledged records that are missing or changed.
compare() {
    "$SEAWALL" cat "$log" > "$folder/found" 2> "$folder/errors" ||
        { echo "cat: $(head -n 3 "$folder/errors")" >&2; lost=$((lost + 1)); }
    local missing
    # A log in JSON stores a line as a JSON string: remove the quotes.
    missing=$(awk -F '\t' 'NR == FNR { gsub(/"/, "", $2); found[$1] = $2; next } found[$1] != $2 { n++ } END { print n + 0 }' \
        "$folder/found" "$folder/expected")
    lost=$((lost + missing))
    acknowledged=$((acknowledged + $(wc -l < "$folder/expected")))
}

printf '%6s %13s %6s %9s %10s %9s %9s\n' kills acknowledged lost 'disk KiB' 'aside KiB' segments 'open ms'
: > "$folder/expected"
for ((cycle = 1; cycle <= kills; cycle++)); do
    live_and_die $cycle 2> /dev/null
    [ $acknowledged -gt 0 ] || [ -s "$folder/expected" ] || [ $life_ms -gt 5000 ] || life_ms=$((life_ms * 2))
    if [ $((cycle % generation)) -eq 0 ] || [ $cycle -eq 1 ] || [ $cycle -eq "$kills" ]; then
        opened=$(open_time)
        compare
        "$SEAWALL" verify "$log" -q || { echo "verify: exit $?" >&2; lost=$((lost + 1)); }
        aside=$(du -sk "$log/quarantine" 2> /dev/null | cut -f 1)
        printf '%6d %13d %6d %9d %10d %9d %9d\n' $cycle $acknowledged $lost "$(disk_use)" "${aside:-0}" \
            "$(ls "$log" | grep -c -e 'seg$' -e 'head$')" "$opened"
        last=$(tail -n 1 "$folder/expected" | cut -f 1)
        "$SEAWALL" truncate "$log" --before "${last:-1}" --yes -q || lost=$((lost + 1))
        : > "$folder/expected"
    fi
done
[ "$acknowledged" -gt 0 ] || { echo "nothing was acknowledged in lives of up to $life_ms ms" >&2; exit 1; }
[ $lost -eq 0 ] || { echo "$lost promises broken" >&2; exit 1; }
echo "no acknowledged record was lost"
