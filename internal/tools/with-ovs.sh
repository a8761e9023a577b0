#!/usr/bin/env bash
# with-ovs.sh RELEASE COMMAND…: runs COMMAND with the Open vSwitch of a Debian release first on PATH, and its schema in place.
#
# RELEASE is bullseye or trixie. bullseye has Open vSwitch 2.15, which has no flow monitor over OpenFlow 1.4; nor have 2.13 and 2.17
# of Ubuntu 20.04 and 22.04. trixie has 3.5, which has one, as 3.3 of Ubuntu 24.04 does. The script needs root, debootstrap, unshare
# and flock, and an Open vSwitch of the machine's own. In a mount namespace, which only COMMAND sees, the release's schema lies
# over the machine's.
#
# It installs nothing on the machine. The release's minimal system with openvswitch-switch is fetched once, some 200 MB, into
# $XDG_CACHE_HOME/mux-ovs, or ~/.cache/mux-ovs; nothing of it is started but Open vSwitch's programs.
set -euo pipefail

[ "$#" -ge 2 ] || {
  echo "usage: with-ovs.sh bullseye|trixie COMMAND…" >&2
  exit 2
}
release=$1
shift
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mux-ovs
root=$cache/$release
schema=usr/share/openvswitch/vswitch.ovsschema

[ "$(id -u)" -eq 0 ] || {
  echo "with-ovs.sh needs root, for debootstrap and a mount namespace." >&2
  exit 1
}
for tool in debootstrap unshare flock; do
  command -v "$tool" >/dev/null || {
    echo "$tool is missing: apt-get install debootstrap util-linux" >&2
    exit 1
  }
done
[ -e "/$schema" ] || {
  echo "/$schema is missing: apt-get install openvswitch-switch" >&2
  exit 1
}

# make fetches the release, and makes a script for each program which runs it with its own loader and libraries.
make_root() {
  rm -rf "$root" "$root.bin"
  mkdir -p "$root" "$root.bin"
  echo "Fetching Open vSwitch of Debian $release into $root" >&2
  debootstrap --variant=minbase --include=openvswitch-switch "$release" "$root" >"$root.log" 2>&1 || {
    tail -n 5 "$root.log" >&2
    return 1
  }
  # /etc/alternatives of some libraries leads to the machine's own from outside a chroot.
  local link target
  while read -r link; do
    target=$(chroot "$root" readlink -f "${link#"$root"}")
    cp --remove-destination "$root$target" "$link"
  done < <(find "$root/usr/lib" -type l -lname '/etc/alternatives/*')
  local loader triplet program real
  triplet=$(basename "$(dirname "$(find "$root/usr/lib" -name 'libc.so.6' | head -n 1)")")
  loader=$(find "$root/usr/lib/$triplet" "$root/lib/$triplet" -name 'ld-linux*.so*' 2>/dev/null | head -n 1)
  loader=$root$(chroot "$root" readlink -f "${loader#"$root"}")
  for program in ovs-vswitchd ovsdb-server ovs-vsctl ovs-ofctl ovs-appctl ovsdb-tool ovsdb-client ovs-dpctl; do
    real=$(chroot "$root" sh -c "readlink -f \$(command -v $program)")
    printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' \
      "$loader" "$root/usr/lib/$triplet:$root/usr/lib/openvswitch-common" "$root$real" >"$root.bin/$program"
    chmod +x "$root.bin/$program"
  done
  touch "$root.ok"
}

mkdir -p "$cache"
exec 9>"$root.lock"
flock 9
[ -e "$root.ok" ] || make_root
exec 9>&-

export PATH="$root.bin:$PATH"
# shellcheck disable=SC2016 # the inner shell expands it
exec unshare --mount bash -c 'mount --bind "$0" "$1" && shift 1 && exec "$@"' "$root/$schema" "/$schema" "$@"
