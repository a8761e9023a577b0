#!/usr/bin/env bash
# make check: everything that can be said about the tree without running it.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_go
packages shellcheck=shellcheck yamllint=yamllint npm=npm
work=$(mktemp -d /tmp/mux-check.XXXXXX)
trap 'rm -rf "$work"' EXIT
failed=()

# check NAME COMMAND… runs one check; all of them run, and the end says which failed.
check() {
  local name=$1
  shift
  say "-- $name"
  "$@" || failed+=("$name")
}

formatted() {
  local files
  files=$(tool gofumpt -l .) || return 1
  [ -z "$files" ] || {
    say "Run make fmt; these files are not formatted:" "$files"
    return 1
  }
}

scripts() {
  have shellcheck || return 0
  # The examples of `terraform import` are lines for a page, no scripts.
  find . \( -path ./.git -o -path ./examples/resources \) -prune -o \( -name '*.sh' -o -path './.ci/run' \) -print0 | xargs -0 shellcheck --external-sources
}

yaml() {
  have yamllint || return 0
  find . -path ./.git -prune -o \( -name '*.yml' -o -name '*.yaml' \) -print0 | xargs -0 yamllint --strict -d '{
    extends: default, rules: {document-start: disable, line-length: {max: 140}, truthy: {check-keys: false},
    comments: {min-spaces-from-content: 1}}}'
}

javascript() {
  have npm || return 0
  biome check --error-on-warnings
}

# generated compares with what make generate makes in a copy: a check changes nothing in the tree that it checks.
generated() {
  internal/tools/generate.sh "$work/generated" >"$work/generate.log" 2>&1 || {
    cat "$work/generate.log"
    return 1
  }
  git --no-pager diff --no-index --exit-code docs "$work/generated/docs" || {
    say "docs/ is not what make generate makes: run it, and commit docs/."
    return 1
  }
}

tidy() {
  local module status=0
  for module in . internal/tools/*/go.mod; do
    go -C "${module%go.mod}" mod tidy -diff || status=1
  done
  return "$status"
}

check "gofumpt" formatted
check "golangci-lint" tool golangci-lint run
check "shellcheck" scripts
check "yamllint" yaml
check "biome" javascript
check "go mod tidy" tidy
check "make generate" generated

[ "${#failed[@]}" -eq 0 ] || fail "make check failed: ${failed[*]}"
say "make check: all is well."
