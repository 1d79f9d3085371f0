#!/usr/bin/env bash
# Builds a real kube-apiserver, the etcd that this Kubernetes names, etcdctl and kubectl from their Go modules, once, into
# the user's cache folder, and prints that folder. Needs Go and nothing else: no Docker, no download of foreign binaries
# (the Go checksum database vouches for the sources). From nothing about 5 minutes on 2 cores, 2 GB of memory.
set -euo pipefail
source "$(dirname "$0")/common.sh"

version=${INFORMER_KUBERNETES_VERSION:-1.36.3}
out="$cache/apiserver-$version"
programs=(kube-apiserver etcd etcdctl kubectl)

built() { for p in "${programs[@]}"; do [[ -x $out/$p ]] || return 1; done; }

if built; then echo "$out"; exit 0; fi
have go || die "building kube-apiserver needs Go (https://go.dev/dl) on the PATH"
have jq || die "building kube-apiserver needs jq (run ./dev deps)"

mkdir -p "$out/module"
exec 9>"$out/lock"
flock 9 # two test runs may want it at the same time: the second one waits and finds it done
if built; then echo "$out"; exit 0; fi

log "building kube-apiserver $version, etcd and kubectl from source, once (about 5 minutes) into $out"
cd "$out/module"
export CGO_ENABLED=0 GOFLAGS="-mod=mod -trimpath -buildvcs=false" GOWORK=off

# Kubernetes' own go.mod requires its sibling modules as v0.0.0 and replaces them by folders of its repository. A
# dependency's replace lines are ignored, so we point every v0.0.0 at the published module of the same release.
gomod=$(go mod download -json "k8s.io/kubernetes@v$version" | jq -r .GoMod) || die "cannot download k8s.io/kubernetes v$version"
siblings=$(awk '$1 ~ /^k8s\.io\// && $2 == "v0.0.0" { print $1 }' "$gomod")
etcd=$(awk '$1 == "go.etcd.io/etcd/client/v3" { print $2; exit }' "$gomod")
{
    echo "module libinformer/apiserver"
    awk '$1 == "go" { print; exit }' "$gomod"
    echo "require ("
    echo "k8s.io/kubernetes v$version"
    echo "go.etcd.io/etcd/server/v3 $etcd"
    echo "go.etcd.io/etcd/etcdctl/v3 $etcd"
    echo ")"
    for module in $siblings; do echo "replace $module => $module v0.${version#*.}"; done
} >go.mod

IFS=. read -r major minor _ <<<"$version"
stamp=k8s.io/component-base/version
flags="-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor -X $stamp.gitTreeState=clean"
build() { # build <program> <package>; through a temporary name, so that an interrupted build is not taken for a program
    [[ -x $out/$1 ]] && return
    log "  $1"
    go build -ldflags "$flags" -o "$out/$1.new" "$2" >&2 || die "building $1 failed"
    mv "$out/$1.new" "$out/$1"
}
build etcd go.etcd.io/etcd/server/v3
build etcdctl go.etcd.io/etcd/etcdctl/v3
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kubectl k8s.io/kubernetes/cmd/kubectl
echo "$out"
