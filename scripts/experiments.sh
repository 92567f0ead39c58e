#!/usr/bin/env bash
# Runs the experiments of experiments/ that have no result yet, plans first, and
# writes their reports into docs/results. Arguments: the names of some of them, as
# services/NAME those in experiments/services, whose services no test builds.
set -euo pipefail
cd "$(dirname "$0")/.."

names=("$@")
if ((${#names[@]} == 0)); then
	for file in experiments/*.yaml; do names+=("$(basename "$file" .yaml)"); done
fi
for name in "${names[@]}"; do
	bin/tare lab plan "experiments/$name.yaml" | sed -n '1,/^$/p' # reads to the end: tare would fail on a closed pipe
done
for name in "${names[@]}"; do
	bin/tare lab run "experiments/$name.yaml" >/dev/null
	bin/tare lab report "experiments/$name.yaml" --markdown >"docs/results/${name##*/}.md"
	echo "docs/results/${name##*/}.md"
done
