#!/usr/bin/env bash
# Makes the root file system of a fresh Debian, with the rpm of Fedora in it, in the cache:
# tests install tare in it. It is the Debian of this machine, from this machine's sources.
set -euo pipefail
exec </dev/null

cache=${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}
root=$cache/roots/debian

fail() { printf 'roots: error: %s\n' "$*" >&2; exit 1; }

main() {
  local sources=/etc/apt/sources.list.d/debian.sources log
  [[ -e $root ]] && return 0
  [[ $(id -u) == 0 ]] || fail "a root file system is made by root: run this as root"
  [[ -s $sources ]] || sources=/etc/apt/sources.list
  mkdir -p "$cache/roots"
  exec 9>"$cache/roots/lock"
  flock 9
  [[ -e $root ]] && return 0
  rm -rf "$root.new"
  log=$(mktemp)
  # shellcheck source=/dev/null
  mmdebstrap --mode=root --variant=minbase --include=curl,ca-certificates,rpm \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root.new" "$sources" >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    rm -rf "$root.new"
    fail "mmdebstrap could not make a root file system: see $log"
  }
  rm -f "$log"
  mv "$root.new" "$root"
}

main "$@"
