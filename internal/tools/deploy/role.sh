# shellcheck shell=bash disable=SC2154 # work, root and container are set by those who source this
# Sourced by check-deploy.sh: the role on a booted systemd, and what a night of testing does to the service.

unit=mux-simulator-8080.service
log=/tmp/mux_simulator_8080.log
api=http://127.0.0.1:8080/mux/vms6-1

step() {
  printf '   %3d s  %s\n' "$SECONDS" "$*"
}

# oops ends the check with what the server has to say.
oops() {
  say "FAILED: $*" >&2
  inside journalctl --no-pager --lines=40 | cut -c -200 >&2 || true
  inside systemctl --no-pager --lines=0 status 'mux-*' >&2 || true
  exit 1
}

# must MESSAGE COMMAND… and must_not MESSAGE COMMAND… end the check where the command does otherwise.
must() {
  local message=$1
  shift
  "$@" || oops "$message"
}

must_not() {
  local message=$1
  shift
  if "$@"; then oops "$message"; fi
}

# play FILE ARGUMENT… runs a playbook against the container. Its output is in $work/play.log.
play() {
  ANSIBLE_LOCAL_TEMP=$work/ansible ANSIBLE_ROLES_PATH=$root/agent/deploy/ansible/roles ANSIBLE_SSH_EXECUTABLE=$work/ssh \
    ANSIBLE_PIPELINING=1 ANSIBLE_BECOME_METHOD=su ANSIBLE_NOCOLOR=1 ANSIBLE_NOCOWS=1 ANSIBLE_RETRY_FILES_ENABLED=0 ANSIBLE_CONFIG=$work/ansible.cfg \
    ansible-playbook --inventory "$root/internal/tools/deploy/inventory.yml" "$@" >"$work/play.log" 2>&1
}

role() {
  play "$root/internal/tools/deploy/role.yml" "$@" || {
    cat "$work/play.log" >&2
    oops "the role failed: $*"
  }
}

# changed prints how many tasks the last play changed.
changed() { sed -n 's/^server-1 .*changed=\([0-9]*\).*/\1/p' "$work/play.log"; }

unchanged() {
  [ "$(changed)" = 0 ] || {
    cat "$work/play.log" >&2
    oops "$1 changed something"
  }
}

# refused MESSAGE ARGUMENT… checks that the role refuses its variables with the message.
refused() {
  local message=$1
  shift
  if play "$root/internal/tools/deploy/role.yml" "$@" || ! grep -qF "$message" "$work/play.log"; then
    cat "$work/play.log" >&2
    oops "the role should say: $message"
  fi
}

# sonic_mgmt ACTION runs the replacement of sonic-mgmt's own tasks.
sonic_mgmt() {
  play "$root/internal/tools/deploy/sonic-mgmt.yml" --extra-vars "mux_simulator_action=$1 mux_agent_binary=$2" || {
    cat "$work/play.log" >&2
    oops "control_mux_simulator.yml failed: $1"
  }
}

get() { over_net curl -sS --max-time 5 "$@"; }

post() { get --fail-with-body --header 'Content-Type: application/json' --data "$2" "$1"; }

main_pid() { inside systemctl show --property MainPID --value "${1:-$unit}"; }

# until_true SECONDS COMMAND… waits for a command to succeed.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

ready() { [ "$(get --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:${1:-8080}/readyz")" = 200 ]; }

version() { get "http://127.0.0.1:8080/version"; }

active() { inside systemctl --quiet is-active "$unit"; }

serves() { active && ready; }

both_ready() { ready && ready 8081; }

# toggles switches port 0 and looks at the bridge whether it was.
toggles() {
  local side port
  for side in lower_tor:vlow upper_tor:up; do
    post "$api/0" "{\"active_side\":\"${side%:*}\"}" | grep -q "\"active_side\":\"${side%:*}\"" || oops "no toggle to $side"
    port=${side#*:}-vms6-1-0
    inside ovs-ofctl --names dump-flows mbr-vms6-1-0 | grep -qE "in_port=\"?$port\"? actions=output:\"?muxy-vms6-1-0" ||
      oops "the bridge does not forward from $port"
  done
}

# old_service does what sonic-mgmt's own start does: it writes its unit and its script, has systemd read them, and starts the
# service unless it runs.
old_service() {
  cp "$root/internal/tools/deploy/mux_simulator.py" "$container/root/mux_simulator_8080.py"
  cat >"$container/etc/systemd/system/$unit" <<'UNIT'
[Unit]
Description=mux simulator
After=network.target

[Service]
ExecStart=/usr/bin/env python3 /root/mux_simulator_8080.py 8080 vms6-1 -v
UNIT
  inside systemctl daemon-reload
  inside systemctl start "$unit"
}

is_old() { [ "$(version)" = old ]; }

# check_role BINARY NEWER_BINARY PACKAGE tells the whole story, on one server.
check_role() {
  SECONDS=0
  container_start
  ansible_ssh
  make_bridges vms6-1 12
  make_bridges vms6-2 3
  step "booted: $(inside systemctl --version | head -n 1), $(inside ovs-vswitchd --version | head -n 1)"
  make_doors
  old_service
  must "the stand-in for mux_simulator.py does not run" until_true 20 is_old
  check_takeover "$1"
  check_refusals "$1" "$3"
  check_hardening
  check_change "$1"
  check_sonic_mgmt "$2"
  check_nights
  check_outage
  check_rollback "$2"
  check_package "$3"
  check_removal
  container_stop
}

check_takeover() {
  local pid
  inside chown nobody "$log"
  role --extra-vars "mux_agent_binary=$1"
  must "the services do not run" both_ready
  [ "$(inside stat -c %U "$log")" = root ] || oops "the log of the old service stayed"
  toggles
  step "the role took over from the old service, whose log was another user's"

  pid=$(main_pid)
  role --extra-vars "mux_agent_binary=$1"
  unchanged "the second run of the role"
  [ "$(main_pid)" = "$pid" ] || oops "the second run of the role restarted the service"
  step "the role ran again, and changed nothing"
}

check_refusals() {
  refused "not neither"
  refused "not both" --extra-vars "mux_agent_binary=$1 mux_agent_package=$2"
  refused "want a port from 1 to 65535" --extra-vars "mux_agent_binary=$1" \
    --extra-vars '{"mux_agent_instances":[{"port":8080,"vm_set":"much-too-long"}]}'
  refused "uses a port twice: 8080, 8080" --extra-vars "mux_agent_binary=$1" \
    --extra-vars '{"mux_agent_instances":[{"port":8080,"vm_set":"vms6-1"},{"port":8080,"vm_set":"vms6-2"}]}'
  refused "mux_agent_state" --extra-vars "mux_agent_binary=$1 mux_agent_state=gone"
  step "the role refuses bad variables"
}

# hardened UNIT prints its exposure, which may be 3.0 at most.
hardened() {
  inside systemd-analyze security --no-pager --threshold=30 "$1" >"$work/security" || oops "$(tail -n 1 "$work/security")"
  sed -n 's/.*exposure level for \([^ ]*: [0-9.]*\).*/\1/p' "$work/security"
}

# The sockets through which root, or a group, can do anything on a server.
doors="/run/dbus/system_bus_socket /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock /run/systemd/private"

# make_doors has somebody listen where no daemon does in the container.
make_doors() {
  inside mkdir -p /run/containerd /run/podman
  inside systemd-run --quiet --unit=doors python3 -c 'import signal, socket, sys
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen()
    globals().setdefault("kept", []).append(s)
signal.pause()' /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock
}

# opens PID DOOR connects to a socket as the process of this pid sees it.
opens() {
  inside nsenter --target "$1" --mount python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$2" 2>/dev/null
}

check_doors() {
  local door pid
  pid=$(main_pid "$1")
  for door in $doors; do
    must "nobody listens at $door" until_true 20 opens 1 "$door"
    must_not "$1 can connect to $door" opens "$pid" "$door"
  done
}

check_hardening() {
  check_doors "$unit"
  inside grep -q 'CapEff:.*0000000000000002$' "/proc/$(main_pid)/status" || oops "the service has not just CAP_DAC_OVERRIDE"
  step "exposure of $(hardened "$unit")"
}

check_change() {
  local pid other
  pid=$(main_pid)
  other=$(main_pid mux-simulator-8081.service)
  role --extra-vars "mux_agent_binary=$1" --extra-vars '{"mux_agent_instances":[
    {"port":8080,"vm_set":"vms6-1","environment":{"MUX_AGENT_KEEP_DROPS":"true"}},{"port":8081,"vm_set":"vms6-2"}]}'
  [ "$(main_pid)" != "$pid" ] || oops "the changed service was not restarted"
  [ "$(main_pid mux-simulator-8081.service)" = "$other" ] || oops "a service that did not change was restarted"
  step "a changed service was restarted, the other was not"
  must "the service has not the setting" keeps_drops
}

keeps_drops() { inside sh -c "tr '\\0' '\\n' </proc/$(main_pid)/environ" | grep -qx MUX_AGENT_KEEP_DROPS=true; }

check_sonic_mgmt() {
  sonic_mgmt start "$1"
  version | grep -q newer || oops "start on a live service did not take the new code"
  must "start lost the setting" keeps_drops
  must "start disabled an enabled service" inside systemctl --quiet is-enabled "$unit"
  sonic_mgmt stop "$1"
  must_not "stop did not stop" active
  sonic_mgmt start "$1"
  must "start did not start" serves
  sonic_mgmt start "$1"
  unchanged "another start"
  step "sonic-mgmt's sequence: start with new code on a live service, stop, start, start"
}

# What happens to a service between two runs of the role.
check_nights() {
  local best took pid i
  inside systemctl stop "$unit"
  for i in $(seq 50); do
    ! get "$api/0" >/dev/null 2>&1 || oops "poll $i of a stopped service was answered"
  done
  must_not "polling started a stopped service" active
  inside systemctl start "$unit"
  step "stopped stays stopped while clients poll"

  best=
  for i in 1 2 3; do
    took=$(date +%s%N)
    inside systemctl restart "$unit"
    must "not ready after restart $i" until_true 20 ready
    took=$((($(date +%s%N) - took) / 1000000))
    [ "$took" -ge "${best:-$took}" ] || best=$took
    best=${best:-$took}
  done
  step "restarted and ready, three times, in $best ms at best"

  pid=$(main_pid)
  inside kill -KILL "$pid"
  must "it did not come back" until_true 30 ready
  [ "$(main_pid)" != "$pid" ] || oops "it was not killed"
  step "killed, it came back"

  inside rm "$log"
  post "http://127.0.0.1:8080/mux/vms6-1/log" '{"message":"after the log was removed"}' >/dev/null
  inside grep -q "after the log was removed" "$log" || oops "the log was not made anew"
  step "the log was made anew after its removal"

  pid=$(main_pid)
  inside systemctl reload "$unit"
  must "a reload ended the service" serves
  [ "$(main_pid)" = "$pid" ] || oops "a reload restarted the service"
  step "reloaded"
}

check_outage() {
  inside systemctl stop openvswitch-switch.service ovs-vswitchd.service ovsdb-server.service
  must "it went down with Open vSwitch" active
  inside systemctl restart "$unit"
  must "it does not start without Open vSwitch" active
  must_not "ready without Open vSwitch" ready
  inside systemctl start openvswitch-switch.service
  must "not ready after Open vSwitch came" until_true 30 ready
  toggles
  step "started while Open vSwitch was down, and ready when it came"
}

# check_watchdog hangs mux-agent@lab, at port 8082.
check_watchdog() {
  local pid lab=mux-agent@lab.service
  inside mkdir -p "/run/systemd/system/$lab.d"
  printf '[Service]\nWatchdogSec=2\n' | inside tee "/run/systemd/system/$lab.d/watchdog.conf" >/dev/null
  inside systemctl daemon-reload
  inside systemctl restart "$lab"
  sleep 3
  pid=$(main_pid "$lab")
  inside kill -STOP "$pid"
  must "the watchdog did not restart a hung service" until_true 60 ready 8082
  [ "$(main_pid "$lab")" != "$pid" ] || oops "the service was not restarted"
  inside rm -r "/run/systemd/system/$lab.d"
  inside systemctl daemon-reload
  step "hung, the watchdog restarted it"
}

check_rollback() {
  local other pid
  pid=$(main_pid)
  old_service
  sleep 90 # three times the time after which a watchdog ended the agent
  must "the agent does not serve under sonic-mgmt's unit" serves
  [ "$(main_pid)" = "$pid" ] || oops "the agent was ended under sonic-mgmt's unit"
  step "sonic-mgmt wrote its unit over ours, and the agent served on for 90 s"
  inside systemctl restart "$unit"
  must "the next start is not the old service's" until_true 20 is_old
  inside grep -q "old service" "$log" || oops "the old service can't write its log"
  step "rolled back to the old service"

  role --extra-vars "mux_agent_binary=$1" --extra-vars '{"mux_agent_instances":[{"port":8081,"vm_set":"vms6-2"}]}'
  must "the role touched a service that it was not told of" is_old
  must "the agent does not run beside the old service" ready 8081
  get http://127.0.0.1:8081/version | grep -q newer || oops "the service still runs a binary that was replaced"
  step "the old service and the agent side by side"

  other=$(main_pid mux-simulator-8081.service)
  role --extra-vars "mux_agent_binary=$1" --extra-vars \
    '{"mux_agent_instances":[{"port":8080,"state":"absent"},{"port":8081,"vm_set":"vms6-2"}]}'
  must_not "the service was not removed" inside test -e "/etc/systemd/system/$unit" -o -e "$log"
  must_not "the service still runs" active
  [ "$(main_pid mux-simulator-8081.service)" = "$other" ] || oops "the removal of one service restarted the other"
  step "one service removed, the other untouched"
}

check_package() {
  local pid
  role --extra-vars "mux_agent_package=$1"
  must "the services of the package do not run" both_ready
  toggles
  role --extra-vars "mux_agent_package=$1"
  unchanged "the second run with a package"
  step "the package: installed, and again without a change"
  inside sh -c 'rm /usr/bin/mux-agent && cp /bin/true /usr/bin/mux-agent'
  role --extra-vars "mux_agent_package=$1"
  inside /usr/bin/mux-agent version | grep -q mux-agent || oops "another binary in the package's place was not corrected"
  must "the services of the package do not run" both_ready
  step "another binary in the package's place was corrected"

  inside systemctl stop mux-simulator-8081.service
  inside sed -e 's/vms17-8/vms6-2/' -e 's/:8080/:8082/' /etc/mux-agent/example.env >"$work/lab.env"
  cp "$work/lab.env" "$container/etc/mux-agent/lab.env"
  inside systemctl start mux-agent@lab.service
  must "mux-agent@lab is not ready" ready 8082
  inside grep -q 'CapEff:.*0000000000000002$' "/proc/$(main_pid mux-agent@lab.service)/status" || oops "mux-agent@lab has not just CAP_DAC_OVERRIDE"
  post "http://127.0.0.1:8082/mux/vms6-2/1" '{"active_side":"lower_tor"}' | grep -q '"healthy":true' || oops "mux-agent@lab does not switch"
  check_doors mux-agent@lab.service
  step "exposure of $(hardened mux-agent@lab.service)"

  check_watchdog
  pid=$(main_pid mux-agent@lab.service)
  inside dpkg --install /var/cache/mux-agent/mux-agent.deb >"$work/dpkg.log" 2>&1 || oops "$(cat "$work/dpkg.log")"
  must "mux-agent@lab is not ready after the upgrade" ready 8082
  [ "$(main_pid mux-agent@lab.service)" != "$pid" ] || oops "the upgrade did not restart mux-agent@lab"
  must "the upgrade took the settings away" inside test -e /etc/mux-agent/lab.env
  step "an upgrade of the package restarted mux-agent@lab"
}

check_removal() {
  local left
  role --extra-vars "mux_agent_state=absent"
  must "the removal took an operator's own settings" inside test -e /etc/mux-agent/lab.env
  inside rm -r /etc/mux-agent
  left=$(inside sh -c 'ls -d /etc/systemd/system/mux-* /usr/lib/systemd/system/mux-* /usr/local/bin/mux-agent /usr/bin/mux-agent \
    /etc/mux-agent /var/cache/mux-agent /tmp/mux_simulator_* 2>/dev/null; pgrep -a mux-agent' || true)
  [ -z "$left" ] || oops "left over: $left"
  role --extra-vars "mux_agent_state=absent"
  unchanged "removing it again"
  step "removed, and nothing is left"
}
