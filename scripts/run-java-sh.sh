#!/usr/bin/env bash
# Puts run-java.sh, the script that tare-exec --run-java stands in for, into the
# cache, for the tests that compare the two:
#
#   scripts/run-java-sh.sh
#
# The file is ${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/run-java-sh/
# run-java-sh-1.3.7.jar, from Maven Central; it holds the script.
set -euo pipefail

readonly version=1.3.7
readonly sha256=1340dd7eddbf65ef50e17d1037d632c68774a0f17dde02c7f9a680f4290f70e6
dir="${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/run-java-sh"
jar="$dir/run-java-sh-$version.jar"

whole() { [[ -f $1 ]] && sha256sum --status -c <<<"$sha256  $1"; }

whole "$jar" && exit
mkdir -p "$dir"
partial=$(mktemp -d "$dir/.partial.XXXXXX")
trap 'rm -rf "$partial"' EXIT
"${MVN:-mvn}" -B -ntp -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
  -Dartifact="io.fabric8:run-java-sh:$version" -DoutputDirectory="$partial" -Dmdep.useBaseVersion=true
whole "$partial/${jar##*/}" || {
  echo "run-java-sh: error: ${jar##*/} is not the file that is expected (SHA-256 $sha256): download it again" >&2
  exit 1
}
mv "$partial/${jar##*/}" "$jar"
