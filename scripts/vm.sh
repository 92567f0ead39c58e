#!/usr/bin/env bash
# Runs one command in a throw-away virtual machine: a real Debian kernel with cgroup v2, on a host that has another
# kernel, cgroup v1 or no KVM (QEMU emulates the processor). See usage() below, or scripts/vm.sh --help.
#
# How it works: kernel, modules and busybox come from Debian packages and are kept in the cache. For each run, a small
# initramfs (vm/initramfs-init.sh) loads the drivers and mounts a fresh ext4 root disk, made of busybox and the copied
# files; vm/init.sh is PID 1 there. The kernel's messages go to the serial console and from there to a file. The
# command's output goes through a virtio port to our stdout, byte by byte; its exit code through a second port.
set -Eeuo pipefail
PATH=$PATH:/usr/sbin:/sbin

usage() {
	cat <<'USAGE'
usage: scripts/vm.sh [OPTION]... -- COMMAND [ARG]...
       scripts/vm.sh [--kernel SUITE] --fetch

Runs COMMAND as root in a virtual machine with cgroup v2 at /sys/fs/cgroup, all controllers enabled for children.
There is busybox, a loopback device and a root disk that is thrown away; no other network.

  --kernel SUITE         Debian suite of the kernel: bookworm (default), trixie, sid
  --memory SIZE          memory of the machine, as QEMU understands it (default 1024M)
  --cpus N               processors (default 2)
  --disk SIZE            free room on the root disk, in MiB (default 512)
  --timeout SECONDS      for boot and command together (default 300)
  --silence SECONDS      take the machine for lost when it has not reported for so long; it does every five (default 90)
  --copy HOST[:GUEST]    copies a file or directory; GUEST is absolute (default: HOST's absolute path). Links that
                         lead out of the directory to a file become files. May be repeated.
  --host-libs            copies the host's dynamic loader, C and C++ runtime and zlib: what a JDK needs. A JDK of the
                         cache that brings its own C library is copied to its own path, with that library:
                         --host-libs --copy ~/.cache/tare/jdks/21 --copy ~/.cache/tare/jdks/.glibc
  --env NAME=VALUE       environment of COMMAND, otherwise PATH, HOME and LANG alone. May be repeated.
  --dir GUEST            working directory of COMMAND (default /)
  --fetch                only fill the cache

stdout: COMMAND's stdout and stderr. Exit code: COMMAND's; 123 when the machine was lost: its kernel panicked or hung,
124 when the time was up, 125 when the machine could not be made or did not boot. The last kernel lines are then on
stderr.
Cache: $TARE_CACHE/vm (default $XDG_CACHE_HOME/tare/vm, ~/.cache/tare/vm); delete a suite's folder to renew its kernel.
TARE_DEBIAN_MIRROR: where the packages come from (default http://deb.debian.org/debian).
USAGE
}

die() {
	printf 'vm.sh: %s\n' "$*" >&2
	exit 125
}
trap '((BASH_SUBSHELL)) || die "line $LINENO: \"$BASH_COMMAND\" failed"' ERR

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${TARE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/tare}/vm
mirror=${TARE_DEBIAN_MIRROR:-http://deb.debian.org/debian}

# What the guest needs to find its disk and its ports. Dependencies are added, built-in ones dropped.
drivers=(virtio_pci virtio_blk ext4 virtio_console)

suite=bookworm memory=1024M cpus=2 disk_mib=512 timeout=300 silence=90 host_libs=no dir=/ fetch_only=no
copies=() environment=() command=()

parse() {
	while (($#)); do
		case $1 in
		--help | -h) usage && exit 0 ;;
		--host-libs) host_libs=yes && shift && continue ;;
		--fetch) fetch_only=yes && shift && continue ;;
		--) shift && command=("$@") && break ;;
		--kernel | --memory | --cpus | --disk | --timeout | --silence | --copy | --env | --dir) ;;
		*) die "unknown option $1; the command goes behind --, see scripts/vm.sh --help" ;;
		esac
		(($# >= 2)) || die "$1 needs a value, see scripts/vm.sh --help"
		case $1 in
		--kernel) suite=$2 ;;
		--memory) memory=$2 ;;
		--cpus) cpus=$2 ;;
		--disk) disk_mib=$2 ;;
		--timeout) timeout=$2 ;;
		--silence) silence=$2 ;;
		--copy) copies+=("$2") ;;
		--env) environment+=("$2") ;;
		--dir) dir=$2 ;;
		esac
		shift 2
	done
}

# must_match OPTION VALUE REGEX
must_match() {
	[[ $2 =~ ^($3)$ ]] || die "$1 $2: must match $3"
}

check() {
	must_match --kernel "$suite" '[a-z][a-z0-9-]*'
	must_match --memory "$memory" '[1-9][0-9]{0,8}[MG]?'
	must_match --cpus "$cpus" '[1-9][0-9]?'
	must_match --disk "$disk_mib" '[1-9][0-9]{0,5}'
	must_match --timeout "$timeout" '[1-9][0-9]{0,5}'
	must_match --silence "$silence" '[1-9][0-9]{0,5}'
	must_match --dir "$dir" '/.*'
	local e
	for e in "${environment[@]}"; do must_match --env "${e%%=*}=" '[A-Za-z_][A-Za-z0-9_.]*='; done
	[[ $fetch_only = yes ]] || ((${#command[@]})) || die 'no command; it goes behind --, see scripts/vm.sh --help'
	[[ $(uname -m) = x86_64 ]] || die "the machine is an x86_64 one, this host is $(uname -m); run it on an amd64 host"
	require
}

# Names every missing program at once, with the packages that bring them.
require() {
	local tools=(qemu-system-x86_64:qemu-system-x86 mke2fs:e2fsprogs cpio:cpio modprobe:kmod xz:xz-utils zstd:zstd
		apt-get:apt dpkg-deb:dpkg setpriv:util-linux flock:util-linux)
	local tool missing=() packages=()
	for tool in "${tools[@]}"; do
		type -P "${tool%%:*}" >/dev/null || { missing+=("${tool%%:*}") && packages+=("${tool##*:}"); }
	done
	((${#missing[@]} == 0)) ||
		die "missing ${missing[*]}; install: apt-get install --no-install-recommends ${packages[*]}"
}

# fetch fills $cache/$suite: vmlinuz, modules/NN-NAME.ko in the order of loading, busybox, applets/ (links to it) and
# drivers, the list that it was made for. The folder appears whole or not at all; downloads are kept for another try.
fetch() {
	[[ $(cat "$cache/$suite/drivers" 2>/dev/null) != "${drivers[*]}" ]] || return 0
	printf 'vm.sh: fetching the kernel and busybox of Debian %s, once\n' "$suite" >&2
	local work=$cache/fetch-$suite
	rm -rf "$work/new" "$work/image" && mkdir -p "$work/new/modules" "$work/new/applets" "$work/image"
	download "$work" >&2
	local package
	for package in "$work"/debs/*.deb; do
		dpkg-deb -x "$package" "$work/image"
	done
	find "$work/image" -name 'vmlinuz*' -type f -exec cp {} "$work/new/vmlinuz" \;
	[[ -s $work/new/vmlinuz ]] || die "no vmlinuz in $(cd "$work/debs" && echo linux*); use another --kernel"
	pick_modules "$work/image" "$work/new/modules"
	find "$work/image" -path '*/bin/busybox' -exec cp {} "$work/new/busybox" \;
	local applet
	for applet in $("$work/new/busybox" --list); do
		[[ $applet = busybox ]] || ln -s busybox "$work/new/applets/$applet"
	done
	printf '%s\n' "${drivers[*]}" >"$work/new/drivers"
	rm -rf "${cache:?}/$suite" && mv "$work/new" "$cache/$suite" && rm -rf "$work"
}

# download WORK puts the kernel's packages and busybox into WORK/debs. It has a package index of its own, because the
# suite need not be the host's; the host's apt configuration (proxies) applies.
download() {
	local work=$1 image packages
	mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/debs"
	printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" "$suite" \
		>"$work/sources.list"
	: >"$work/status"
	local apt=(-o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::State::Lists=$work/lists" -o "Dir::State::Status=$work/status" -o "Dir::Cache=$work"
		-o APT::Architecture=amd64 -o Acquire::Languages=none -o APT::Sandbox::User=root
		-o Acquire::Retries=3 -o APT::Get::List-Cleanup=false)
	apt-get "${apt[@]}" -qq update ||
		{ rm -rf "$work" && die "no package index from $mirror $suite; see TARE_DEBIAN_MIRROR in --help"; }
	# linux-image-cloud-amd64 is an empty package that depends on the current image.
	image=$(depends_on linux-image-cloud-amd64 'linux-image-.*')
	[[ $image ]] || die "$mirror $suite has no linux-image-cloud-amd64"
	# What an earlier try left must be of the same kernel.
	[[ -e $work/debs/$image ]] || { rm -f "$work"/debs/* && : >"$work/debs/$image"; }
	# Kernels after Debian 13's are in several packages, and the image depends on them.
	mapfile -t packages < <(depends_on "$image" 'linux-(base|binary|modules)-.*')
	(cd "$work/debs" && apt-get "${apt[@]}" -qq download "$image" "${packages[@]}" busybox-static) ||
		die "cannot download $image and busybox-static from $mirror; run it again to go on"
}

# depends_on PACKAGE REGEX prints the matching dependencies, with the options in the caller's $apt.
depends_on() {
	apt-cache "${apt[@]}" depends --important "$1" | sed -nE "s/^ *Depends: ($2)\$/\1/p"
}

# pick_modules IMAGE TARGET copies the drivers and what they depend on, uncompressed, numbered as they must be loaded.
pick_modules() {
	local image=$1 target=$2 release module driver number=10 list
	[[ -d $image/lib/modules ]] || ln -s usr/lib "$image/lib"
	release=$(cd "$image/lib/modules" && echo *)
	depmod -b "$image" "$release"
	list=$(for driver in "${drivers[@]}"; do modprobe -d "$image" -S "$release" --show-depends "$driver"; done |
		awk '$1 == "insmod" && !seen[$2]++ { print $2 }')
	for module in $list; do
		local plain
		plain=$target/$((number++))-$(basename "${module%.ko*}").ko
		case $module in
		*.ko) cp "$module" "$plain" ;;
		*.ko.xz) xz -dc "$module" >"$plain" ;;
		*.ko.zst) zstd -qdc "$module" >"$plain" ;;
		*) die "$module: unknown compression" ;;
		esac
	done
}

# sweep removes the folders of runs that were killed: those whose lock nobody holds.
sweep() {
	local lock
	for lock in "$cache"/runs/*/lock; do
		[[ -e $lock ]] || continue
		if flock -n "$lock" true; then rm -rf "$(dirname "$lock")"; fi
	done
}

run='' qemu_pid='' cat_pid='' sleep_pid=''
# shellcheck disable=SC2317 # called by the trap
cleanup() {
	trap '' INT TERM HUP
	# timeout(1) passes it on to QEMU, and kills QEMU 5 s later.
	if [[ $qemu_pid ]] && kill -TERM "$qemu_pid" 2>/dev/null; then wait "$qemu_pid" || true; fi
	if [[ $sleep_pid ]]; then kill "$sleep_pid" 2>/dev/null || true; fi
	if [[ $run ]]; then rm -rf "$run"; fi
}

# prepare makes the cache and this run's folder $run, which stays locked (descriptor 9) as long as this script lives.
prepare() {
	mkdir -p "$cache/runs"
	exec 8>"$cache/lock"
	flock 8
	sweep
	fetch
	if [[ $fetch_only = no ]]; then
		run=$(mktemp -d "$(realpath "$cache/runs")/XXXXXXXX") # the cache may be a link
		exec 9>"$run/lock"
		flock 9
	fi
	exec 8>&-
}

make_initramfs() {
	local root=$run/initramfs
	mkdir -p "$root"/{bin,proc,sys,dev,root}
	cp "$cache/$suite/busybox" "$root/bin/busybox"
	cp -r "$cache/$suite/modules" "$root/modules"
	install -m 755 "$here/vm/initramfs-init.sh" "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet) >"$run/initramfs.cpio"
}

# Quotes its arguments for busybox's shell.
quote() {
	local a
	for a in "$@"; do printf "'%s' " "${a//\'/\'\\\'\'}"; done
}

make_root() {
	local root=$run/root
	mkdir -p "$root"/{proc,sys,dev,run,tmp,root,etc,lib,lib64,sbin,var/tmp,usr/bin,usr/lib,.vm}
	chmod 1777 "$root/tmp" "$root/var/tmp"
	cp -a "$cache/$suite/applets" "$root/bin"
	cp "$cache/$suite/busybox" "$root/bin/busybox"
	ln -s /bin/busybox "$root/usr/bin/env"
	echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
	echo 'root:x:0:' >"$root/etc/group"
	printf '127.0.0.1 localhost\n::1 localhost\n127.0.0.1 tare-vm\n' >"$root/etc/hosts"
	echo 'hosts: files' >"$root/etc/nsswitch.conf"
	install -m 755 "$here/vm/init.sh" "$root/.vm/init"
	{
		printf 'cd %sexit 125\n' "$(quote "$dir")|| "
		printf 'exec env -i PATH=/bin:/sbin:/usr/bin HOME=/root LANG=C.UTF-8 %s\n' \
			"$(quote "${environment[@]}" "${command[@]}")"
	} >"$root/.vm/command"
	local copy
	for copy in "${copies[@]}"; do
		case $copy in
		*:/*) copy_in "${copy%:/*}" "/${copy##*:/}" ;;
		*) copy_in "$copy" "$(realpath -s "$copy")" ;;
		esac
	done
	[[ $host_libs = no ]] || copy_host_libs
}

# copy_in HOST GUEST
copy_in() {
	local host=$1 guest target parent
	[[ -e $host ]] || die "--copy $host: no such file or directory"
	guest=$(realpath -ms "$2")
	target=$run/root$guest parent=$(dirname "$run/root$guest")
	# An earlier copy may have brought a link to somewhere on the host: never write through it.
	[[ $(realpath -m "$parent") = "$parent" ]] || die "--copy to $guest: a link is in the way, copy to where it leads"
	mkdir -p "$parent"
	if [[ ! -d $host ]]; then
		cp -L --preserve=mode,timestamps --remove-destination "$host" "$target"
		return
	fi
	[[ ! -L $target ]] || die "--copy to $guest: a link is in the way, copy to where it leads"
	cp -a -T "$(realpath "$host")" "$target"
	resolve_links "$(realpath "$host")" "$target"
}

# resolve_links HOST TARGET replaces links that lead from the directory HOST to files elsewhere, in its copy TARGET, by
# those files: Debian's JDKs keep their configuration in /etc.
resolve_links() {
	local host=$1 target=$2 links leads i
	mapfile -d '' links < <(find "$host" -type l -printf '%P\0')
	((${#links[@]})) || return 0
	mapfile -d '' leads < <(cd "$host" && printf '%s\0' "${links[@]}" | xargs -0 realpath -mz --)
	for i in "${!links[@]}"; do
		[[ ${leads[i]} != "$host"/* && -f ${leads[i]} ]] || continue
		cp --preserve=mode,timestamps --remove-destination "${leads[i]}" "$target/${links[i]}"
	done
}

copy_host_libs() {
	local lib path
	for lib in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libnss_files.so.2 libz.so.1 \
		libgcc_s.so.1 libstdc++.so.6; do
		path=$(ldconfig -p | awk -v lib="$lib" '$1 == lib && /x86-64/ && !found++ { print $NF }')
		[[ $path ]] || die "--host-libs: ldconfig knows no $lib; install libc6, libstdc++6 and zlib1g"
		copy_in "$path" "$path"
	done
	copy_in /lib64/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2
}

make_disk() {
	local root=$run/root kib inodes
	kib=$(du -sk --apparent-size "$root" | cut -f1)
	inodes=$(find "$root" -printf . | wc -c)
	# A twentieth and 16 MiB for what the file system itself needs; every file may waste most of a 4 KiB block.
	kib=$((kib + kib / 20 + inodes * 4 + 16 * 1024 + disk_mib * 1024))
	mke2fs -q -t ext4 -O '^has_journal' -m 0 -b 4096 -N $((inodes + 65536)) -E root_owner=0:0,lazy_itable_init=1 \
		-d "$root" "$run/disk.img" "${kib}k" >/dev/null
	rm -rf "$root"
}

# boot starts QEMU in the background, in $run so that no path needs quoting. setpriv: whoever kills this script with
# SIGKILL ends timeout(1) and with it QEMU.
boot() {
	local die_with_parent=(setpriv --pdeathsig KILL)
	# la57=off: four levels of page tables boot faster than five. cx16=off: QEMU 7.2 leaves wrong EFLAGS behind
	# cmpxchg16b, and Linux 6.12's allocator panics. No random device: -cpu max has rdrand, random.trust_cpu uses it.
	# shellcheck disable=SC2054 # commas belong to QEMU's options
	local qemu=(qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -monitor none
		-M pc -accel 'tcg,thread=multi' -cpu max,la57=off,cx16=off -smp "$cpus" -m "$memory" -rtc base=utc
		-kernel "$cache/$suite/vmlinuz" -initrd initramfs.cpio
		# panic=-1 with -no-reboot: a panic ends QEMU at once. So does a processor that the emulator lost in the kernel
		# for a minute, twice watchdog_thresh. Mitigations guard nothing here and cost time.
		-append 'console=ttyS0 loglevel=6 panic=-1 softlockup_panic=1 watchdog_thresh=30 no_timer_check mitigations=off cryptomgr.notests random.trust_cpu=on psi=1'
		-serial file:kernel.log
		-drive file=disk.img,format=raw,if=virtio,cache=unsafe
		-device virtio-serial-pci
		-chardev file,id=output,path=/dev/fd/7 -device virtserialport,chardev=output,name=vm.output
		-chardev file,id=status,path=status -device virtserialport,chardev=status,name=vm.status)
	cd "$run"
	: >status
	# Not QEMU's stdio: at the end of its stdin, QEMU would tell the guest that nobody listens.
	# Nor may it write to our stdout: a closed one would stall the guest. So the first cat may fail, the second drains.
	exec 7> >(exec 9>&-; cat 2>/dev/null || cat >/dev/null)
	cat_pid=$!
	"${die_with_parent[@]}" timeout -k 5 "$timeout" "${die_with_parent[@]}" "${qemu[@]}" \
		</dev/null >qemu.log 2>&1 9>&- &
	qemu_pid=$!
}

# await_qemu waits for QEMU and sets the caller's $code to its exit code, and $what if it ended a machine that had said
# nothing for --silence: one whose emulated timers are lost never wakes again, nor does a watchdog in it.
await_qemu() {
	local silent=0 beats=0 now ended=''
	while :; do
		sleep 5 7>&- 9>&- &
		sleep_pid=$!
		code=0
		wait -n -p ended "$qemu_pid" "$sleep_pid" || code=$?
		[[ $ended != "$qemu_pid" ]] || break
		now=$(wc -c <status)
		if ((now > beats || now == 0)); then silent=0; else ((silent += 5)); fi
		beats=$now
		((silent < silence)) || {
			what="the machine was lost: it was silent for $silence s"
			kill -TERM "$qemu_pid" 2>/dev/null || true
		}
	done
	qemu_pid=''
	kill "$sleep_pid" 2>/dev/null || true
}

# finish waits for QEMU and exits as the command did.
finish() {
	local code reported what='the machine was lost: it ended before the command did' exit_code=123
	await_qemu
	exec 7>&- # now cat sees the end of the output
	wait "$cat_pid" || true
	reported=$(sed -n 's/^exit //p' status 2>/dev/null || true)
	[[ ! $reported =~ ^[0-9]{1,3}$ ]] || exit "$reported"
	if ((code == 124 || code == 137 && SECONDS >= timeout)); then
		what="time was up after $timeout s (--timeout)" exit_code=124
	elif ! grep -q '^started$' status 2>/dev/null; then
		what='the machine did not boot' exit_code=125
	fi
	{
		echo "vm.sh: $what; QEMU said:"
		tail -n 5 qemu.log
		echo 'vm.sh: last kernel lines:'
		tail -n 60 kernel.log 2>/dev/null | tr -d '\r' || true
	} >&2
	exit "$exit_code"
}

parse "$@"
check
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
prepare
[[ $fetch_only = no ]] || exit 0
make_initramfs
make_root
make_disk
SECONDS=0
boot
finish
