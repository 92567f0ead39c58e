#!/usr/bin/env bash
# Finds the smallest memory limit of the demo service, and the options for it.
# Arguments are handed on to tare fit, such as --json or --out DIR.
set -euo pipefail
cd "$(dirname "$0")/.."

port=${TARE_DEMO_PORT:-18080}
base=http://127.0.0.1:$port

exec bin/tare fit --cpus 1 --warmup 2s --duration 5s --concurrency 8 \
  --ready "$base/health" \
  --load "$base/sys-summary" --load "$base/work?alloc-kib=256&cpu-us=500" \
  "$@" -- java -jar bin/sysinfo.jar --port "$port"
