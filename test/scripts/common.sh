# Sourced by ./dev and its helper scripts: how they speak, and where they keep things outside the tree.
# Progress and errors go to stderr, so that stdout carries results only (a path, a summary).

log() { printf '%s\n' "$*" >&2; }
die() { log "error: $*"; exit 1; }
# operand <option> [value…]: ends us where the command line ends before the value of the option.
operand() { [[ -n ${2:-} ]] || die "$1 needs a value"; }
have() { command -v "$1" >/dev/null 2>&1; }

# formatter: the name of the formatter that the lint judges by, if it is here. Other versions break lines elsewhere.
formatter() {
    local name
    for name in clang-format-14 clang-format; do
        if have $name && [[ $($name --version) == *' version 14.'* ]]; then echo $name && return; fi
    done
    return 1
}
# sources: what it is applied to, each ended by a NUL. Not the lint's bad samples.
sources() {
    find libinformer apps test docs/examples \( -name '*.hpp' -o -name '*.cpp' -o -name '*.ipp' \) \
        -not -path 'test/lint/samples/*' -print0
}

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache="${XDG_CACHE_HOME:-${HOME:-/tmp/libinformer-$(id -u)}/.cache}/libinformer"
export repo cache
