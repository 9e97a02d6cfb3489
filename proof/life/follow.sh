#!/usr/bin/env bash
# A consumer in another process follows a queue through rotation, pruning, restarts and a kill.
# Usage: follow.sh [N], 1000000 records by default.
#
# `seawall tail -f --cursor-file` runs throughout. The writer, the example `queue`, runs four times;
# each run is a life, and kill -9 ends the second. Segments have 1 MiB. Records that the consumer
# has processed are pruned by the writer during a life and by `seawall truncate` between lives. The
# consumer must see each acknowledged record once, in order, with its content. It may also see later
# records of the killed life, in order.

. "$(dirname "$0")/common.sh"

total=${1:-1000000}
log=$folder/log
cursor=$folder/cursor
chunk=2000
lead_max=30000
patience=120
broken=0
exec 3>&2

complain() {
    echo "PROMISE BROKEN: $1" >&3
    broken=$((broken + 1))
}

next_wanted() {
    cat "$cursor"
}

# Sends records 1 to $2 of life $1, whose first LSN is $3, and regularly the consumer's position.
# Stays close to the consumer, so that most of the log is written, read and pruned at the same time.
feed() {
    local life=$1 count=$2 base=$3 n next
    for ((n = 1; n <= count; n += chunk)); do
        awk -v life="$life" -v n="$n" -v chunk=$chunk -v count="$count" 'BEGIN {
            for (end = n + chunk; n < end && n <= count; n++)
                printf "put %d %d %0*d\n", life, n, 10 + n % 60, n
        }' || return
        next=$(next_wanted)
        echo "done $next" || return
        while [ $((base + n - next)) -gt $lead_max ] && kill -0 $follower 2> /dev/null; do
            sleep 0.05
            next=$(next_wanted)
        done
    done
}

last_acknowledged() {
    whole_lines "$folder/acks" | tail -n 1
}

# Runs life $1 of the writer with up to $2 records. Kills it after $3 acknowledgements, if given.
# Adds a line to $folder/lives: life, records to send, last acknowledged LSN, exit code.
live() {
    local life=$1 count=$2 kill_at=${3:-0} base=$((written + 1)) code
    : > "$folder/acks"
    feed "$life" "$count" $base 2> /dev/null | "$examples/queue" "$log" > "$folder/acks" 2> "$folder/errors" &
    local writer=$!
    while [ "$kill_at" -gt 0 ] && kill -0 $writer 2> /dev/null; do
        local last
        last=$(last_acknowledged)
        [ $((${last:-0} - base + 1)) -lt "$kill_at" ] || kill -9 $writer
        sleep 0.01
    done
    wait $writer 2> /dev/null
    code=$?
    written=$(last_acknowledged)
    echo "$life $count $written $code" >> "$folder/lives"
    if [ "$kill_at" -gt 0 ]; then
        [ $code -eq 137 ] || complain "life $life should have been killed but ended with $code"
    else
        [ $code -eq 0 ] || complain "life $life ended with $code: $(head -n 2 "$folder/errors")"
    fi
    echo "life $life: exit $code, record $written acknowledged, the consumer is at $(next_wanted)," \
        "$(ls "$log" | grep -c 'seg$') segments"
}

prune_from_outside() {
    "$SEAWALL" truncate "$log" --before "$(next_wanted)" --yes -q ||
        complain "truncate ended with $?"
}

# Waits until the consumer has seen all records, or makes no progress for $patience seconds.
wait_for_consumer() {
    local before=0 next still=0
    while next=$(next_wanted) && [ "$next" -le "$written" ] && [ $still -lt $((patience * 5)) ]; do
        kill -0 $follower 2> /dev/null || return
        if [ "$next" -eq "$before" ]; then still=$((still + 1)); else still=0; fi
        before=$next
        sleep 0.2
    done
    # A duplicate record would arrive now.
    sleep 1
}

# Prints a line for each kind of error in the records that the consumer saw.
judge() {
    awk '
        NR == FNR { sent[$1] = $2; acknowledged[$1] = $3; killed[$1] = $4 != 0; lives = $1; next }
        $1 != FNR { numbers++ }
        $2 != life && ($2 != life + 1 || $3 != 1) || $2 == life && $3 != n + 1 { order++ }
        $4 != sprintf("%0*d", 10 + $3 % 60, $3) || NF != 4 { content++ }
        { end[$2] = FNR; life = $2; n = $3; seen[$2]++ }
        END {
            for (i = 1; i <= lives; i++) {
                if (end[i] < acknowledged[i]) print "life " i ": acknowledged records were not seen"
                if (!killed[i] && (end[i] != acknowledged[i] || seen[i] != sent[i]))
                    print "life " i ": " sent[i] " sent, " seen[i] + 0 " seen"
            }
            if (numbers) print numbers " records with an unexpected LSN"
            if (order) print order " records duplicated, missing or out of order"
            if (content) print content " records with wrong content"
        }' "$folder/lives" "$folder/seen"
}

"$examples/queue" "$log" < /dev/null || exit 1
echo 1 > "$cursor"
: > "$folder/lives"
written=0
start=$(now_ms)
"$SEAWALL" tail "$log" -f --cursor-file "$cursor" > "$folder/seen" 2> "$folder/said" &
follower=$!

live 1 $((total / 4))
prune_from_outside
# Hides the shell's message about the killed process.
live 2 "$total" $((total / 4)) 2> /dev/null
prune_from_outside
live 3 $((total / 4))
prune_from_outside
live 4 $((total > written ? total - written : 1))
wait_for_consumer
kill -0 $follower 2> /dev/null || complain "the consumer ended: $(head -n 3 "$folder/said")"
kill $follower 2> /dev/null
wait $follower 2> /dev/null

amiss=$(judge)
[ -z "$amiss" ] || complain "$amiss"
"$SEAWALL" verify "$log" -q || complain "verify ended with $?"
pruned=$("$SEAWALL" stat "$log" --json | sed -n 's/.*"first_lsn":\([0-9]*\).*/\1/p')
made=$(ls "$log" | sed -n 's/^0*\([0-9]*\)\.seg$/\1/p' | sort -n | tail -n 1)
left=$(ls "$log" | grep -c 'seg$')
echo "$(wc -l < "$folder/seen") records seen in $((($(now_ms) - start) / 1000)) s;" \
    "$made segments created, $((made - left)) pruned, the log begins at record ${pruned:-?}"
[ $((made - left)) -gt 0 ] || complain "nothing was pruned, so this proves little"
if [ $broken -gt 0 ]; then echo "$broken promises broken"; exit 1; fi
echo "the consumer saw each record once, in order, through 3 restarts, one after kill -9"
