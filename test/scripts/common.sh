# Sourced by ./dev and its helper scripts: how they speak, and where they keep things outside the tree.
# Progress and errors go to stderr, so that stdout carries results only (a path, a summary).

log() { printf '%s\n' "$*" >&2; }
die() { log "error: $*"; exit 1; }
# operand <option> [value…]: ends us where the command line ends before the value of the option.
operand() { [[ -n ${2:-} ]] || die "$1 needs a value"; }
have() { command -v "$1" >/dev/null 2>&1; }

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache="${XDG_CACHE_HOME:-${HOME:-/tmp/libinformer-$(id -u)}/.cache}/libinformer"
export repo cache
