#!/usr/bin/env bash
# make check-deploy: what a release ships, and the Ansible role on a booted systemd.
# Arguments name the parts to run: packages, lint, pytest, role. Without any, all of them run.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# shellcheck source=internal/tools/deploy/container.sh
source internal/tools/deploy/container.sh
# shellcheck source=internal/tools/deploy/role.sh
source internal/tools/deploy/role.sh
# shellcheck source=internal/tools/deploy/packages.sh
source internal/tools/deploy/packages.sh

[ "$#" -gt 0 ] || set -- packages lint pytest role

need_go
packages ansible-playbook=ansible-core ansible-lint=ansible-lint yamllint=yamllint debootstrap=debootstrap systemd-nspawn=systemd-container \
  gpg=gpg rpm=rpm curl=curl py.test-3=python3-pytest
[ -e /usr/lib/python3/dist-packages/requests ] || packages python3-requests=python3-requests

work=$(mktemp -d /tmp/mux-deploy.XXXXXX)
cleanup() {
  container_stop
  [ -z "${agent:-}" ] || kill "$agent" 2>/dev/null || true
  restore_protection
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
clean_environment "$work"
unset TMPDIR

# protect has the kernel deny even root another user's file in /tmp, as the distributions' defaults come to; it is one
# setting for the whole machine.
protect() {
  protection=$(cat /proc/sys/fs/protected_regular)
  [ "$protection" = 2 ] || printf 2 >/proc/sys/fs/protected_regular
}

restore_protection() {
  if [ -n "${protection:-}" ] && [ "$protection" != 2 ]; then
    printf '%s' "$protection" >/proc/sys/fs/protected_regular
  fi
}

part_packages() {
  make_release
  check_release
}

part_lint() {
  : >"$work/ansible.cfg"
  export ANSIBLE_ROLES_PATH=$root/agent/deploy/ansible/roles ANSIBLE_CONFIG=$work/ansible.cfg
  if have ansible-lint; then
    ansible-lint --offline --strict --nocolor -q agent/deploy/ansible/roles/mux_agent \
      agent/deploy/ansible/sonic-mgmt/control_mux_simulator.yml examples/ansible/playbook.yml internal/tools/deploy/{role,sonic-mgmt}.yml
  fi
  if have ansible-playbook; then
    ansible-playbook --syntax-check --inventory examples/ansible/inventory.yml examples/ansible/playbook.yml >/dev/null
  fi
  same_hardening
}

# same_hardening compares the unit of the packages with the role's, which differ in what the role's says about /tmp, root and the watchdog.
same_hardening() {
  local unit
  for unit in agent/deploy/systemd/mux-agent@.service agent/deploy/ansible/roles/mux_agent/templates/mux-simulator.service.j2; do
    sed -n '/^\[Service\]/,/^\[Install\]/p' "$unit" |
      grep -vE '^(#|\{%|$|Environment|ExecStart|Type=|WatchdogSec|TimeoutStartSec|DynamicUser|AmbientCap|PrivateTmp|ReadWritePaths)' >"$work/$(basename "$unit").service"
  done
  diff "$work"/*@.service.service "$work"/*.j2.service || fail "The two units differ in more than they should."
}

part_pytest() {
  local python
  for python in python3 /usr/bin/python3; do
    ! "$python" -c 'import pytest, requests' 2>/dev/null || break
  done
  build_agent "$work/mux-agent" 0.1.0
  serve_simulated "$work/mux-agent"
  PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider --mux-url "$url/mux/vms6-1" examples/pytest
  end_simulated
}

part_role() {
  local reason
  reason=$(container_possible)
  if [ -n "$reason" ]; then
    missing "The role was not run on a systemd: this $reason."
    return
  fi
  [ -f dist/metadata.json ] || make_release
  protect
  build_agent "$work/old" 0.1.0
  build_agent "$work/new" 0.2.0-newer
  check_role "$work/old" "$work/new" "$(echo "$root"/dist/mux-agent_*_linux_"$(go env GOARCH)".deb)"
}

build_agent() {
  go build -trimpath -ldflags "-s -w -X main.version=$2" -o "$1" ./agent/cmd/mux-agent
}

for part; do
  say "-- $part"
  SECONDS=0
  "part_$part"
  say "   $part took $SECONDS s"
done
say "make check-deploy: all is well."
