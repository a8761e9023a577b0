#!/usr/bin/env bash
# make generate: the provider's pages in docs/, from its schema, provider/templates and examples/. Needs no terraform.
# docs/agent is written by hand and left alone. With a folder as its argument, docs/ goes there instead of into the tree.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_go
work=$(mktemp -d /tmp/mux-generate.XXXXXX)
trap 'rm -rf "$work"' EXIT

into=${1:-$root}
if [ "$into" != "$root" ]; then
  mkdir -p "$into/provider"
  cp -R docs examples "$into"
  cp -R provider/templates "$into/provider/templates"
fi

go run ./internal/tools/schema >"$work/schema.json"
tool tfplugindocs generate --provider-dir "$into" --provider-name mux --rendered-provider-name Mux \
  --providers-schema "$work/schema.json" --website-source-dir provider/templates --website-temp-dir "$work/website"
