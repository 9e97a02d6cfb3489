#!/bin/busybox sh
# The first process of the guest. The kernel has its rig_... parameters in the environment.
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk; do
    busybox insmod /modules/$module.ko || echo "RIG failed: module $module"
done
[ -b /dev/vda ] || echo "RIG failed: no disk"
echo "RIG up"
client=0
while [ $client -lt "$rig_clients" ]; do
    {
        /rig drill --share "/dev/vda,$client,$rig_above" --seed "$rig_seed"
        echo "RIG ended: client $client, $?"
    } &
    client=$((client + 1))
done
while :; do busybox sleep 1000; done
