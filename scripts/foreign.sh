#!/usr/bin/env bash
# Puts a GraalVM native image into the cache, for the tests to look at: the
# Closure Compiler, which its authors publish as one on npm. It waits for its
# standard input, and so stands still.
#
#   scripts/foreign.sh
#
# The program is ${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/foreign/closure-VERSION.
set -euo pipefail
shopt -s inherit_errexit

readonly version=20261015.0.0
readonly package=google-closure-compiler-linux@$version
readonly integrity=sha512-VChV4tVQpXp5OO67kSjUe1NXFiFjkAQXfE8XA7jBhCxtH1UsfxWEhYxBjiVEdJWIzLV7YfGdBlxlQIdhuveh3w==
cache="${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/foreign"

main() {
  local program="$cache/closure-$version" archive got
  [[ ! -x $program ]] || return 0
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/.partial.XXXXXX")
  trap 'rm -rf "$work"' EXIT # work is global, for it is gone from main by then
  (cd "$work" && npm pack --silent "$package" >/dev/null) ||
    { echo "foreign: error: npm cannot fetch $package" >&2; exit 1; }
  archive=("$work"/*.tgz)
  got=sha512-$(openssl dgst -sha512 -binary "${archive[0]}" | base64 -w0)
  [[ $got == "$integrity" ]] || { echo "foreign: error: $package has $got, want $integrity" >&2; exit 1; }
  tar -xzf "${archive[0]}" -C "$work" package/compiler
  chmod 755 "$work/package/compiler"
  mv "$work/package/compiler" "$program"
  echo "foreign: $program"
}

main "$@"
