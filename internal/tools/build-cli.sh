#!/usr/bin/env bash
# build-cli.sh terraform|tofu VERSION: builds the command from its Go module, for tests, and prints its path. The first build
# of a version takes some minutes; the binary stays in the user's cache.
#
# A module's archive lacks the modules nested in it. Where the module replaces them by their folders, empty ones stand in:
# those are Terraform's backends for remote state, which then do not work.
# shellcheck source=internal/tools/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

name=$1 version=$2
case $name in
  terraform) module=github.com/hashicorp/terraform package=. ;;
  tofu) module=github.com/opentofu/opentofu package=./cmd/tofu ;;
  *) fail "build-cli.sh knows terraform and tofu, and no $name" ;;
esac
target=${XDG_CACHE_HOME:-$HOME/.cache}/terraform-provider-mux/$name-$version/$name
if [ -x "$target" ]; then
  say "$target"
  exit
fi

need_go
work=$(mktemp -d /tmp/mux-build.XXXXXX)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
say "Building $name $version from its module, which takes some minutes." >&2
dir=$(go mod download -json "$module@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
[ -n "$dir" ] || fail "The Go module proxy has no $module@v$version."
cp -R "$dir" "$work/source"
chmod -R u+w "$work/source"
cd "$work/source"

sed -n 's/^[[:space:]]*\(replace[[:space:]]\{1,\}\)\{0,1\}\([^[:space:]]*\)[[:space:]]*=>[[:space:]]*\(\.\/[^[:space:]]*\).*/\2 \3/p' go.mod |
  while read -r nested folder; do
    [ ! -e "$folder/go.mod" ] || continue
    mkdir -p "$folder"
    printf 'module %s\n\ngo 1.21\n' "$nested" >"$folder/go.mod"
    case $folder in
      */remote-state/*)
        cat >"$folder/absent.go" <<GO
// Package $(basename "$folder") stands in for a backend that the module's archive does not hold.
package $(basename "$folder")

import "$module/internal/backend"

// New panics: there is no such backend in this build.
func New() backend.Backend { panic("this build has no backend $(basename "$folder")") }
GO
        ;;
    esac
  done

mkdir -p "$(dirname "$target")"
go build -mod=mod -trimpath -ldflags "-s -w -X $module/version.dev=no" -o "$work/$name" "$package"
TF_CLI_CONFIG_FILE=/dev/null CHECKPOINT_DISABLE=1 "$work/$name" version >&2
mv "$work/$name" "$target"
say "$target"
