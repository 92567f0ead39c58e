#!/usr/bin/env bash
# Runs a command for which the JDKs, the machine's own among them, and the jars
# and services of the benchmarks lie on a disk that reads ahead as usual:
#
#   scripts/usual-disk.sh COMMAND...
#
# Where a file is mapped, a fault reads as much as the disk's read-ahead around
# it. The kernel's default is 128 KiB (VM_READAHEAD_PAGES, include/linux/mm.h);
# some machines' disks have megabytes, and near a memory limit each fault then
# pushes out pages that are needed.
#
# The disk is an image, $TARE_CACHE/disk.img, behind a loop device. It is mounted
# over the cache's folders, bin/*.jar and /usr/lib/jvm, in a mount namespace of the
# command's own: nothing else sees it, and it ends with the command. Class
# archives that the command makes stay in the image. Temporary files lie there
# too (TMPDIR), the images of a Docker Engine of a benchmark among them, and are
# removed before the next command. Needs root.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:/usr/sbin:/sbin"

readonly kib=128 size=16G folders='jdks jars services run-java-sh archives'
export TARE_CACHE="${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}"
image=$TARE_CACHE/disk.img disk=$TARE_CACHE/disk

die() { printf 'usual-disk: error: %s\n' "$*" >&2; exit 1; }

# grow makes an image that an earlier version made as large as it is now, and mends what
# was cut off in it.
grow() {
	truncate -s ">$size" "$image"
	e2fsck -fp "$image" >/dev/null || (($? == 1)) || die "$image is broken: remove it"
	resize2fs "$image" &>/dev/null || die "cannot grow $image: remove it"
}

# attach mounts the image at $disk.
attach() {
	if [[ ! -f $image ]]; then
		truncate -s "$size" "$image.partial"
		mke2fs -q -t ext4 -m 0 "$image.partial"
		mv "$image.partial" "$image"
	fi
	exec {lock}<"$image"
	flock --nonblock "$lock" || die "$image is in use by another command"
	grow
	mkdir -p "$disk"
	mount -o loop "$image" "$disk" || die "cannot mount $image: a loop device is needed"
	local device
	device=$(findmnt --noheadings --output SOURCE "$disk")
	# Not through the page cache of the file below.
	losetup --direct-io=on "$device" || die "$TARE_CACHE is on a file system without direct I/O"
	blockdev --setra $((kib * 2)) "$device"
	# A copy that was cut off looks newer than what it was made of.
	if [[ -e $disk/copying ]]; then (cd "$disk" && rm -rf ${folders% archives} bin jvm); fi
	touch "$disk/copying"
}

# files lists what is below a path, or the file itself: name, size, time of the
# last change, target of a link.
files() { # PATH
	if [[ -d $1 ]]; then
		(cd "$1" && find . ! -type d -printf '%P\t%s\t%T@\t%l\n' | sort)
	elif [[ -e $1 ]]; then
		stat --printf '\t%s\t%.Y\n' "$1"
	fi
}

# copy makes a file or folder of the disk what its source is: files that the
# source no longer has, or has otherwise, go first, even where they are newer.
copy() { # SOURCE COPY
	if [[ -d $2 ]]; then
		comm -13 <(files "$1") <(files "$2") | cut -f 1 | (cd "$2" && xargs -r -d '\n' rm -f --)
		find "$2" -mindepth 1 -depth -type d -empty -delete
	elif [[ $(files "$1") != "$(files "$2")" ]]; then
		rm -f "$2"
	fi
	cp -an --no-target-directory "$1" "$2"
}

# cover brings a file or folder to the disk and mounts it from there.
cover() { # PATH NAME
	mkdir -p "$disk/$(dirname "$2")"
	if [[ $2 == archives ]]; then
		cp -au --no-target-directory "$1" "$disk/$2" # others were made on the disk
	else
		copy "$1" "$disk/$2"
	fi
	mount --bind "$disk/$2" "$1"
}

main() {
	local folder jar
	if [[ ${1:-} != --inside ]]; then
		(($# > 0)) || die 'give a command'
		((EUID == 0)) || die 'only root may mount'
		exec unshare --mount --propagation private scripts/usual-disk.sh --inside "$@"
	fi
	shift
	attach
	for folder in $folders; do
		mkdir -p "$TARE_CACHE/$folder"
		cover "$TARE_CACHE/$folder" "$folder"
	done
	[[ ! -d /usr/lib/jvm ]] || cover /usr/lib/jvm jvm
	for jar in bin/*.jar; do
		[[ ! -f $jar ]] || cover "$jar" "$jar"
	done
	rm -rf "$disk/tmp"
	mkdir -m 1777 "$disk/tmp"
	export TMPDIR=$disk/tmp
	sync -f "$disk"
	rm "$disk/copying"
	exec "$@"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
