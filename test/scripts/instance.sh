# Sourced by apiserver.sh and cluster.sh: an instance is a folder of state (keys, logs, flags, a kubeconfig) and the
# programs that run on it, each with its process number in a file.

states="$cache/run" # secrets inside: only ours to read

# select_instance <name>: sets state, and the flags that point kubectl at it (its cache of discovery goes with the instance).
select_instance() {
    [[ $1 =~ ^[A-Za-z0-9_.-]+$ && $1 != .* ]] || die "'$1' cannot be the name of an instance"
    state="$states/$1"
    kubectl_flags=(--kubeconfig "$state/kubeconfig" --cache-dir "$state/kubectl")
    mkdir -p "$states"
    chmod 700 "$states"
    umask 077
}

# pid_of <program>: its number, if the process that we noted runs. A number alone may belong to somebody else by now.
pid_of() {
    local pid
    pid=$(cat "$state/$1.pid" 2>/dev/null) && [[ -n $pid ]] && kill -0 "$pid" 2>/dev/null &&
        grep -qaF "/$1" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"
}
alive() { pid_of "$1" >/dev/null; }

# stop [-KILL] <program…>: SIGTERM, and SIGKILL after 3 s: an open watch keeps a kube-apiserver for a minute.
stop() {
    local signal=-TERM program pid left
    if [[ $1 == -KILL ]]; then signal=$1; shift; fi
    for program in "$@"; do
        # One that somebody stopped (SIGSTOP) hears nothing but SIGKILL until it goes on.
        if pid=$(pid_of "$program"); then kill "$signal" "$pid" 2>/dev/null; kill -CONT "$pid" 2>/dev/null; fi || true
    done
    for i in {1..60}; do
        left=
        for program in "$@"; do ! alive "$program" || left="$left $program"; done
        [[ -n $left ]] || break
        if [[ $i == 30 ]]; then
            for program in $left; do kill -KILL "$(cat "$state/$program.pid")" 2>/dev/null || true; done
        fi
        sleep 0.1
    done
    for program in "$@"; do rm -f "$state/$program.pid"; done
}

# start <program> <argument…>: in a session of its own, so that it survives us and the terminal.
start() {
    local program=$1
    shift
    # 8 and 9 are our locks: inherited, they would never be released.
    setsid nohup "$programs/$program" "$@" </dev/null >>"$state/$program.log" 2>&1 8>&- 9>&- &
    local pid=$! i
    echo "$pid" >"$state/$program.pid"
    # Until it has become the program it bears our own name, and would be taken for one that ended.
    for i in {1..100}; do
        if alive "$program" || ! kill -0 "$pid" 2>/dev/null; then break; fi
        sleep 0.05
    done
}

# ports <n>: free ones on loopback, below the range that the kernel hands out to clients if there is room, and never privileged.
ports() {
    python3 - "$1" "${INFORMER_IPV4_SETTINGS:-/proc/sys/net/ipv4}" <<'END'
import random, socket, sys

wanted, settings = int(sys.argv[1]), sys.argv[2]
def setting(name, otherwise):
    try:
        with open(settings + "/" + name) as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return otherwise

lowest = max(setting("ip_unprivileged_port_start", 1024), 1024)
top = min(setting("ip_local_port_range", 32768), 32768)
low = max(lowest, top - top // 3)
if top - low < 1000:  # then among the clients' own; what one of them has, bind() refuses
    low, top = max(lowest, 10000), 32768 if lowest < 31768 else 65536
found = []
for _ in range(100 * wanted):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", random.randrange(low, top)))
        found.append(s)  # kept open, so that no port comes twice
    except OSError:
        s.close()
    if len(found) == wanted:
        break
else:
    sys.exit(f"error: no {wanted} free ports on 127.0.0.1 between {low} and {top}")
print(*(s.getsockname()[1] for s in found))
END
}

last_words() { tail -n 15 "$state/$1.log" >&2; }

# wait_until <program> <seconds> <command…>: true once the command succeeds; false when the program ends or time is up.
wait_until() {
    local program=$1 end=$((SECONDS + $2))
    shift 2
    while [[ $SECONDS -lt $end ]]; do
        "$@" && return
        # At the moment when setsid becomes nohup, and that the program, the command line is empty.
        alive "$program" || { sleep 1 && alive "$program"; } || break
        sleep 0.1
    done
    last_words "$program"
    return 1
}

fetch() { curl --noproxy '*' -fsS --max-time 5 "$@" 2>/dev/null; }

# api <path> [curl argument…]: asks the instance's kube-apiserver as its administrator.
api() { fetch -k -H "Authorization: Bearer $(cat "$state/pki/token")" "https://127.0.0.1:$(cat "$state/port")$1" "${@:2}"; }

lock() { exec 9>"$states/lock"; flock 9; } # one start at a time: nobody takes a port between our look and our use

# down_instance: everything that runs on it, those that others stand on last; and its files.
down_instance() {
    [[ -d $state ]] || return 0
    local noted program above=()
    for noted in "$state"/*.pid; do
        program=${noted##*/}
        program=${program%.pid}
        case $program in
            etcd | kube-apiserver | '*') ;;
            *) above+=("$program") ;;
        esac
    done
    [[ ${#above[@]} -eq 0 ]] || stop "${above[@]}"
    stop kube-apiserver
    stop etcd
    rm -rf "$state"
}
