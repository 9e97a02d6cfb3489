#!/bin/bash
# The guest's init: runs the task that `seawall.do` on the kernel's command line names.
#
# The root file system is the host's, read-only. Results for the host go to /run/shared.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2> /dev/null
mount -t tmpfs tmp /run
mkdir /run/shared /run/disk
parameter() {
    tr ' ' '\n' < /proc/cmdline | sed -n "s/^seawall\.$1=//p"
}
mount -t hostfs -o "$(parameter shared)" none /run/shared
fs=$(parameter fs)
modules=$(parameter modules)
bin=$(parameter bin)
here=$(dirname "$0")

power_off() {
    echo o > /proc/sysrq-trigger
    sleep 60
}

# Runs the workload on a device whose writes are recorded.
record() {
    insmod "$modules/drivers/md/dm-mod.ko"
    insmod "$modules/drivers/md/dm-log-writes.ko"
    dmsetup create log --noudevsync --noudevrules \
        --table "0 $(blockdev --getsz /dev/ubda) log-writes /dev/ubda /dev/ubdb" || return
    mount -t "$fs" /dev/dm-0 /run/disk || return
    python3 "$here/workload.py" /run/disk "$bin" "$(parameter records)" 2> /run/shared/said || return
    umount /run/disk
    dmsetup remove log
    echo done > /run/shared/recorded
}

# Checks one disk after a crash: mounts it, which replays its journal, and reads every log.
look() {
    local name=$1 log
    local out=/run/shared/found/$name
    mkdir -p "$out"
    mount -t "$fs" -o loop "/run/shared/images/$name" /run/disk 2> "$out/mount" || return
    echo fine > "$out/mount"
    for log in threads text confirmed; do
        [ -e "/run/disk/$log.wal" ] || continue
        "$bin/seawall" verify "/run/disk/$log.wal" --json > "$out/$log.verify" 2> "$out/$log.error"
        echo $? > "$out/$log.code"
        "$bin/seawall" cat "/run/disk/$log.wal" --json > "$out/$log.cat" 2>> "$out/$log.error"
    done
    # Each log must take another record, even if the crash interrupted its creation.
    for log in threads text confirmed; do
        echo '"once more"' |
            "$bin/seawall" append "/run/disk/$log.wal" --ack > "$out/$log.ack" 2>> "$out/$log.error"
        "$bin/seawall" verify "/run/disk/$log.wal" -q >> "$out/$log.error" 2>&1
        echo $? > "$out/$log.after"
    done
    umount /run/disk
}

check() {
    insmod "$modules/drivers/block/loop.ko"
    for image in /run/shared/images/*; do look "${image##*/}"; done
    echo done > /run/shared/checked
}

# Runs one life of a log on a machine that will crash. Acknowledgements go to the console, where a
# crash of the guest cannot lose them.
live() {
    mount -t "$fs" /dev/ubda /run/disk || { echo "guest: mount failed"; return; }
    if [ -e /run/disk/threads.wal ]; then
        "$bin/seawall" verify /run/disk/threads.wal -q ||
            echo "guest: verify ended with $?"
        "$bin/seawall" cat /run/disk/threads.wal -o raw > /run/shared/cat 2>> /run/shared/said ||
            echo "guest: cat ended with $?"
        echo done > /run/shared/looked
    fi
    if [ "$(parameter die)" = panic ]; then
        { sleep "$(parameter after)"; echo c > /proc/sysrq-trigger; } &
    fi
    [ "$(parameter die)" = never ] || "$bin/committers" /run/disk/threads.wal 4 1000000
}

case $(parameter do) in
    record) record ;;
    check) check ;;
    live) live ;;
esac
power_off
