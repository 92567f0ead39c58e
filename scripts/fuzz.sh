#!/usr/bin/env bash
# Runs every fuzz target of the tree, or of some packages, one after the other:
#
#   scripts/fuzz.sh [TIME [PACKAGE...]]      default: 30s ./...
#
# and prints a page with a table of what each has tried. It goes on after a
# failure, whose input Go leaves in the package's testdata, and exits 1 at the
# end if there was one. FUZZ_WORKERS is how many processes fuzz one target (2).
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

readonly time=${1:-30s} workers=${FUZZ_WORKERS:-2}
shift || true

targets() { # PACKAGE...: lines of package and target
  go list -f '{{range .TestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}' "$@" |
    while read -r package file; do
      [[ $file ]] || continue
      sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$package \1|p" "$file"
    done | sort
}

# row turns what go test says at the end into a row of the table.
row() { # PACKAGE TARGET RESULT < output
  sed -n 's/^fuzz: elapsed: \([^,]*\), execs: \([0-9]*\) .*total: \([0-9]*\)).*/\1 | \2 | \3/p' | tail -n 1 |
    { read -r said || said='– | – | –'; echo "| ${1#tare.dev/tare/internal/} | $2 | $said | $3 |"; }
}

main() {
  local package target result output list failed=0
  list=$(targets "${@:-./...}")
  printf '# Fuzzing\n\nMeasured by `FUZZTIME=%s make fuzz` on %s: %s processors, Linux %s, %s; %s workers.\n\n' \
    "$time" "$(date +%F)" "$(nproc)" "$(uname -r)" "$(go env GOVERSION)" "$workers"
  printf '| package | target | time | inputs tried | inputs that reach new code | result |\n|---|---|---|---|---|---|\n'
  while read -r package target; do
    result=passed
    # By default Go spends a minute on making each input that reaches new code smaller: of large ones it then tries few.
    output=$(go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -fuzzminimizetime=10x -parallel="$workers" "$package" 2>&1) || {
      result=failed failed=1
      tail -n 20 <<<"$output" >&2
    }
    row "$package" "$target" "$result" <<<"$output"
  done <<<"$list"
  ((failed == 0)) || { echo 'fuzz: there were failures, see above' >&2; exit 1; }
}

main "$@"
