#!/bin/sh
# The guest's init process. Reports to the rig in RIG lines on the console. All but `RIG failed` end
# with a dot: without it, the line was cut short.

fail() {
    echo "RIG failed: $1"
    sleep 1
    exit 1
}

as_postgres() {
    setpriv --reuid postgres --regid postgres --clear-groups "$@"
}

# Prints input for psql, which reports a key only after its INSERT was acknowledged.
keys() {
    key=$1
    while :; do
        key=$((key + 1))
        printf 'INSERT INTO counted VALUES (%d);\n\\echo RIG acknowledged %d .\n' $key $key || exit
    done
}

export PATH=/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PGHOST=/run PGUSER=postgres
stty -echo
for folder in /run /tmp /dev/shm; do
    mkdir -p $folder
    mount -t tmpfs -o mode=1777 tmpfs $folder || fail "cannot mount $folder"
done
mount -t ext4 /dev/ubdb /log || fail "cannot mount the log disk"
cd /run || fail "cannot enter /run"

if [ ! -e /data/made ]; then
    install -d -m 700 -o postgres -g postgres /data/cluster /log/wal || fail "cannot create folders"
    as_postgres initdb -D /data/cluster --waldir /log/wal -A trust -E UTF8 --locale C \
        >/run/said 2>&1 || { cat /run/said; fail "initdb failed"; }
    touch /data/made
    sync
fi

# No server runs yet. A crash without fsync can leave this file empty, and PostgreSQL would not
# start: the control must lose keys, not fail to start.
rm -f /data/cluster/postmaster.pid
# All settings for durability keep their defaults; only the control turns fsync off.
as_postgres pg_ctl start -D /data/cluster -w -t 120 -l /run/postgres.log \
    -o "-k /run -c listen_addresses= -c shared_buffers=32MB -c autovacuum=off -c fsync=$rig_fsync" \
    >/run/said 2>&1 || { cat /run/said; tail -n 12 /run/postgres.log; fail "pg_ctl start"; }
as_postgres psql -X -q -v ON_ERROR_STOP=1 postgres \
    -c 'CREATE TABLE IF NOT EXISTS counted (key bigint PRIMARY KEY)' >/run/said 2>&1 ||
    { cat /run/said; fail "cannot create the table"; }
row=$(as_postgres psql -X -A -t -F ' ' postgres -c "SELECT count(*) FILTER
    (WHERE key <= $rig_acknowledged), coalesce(max(key), 0) FROM counted") || fail "query failed"
echo "RIG found $row ."

while read -r order; do
    case $order in
    count) keys "${row#* }" | as_postgres psql -X -q -v ON_ERROR_STOP=1 postgres & ;;
    panic) echo c >/proc/sysrq-trigger ;;
    stop)
        as_postgres pg_ctl stop -D /data/cluster -w -m fast >/run/said 2>&1 || fail "pg_ctl stop"
        umount /log || fail "cannot unmount the log disk"
        echo "RIG stopped ."
        ;;
    esac
done
fail "no more orders"
