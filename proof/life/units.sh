#!/usr/bin/env bash
# Runs the systemd units: keeper, server, mount and database are started, killed, stopped and
# rebooted. Needs root, a build with feature fuse, and /lib/systemd/systemd.
# Usage: units.sh, from any folder.
#
# systemd is process 1 of its own namespaces, in which everything except this run's folder is
# read-only. Its units are those in crates/seawall-cli/systemd, the targets that they name, and a
# database that writes and syncs a number to a file on the disk ten times a second.

if [ -z "${SEAWALL:-}" ]; then
    (cd "$(dirname "$0")/../.." && cargo build --quiet --release -p seawall-cli --features fuse) || exit 1
    SEAWALL=${CARGO_TARGET_DIR:-$(dirname "$0")/../../target}/release/seawall
fi
. "$(dirname "$0")/common.sh"

skip() {
    echo "SKIPPED, nothing was tested: $1"
    exit 77
}

systemd=/lib/systemd/systemd
[ "$(id -u)" = 0 ] || skip "this needs root"
[ -x $systemd ] || skip "there is no $systemd"
[ -e /dev/fuse ] || skip "there is no /dev/fuse"
groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$groups" ] || skip "cgroup2 is not mounted"
group=$groups/seawall-units-$$
mkdir "$group" || skip "cannot create a cgroup in $groups"
broken=0

complain() {
    echo "PROMISE BROKEN: $1"
    broken=$((broken + 1))
}

end() {
    disown
    echo 1 > "$group/cgroup.kill"
    while grep -q 'populated 1' "$group/cgroup.events"; do sleep 0.1; done
    find "$group" -depth -type d -exec rmdir {} +
    rm -rf "$folder"
}
trap end EXIT

# The files of the machine to boot.
cp "$SEAWALL" "$folder/seawall"
mkdir "$folder"/{units,etc,var,log}
for target in basic sysinit sockets timers paths slices; do
    echo "[Unit]" > "$folder/units/$target.target"
done
for unit in shutdown.target umount.target final.target poweroff.target systemd-poweroff.service; do
    cp /lib/systemd/system/$unit "$folder/units"
done
cp "$root"/crates/seawall-cli/systemd/*.service "$folder/units"
mkdir "$folder/units/seawall-disk.service.d"
cp "$root/crates/seawall-cli/systemd/fuse.conf" "$folder/units/seawall-disk.service.d"
mkdir "$folder/units/service.d"
printf '[Service]\nStandardError=append:/srv/log.txt\n' > "$folder/units/service.d/log.conf"
cat > "$folder/units/machine.target" << 'UNIT'
[Unit]
Requires=basic.target
After=basic.target
Wants=database.service
AllowIsolate=yes
UNIT
cat > "$folder/units/database.service" << 'UNIT'
[Unit]
Requires=seawall-disk.service
After=seawall-disk.service
RequiresMountsFor=/srv/log
[Service]
Type=notify
NotifyAccess=all
ExecStart=/bin/bash /srv/database.sh
KillSignal=SIGINT
Restart=on-failure
RestartSec=1
UNIT
cat > "$folder/database.sh" << 'SCRIPT'
mountpoint -q /srv/log || exit 1
trap 'echo stopped $n at $(mountpoint -q /srv/log && echo mounted) >> /srv/said; exit 0' INT
last=$((10#$(cat /srv/log/number 2> /dev/null || echo 0)))
promised=$(cat /srv/promised 2> /dev/null || echo 0)
echo "found $last promised $promised" >> /srv/said
systemd-notify --ready
for ((n = last + 1; ; n++)); do
    printf '%08d\n' $n | dd of=/srv/log/number conv=notrunc,fsync 2> /dev/null || exit 1
    echo $n > /srv/promised.new && mv /srv/promised.new /srv/promised
    sleep 0.1
done
SCRIPT
cp -a /etc/. "$folder/etc"
mkdir -p "$folder/etc/seawall"
echo "seawall:x:64999:64999::/:/bin/false" >> "$folder/etc/passwd"
echo "seawall:x:64999:" >> "$folder/etc/group"
cat > "$folder/etc/seawall/disk.conf" << 'CONF'
image = /var/lib/seawall/log.img
size = 64MiB
export = fuse-dir:/srv/log
power = ok
hold-up = 60000
CONF
cat > "$folder/boot.sh" << SCRIPT
set -e
mount --make-rprivate /
mount --bind "$folder" /srv
awk '\$5 !~ "^/(proc|srv)" { print \$5 }' /proc/self/mountinfo | sort -u | while read -r place; do
    mount -o remount,bind,ro "\$place" 2> /dev/null || true
done
mount -o bind,ro /proc/sys /proc/sys
for place in /run /tmp /usr/local/bin /var/log /dev/shm; do mount -t tmpfs tmpfs \$place; done
mount --bind /srv/etc /etc
mount --bind /srv/var /var/lib
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind /srv/console /dev/console
cp /srv/seawall /usr/local/bin
for place in / /usr /home /opt; do if touch \$place/units.$$ 2> /dev/null; then exit 1; fi; done
exec env -i container=seawall PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \\
    SYSTEMD_UNIT_PATH=/srv/units $systemd --system --unit=machine.target --show-status=0 \\
    --log-target=console
SCRIPT

boot() {
    : > "$folder/console"
    (echo $BASHPID > "$group/cgroup.procs" && exec unshare --fork --pid --mount --mount-proc \
        --cgroup --uts --ipc --net --kill-child bash "$folder/boot.sh") > "$folder/booted" 2>&1 &
    outer=$!
    init=
    for ((n = 0; n < 300; n++)); do
        init=$(cat /proc/$outer/task/$outer/children 2> /dev/null | tr -d ' ')
        [ -n "$init" ] && inside systemctl is-active --quiet machine.target database.service && return
        sleep 0.1
    done
    complain "the machine does not come up"
    cat "$folder/booted" "$folder/console" "$folder/log.txt"
    exit 1
}

inside() {
    nsenter -t "$init" -m -p -C -n "$@" 2>> "$folder/errors"
}

property() {
    inside systemctl show -P "$2" "$1"
}

status() {
    inside seawall disk status /var/lib/seawall/log.img --json
}

# Waits until the command succeeds.
until_it() {
    for ((n = 0; n < 300; n++)); do "$@" && return; sleep 0.1; done
    complain "timed out waiting for: $*: $(tail -20 "$folder/log.txt")"
    return 1
}

goes_on() {
    local at=$(cat "$folder/promised" 2> /dev/null || echo 0)
    local wanted=$((at + 5))
    reached() { [ "$(cat "$folder/promised" 2> /dev/null || echo 0)" -ge $wanted ]; }
    until_it reached
}

# Checks that each database found at its start the last synced number, or a later one.
check_numbers() {
    awk '$1 == "found" && $2 < $4 { exit 1 }' "$folder/said" ||
        complain "$1: $(tail -3 "$folder/said")"
    [ "$(status | jq -r '[.lost, .broken] | join(" ")')" = "false false" ] || complain "$1: $(status)"
}

# Checks that the database was stopped before its disk was unmounted.
check_stopped() {
    [[ "$(grep stopped "$folder/said" | tail -1)" = *" at mounted" ]] ||
        complain "$1 the database lost its disk before it was stopped: $(tail -3 "$folder/said")"
}

kill_main() {
    inside systemctl kill --kill-whom=main --signal=KILL "$1"
}

boot
before=0
for unit in seawall-keeper seawall-disk database; do
    at=$(property $unit ActiveEnterTimestampMonotonic)
    [ "$at" -gt $before ] || complain "$unit was active at $at us, its predecessor at $before us"
    before=$at
done
keeper=$(property seawall-keeper MainPID)
[ "$(status | jq -r .keeper.pid)" = "$keeper" ] || complain "the server uses another keeper: $(status)"
said=$(status | jq -r '[.state, .kept, .keeper.user, .server.seccomp, .keeper.seccomp] | join(" ")')
[[ "$said" = "armed true "*" on on" ]] || complain "status says: $said"
echo "booted: $said"
goes_on

kill_main seawall-disk
is_new() { [ "$(property seawall-disk NRestarts)" -ge "$1" ] && goes_on; }
until_it is_new 1
[ "$(status | jq -r .keeper.pid)" = "$keeper" ] || complain "the new server uses another keeper"
check_numbers "after a kill of the server"
echo "the server was killed: $(tail -1 "$folder/said")"

inside systemctl stop seawall-keeper
has_other() { [ "$(status | jq -r .kept)" = true ] && [ "$(status | jq -r .keeper.pid)" != "$keeper" ]; }
until_it has_other
goes_on
kill_main seawall-disk
until_it is_new 2
check_numbers "after a stop of the keeper and a kill of the server"
echo "the keeper was stopped, the server killed: $(tail -1 "$folder/said")"

inside systemctl stop seawall-disk
result=$(property seawall-disk Result)
[ "$result" = success ] || complain "the server stopped with $result"
check_stopped "during a stop"
inside systemctl start database
goes_on

inside systemctl poweroff
wait $outer
check_stopped "during a shutdown"
boot
goes_on
check_numbers "after the machine was booted again"
echo "booted again: $(tail -1 "$folder/said")"

inside systemctl stop seawall-disk
rm -r "$folder/units/seawall-disk.service.d"
chown -R 64999:64999 "$folder/var/seawall"
sed -i 's,^export.*,export = nbd:unix:/run/seawall/log.sock,' "$folder/etc/seawall/disk.conf"
inside systemctl daemon-reload
for restarts in 0 1; do
    inside systemctl start seawall-disk
    said=$(status | jq -r '[.state, .kept, .server.user, .server.landlock, .server.seccomp] | join(" ")')
    [[ "$said" = "armed true seawall ABI "*" on" ]] || complain "status by NBD says: $said"
    kill_main seawall-disk
    has_restarted() { [ "$(property seawall-disk NRestarts)" -gt $restarts ] && status > /dev/null; }
    until_it has_restarted
done
echo "served by NBD: $said"

[ $broken = 0 ] && echo "every promise kept"
exit $broken
