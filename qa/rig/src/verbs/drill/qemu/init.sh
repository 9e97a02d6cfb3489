#!/bin/busybox sh
# The guest's init process. The kernel passes the rig_... parameters as environment variables.
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk; do
    busybox insmod /modules/$module.ko || echo "RIG failed: cannot load module $module"
done
[ -b /dev/vda ] || echo "RIG failed: /dev/vda is missing"
echo "RIG up"
client=0
while [ $client -lt "$rig_clients" ]; do
    {
        /rig drill --share "/dev/vda,$client,$rig_above" --seed "$rig_seed"
        echo "RIG ended: client $client, exit code $?"
    } &
    client=$((client + 1))
done
while :; do busybox sleep 1000; done
