#!/usr/bin/env bash
# Measures with the JMH profilers, and prints the reports:
#
#   scripts/bench-jmh.sh profilers   how much metrics vary over 5 forks, and the
#                                    score with and without all profilers
#   scripts/bench-jmh.sh caches      four caches by speed and memory
#
# Each run leaves one file in the folder RUNS (default bin/runs); a file that is
# there is not measured again, so what was cut off goes on. Reduced from the
# published set-up (5 forks, 2 warm-ups and 3 iterations of 20 s, 4 threads):
# FORKS=3, SECONDS_EACH=10, and the variables below.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C
cd "$(dirname "$0")/.."

runs=${RUNS:-bin/runs}
forks=${FORKS:-3}
seconds=${SECONDS_EACH:-10}
jdks=${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/jdks
profilers=(-prof dev.tare.jmh.RetainedMemory -prof dev.tare.jmh.PeakMemory -prof dev.tare.jmh.ProcessMemory
  -prof dev.tare.caches.CacheStatistics)

fail() { printf 'bench-jmh: error: %s\n' "$*" >&2; exit 1; }

run() { # NAME JDK OPTIONS JMH-ARGUMENT...: measures unless there is a result
  local name=$1 java=$jdks/$2/bin/java options=$3 out
  shift 3
  out=$runs/$name.json
  [[ ! -s $out ]] || return 0
  [[ -x $java ]] || fail "$java is missing: run scripts/jdks.sh"
  echo "bench-jmh: $name"
  "$java" -jar bin/caches.jar -foe true -jvm "$java" -jvmArgs "$options" -rf json -rff "$out.part" "$@" >"$out.log" 2>&1 ||
    fail "$name failed, see $out.log"
  mv "$out.part" "$out"
}

measure_profilers() {
  local all=("${profilers[@]}" -prof dev.tare.jmh.ObjectGraph -prof dev.tare.jmh.NativeMemory
    -prof "dev.tare.jmh.Footprint:tare=$PWD/bin/tare")
  local common=(-f 5 -wi 2 -w "$seconds" -i 3 -r "$seconds" -t 1 -p entries=100000 -p keys=500 -p cache=caffeine)
  run profilers-none 21 "-Xmx512m -XX:+UseG1GC -XX:NativeMemoryTracking=summary" "${common[@]}"
  run profilers-all 21 "-Xmx512m -XX:+UseG1GC -XX:NativeMemoryTracking=summary" "${common[@]}" "${all[@]}"
  bin/tare jmh compare "$runs/profilers-none.json" "$runs/profilers-all.json" --metrics score
  bin/tare jmh report "$runs/profilers-all.json" --metrics 'mem.*,proc.*,footprint.*'
}

measure_caches() {
  local jdk collector entries keys threads options files=()
  for collector in ${COLLECTORS:-21:G1 21:Parallel 21:Serial 21:Z 11:ConcMarkSweep}; do
    jdk=${collector%%:*} collector=${collector#*:}
    for threads in ${THREADS:-1 2 4}; do
      for entries in ${ENTRIES:-100000}; do
        for keys in ${KEYS:-110 500 1000}; do
          options="-Xmx1g -XX:+Use${collector}GC"
          run "caches-$jdk-$collector-$threads-$entries-$keys" "$jdk" "$options" -f "$forks" -wi 2 -w "$seconds" -i 3 \
            -r "$seconds" -t "$threads" -p "entries=$entries" -p "keys=$keys" "${profilers[@]}"
          files+=("$runs/caches-$jdk-$collector-$threads-$entries-$keys.json")
        done
      done
    done
  done
  bin/tare jmh report "${files[@]}" --contender cache --html "$runs/caches.html"
  bin/tare jmh report "${files[@]}" --contender cache
}

mkdir -p "$runs"
case ${1:-} in
  profilers) measure_profilers ;;
  caches) measure_caches ;;
  *) fail "usage: scripts/bench-jmh.sh profilers|caches" ;;
esac
