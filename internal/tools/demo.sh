#!/usr/bin/env bash
# make demo: the agent on a simulated switch, driven by Terraform and by curl. Needs no root, no Open vSwitch and no
# registry, and leaves nothing behind but bin/. DEMO_HOLD=1 keeps the agent until Ctrl-C.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# A job of its own process group each, so that Ctrl-C reaches this script alone, and it stops them in order.
set -m

vm_set=vms17-8
ports=12
agent=
child=
# What run says goes here, also where the output of its command goes elsewhere.
exec 3>&1
work=$(mktemp -d /tmp/mux-demo.XXXXXX)

# stop PID ends a job, and what it left running in its process group.
stop() {
  [ -n "$1" ] || return 0
  kill -TERM "$1" 2>/dev/null || true
  local tries=0
  while kill -0 "$1" 2>/dev/null && [ "$tries" -lt 100 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  kill -KILL -- "-$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

clean_up() {
  local status=$?
  trap - EXIT INT TERM HUP
  {
    stop "$child"
    stop "$agent"
  } 2>/dev/null
  rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# run COMMAND… shows a command and waits for it as a job: bash acts on a signal while it waits, but not while a command
# in the foreground runs.
run() {
  local shown='  $' word
  for word in "$@"; do
    case $word in
      "$terraform") shown+=" $(basename "$terraform")" ;;
      *[\ \{\"]*) shown+=" '$word'" ;;
      *) shown+=" $word" ;;
    esac
  done
  say "$shown" >&3
  "$@" </dev/null &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=
  return "$status"
}

# brief runs a command and shows the lines of its output that match a pattern, or all of them when it fails.
brief() {
  local pattern=$1
  shift
  run "$@" >"$work/output" 2>&1 || {
    local status=$?
    cat "$work/output"
    return "$status"
  }
  grep -E "$pattern" "$work/output" | sed 's/^/    /'
}

step() {
  say
  say "== $*"
}

# show prints the ports as the agent reports them.
show() {
  curl -sS --fail "$endpoint/mux/$vm_set" |
    grep -o '"active_side":"[^"]*","bridge":"[^"]*","dropped":[^]]*],"flap_counter":[0-9]*' |
    sed 's/"active_side":"\(.*\)","bridge":"\(.*\)","dropped":.*],"flap_counter":\(.*\)/    \2 \1 flaps=\3/' |
    sort -t- -k4n
}

need_go
have curl || fail "curl is missing: install it, for example with: apt-get install curl"
find_terraform
[ -n "$terraform" ] || fail "Terraform is missing and can't be fetched: put terraform (https://developer.hashicorp.com/terraform/install) or tofu (https://opentofu.org/docs/intro/install) on PATH."
clean_environment "$work"
export TF_CLI_ARGS=-no-color

step "1. Build both binaries into bin/"
run make --no-print-directory build

step "2. Start the agent on a simulated switch with $ports mux ports, on a free port of the loopback"
say "  \$ bin/mux-agent serve --listen 127.0.0.1:0 --driver simulated --simulate-ports $ports --vm-set $vm_set"
bin/mux-agent serve --listen 127.0.0.1:0 --driver simulated --simulate-ports "$ports" --vm-set "$vm_set" \
  </dev/null >"$work/agent.out" 2>"$work/agent.log" &
agent=$!
endpoint=
for _ in $(seq 100); do
  endpoint=$(sed -n 's/^mux-agent: listening on //p' "$work/agent.out")
  if [ -n "$endpoint" ] || ! kill -0 "$agent" 2>/dev/null; then
    break
  fi
  sleep 0.1
done
if [ -z "$endpoint" ]; then
  cat "$work/agent.out" "$work/agent.log" >&2
  fail "The agent did not start: its output is above."
fi
say "  It listens on $endpoint"
show

step "3. Put the provider where $(basename "$terraform") looks for it beside a configuration, and run init"
for host in registry.terraform.io registry.opentofu.org; do
  mirror=$work/terraform.d/plugins/$host/sonic-mux/mux/0.2.0/$(go env GOOS)_$(go env GOARCH)
  mkdir -p "$mirror"
  cp bin/terraform-provider-mux "$mirror/terraform-provider-mux_v0.2.0"
done
cp examples/quickstart/main.tf "$work/"
cd "$work"
export MUX_ENDPOINT=$endpoint MUX_VM_SET=$vm_set
brief "^- Installed" "$terraform" init -input=false

step "4. Apply examples/quickstart/main.tf: $ports mux_port, even ones to the upper ToR, odd ones to the lower"
brief "^(Plan:|Apply complete)" "$terraform" apply -input=false -auto-approve
show

step "5. Flip port 2 behind Terraform's back, as a test or a ToR does"
run curl -sS --fail -X POST -H 'Content-Type: application/json' -d '{"active_side":"toggle"}' "$endpoint/mux/$vm_set/2"

step "6. Ask for a plan: it shows the drift"
status=0
run "$terraform" plan -input=false -detailed-exitcode || status=$?
[ "$status" -eq 2 ] || fail "plan -detailed-exitcode ended with $status, want 2 (there are changes)"

step "7. Apply heals it, and the next plan is empty"
brief "^(Plan:|Apply complete)" "$terraform" apply -input=false -auto-approve
brief "^No changes" "$terraform" plan -input=false -detailed-exitcode
show

step "8. Destroy: Terraform forgets the ports, which keep the side they have"
brief "^(Plan:|Destroy complete)" "$terraform" destroy -input=false -auto-approve

if [ -n "${DEMO_HOLD:-}" ]; then
  step "The agent stays until Ctrl-C"
  say "  Its page, in a browser: $endpoint/"
  say "  In another terminal:    bin/mux-agent toggle 2 --endpoint $endpoint"
  say "                          curl -s $endpoint/mux/$vm_set/2"
  wait "$agent" || true
  fail "The agent has ended."
fi

step "Done: the agent is stopped now and the temporary folder removed. bin/ has both binaries."
