#!/usr/bin/env bash
# make test-ovs: the suites that speak to Open vSwitch, on two versions at once: 2.15 of Debian 11, on which the agent polls flows,
# and 3.5 of Debian 13, on which it is told of them, with -race. OVS_RELEASES=bullseye or =trixie runs on one of them. make test runs
# on the machine's own Open vSwitch. See with-ovs.sh for what is fetched.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_go
packages ovs-vswitchd=openvswitch-switch ip=iproute2 debootstrap=debootstrap
if [ "$(id -u)" -ne 0 ] || ! have debootstrap || ! have ovs-vswitchd; then
  missing "make test-ovs needs root, debootstrap and openvswitch-switch: nothing was tested."
  exit 0
fi

work=$(mktemp -d /tmp/mux-ovs.XXXXXX)
chmod 755 "$work" # one test runs the agent as another user
trap 'rm -rf "$work"' EXIT
releases=${OVS_RELEASES:-bullseye trixie}

# run RELEASE FLAG… runs the suites on one release; what they say goes to a file. -count 1, since Go does not know that the Open
# vSwitch that a test ran on is another one now, and would take the answer of last time.
run() {
  local release=$1
  shift
  local started=$SECONDS
  internal/tools/with-ovs.sh "$release" sh -c 'ovs-vswitchd --version | head -n 1 && exec "$@"' - \
    go test -count 1 -timeout 15m "$@" ./agent/internal/vswitch/... >"$work/$release.log" 2>&1 || return 1
  say "$release: $(grep -m 1 "Open vSwitch)" "$work/$release.log"), $((SECONDS - started)) s"
}

pids=()
for release in $releases; do
  race=()
  [ "$release" = bullseye ] || race=(-race)
  run "$release" "${race[@]}" &
  pids+=("$!:$release")
done
failed=()
for job in "${pids[@]}"; do
  wait "${job%%:*}" || failed+=("${job#*:}")
done
for release in "${failed[@]}"; do
  say "-- $release failed:"
  grep -E -B 2 -A 40 '^ *--- FAIL|^panic|^FAIL|DATA RACE' "$work/$release.log" || tail -n 40 "$work/$release.log"
done
[ "${#failed[@]}" -eq 0 ]
