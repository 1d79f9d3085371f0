#!/usr/bin/env bash
# The sample controller on a whole living cluster: kubectl makes, scales, breaks and deletes Foos while the leader, the API
# server and the controller are killed in turn, and after each step everything converges. It runs as its service account, and
# the server's audit log tells whether docs/examples/sample-controller/rbac.yaml grants enough, and no more than is used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/common.sh"
source "$here/instance.sh"

usage() {
    cat <<'END'
usage: ./dev chaos [--keep]

  --keep    leave the cluster and the replicas running when a step fails, and say where
END
}

keep=
while [[ $# -gt 0 ]]; do
    case $1 in
        --keep) keep=1; shift ;;
        -h | --help | help) usage; exit ;;
        *) usage >&2; die "unknown argument '$1'" ;;
    esac
done
have jq || die "this needs jq: apt-get install jq"
program=$repo/build/bin/sample-controller
[[ -x $program ]] || die "$program is missing (./dev chaos builds it)"

manifests=$repo/docs/examples/sample-controller
instance=chaos-$$-$EPOCHSECONDS
select_instance "$instance"
work=$(mktemp -d)
passed=0 failed=0

# ---- steps

# step <what> <command…>: one line; a command that fails is a step that failed.
step() {
    local began=$SECONDS
    if "${@:2}" >>"$work/steps.log" 2>&1; then
        passed=$((passed + 1))
        printf 'ok    %-86s %3d s\n' "$1" $((SECONDS - began))
    else
        failed=$((failed + 1))
        printf 'FAIL  %-86s %3d s\n' "$1" $((SECONDS - began))
        explain >&2
    fi
}

explain() { # what there is to see when a step failed
    tail -n 3 "$work/steps.log"
    differences 2>/dev/null | sed 's/^/    not in step: /' || true
    local name
    for name in "${!pids[@]}"; do
        printf '    %s (%s): %s\n' "$name" "$(running "$name" && echo runs || echo ended)" "$(tail -n 1 "$work/$name.log")"
    done
}

# within <seconds> <command…>: true once it succeeds.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [[ $SECONDS -lt $end ]] || return 1
        sleep 0.3
    done
}
patience=90 # seconds that anything may take: the machine may be busy

cleanup() {
    local code=$? name
    trap - EXIT INT TERM
    if [[ -n $keep && ($failed -gt 0 || $code -ne 0) ]]; then
        log "left running: ./dev cluster status; logs in $work; end with ./dev cluster down --instance $instance"
    else
        for name in "${!pids[@]}"; do { kill -KILL "${pids[$name]}" && wait "${pids[$name]}"; } 2>/dev/null || true; done
        "$here/cluster.sh" down --instance "$instance" >/dev/null 2>&1 || true
        rm -rf "$work"
    fi
    exit "$code"
}

# ---- replicas: our children, so that we hear how they end

declare -A pids=() ports_of=()

start_replica() { # <name>
    local log=$work/$1.log
    ports_of[$1]=
    [[ ! -e $log ]] || cat "$log" >>"$work/$1.before.log"
    : >"$log"
    "$program" --kubeconfig "$work/kubeconfig" --leader-elect --lease-namespace sample-controller --identity "$1" \
        --lease-duration 6 --renew-deadline 4 --retry-period 1 --http-port 0 --http-address 127.0.0.1 </dev/null 2>"$log" &
    pids[$1]=$!
    within 30 grep -q '/readyz on port ' "$log" || return 1
    ports_of[$1]=$(sed -n 's/.*\/readyz on port //p' "$log")
}

running() { kill -0 "${pids[$1]}" 2>/dev/null; }

# ended <name>: within the time; its exit code in $code.
ended() {
    gone() { ! running "$1"; }
    within "$patience" gone "$1" || return 1
    code=0
    wait "${pids[$1]}" || code=$?
    unset "pids[$1]"
    echo "$1 ended with $code"
}

answers() { # <name> <path> <code>
    [[ $(curl --noproxy '*' -s -o "$work/answer" -w '%{http_code}' --max-time 5 "http://127.0.0.1:${ports_of[$1]}$2") == "$3" ]]
}

holder() { api /apis/coordination.k8s.io/v1/namespaces/sample-controller/leases/sample-controller | jq -r '.spec.holderIdentity // ""'; }
leads() { [[ $(holder) == "$1" ]]; }
one_leads() { leader=$(holder) && [[ -n $leader && -n ${pids[$leader]:-} ]] && running "$leader"; }

# revive: what a kubelet does with containers that ended. Only a lost lease is a reason to end.
revive() {
    local name
    for name in "${!pids[@]}"; do
        running "$name" && continue
        ended "$name" && [[ $code == 1 ]] && grep -q 'the lease is lost' "$work/$name.log" || return 1
        start_replica "$name" || return 1
    done
}

# ---- the cluster

kubectl() { "$programs/kubectl" --kubeconfig "$state/kubeconfig" --cache-dir "$work/kubectl" "$@"; }

# foo <name> <replicas> <deployment>; foos <name> <replicas> <n>: name-1 … name-n.
foo() {
    printf -- '---\napiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {name: %s, namespace: default}\nspec: {deploymentName: %s, replicas: %s}\n' \
        "$1" "$3" "$2"
}
foos() { local i; for ((i = 1; i <= $3; ++i)); do foo "$1-$i" "$2" "$1-$i"; done | kubectl apply -f -; }

# differences: one line for each Foo that is not as it should be, and for each Deployment that should be gone. Foos
# that name the foreign Deployment cannot be.
differences() {
    api /apis/samplecontroller.k8s.io/v1alpha1/foos >"$work/foos.json" || return 1
    api /apis/apps/v1/namespaces/default/deployments >"$work/deployments.json" || return 1
    jq -rn --slurpfile foos "$work/foos.json" --slurpfile deployments "$work/deployments.json" '
        ($deployments[0].items | map({key: .metadata.name, value: .}) | from_entries) as $by_name
        | ($foos[0].items | map({key: .metadata.uid, value: .}) | from_entries) as $by_uid
        | ($foos[0].items[] | select(.spec.deploymentName != "foreign") | . as $foo
            | $by_name[.spec.deploymentName] as $d
            | if $d == null then "\(.metadata.name): no Deployment"
              elif ($d.metadata.ownerReferences // [] | any(.controller and .uid == $foo.metadata.uid) | not) then "\(.metadata.name): its Deployment is not its own"
              elif $d.spec.replicas != .spec.replicas then "\(.metadata.name): \($d.spec.replicas) replicas of \(.spec.replicas)"
              elif .status.availableReplicas != .spec.replicas then "\(.metadata.name): \(.status.availableReplicas) available of \(.spec.replicas)"
              else empty end),
          ($deployments[0].items[] | select(.metadata.ownerReferences // [] | any($by_uid[.uid] == null)) | "\(.metadata.name): a Deployment without a Foo")'
}
converged() { local left; left=$(differences) && [[ -z $left ]]; }
converges() { within "$patience" converged; }

deployment() { api "/apis/apps/v1/namespaces/default/deployments/$1"; }
deployment_is() { deployment "$1" | jq -e "$2" >/dev/null; }
absent() { [[ $(curl --noproxy '*' -sk -o "$work/answer" -w '%{http_code}' -H "Authorization: Bearer $(cat "$state/pki/token")" \
    "https://127.0.0.1:$(cat "$state/port")$1") == 404 ]]; }
has_event() { # <reason> <name of the Foo>
    api /apis/events.k8s.io/v1/namespaces/default/events | jq -e --arg reason "$1" --arg name "$2" \
        'any(.items[]; .reason == $reason and .regarding.kind == "Foo" and .regarding.name == $name)' >/dev/null
}

service_account() { # its kubeconfig
    kubectl apply -f "$manifests/rbac.yaml" || return 1
    local token
    token=$(kubectl create token sample-controller --namespace sample-controller --duration 2h) || return 1
    cat >"$work/kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: robot
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$(cat "$state/port")", certificate-authority-data: $(base64 -w0 "$state/certs/apiserver.crt")}}]
users: [{name: robot, user: {token: $token}}]
contexts: [{name: robot, context: {cluster: test, user: robot}}]
END
}

start_cluster() {
    # Who does what is written down; whoever blocks the deletion of an owner needs the right to.
    cat >"$work/audit.yaml" <<'END'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["system:serviceaccount:sample-controller:sample-controller"]}
- {level: None}
END
    "$here/cluster.sh" up --instance "$instance" --nodes 5 -- --audit-policy-file="$work/audit.yaml" --audit-log-path="$work/audit.log" \
        --enable-admission-plugins=OwnerReferencesPermissionEnforcement
}

# ---- what the steps do

without_crd() {
    start_replica a && start_replica b || return 1
    local name
    for name in a b; do
        within 30 answers "$name" /healthz 200 && within 30 answers "$name" /readyz 503 || return 1
        within 30 says_why "$name" || return 1
    done
    sleep 3 # they stay up
    running a && running b
}
says_why() { answers "$1" /readyz 503 && grep -q 'foos.samplecontroller.k8s.io' "$work/answer"; }
crd() {
    kubectl apply -f "$manifests/crd.yaml" || return 1
    # However long they waited for it: seconds, not minutes.
    within 30 answers a /readyz 200 && within 30 answers b /readyz 200
}
first_foo() { kubectl apply -f "$manifests/foo.yaml" && converges && within "$patience" has_event Synced example-foo; }
standby() {
    within "$patience" one_leads || return 1
    local name
    for name in a b; do answers "$name" /healthz 200 && answers "$name" /readyz 200 || return 1; done
}
scaled() { kubectl patch foo example-foo --type merge -p '{"spec":{"replicas":3}}' && converges && deployment_is example-foo '.spec.replicas == 3'; }
deployment_scaled() { kubectl scale deployment example-foo --replicas=7 && within "$patience" deployment_is example-foo '.spec.replicas == 3' && converges; }
deployment_deleted() {
    local uid
    uid=$(deployment example-foo | jq -r .metadata.uid) || return 1
    kubectl delete deployment example-foo --wait=false || return 1
    within "$patience" deployment_is example-foo ".metadata.uid != \"$uid\"" && converges
}
status_falsified() { kubectl patch foo example-foo --subresource=status --type merge -p '{"status":{"availableReplicas":99}}' && converges; }
renamed() {
    kubectl patch foo example-foo --type merge -p '{"spec":{"deploymentName":"renamed"}}' && converges &&
        within "$patience" absent /apis/apps/v1/namespaces/default/deployments/example-foo
}
foreign() {
    kubectl create deployment foreign --image=nginx --replicas=1 || return 1
    within "$patience" deployment_is foreign '.status.availableReplicas == 1' || return 1
    local before
    before=$(deployment foreign | jq -c '[.metadata.uid, .metadata.generation, .spec]') || return 1
    foo claimant 4 foreign | kubectl apply -f - || return 1
    within "$patience" has_event ErrResourceExists claimant || return 1
    [[ $(deployment foreign | jq -c '[.metadata.uid, .metadata.generation, .spec]') == "$before" ]] || return 1
    kubectl delete foo claimant && ! absent /apis/apps/v1/namespaces/default/deployments/foreign
}
leader_killed() {
    within "$patience" one_leads || return 1
    local dead=$leader other
    foos many 2 10 || return 1
    kill -KILL "${pids[$dead]}" && ended "$dead" || return 1
    [[ $code == 137 ]] || return 1
    kubectl patch foo example-foo --type merge -p '{"spec":{"replicas":2}}' && kubectl delete foo many-1 || return 1
    other=$([[ $dead == a ]] && echo b || echo a)
    within "$patience" leads "$other" && converges && start_replica "$dead" && within "$patience" answers "$dead" /readyz 200
}
apiserver_killed() {
    "$here/cluster.sh" kill apiserver --instance "$instance" && sleep 2 && "$here/cluster.sh" restart apiserver --instance "$instance" || return 1
    revive || return 1
    foos many 3 12 && kubectl delete deployment many-4 many-5 --wait=false && kubectl delete foo many-6 && converges || return 1
    within "$patience" revive && within "$patience" one_leads && within "$patience" answers a /readyz 200 && within "$patience" answers b /readyz 200
}
everything_killed() { # what happens while nobody looks
    kill -KILL "${pids[a]}" "${pids[b]}" && ended a && ended b || return 1
    kubectl delete foo many-7 many-8 && kubectl scale deployment many-9 --replicas=5 && kubectl delete deployment many-10 || return 1
    "$here/cluster.sh" kill apiserver etcd --instance "$instance" && "$here/cluster.sh" restart etcd apiserver --instance "$instance" || return 1
    start_replica a && start_replica b && converges
}
lease_lost() {
    within "$patience" one_leads || return 1
    local victim=$leader
    kubectl patch lease sample-controller --namespace sample-controller --type merge -p \
        "{\"spec\":{\"holderIdentity\":\"usurper\",\"renewTime\":\"$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)\"}}" || return 1
    ended "$victim" && [[ $code == 1 ]] && grep -q '^sample-controller: the lease is lost$' "$work/$victim.log" || return 1
    # The usurper does not renew: the standby takes over.
    foos late 2 1 && converges && within "$patience" one_leads && start_replica "$victim"
}
foreground() { # the Deployment goes first, and is not made anew
    kubectl delete foo many-2 --cascade=foreground --timeout=60s && absent /apis/apps/v1/namespaces/default/deployments/many-2
}
terminated() {
    within "$patience" one_leads || return 1
    local other
    other=$([[ $leader == a ]] && echo b || echo a)
    kill -TERM "${pids[$other]}" && ended "$other" && [[ $code == 0 ]] && leads "$leader" || return 1 # a standby has no lease to give up
    kill -TERM "${pids[$leader]}" && ended "$leader" && [[ $code == 0 ]] && leads ""
}
again() { start_replica a && within "$patience" leads a && foos again 2 3 && converges; }
all_deleted() {
    no_deployments_of_ours() { [[ $(api /apis/apps/v1/namespaces/default/deployments | jq -r '[.items[].metadata.name] | join(" ")') == foreign ]]; }
    kubectl delete foo --all --timeout=60s && within "$patience" no_deployments_of_ours || return 1
    within "$patience" idle
}
idle() { # nothing is left in the queue, nothing is reconciled, and nothing went wrong inside
    answers a /metrics 200 && grep -q '^workqueue_depth{[^}]*name="foos"[^}]*} 0$' "$work/answer" &&
        grep -q '^controller_runtime_active_workers{controller="foos"} 0$' "$work/answer" &&
        ! grep -E '^controller_runtime_reconcile_panics_total.* [1-9]' "$work/answer" >/dev/null &&
        grep -q '^informer_objects{resource="foos.samplecontroller.k8s.io"} 0$' "$work/answer"
}

# Each "group resource verb" that rbac.yaml grants, and each that was asked for.
granted() {
    kubectl get clusterrole/sample-controller -o json >"$work/role.json" &&
        kubectl get role/sample-controller-leader-election --namespace sample-controller -o json >>"$work/role.json" &&
        jq -r '.rules[] | . as $r | .apiGroups[] as $g | .resources[] as $x | .verbs[] | "\($g) \($x) \(.)"' "$work/role.json" | sort -u
}
asked() { # <jq condition on the answer's code>
    jq -r "select((.responseStatus.code // 0) | $1) | select(.objectRef != null) |
        \"\(.objectRef.apiGroup // \"\") \(.objectRef.resource)\(if .objectRef.subresource then \"/\" + .objectRef.subresource else \"\" end) \(.verb)\"" \
        "$work/audit.log" | sort -u
}
rights_suffice() { # a server that starts forbids everything for a moment: what was allowed once counts
    asked '. >= 200 and . < 400' >"$work/allowed" && asked '. == 403' >"$work/forbidden" && grep 'deployments create' "$work/allowed" || return 1
    local missing
    missing=$(comm -13 "$work/allowed" "$work/forbidden")
    [[ -z $missing ]] || { echo "forbidden: $missing"; return 1; }
}
rights_are_used() {
    # Not seen in the log: what admission itself asks for (without it no Deployment would have been made), the get of a
    # Deployment that the cache does not have yet, and lists, for servers without watch-list.
    local unused
    unused=$(comm -23 <(granted) "$work/allowed" | grep -vx -e 'samplecontroller.k8s.io foos/finalizers update' \
        -e 'apps deployments get' -e '.* list' || true)
    [[ -z $unused ]] || { echo "granted and not used: $unused"; return 1; }
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
programs=$("$here/apiserver_build.sh" cluster)
step "a cluster with 5 nodes" start_cluster
[[ $failed == 0 ]] || { echo "$passed passed, $failed failed"; exit 1; }
step "the service account of rbac.yaml gets a token" service_account
step "without the CRD both replicas are up, alive, not ready, and say why" without_crd
step "the CRD is installed: both are ready within 30 s" crd
step "kubectl applies foo.yaml: a Deployment of its own, available, told in the Foo's status" first_foo
step "one leads, the standby is healthy and ready" standby
step "the Foo is scaled: the Deployment follows" scaled
step "the Deployment is scaled by hand: set back" deployment_scaled
step "the Deployment is deleted: made anew" deployment_deleted
step "the Foo's status is falsified: set right" status_falsified
step "the Foo names another Deployment: the old one goes" renamed
step "a Deployment that is not ours: told of by an Event, and not touched" foreign
step "the leader is killed amid work: the standby takes over" leader_killed
step "the API server is killed and restarted" apiserver_killed
step "all killed, changes while nobody looks, etcd and API server restarted" everything_killed
step "the lease is taken from the leader: it exits 1, and the standby takes over" lease_lost
step "a Foo is deleted in the foreground: its Deployment first, and it stays gone" foreground
step "SIGTERM: a standby exits 0, the leader exits 0 and gives the lease up" terminated
step "started again, it goes on" again
step "all Foos are deleted: their Deployments are collected, the foreign one stays" all_deleted
step "the rights of rbac.yaml were enough: nothing was forbidden" rights_suffice
step "and no right was granted that is not used" rights_are_used
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
