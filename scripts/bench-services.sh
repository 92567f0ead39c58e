#!/usr/bin/env bash
# Builds or fetches the services that the benchmarks measure, from Maven Central,
# into the cache:
#
#   scripts/bench-services.sh [camel] [servers] [shop] [keycloak]
#
# The folder is ${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/services. What
# is there already, made from the same source, is left alone.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C
exec </dev/null
cd "$(dirname "$0")/.."

readonly keycloak=26.4.7 keycloak_sum=dd9834c023460be856f731423d86228c23b5d002194a2064642bec0cc6573eaa
cache="${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}"
services=$cache/services

die() { printf 'bench-services: error: %s\n' "$*" >&2; exit 1; }

# The digest of all files that a service is made from.
source_of() {
  find "bench/services/$1/src" "bench/services/$1/pom.xml" -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

# build SERVICE JAR [OPTION of Maven]...
build() {
  local service=$1 name=$2 digest
  shift 2
  digest=$(source_of "$service")
  if [[ -f $services/$name.jar && $(cat "$services/$name.source" 2>/dev/null) == "$digest" ]]; then return; fi
  echo "bench-services: building $name.jar"
  mvn -B -ntp -q -f "bench/services/$service/pom.xml" "$@" "-Dtarget.directory=$partial/$name" package >"$partial/$name.log" 2>&1 ||
    die "cannot build $name.jar: $(grep -m 1 ERROR "$partial/$name.log")"
  mv "$partial/$name/$service-service.jar" "$services/$name.jar"
  echo "$digest" >"$services/$name.source"
}

camel() {
  build camel camel-current
  build camel camel-java8 -P java8
}

# The same with other servers than Tomcat.
servers() {
  build camel camel-jetty -P jetty
  build camel camel-undertow -P undertow
}

# The second takes its pages from a PostgreSQL server instead of H2.
shop() {
  build shop shop
  build shop shop-postgresql -P postgresql
}

# Keycloak with its build step done, which kc.sh start would do at every start
# otherwise: health endpoint, and a database in memory.
keycloak() {
  [[ -d $services/keycloak-$keycloak ]] && return
  echo "bench-services: fetching Keycloak $keycloak, 159 MB"
  mvn -B -ntp -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    "-Dartifact=org.keycloak:keycloak-quarkus-dist:$keycloak:zip" "-DoutputDirectory=$partial" >"$partial/keycloak.log" 2>&1 ||
    die "cannot fetch Keycloak: $(grep -m 1 ERROR "$partial/keycloak.log")"
  local zip=$partial/keycloak-quarkus-dist-$keycloak.zip
  sha256sum --check --status <<<"$keycloak_sum  $zip" || die "$zip is not what it was: checksum"
  unzip -q "$zip" -d "$partial"
  # The build step writes absolute paths nowhere, so that the folder can move.
  JAVA_HOME=$cache/jdks/17 "$partial/keycloak-$keycloak/bin/kc.sh" build --db=dev-mem --health-enabled=true >"$partial/keycloak.log" 2>&1 ||
    die "kc.sh build failed: $(tail -n 1 "$partial/keycloak.log")"
  mv "$partial/keycloak-$keycloak" "$services/"
}

mkdir -p "$services"
partial=$(mktemp -d -p "$services" .partial.XXXXXX)
trap 'rm -rf "$partial"' EXIT
if (($# == 0)); then set -- camel shop keycloak; fi
for what in "$@"; do
  case $what in
    camel | servers | shop | keycloak) "$what" ;;
    *) die "no such service: $what: camel, servers, shop or keycloak" ;;
  esac
done
