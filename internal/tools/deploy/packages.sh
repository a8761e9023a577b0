# shellcheck shell=bash disable=SC2154 # work, root and terraform are set by those who source this
# Sourced by check-deploy.sh: what a release ships, built as a snapshot for Linux, and used as its users would.

# make_release fills dist/, signed by a key that is thrown away.
make_release() {
  have gpg || fail "gpg is missing: a release is signed with it."
  # The socket of gpg's agent wants a short path.
  export GNUPGHOME=$work/gpg
  mkdir -m 700 "$GNUPGHOME"
  gpg --batch --quiet --passphrase '' --quick-generate-key 'check-deploy <check@example.invalid>' ed25519 sign 1d 2>"$work/gpg.log"
  GPG_FINGERPRINT=$(gpg --batch --quiet --with-colons --list-keys 2>/dev/null | awk -F: '$1 == "fpr" { print $10; exit }')
  export GPG_FINGERPRINT
  # Two of the six platforms are enough to prove the rest of it.
  sed 's/goos: \[linux, darwin, windows\]/goos: [linux]/' .goreleaser.yml >"$work/goreleaser.yml"
  if ! { tool goreleaser check .goreleaser.yml &&
    tool goreleaser release --config "$work/goreleaser.yml" --snapshot --clean; } >"$work/goreleaser.log" 2>&1; then
    cat "$work/goreleaser.log" >&2
    fail "goreleaser failed"
  fi
  gpgconf --kill gpg-agent
}

# holds NAME LIST PATTERN… checks that a list of files has a line for each pattern.
holds() {
  local name=$1 list=$2 pattern
  shift 2
  for pattern; do
    grep -qE "$pattern" <<<"$list" || fail "$name lacks $pattern. It has:
$list"
  done
}

check_release() {
  local version arch sums zip archive packaged
  version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' dist/metadata.json)
  arch=$(go env GOARCH)
  sums=terraform-provider-mux_${version}_SHA256SUMS
  say "   version $version"

  (cd dist && cp ../terraform-registry-manifest.json "terraform-provider-mux_${version}_manifest.json" && sha256sum --quiet --check "$sums")
  [ "$(grep -c . "dist/$sums")" -eq 9 ] || fail "$(cat "dist/$sums")
Want nine sums: two zips, two tar.gz, two .deb, two .rpm and the manifest."
  gpg --batch --quiet --verify "dist/$sums.sig" "dist/$sums" 2>"$work/gpg.log" || fail "$(cat "$work/gpg.log")"
  say "   checksums and signature are good"

  for zip in dist/terraform-provider-mux_"${version}"_linux_{amd64,arm64}.zip; do
    [ "$(python3 -m zipfile --list "$zip" | tail -n +2 | awk '{ print $1 }')" = "terraform-provider-mux_v$version" ] ||
      fail "$zip must hold the provider and nothing else."
    python3 -m zipfile --extract "$zip" "$work/zip"
    grep -qaF "$version" "$work/zip/terraform-provider-mux_v$version" || fail "the provider in $zip does not know its version"
  done
  for arch in amd64 arm64; do
    archive=dist/mux-agent_${version}_linux_$arch
    holds "$archive.tar.gz" "$(tar -tzf "$archive.tar.gz")" /mux-agent$ /LICENSE$ /systemd/mux-agent@.service$ /systemd/example.env$ \
      /man/mux-agent.8$ /man/mux-agent-serve.8$ /completions/mux-agent$
    local inside_package=(/usr/bin/mux-agent$ /usr/lib/systemd/system/mux-agent@.service$ /etc/mux-agent/example.env$
      /usr/share/man/man8/mux-agent-serve.8$ /usr/share/bash-completion/completions/mux-agent$)
    if have dpkg-deb; then
      holds "$archive.deb" "$(dpkg-deb --contents "$archive.deb")" "${inside_package[@]}"
      dpkg-deb --info "$archive.deb" conffiles | grep -qx /etc/mux-agent/example.env || fail "$archive.deb would overwrite example.env"
    fi
    if have rpm; then
      holds "$archive.rpm" "$(rpm --query --package --list "$archive.rpm" 2>/dev/null)" "${inside_package[@]}"
    fi
  done
  say "   zips, tar.gz, .deb and .rpm hold what they should"

  arch=$(go env GOARCH)
  packaged=$work/mux-agent_${version}_linux_$arch
  tar -xzf "dist/mux-agent_${version}_linux_$arch.tar.gz" -C "$work"
  "$packaged/mux-agent" version | grep -qF "mux-agent $version " || fail "the agent does not know its version"
  if have systemd-analyze; then
    systemd-analyze security --offline=yes --threshold=30 --no-pager "$packaged/systemd/mux-agent@.service" >"$work/security" ||
      fail "$(tail -n 1 "$work/security")"
  fi
  check_mirror "$version" "$packaged/mux-agent"
}

# serve_simulated BINARY starts an agent on a simulated switch and sets agent, its process, and url.
serve_simulated() {
  : >"$work/agent.out"
  "$1" serve --listen 127.0.0.1:0 --driver simulated --vm-set vms6-1 >"$work/agent.out" 2>"$work/agent.log" &
  agent=$!
  for _ in $(seq 100); do
    url=$(sed -n 's/^mux-agent: listening on //p' "$work/agent.out")
    [ -z "$url" ] || return 0
    sleep 0.1
  done
  fail "the agent does not serve: $(cat "$work/agent.log")"
}

end_simulated() {
  kill "$agent"
  wait "$agent" || fail "the agent did not end well: $(cat "$work/agent.log")"
  agent=
}

# check_mirror has terraform install the zip from a packed mirror, and change a port of the packaged agent with it.
check_mirror() {
  local version=$1 binary=$2 mirror=$work/mirror/registry.terraform.io/sonic-mux/mux
  find_terraform
  if [ -z "$terraform" ]; then
    missing "Missing: terraform or tofu on PATH. The zips were not tried as a mirror."
    return
  fi
  mkdir -p "$mirror" "$work/mirror/registry.opentofu.org/sonic-mux" "$work/tf"
  ln -s ../../registry.terraform.io/sonic-mux/mux "$work/mirror/registry.opentofu.org/sonic-mux/mux"
  cp dist/terraform-provider-mux_"${version}"_linux_*.zip "$mirror"
  printf 'provider_installation {\n  filesystem_mirror {\n    path = "%s"\n  }\n}\n' "$work/mirror" >"$TF_CLI_CONFIG_FILE"

  serve_simulated "$binary"
  cat >"$work/tf/main.tf" <<TF
terraform {
  required_providers {
    mux = {
      source  = "sonic-mux/mux"
      version = "$version"
    }
  }
}

provider "mux" {
  endpoint = "$url"
  vm_set   = "vms6-1"
}

resource "mux_port" "p0" {
  port_index  = 0
  active_side = "lower_tor"
}
TF
  local step
  for step in init "apply -auto-approve"; do
    # shellcheck disable=SC2086 # a command and its flags
    "$terraform" -chdir="$work/tf" $step -input=false -no-color >>"$work/tf.log" 2>&1 || {
      cat "$work/tf.log" >&2
      fail "terraform $step does not work with the zips"
    }
  done
  curl -sS "$url/mux/vms6-1/0" | grep -q '"active_side":"lower_tor"' || fail "terraform did not switch the port"
  end_simulated
  : >"$TF_CLI_CONFIG_FILE"
  say "   terraform init and apply, with the zips as a packed mirror"
}
