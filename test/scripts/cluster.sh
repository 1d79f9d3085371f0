#!/usr/bin/env bash
# A whole living Kubernetes on loopback, without Docker and without root: the kube-apiserver and etcd of apiserver.sh, with
# kube-controller-manager, kube-scheduler, and kwok as the kubelets of nodes that run nothing but say they do. Deployments
# roll out, owner references are collected, namespaces end, nodes can fail; thousands of pods cost next to nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/common.sh"
source "$here/instance.sh"

usage() {
    cat <<'END'
usage: ./dev cluster <command> [--instance NAME]

  up [--nodes N] [-- FLAG…]    start (the first time: build, about 10 minutes) with N nodes (50), wait until they are Ready,
                               and print the path of a kubeconfig; FLAGs go to kube-apiserver. Again: what has stopped is
                               started, and with --nodes the number of nodes becomes N
  down [--all]                 stop it (all instances, those of ./dev apiserver too) and remove its files
  status                       what runs, and where
  kubectl ARG…                 run kubectl on it (with --instance first)
  restart [COMPONENT…]         stop and start: etcd, apiserver, controller-manager, scheduler, kwok; without one: all
  kill COMPONENT…              SIGKILL; restart or up brings it back
  pause | resume COMPONENT…    SIGSTOP, SIGCONT
  logs COMPONENT               print the path of its log

An instance is also one of ./dev apiserver: its etcdctl, and its status, work on it.
END
}

components=(etcd apiserver controller-manager scheduler kwok) # each stands on those before it
instance=cluster nodes= all= arguments=() flags=()
command=${1:-}
[[ $# -eq 0 ]] || shift
while [[ $# -gt 0 ]]; do
    case $1 in
        --instance) operand "$@"; instance=$2; shift 2 ;;
        --nodes) operand "$@"; nodes=$2; shift 2 ;;
        --all) all=1; shift ;;
        --) [[ $command == kubectl ]] || shift; flags=("$@"); break ;;
        *)
            case $command in
                kubectl) break ;;
                restart | kill | pause | resume | logs) arguments+=("$1"); shift ;;
                *) die "unknown argument '$1' (see ./dev cluster)" ;;
            esac
            ;;
    esac
done
[[ $nodes =~ ^([1-9][0-9]{0,4})?$ ]] || die "--nodes takes a number from 1 to 99999, not '$nodes'"
select_instance "$instance"
for c in ${arguments[@]+"${arguments[@]}"}; do
    [[ " ${components[*]} " == *" $c "* ]] || die "'$c' is no component (${components[*]})"
done

# program_of <component>: the name of its program, as instance.sh knows it.
program_of() {
    case $1 in
        etcd | kwok) echo "$1" ;;
        *) echo "kube-$1" ;;
    esac
}

alone() { exec 8>"$states/cluster.lock"; flock 8; } # one change at a time; apiserver.sh has its own lock

is_cluster() { [[ -s $state/kubeconfig && -e $state/nodes ]]; } # one of ours, not of apiserver.sh alone
must_be_up() { is_cluster || die "instance '$instance' is not up (./dev cluster up)"; }

# start_component <component>: and, where there is something to wait for, wait. Expects programs.
start_component() {
    case $1 in
        etcd) "$here/apiserver.sh" restart --etcd --instance "$instance" >/dev/null ;;
        apiserver) "$here/apiserver.sh" restart --instance "$instance" >/dev/null ;;
        controller-manager)
            # Those that workloads, owner references, namespaces and failing nodes need. No client-side limit worth the name:
            # a roll-out of thousands of pods shall be as fast as the machine.
            start kube-controller-manager --kubeconfig "$state/kubeconfig" --leader-elect=false --bind-address 127.0.0.1 \
                --secure-port 0 --kube-api-qps 500 --kube-api-burst 1000 \
                --service-account-private-key-file "$state/pki/sa.key" --controllers="$controllers"
            ;;
        scheduler)
            cat >"$state/scheduler.yaml" <<END
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: $state/kubeconfig, qps: 1000, burst: 2000}
END
            start kube-scheduler --config "$state/scheduler.yaml" --secure-port 0
            ;;
        kwok)
            start kwok --kubeconfig "$state/kubeconfig" --manage-all-nodes=true --node-lease-duration-seconds=40 \
                --config "$programs/kwok-stages.yaml"
            ;;
    esac
}
controllers=namespace-controller,garbage-collector-controller,pod-garbage-collector-controller,serviceaccount-controller
controllers+=,clusterrole-aggregation-controller,deployment-controller,replicaset-controller,statefulset-controller
controllers+=,daemonset-controller,job-controller,ttl-after-finished-controller,disruption-controller
controllers+=,node-lifecycle-controller,taint-eviction-controller

# set_nodes <n>: kwok-node-0 … kwok-node-(n-1), and no others of ours.
set_nodes() {
    local have missing surplus
    have=$(api /api/v1/nodes | jq -r '.items[].metadata.name | select(startswith("kwok-node-"))') || return 1
    missing=$(comm -13 <(sort <<<"$have") <(seq -f 'kwok-node-%.0f' 0 $(($1 - 1)) | sort))
    surplus=$(comm -23 <(sort <<<"$have" | grep . || true) <(seq -f 'kwok-node-%.0f' 0 $(($1 - 1)) | sort))
    if [[ -n $missing ]]; then
        jq -R '{cpu: "64", memory: "256Gi", pods: "1000"} as $size | {apiVersion: "v1", kind: "Node",
            metadata: {name: ., annotations: {"kwok.x-k8s.io/node": "fake"}, labels: {type: "kwok",
                "kubernetes.io/hostname": ., "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
            status: {capacity: $size, allocatable: $size}}' <<<"$missing" >"$state/new-nodes.json"
        "$programs/kubectl" "${kubectl_flags[@]}" create -f "$state/new-nodes.json" >/dev/null || return 1
    fi
    if [[ -n $surplus ]]; then
        # shellcheck disable=SC2086
        "$programs/kubectl" "${kubectl_flags[@]}" delete --wait=false node $surplus >/dev/null || return 1
    fi
    echo "$1" >"$state/nodes"
}

# nodes_ready: are all of them, and free of the taint that the controller-manager takes off ready ones?
nodes_ready() {
    api /api/v1/nodes | jq -e --argjson n "$(cat "$state/nodes")" '
        [.items[] | select(any(.status.conditions[]?; .type == "Ready" and .status == "True"))
                  | select(.spec.taints // [] | all(.key | startswith("node.kubernetes.io/") | not))] | length >= $n' >/dev/null
}

# standing: do all the components still run? One with a wrong flag ends a moment after its start.
standing() {
    local c
    for c in "${components[@]}"; do
        alive "$(program_of "$c")" || { last_words "$(program_of "$c")"; log "error: $c ended (its last words are above)"; return 1; }
    done
}

up() {
    programs=$("$here/apiserver_build.sh" cluster)
    alone
    local began=$SECONDS fresh= c
    if [[ -s $state/kubeconfig ]]; then # what was made here is not lost because a program ended
        [[ ${#flags[@]} -eq 0 ]] || log "already there; the flags do not apply (use down first)"
    else
        log "starting etcd and kube-apiserver"
        "$here/apiserver.sh" up --instance "$instance" -- ${flags[@]+"${flags[@]}"} >/dev/null
        fresh=1
    fi
    for c in "${components[@]}"; do
        alive "$(program_of "$c")" && continue
        log "starting $c"
        start_component "$c" || give_up "$fresh" "$c did not start (./dev cluster down removes what is left of '$instance')"
    done
    if [[ -n $nodes || ! -e $state/nodes ]]; then
        log "making ${nodes:-50} nodes"
        set_nodes "${nodes:-50}" || give_up "$fresh" "the nodes could not be made"
    fi
    if ! nodes_ready; then
        log "waiting until the nodes are Ready"
        wait_until kwok 120 nodes_ready || give_up "$fresh" "the nodes did not become Ready (kwok's last words are above)"
    fi
    standing || give_up "$fresh" "the cluster does not stand"
    log "$(cat "$state/nodes") nodes are Ready after $((SECONDS - began)) s; logs in $state"
    echo "$state/kubeconfig"
}

give_up() { # <fresh> <why>: what did not come up leaves nothing behind
    [[ -z $1 ]] || down_instance
    die "$2"
}

down() {
    if [[ -n $all ]]; then exec "$here/apiserver.sh" down --all; fi
    [[ -d $state ]] || log "there is no instance '$instance'"
    down_instance
}

status() {
    local found= c
    for state in "$states"/*/; do
        state=${state%/}
        is_cluster || continue
        found=1
        printf '%s: https://127.0.0.1:%s, %s nodes\n' "${state##*/}" "$(cat "$state/port")" "$(cat "$state/nodes")"
        for c in "${components[@]}"; do
            printf '    %-18s %s\n' "$c" "$(pid_of "$(program_of "$c")" || echo DOWN)"
        done
        printf '    kubeconfig         %s\n' "$state/kubeconfig"
    done
    [[ -n $found ]] || { log "no cluster is up"; return 1; }
}

restart() {
    must_be_up
    programs=$("$here/apiserver_build.sh" cluster)
    alone
    local c
    [[ ${#arguments[@]} -gt 0 ]] || arguments=("${components[@]}")
    for c in "${arguments[@]}"; do
        log "restarting $c"
        stop "$(program_of "$c")"
        start_component "$c"
    done
}

kill_components() { alone; for c in "${arguments[@]}"; do stop -KILL "$(program_of "$c")"; done; }

signal_components() { # <signal>
    local c pid
    for c in "${arguments[@]}"; do
        pid=$(pid_of "$(program_of "$c")") || die "$c is not running"
        kill "$1" "$pid"
    done
}

case $command in
    up | down | status) "$command" ;;
    restart) restart ;;
    kill | pause | resume | logs)
        must_be_up
        [[ ${#arguments[@]} -gt 0 ]] || die "$command needs a component (${components[*]})"
        case $command in
            kill) kill_components ;;
            pause) signal_components -STOP ;;
            resume) signal_components -CONT ;;
            logs) for c in "${arguments[@]}"; do echo "$state/$(program_of "$c").log"; done ;;
        esac
        ;;
    kubectl)
        must_be_up
        program="$("$here/apiserver_build.sh")/kubectl"
        cd "${INFORMER_CALLER:-.}" # its files are the caller's
        exec "$program" "${kubectl_flags[@]}" "$@"
        ;;
    "" | -h | --help | help) usage ;;
    *) usage >&2; die "unknown command '$command'" ;;
esac
