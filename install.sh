#!/bin/sh
# Installs tare from the files of a release, after it has checked their sums:
#
#   curl -fsSL https://tare.dev/tare/install.sh | sh
#
#   TARE_VERSION    which version, by default that of this file
#   TARE_PREFIX     where to, by default /usr/local for root and ~/.local for others
#   TARE_DOWNLOADS  where from: a folder of versions, https:// or a local path
#
# It leaves bin/tare, bin/tare-exec and what belongs to them below the prefix, and
# nothing else.
set -eu

version=${TARE_VERSION:-0.1.0}
downloads=${TARE_DOWNLOADS:-https://tare.dev/tare/releases/download}

fail() {
  printf 'install.sh: error: %s\n' "$*" >&2
  exit 1
}

need() { # PROGRAM
  command -v "$1" >/dev/null 2>&1 || fail "$1 is missing: install it and try again"
}

fetch() { # FILE, of the version, into the folder
  case $downloads in
    https://*)
      need curl
      curl --proto '=https' --tlsv1.2 -fsSL --retry 3 -o "$work/$1" "$downloads/v$version/$1" ||
        fail "$downloads/v$version/$1 cannot be fetched: is $version a version that was released?"
      ;;
    /*) cp "$downloads/v$version/$1" "$work/$1" || fail "there is no $downloads/v$version/$1" ;;
    *) fail "TARE_DOWNLOADS=$downloads is neither https:// nor a path from the root" ;;
  esac
}

# Everything is in a function, so that half of this file does nothing.
main() {
  case $version in
    '' | *[!0-9A-Za-z.-]*) fail "TARE_VERSION=$version is no version such as 0.1.0" ;;
  esac
  [ "$(uname -s)" = Linux ] || fail "tare measures with the files of Linux's kernel: install it in a Linux machine or container"
  case $(uname -m) in
    x86_64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "there is no tare for $(uname -m)" ;;
  esac
  if [ -n "${TARE_PREFIX:-}" ]; then
    prefix=$TARE_PREFIX
  elif [ "$(id -u)" = 0 ]; then
    prefix=/usr/local
  else
    prefix=$HOME/.local
  fi
  need tar
  need gzip
  need sha256sum

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  name=tare-$version-linux-$arch
  fetch SHA256SUMS
  fetch "$name.tar.gz"
  # One line, and of this very file.
  grep "^[0-9a-f]\{64\}  $name\.tar\.gz\$" "$work/SHA256SUMS" >"$work/sum" ||
    fail "SHA256SUMS of $version has no sum of $name.tar.gz"
  (cd "$work" && sha256sum -c sum >/dev/null 2>&1) ||
    fail "$name.tar.gz has not the sum that SHA256SUMS says: it is damaged, or not what was released; nothing was installed"

  mkdir -p "$prefix" || fail "$prefix cannot be made: set TARE_PREFIX to a folder that you may write to"
  tar -xzf "$work/$name.tar.gz" -C "$work"
  # A program that runs is replaced, not written over.
  rm -f "$prefix/bin/tare" "$prefix/bin/tare-exec" 2>/dev/null || true
  cp -R "$work/$name/." "$prefix/" || fail "$prefix cannot be written: set TARE_PREFIX to a folder that you may write to"
  "$prefix/bin/tare" --version
  case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) printf 'add %s to PATH\n' "$prefix/bin" ;;
  esac
}

main "$@"
