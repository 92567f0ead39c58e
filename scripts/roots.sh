#!/usr/bin/env bash
# Makes root file systems of a fresh Debian in the cache: one with systemctl and the rpm of
# Fedora in it, in which tests install tare, what an installation calls for arm64, which
# they run in emulation, and one with systemd, which they run it under. They are the Debian
# of this machine, from this machine's sources.
set -euo pipefail
exec </dev/null

cache=${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}

fail() { printf 'roots: error: %s\n' "$*" >&2; exit 1; }

# make_root NAME PACKAGES OPTION…
make_root() {
  local root=$cache/roots/$1 packages=$2 sources=/etc/apt/sources.list.d/debian.sources log
  shift 2
  [[ -e $root ]] && return 0
  [[ $(id -u) == 0 ]] || fail "a root file system is made by root: run this as root"
  [[ -s $sources ]] || sources=/etc/apt/sources.list
  mkdir -p "$cache/roots"
  exec 9>"$cache/roots/lock"
  flock 9
  [[ -e $root ]] && return 0
  rm -rf --one-file-system "$root.new"
  log=$(mktemp)
  # What it mounts in the root ends with it, also where it is killed.
  # shellcheck source=/dev/null
  unshare --mount --propagation private mmdebstrap --mode=root --variant=minbase --include="$packages" "$@" \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root.new" "$sources" >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    rm -rf --one-file-system "$root.new"
    fail "mmdebstrap could not make a root file system: see $log"
  }
  rm -f "$log"
  mv "$root.new" "$root"
  flock -u 9
}

make_root fresh curl,ca-certificates,rpm,systemd
# It is unpacked alone: nothing of it runs until a test does.
make_root arm64 coreutils,dash,diffutils,dpkg,grep,gzip,libc-bin,sed,tar --architectures=arm64 --variant=extract
# It is copied into a virtual machine: without what nobody reads there.
make_root systemd systemd --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*'
