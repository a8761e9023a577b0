# shellcheck shell=bash
# Sourced by the scripts beside it: where the tree is, which tools are there, and a clean environment.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"

# Debian keeps ip and ovs-vswitchd where an ordinary user's PATH may not look.
PATH=$PATH:/usr/sbin:/sbin

# The Terraform that is fetched where none is installed.
terraform_version=1.14.0

say() { printf '%s\n' "$*"; }

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

in_ci() { [ "${CI:-}" = true ]; }

# tool NAME ARGUMENT… runs a developer's tool at the version that its module in internal/tools pins.
tool() {
  local name=$1
  shift
  go tool -modfile="$root/internal/tools/$name/go.mod" "$name" "$@"
}

# biome ARGUMENT… runs the linter and formatter of the page's JavaScript, which npm fetches once at the version that
# internal/tools/biome pins.
biome() {
  local pinned=$root/internal/tools/biome home
  home=${XDG_CACHE_HOME:-$HOME/.cache}/terraform-provider-mux/biome-$(cat "$pinned"/package*.json | sha256sum | cut -c1-12)
  if [ ! -x "$home/node_modules/.bin/biome" ]; then
    mkdir -p "$home"
    cp "$pinned"/package*.json "$home"
    npm --prefix "$home" ci --no-audit --no-fund --silent
  fi
  "$home/node_modules/.bin/biome" "$@" --config-path="$pinned" agent/internal/httpapi/page
}

# missing says what is not there. In CI that is a failure; elsewhere the work goes on without it.
missing() {
  if in_ci; then
    fail "$*"
  fi
  say "$*"
}

# packages COMMAND=PACKAGE… installs the Debian packages whose command is missing, and nothing else.
packages() {
  local wanted=() pair
  for pair in "$@"; do
    have "${pair%%=*}" || wanted+=("${pair#*=}")
  done
  [ "${#wanted[@]}" -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
  fi
  if ! have apt-get || ! "${as_root[@]}" true 2>/dev/null; then
    missing "Missing: ${wanted[*]}. Install it to run everything; without root or passwordless sudo, and apt-get, this can't."
    return 0
  fi
  say "Installing ${wanted[*]} with apt-get, since it is missing."
  "${as_root[@]}" apt-get update -qq </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wanted[@]}" </dev/null >/dev/null
}

# need_go fails early, with the version to install, where Go is missing.
need_go() {
  have go || fail "Go is missing: install Go $(awk '$1 == "go" { print $2 }' go.mod) or newer, see https://go.dev/doc/install"
}

# find_terraform sets terraform to the terraform or tofu on PATH ($TERRAFORM first, where it is set), else to a terraform
# that hc-install fetches into bin/, else to nothing.
find_terraform() {
  terraform=$(command -v "${TERRAFORM:-terraform}" || command -v terraform || command -v tofu || true)
  [ -z "$terraform" ] || return 0
  if [ ! -x bin/terraform ]; then
    say "Neither terraform nor tofu is on PATH: fetching Terraform $terraform_version into bin/."
    mkdir -p bin
    tool hc-install install -version "$terraform_version" -path bin terraform || return 0
  fi
  terraform=$root/bin/terraform
  PATH=$root/bin:$PATH
}

# clean_environment FOLDER keeps a user's own Terraform and mux settings out of what runs here, and puts temporary files into
# FOLDER. A short path matters: the provider listens on a unix socket in it.
clean_environment() {
  local name
  for name in $(compgen -v | grep -E '^(TF|MUX)_'); do
    unset "$name"
  done
  : >"$1/terraform.rc"
  export TF_CLI_CONFIG_FILE=$1/terraform.rc CHECKPOINT_DISABLE=1 TMPDIR=$1
}
