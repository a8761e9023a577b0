#!/usr/bin/env bash
# make test: every Go suite with -race, on a real Open vSwitch and with a real terraform where they can be had.
# Arguments are passed to go test; without any it tests all packages.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_go
packages ovs-vswitchd=openvswitch-switch ip=iproute2 chromium=chromium
if in_ci; then # the package starts a server, which nobody wants on the machine that they work on
  packages promtool=prometheus
fi

find_terraform
work=$(mktemp -d /tmp/mux-test.XXXXXX)
chmod 755 "$work" # one test runs the agent as another user
trap 'rm -rf "$work"' EXIT
clean_environment "$work"
if [ -z "$terraform" ]; then
  missing "Missing: terraform or tofu on PATH. Tests that need it are skipped."
else
  export TF_ACC_TERRAFORM_PATH=$terraform
  if [ "$(basename "$terraform")" = tofu ]; then
    export TF_ACC_PROVIDER_NAMESPACE=hashicorp TF_ACC_PROVIDER_HOST=registry.opentofu.org
  fi
  say "Testing with $terraform: $("$terraform" version | head -n 1)"
fi

[ "$#" -gt 0 ] || set -- ./...
if in_ci; then # Go would take the answer of last time though Open vSwitch, terraform or the browser is another one now
  set -- -count 1 "$@"
fi
tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile "$work/events.json" -- -race -timeout 20m "$@"
# In CI a test may be skipped for one reason only: this Terraform lacks what it tests. make test-terraform has the newest.
older='it came with|OpenTofu has no |is below minimum version'
grep -E "$older" "$work/events.json" | grep -oE '"Test":"[^"]+"' >"$work/older" || true
if in_ci && skipped=$(grep '"Action":"skip"' "$work/events.json" | grep '"Test":' | grep -vFf "$work/older"); then
  fail "In CI, where all is there, these were skipped:" "$skipped"
fi
