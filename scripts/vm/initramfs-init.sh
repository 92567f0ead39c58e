#!/bin/busybox sh
# shellcheck shell=dash
# First program of the machine of vm.sh: loads the drivers in their order and goes over to the root disk.
bb=/bin/busybox
$bb mount -t devtmpfs dev /dev
for module in /modules/*.ko; do
	$bb insmod "$module" || echo "vm: insmod $module failed"
done
until [ -b /dev/vda ]; do $bb usleep 20000; done
$bb mount -t ext4 /dev/vda /root || echo 'vm: cannot mount /dev/vda'
$bb umount /dev
exec $bb switch_root /root /.vm/init
