# shellcheck shell=bash disable=SC2154 # work is set by those who source this
# Sourced by check-deploy.sh: a Debian with systemd and Open vSwitch, booted by systemd-nspawn, as a test server.

# In the tree from the start; a change of this list makes a new tree.
container_packages=systemd,systemd-sysv,dbus,python3,openvswitch-switch

# container_possible says why there can be no container, where that is so.
container_possible() {
  if [ "$(id -u)" -ne 0 ]; then
    say "needs root"
  elif ! have debootstrap || ! have systemd-nspawn; then
    say "needs debootstrap and systemd-nspawn (package systemd-container)"
  elif ! have ansible-playbook; then
    say "needs ansible-playbook (package ansible-core)"
  elif ! unshare --mount --pid --fork true 2>/dev/null; then
    say "may not make namespaces here"
  fi
}

# container_tree prints the folder of the untouched Debian tree, which it makes once and keeps in the cache.
container_tree() {
  local suite=bookworm cache tree
  cache=${XDG_CACHE_HOME:-/var/cache}/terraform-provider-mux
  tree=$cache/$suite-$(printf %s "$container_packages" | sha256sum | head -c 12)
  if [ ! -d "$tree" ]; then
    say "Making a Debian $suite in $tree, once." >&2
    mkdir -p "$cache"
    local new
    new=$(mktemp -d "$cache/new.XXXXXX")
    if ! debootstrap --variant=minbase --include="$container_packages" "$suite" "$new" "$(debian_mirror)" >"$work/debootstrap.log" 2>&1; then
      rm -rf --one-file-system "$new"
      tail -n 20 "$work/debootstrap.log" >&2
      fail "debootstrap failed"
    fi
    rm -rf "$new/var/cache/apt/archives" "$new/var/lib/apt/lists"
    chmod 755 "$new"
    mv -T "$new" "$tree"
  fi
  printf '%s\n' "$tree"
}

# debian_mirror prints where this machine gets its Debian packages.
debian_mirror() {
  local site=
  if have apt-get; then
    # shellcheck disable=SC2016 # apt-get fills it in
    site=$(apt-get indextargets --format '$(SITE)' 'Identifier: Packages' 'Origin: Debian' 2>/dev/null | grep -v security | head -n 1)
  fi
  printf '%s\n' "${site:-http://deb.debian.org/debian}"
}

# container_start boots a copy of the tree and waits until systemd has started everything.
container_start() {
  container=$work/server
  cp -a --reflink=auto "$(container_tree)" "$container"
  # Bridges of the dummy datapath need neither a kernel module nor devices.
  printf 'OVS_CTL_OPTS="--ovs-vswitchd-options=--enable-dummy"\n' >"$container/etc/default/openvswitch-switch"
  printf 'server-1\n' >"$container/etc/hostname"

  systemd-nspawn --quiet --boot --keep-unit --register=no --private-network --machine "mux-check-$$" --directory "$container" \
    >"$work/boot.log" 2>&1 </dev/null &
  nspawn=$!
  local tries
  for ((tries = 0; tries < 300; tries++)); do
    leader=$(pgrep --parent "$nspawn" --oldest || true)
    if [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then
      return
    fi
    kill -0 "$nspawn" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 40 "$work/boot.log"
  fail "The container did not boot."
}

container_stop() {
  [ -n "${nspawn:-}" ] || return 0
  kill "$nspawn" 2>/dev/null || true
  wait "$nspawn" 2>/dev/null || true
  nspawn=
  rm -rf --one-file-system "$container"
}

# inside COMMAND… runs a command in the container; over_net COMMAND… one of this machine's in the container's network.
inside() {
  nsenter --target "$leader" --all -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
}

over_net() { nsenter --target "$leader" --net -- "$@"; }

# ansible_ssh writes a stand-in for ssh, through which Ansible reaches the container: it runs its last argument inside.
ansible_ssh() {
  : >"$work/ansible.cfg"
  cat >"$work/ssh" <<SSH
#!/bin/sh
for command; do :; done
exec nsenter --target $leader --all -- env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 /bin/sh -c "\$command"
SSH
  chmod +x "$work/ssh"
}

# make_bridges VM_SET COUNT builds the muxes as the testbed's scripts do.
make_bridges() {
  local vm_set=$1 count=$2 i call=() bridge
  for ((i = 0; i < count; i++)); do
    bridge=mbr-$vm_set-$i
    call+=(-- --may-exist add-br "$bridge" -- set bridge "$bridge" datapath_type=dummy)
    for port in "muxy-$vm_set-$i" "up-$vm_set-$i" "vlow-$vm_set-$i"; do
      call+=(-- --may-exist add-port "$bridge" "$port" -- set interface "$port" type=dummy)
    done
  done
  inside ovs-vsctl -vsyslog:off "${call[@]}"
  for ((i = 0; i < count; i++)); do
    bridge=mbr-$vm_set-$i
    inside sh -c "ovs-ofctl del-flows $bridge &&
      ovs-ofctl --names add-flow $bridge in_port=muxy-$vm_set-$i,actions=output:up-$vm_set-$i,output:vlow-$vm_set-$i &&
      ovs-ofctl --names add-flow $bridge in_port=up-$vm_set-$i,actions=output:muxy-$vm_set-$i"
  done
}
