#!/usr/bin/env bash
# make fuzz: every fuzz target for a while each; FUZZTIME says how long.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_go
found=0
while IFS=: read -r file target; do
  found=1
  say "== ${target} in $(dirname "$file")"
  go test -run '^$' -fuzz "^${target}\$" -fuzztime "${FUZZTIME:-30s}" "./$(dirname "$file")"
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' agent provider internal | sed 's/func //')
[ "$found" -eq 1 ] || say "There is no fuzz target yet: nothing was fuzzed."
