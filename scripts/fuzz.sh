#!/usr/bin/env bash
# Runs every fuzz target of the tree, or of some packages, one after the other:
#
#   scripts/fuzz.sh [TIME [PACKAGE...]]      default: 30s ./...
#
# It goes on after a failure, whose input Go leaves in the package's testdata,
# and exits 1 at the end if there was one.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

readonly time=${1:-30s}
shift || true

targets() { # PACKAGE...: lines of package and target
  go list -f '{{range .TestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$.ImportPath}} {{$.Dir}}/{{.}}{{"\n"}}{{end}}' "$@" |
    while read -r package file; do
      [[ $file ]] || continue
      sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$package \1|p" "$file"
    done | sort
}

main() {
  local package target failed=0 list
  list=$(targets "${@:-./...}")
  while read -r package target; do
    echo "$package $target $time"
    go test -run='^$' -fuzz="^$target\$" -fuzztime="$time" -parallel=2 "$package" | tail -n 12 || failed=1
  done <<<"$list"
  ((failed == 0)) || { echo 'fuzz: there were failures, see above' >&2; exit 1; }
}

main "$@"
