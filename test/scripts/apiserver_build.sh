#!/usr/bin/env bash
# Builds a real Kubernetes from its Go modules, once, into the user's cache folder, and prints that folder:
#   (no argument)  kube-apiserver, the etcd that this Kubernetes names, etcdctl and kubectl: about 5 minutes on 2 cores
#   cluster        also kube-controller-manager, kube-scheduler and kwok, which plays the nodes: about 4 minutes more
#   check          builds nothing: could the first be built? Ends with 3 where there is no Go, or one that is too old
# Needs Go and nothing else: no Docker, no download of foreign binaries (the Go checksum database vouches for the sources).
# 2 GB of memory. An interrupted build goes on where it was.
set -euo pipefail
source "$(dirname "$0")/common.sh"

version=${INFORMER_KUBERNETES_VERSION:-1.36.3}
kwok=v0.8.0
out="$cache/apiserver-$version"
what=kube-apiserver
wanted=(kube-apiserver etcd etcdctl kubectl)
case ${1:-} in
    "" | check) ;;
    cluster)
        what="a whole Kubernetes"
        wanted+=(kube-controller-manager kube-scheduler kwok kwok-stages.yaml)
        ;;
    *) die "'$1' is nothing that this script builds" ;;
esac

built() { local f; for f in "${wanted[@]}"; do [[ -s $out/$f ]] || return 1; done; }

if built; then echo "$out"; exit 0; fi
unfit() { log "error: $1"; exit 3; }
have go || unfit "building $what needs Go (https://go.dev/dl) on the PATH"
have jq || die "building $what needs jq (run ./dev deps)"

mkdir -p "$out/module"
cd "$out"
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -mod=mod -trimpath -buildvcs=false" GOWORK=off
unset GOBIN GOOS GOARCH

# download <module@version>: what Go says of it, in answer, and why it failed; of one that this Go is too old for it says both.
download() {
    why=
    answer=$(go mod download -json "$1") || { why=$(jq -r '.Error // empty' <<<"$answer") && why=${why:-see above}; }
}
said() { jq -r ".$1 // empty" <<<"$answer"; }

# A Go that is too old gets a newer one by itself, but not before 1.21, nor if GOTOOLCHAIN forbids it (as in Docker's golang images).
download "k8s.io/kubernetes@v$version"
gomod=$(said GoMod)
if [[ -s $gomod ]]; then
    needed=$(awk '$1 == "go" { print $2; exit }' "$gomod")
    present=$(go env GOVERSION | grep -om 1 '[0-9][0-9.]*')
    choice=$(go env GOTOOLCHAIN)
    [[ $choice == *auto || $choice == *path ]] || printf '%s\n' "$needed" "$present" | sort -VC ||
        unfit "building $what $version needs Go $needed; this one is $present and gets no other (GOTOOLCHAIN=$choice)"
fi
[[ -z $why ]] || die "cannot download k8s.io/kubernetes v$version: $why"
[[ ${1:-} != check ]] || exit 0

exec 9>lock
flock 9 # two test runs may want it at the same time: the second one waits and finds it done
if built; then echo "$out"; exit 0; fi

log "building $what $version from source, once (some minutes) into $out"
cd module
# Kubernetes' own go.mod requires its sibling modules as v0.0.0 and replaces them by folders of its repository. A
# dependency's replace lines are ignored, so we point every v0.0.0 at the published module of the same release.
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

# wanted_now <file>: is it wanted, and not there yet?
wanted_now() { [[ " ${wanted[*]} " == *" $1 "* && ! -s $out/$1 ]]; }

# build <program> <package>; through a temporary name, so that an interrupted build is not taken for a program
build() {
    wanted_now "$1" || return 0
    log "  $1"
    go build -ldflags "$flags" -o "$out/$1.new" "$2" >&2 || die "building $1 failed"
    mv "$out/$1.new" "$out/$1"
}
build etcd go.etcd.io/etcd/server/v3
build etcdctl go.etcd.io/etcd/etcdctl/v3
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kubectl k8s.io/kubernetes/cmd/kubectl
build kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
build kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler

if wanted_now kwok; then # a module of its own: its dependencies are not Kubernetes 1.36's
    log "  kwok"
    rm -rf "$out/kwok.new"
    GOBIN="$out/kwok.new" go install -ldflags "-s -w" "sigs.k8s.io/kwok/cmd/kwok@$kwok" >&2 || die "building kwok failed"
    mv "$out/kwok.new/kwok" "$out/kwok"
    rmdir "$out/kwok.new"
fi
if wanted_now kwok-stages.yaml; then # what kwok makes nodes and pods do; files of its module, not of its program
    download "sigs.k8s.io/kwok@$kwok"
    [[ -z $why ]] || die "cannot download sigs.k8s.io/kwok $kwok: $why"
    source=$(said Dir)
    for stage in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease \
        pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
        cat "$source/kustomize/stage/$stage.yaml" || die "kwok $kwok has no stage $stage"
        printf '\n---\n'
    done >"$out/kwok-stages.new"
    mv "$out/kwok-stages.new" "$out/kwok-stages.yaml"
fi
echo "$out"
