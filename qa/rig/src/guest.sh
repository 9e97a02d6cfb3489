#!/bin/sh
# The first process of the guest, from its data disk. It says on the console what the rig is to
# know, one line each, with a dot at the end: a line without it was cut short.

fail() {
    echo "RIG failed: $1"
    sleep 1
    exit 1
}

as_postgres() {
    setpriv --reuid postgres --regid postgres --clear-groups "$@"
}

# Inserts and words for psql, which says a key only behind an insert that was acknowledged.
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
    mount -t tmpfs -o mode=1777 tmpfs $folder || fail "mount $folder"
done
mount -t ext4 /dev/ubdb /log || fail "mount the disk of the log"
cd /run || fail "no /run"

if [ ! -e /data/made ]; then
    install -d -m 700 -o postgres -g postgres /data/cluster /log/wal || fail "no folders"
    as_postgres initdb -D /data/cluster --waldir /log/wal -A trust -E UTF8 --locale C \
        >/run/said 2>&1 || { cat /run/said; fail "initdb"; }
    touch /data/made
    sync
fi

# Nobody runs yet. The control may find it empty, and is to lose keys, not its start.
rm -f /data/cluster/postmaster.pid
# What decides about durability is as it comes, but for the control.
as_postgres pg_ctl start -D /data/cluster -w -t 120 -l /run/postgres.log \
    -o "-k /run -c listen_addresses= -c shared_buffers=32MB -c autovacuum=off -c fsync=$rig_fsync" \
    >/run/said 2>&1 || { cat /run/said; tail -n 12 /run/postgres.log; fail "PostgreSQL"; }
as_postgres psql -X -q -v ON_ERROR_STOP=1 postgres \
    -c 'CREATE TABLE IF NOT EXISTS counted (key bigint PRIMARY KEY)' >/run/said 2>&1 ||
    { cat /run/said; fail "the table"; }
row=$(as_postgres psql -X -A -t -F ' ' postgres -c "SELECT count(*) FILTER
    (WHERE key <= $rig_acknowledged), coalesce(max(key), 0) FROM counted") || fail "the query"
echo "RIG found $row ."

while read -r order; do
    case $order in
    count) keys "${row#* }" | as_postgres psql -X -q -v ON_ERROR_STOP=1 postgres & ;;
    panic) echo c >/proc/sysrq-trigger ;;
    stop)
        as_postgres pg_ctl stop -D /data/cluster -w -m fast >/run/said 2>&1 || fail "the stop"
        umount /log || fail "umount the disk of the log"
        echo "RIG stopped ."
        ;;
    esac
done
fail "no more orders"
