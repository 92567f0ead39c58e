#!/usr/bin/env bash
# Puts the servers that the benchmarks weigh into the cache, from Maven Central:
#
#   scripts/bench-jars.sh
#
# The folder is ${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/jars. A jar
# that is there with the right checksum is left alone. The older version of each
# is the last that runs on Java 8.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C
exec </dev/null

readonly plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
jars="${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/jars"

# GROUP:ARTIFACT:VERSION SHA-256
readonly wanted='
org.wiremock:wiremock-standalone:3.13.1 bdf4c705e7fd61c778e59a19f75396eac4520efeabfac97643a53979bd4d5716
com.github.tomakehurst:wiremock-jre8-standalone:2.35.2 be5a09bacc11965758137944998893ae005a6c79c139ec6f8f5b3279c1e5a669
com.h2database:h2:2.3.232 8dae62d22db8982c3dcb3826edb9c727c5d302063a67eef7d63d82de401f07d3
com.h2database:h2:2.2.224 b9d8f19358ada82a4f6eb5b174c6cfe320a375b5a9cb5a4fe456d623e6e55497
'

die() { printf 'bench-jars: error: %s\n' "$*" >&2; exit 1; }

right() { # FILE SHA-256
  sha256sum --check --status <<<"$2  $1" 2>/dev/null
}

fetch() { # GROUP:ARTIFACT:VERSION SHA-256
  local name version partial
  IFS=: read -r _ name version <<<"$1"
  [[ -f $jars/$name-$version.jar ]] && right "$jars/$name-$version.jar" "$2" && return
  partial=$(mktemp -d -p "$jars" .partial.XXXXXX)
  echo "bench-jars: fetching $1"
  mvn -B -ntp -q "$plugin:copy" "-Dartifact=$1" "-DoutputDirectory=$partial" >"$partial/log" 2>&1 ||
    die "cannot fetch $1, see $partial/log"
  right "$partial/$name-$version.jar" "$2" || die "$partial/$name-$version.jar is not what it was: checksum"
  mv "$partial/$name-$version.jar" "$jars/"
  rm -rf "$partial"
}

mkdir -p "$jars"
while read -r artifact sum; do
  if [[ $artifact ]]; then fetch "$artifact" "$sum"; fi
done <<<"$wanted"
