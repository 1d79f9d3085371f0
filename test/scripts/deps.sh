#!/usr/bin/env bash
# Installs what the build needs on Debian (12 or later) and Ubuntu (24.04 or later), and the packages named in addition. Elsewhere it
# names the packages and goes on if what the build needs is there.
set -euo pipefail
source "$(dirname "$0")/common.sh"

packages=(g++ cmake ninja-build ccache mold pkg-config libssl-dev zlib1g-dev libyaml-cpp-dev libcli11-dev libfmt-dev
    prometheus-cpp-dev openssl curl jq ca-certificates git python3 "$@")
backports=()
system=$(. "${INFORMER_OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-}-${VERSION_ID:-}") || system=
case $system in
    debian-12)
        # Its own Boost (1.74) and Catch2 (2.13) are too old. Boost's -dev packages of different versions exclude each other:
        # apt removes another one if it is there.
        backports=(libboost1.83-dev libboost-json1.83-dev libboost-url1.83-dev libboost-container1.83-dev catch2) ;;
    debian-[1-9] | debian-1[01] | ubuntu-1?.* | ubuntu-2[0-3].*) system= ;; # too old, all of them
    debian-* | ubuntu-*) packages+=(libboost-dev libboost-json-dev libboost-url-dev libboost-container-dev catch2) ;;
    *) system= ;;
esac

# probe: does CMake find everything, however it came here?
probe() {
    local dir status=0
    have cmake && have ninja && have python3 && have curl && have jq && have openssl || return 1
    dir=$(mktemp -d)
    cat >"$dir/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(probe LANGUAGES CXX)
find_package(Boost 1.83 CONFIG REQUIRED COMPONENTS json url)
find_package(OpenSSL 3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(Catch2 3.4 REQUIRED)
END
    cmake -S "$dir" -B "$dir/build" -G Ninja >"$dir/log" 2>&1 || { status=1; grep -A3 'CMake Error' "$dir/log" >&2; }
    rm -rf "$dir"
    return $status
}

have apt-get || system=
if [[ $system != debian-12 ]]; then
    # What CMake finds need not be a package. Its probe takes seconds: once it was fine, the answer is kept.
    if [[ -e $cache/probed-3 ]] || probe 2>/dev/null; then
        mkdir -p "$cache"
        touch "$cache/probed-3"
        [[ -n $system ]] || exit 0
        packages=("$@")
    elif [[ -z $system ]]; then
        log "nothing is installed by itself but on Debian (12 or later) and Ubuntu (24.04 or later). Needed, by their names there:"
        log "  ${packages[*]} libboost-dev libboost-json-dev libboost-url-dev libboost-container-dev catch2"
        probe || die "install at least CMake 3.25, g++ 12 or clang 19, Boost 1.83 and Catch2 3.4 with the rest above, then try again"
    fi
fi

# dpkg-query fails when it does not know one of them; what it knows it prints all the same.
known=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" "${backports[@]}" 2>/dev/null) || true
missing=()
for package in "${packages[@]}" "${backports[@]}"; do
    grep -qxF -- "installed $package" <<<"$known" || missing+=("$package")
done
# Debian's own Catch2 has the same package name; only version 3 will do.
if [[ -n ${backports[*]} && " ${missing[*]} " != *" catch2 "* ]] && dpkg --compare-versions "$(dpkg-query -W -f '${Version}' catch2)" lt 3.7; then
    missing+=(catch2)
fi
[[ ${#missing[@]} -gt 0 ]] || exit 0

[[ -z $(find "$cache/without" -mmin -60 2>/dev/null) || $(<"$cache/without") != "${missing[*]}" ]] || exit 0 # tried before
log "installing: ${missing[*]}"
root=()
# without <why>: goes on where CMake finds all it needs, however it came here, and what is missing is only of use.
without() {
    if probe 2>/dev/null; then
        log "$1; going on without"
        mkdir -p "$cache" && echo "${missing[*]}" >"$cache/without"
        exit 0
    fi
    die "$1"
}
if [[ $(id -u) -ne 0 ]]; then
    have sudo || without "installing these packages needs root: run ./dev deps as root once"
    log "(as root, through sudo)"
    root=(sudo)
fi
asroot() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@" >&2; }

# apt_get <argument…>: waits for dpkg's locks as apt itself does, and for those of its lists and archives, for which apt does not: a
# fresh machine's apt-daily holds them for some minutes, or another one of us. (Its words are read, so they are English.)
apt_get() {
    local said status waits= until=$((SECONDS + 600))
    said=$(mktemp)
    while true; do
        status=0
        asroot apt-get -o DPkg::Lock::Timeout=600 -q "$@" 2>"$said" || status=$?
        [[ $status -ne 0 && $SECONDS -lt $until ]] && grep -q '^E: Could not get lock' "$said" || break
        [[ -n $waits ]] || log "waiting for another apt: $(grep -m 1 '^E: Could not get lock' "$said")"
        waits=1
        sleep 2
    done
    cat "$said" >&2
    rm -f "$said"
    return "$status"
}

wanted=()
for package in "${missing[@]}"; do
    case " ${backports[*]} " in
        *" $package "*) wanted+=("$package/bookworm-backports") ;; # this suite for these, and for nothing else
        *) wanted+=("$package") ;;
    esac
done
sources=${INFORMER_APT_SOURCES:-/etc/apt}
if [[ ${wanted[*]} == */bookworm-backports* ]] &&
    ! grep -rqsE --include='*.list' --include='*.sources' '^[^#]*bookworm-backports' "$sources/sources.list" "$sources/sources.list.d"; then
    log "adding bookworm-backports to apt's sources"
    echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm-backports main' |
        "${root[@]}" tee "$sources/sources.list.d/libinformer-backports.list" >/dev/null || without "apt's sources could not be changed"
fi
[[ ${wanted[*]} != *libboost* ]] || log "(Boost's -dev packages of different versions exclude each other: apt removes another one)"
apt_get update || without "apt-get update failed"
apt_get install -y --no-install-recommends "${wanted[@]}" ||
    without "apt-get could not install: ${missing[*]}"
