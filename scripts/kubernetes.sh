#!/usr/bin/env bash
# Makes what the tests need for a Kubernetes of one node, and only what is missing:
#
#   scripts/kubernetes.sh           build and fetch it; the first time takes 12 minutes or more of two processors
#   scripts/kubernetes.sh --where   print the folder that it is in, or is to be in
#
# The folder is $TARE_CACHE/kubernetes/KEY (default $XDG_CACHE_HOME/tare, ~/.cache/tare). KEY changes with the
# sources in internal/testkit/cluster/onenode, and with the version of Helm that deploy/helm/render has. In it are
# onenode (control plane and kubelet), pause (of each pod) and helm, all built here, and cni (Debian's network
# plugins). containerd and runc are the system's: scripts/setup.sh test installs them with Docker.
# Without this folder the tests of clusters are skipped, by name.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C CGO_ENABLED=0
root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/internal/testkit/cluster/onenode
helm=$(sed -n 's,^require \(helm.sh/helm/v3\) \(v.*\),\1/cmd/helm@\2,p' "$root/deploy/helm/render/go.mod")
cache=${TARE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/tare}/kubernetes
plugins=containernetworking-plugins

fail() { printf 'kubernetes: error: %s\n' "$*" >&2; exit 1; }

[[ $helm = *@v* ]] || fail "deploy/helm/render/go.mod does not name a version of Helm"
key=$(cd "$source" && { sha256sum -- *.go pause/*.go go.mod go.sum && echo "$helm"; } | sha256sum | cut -c1-12)
dir=$cache/$key
if [[ ${1:-} = --where ]]; then
  echo "$dir"
  exit
fi
[[ $# = 0 ]] || fail "usage: scripts/kubernetes.sh [--where]"
[[ -x $dir/onenode && -x $dir/cni/ptp ]] && exit
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9 # two of them build once
[[ -x $dir/onenode && -x $dir/cni/ptp ]] && exit

made=$(mktemp -d "$cache/.making-XXXXXX")
trap 'rm -rf "$made"' EXIT
version=$(cd "$source" && go list -mod=readonly -m -f '{{.Version}}' k8s.io/kubernetes)
echo "kubernetes: building $version, which takes a quarter of an hour the first time"
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$(cut -d. -f2 <<<"$version")"
  flags+=" -X $package.gitTreeState=clean -X $package.gitCommit=0000000000000000000000000000000000000000 -X $package.buildDate=2026-01-01T00:00:00Z"
done
(cd "$source" && go build -mod=readonly -buildvcs=false -trimpath -ldflags "$flags" -o "$made/onenode" . &&
  go build -mod=readonly -buildvcs=false -trimpath -ldflags "-s -w" -o "$made/pause" ./pause)
GOBIN=$made go install -trimpath -ldflags "-s -w" "$helm"

type -P apt-get dpkg-deb >/dev/null || fail "the network plugins come from Debian: no apt-get or dpkg-deb here"
(cd "$made" && { apt-get -q download "$plugins" || { apt-get -q update && apt-get -q download "$plugins"; }; } >apt.log 2>&1) ||
  fail "apt-get download $plugins: $(tail -n 1 "$made/apt.log")"
dpkg-deb -x "$made"/"$plugins"_*.deb "$made/deb"
mv "$made/deb/usr/lib/cni" "$made/cni"
rm -rf "$made/deb" "$made"/*.deb "$made/apt.log"
chmod 755 "$made"
rm -rf "$dir"
mv "$made" "$dir"
trap - EXIT
