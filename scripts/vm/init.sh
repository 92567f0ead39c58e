#!/bin/busybox sh
# shellcheck shell=dash
# PID 1 of the machine of vm.sh: mounts what a Linux program expects, runs /.vm/command, reports its exit code.
# What this script itself prints goes to the serial console, beside the kernel's messages.
export PATH=/bin

mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
read -r controllers </sys/fs/cgroup/cgroup.controllers
for controller in $controllers; do
	echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done
ip link set lo up
hostname tare-vm

# port NAME prints the device of the virtio port that QEMU calls NAME. Ports appear a moment after their driver.
port() {
	until file=$(grep -lx "$1" /sys/class/virtio-ports/*/name 2>/dev/null); do usleep 20000; done
	basename "$(dirname "$file")"
}
output=/dev/$(port vm.output)
status=/dev/$(port vm.status)

# A port can be opened once only, but programs open /dev/stdout again: so the command writes into a pipe.
mkfifo -m 666 /run/vm-output
cat /run/vm-output >"$output" &
drain=$!
echo -1000 >/proc/$drain/oom_score_adj

exec 3>"$status"
echo started >&3
# vm.sh takes a machine that is silent for lost.
while sleep 5; do echo alive; done >&3 &
echo -1000 >/proc/$!/oom_score_adj
sh /.vm/command </dev/null >/run/vm-output 2>&1 3>&-
code=$?

# end_leftovers kills what the command left running, which would hold the pipe open; false when there was nothing.
end_leftovers() {
	local any=false dir pid
	for dir in /proc/[0-9]*; do
		pid=${dir#/proc/}
		if [ "$pid" -eq 1 ] || [ "$pid" -eq $drain ]; then continue; fi
		# Kernel threads and zombies have no command line.
		cmdline=
		read -r cmdline 2>/dev/null <"$dir/cmdline"
		[ -n "$cmdline" ] || continue
		kill -KILL "$pid" 2>/dev/null && any=true
	done
	$any
}
while end_leftovers; do :; done
wait $drain
echo "exit $code" >&3
poweroff -f
