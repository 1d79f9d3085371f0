#!/usr/bin/env bash
# A real kube-apiserver and etcd on loopback, for tests. No nodes and no controllers: namespaces stay Terminating until
# /finalize, nothing is garbage-collected (cluster.sh adds them).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/common.sh"
source "$here/instance.sh"

usage() {
    cat <<'END'
usage: ./dev apiserver <command> [--instance NAME]

  up [--data DIR] [-- FLAG…]   start (the first time: build, about 5 minutes) and print the path of a kubeconfig with the
                               contexts admin (client certificate), token (admin by token) and nobody (a token without
                               rights); FLAGs go to kube-apiserver, e.g. -- --feature-gates=WatchList=false
                               --data keeps etcd's data in DIR; without it they are gone after down
                               Again: what has stopped is started, on the same data and port
  restart [-- FLAG…]           stop the kube-apiserver only, and start it on the same data and port (same flags, or these)
  restart --etcd               stop the etcd only, and start it on the same data and port
  down [--all]                 stop it (all instances) and remove its files
  status                       what runs, and where
  kubectl ARG…                 run kubectl on it (with --instance first): that of the PATH, else one built from source
  etcdctl ARG…                 run etcdctl on its etcd (with --instance first), e.g. etcdctl compact 1234
END
}

instance=default data= all= etcd= flags=() flags_given=
command=${1:-}
[[ $# -eq 0 ]] || shift
while [[ $# -gt 0 ]]; do
    case $1 in
        --instance) operand "$@"; instance=$2; shift 2 ;;
        --data) operand "$@"; data=$2; shift 2 ;;
        --all) all=1; shift ;;
        --etcd) etcd=1; shift ;;
        --) [[ $command == kubectl ]] || shift; flags=("$@"); flags_given=1; break ;;
        *) [[ $command == etcdctl || $command == kubectl ]] && break; die "unknown argument '$1' (see ./dev apiserver)" ;;
    esac
done
select_instance "$instance"

secrets() { # keys, a client CA, an administrator's certificate and two tokens
    local dir=$state/pki
    mkdir -p "$dir"
    {
        openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=libinformer-test-ca -keyout "$dir/ca.key" -out "$dir/ca.crt"
        openssl req -newkey rsa:2048 -nodes -subj /O=system:masters/CN=admin -keyout "$dir/admin.key" -out "$dir/admin.csr"
        printf 'extendedKeyUsage=clientAuth\n' >"$dir/admin.ext"
        openssl x509 -req -in "$dir/admin.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days 3650 \
            -extfile "$dir/admin.ext" -out "$dir/admin.crt"
        openssl genrsa -out "$dir/sa.key" 2048
        openssl rsa -in "$dir/sa.key" -pubout -out "$dir/sa.pub"
    } >"$state/openssl.log" 2>&1 || { cat "$state/openssl.log" >&2; die "openssl could not make the keys"; }
    openssl rand -hex 16 >"$dir/token"
    openssl rand -hex 16 >"$dir/nobody"
    printf '%s,token-admin,1,"system:masters"\n%s,nobody,2\n' "$(cat "$dir/token")" "$(cat "$dir/nobody")" >"$dir/tokens.csv"
}

start_etcd() {
    local client peer
    client=$(cat "$state/etcd") peer=$(cat "$state/etcd-peer")
    start etcd --data-dir "$(cat "$state/etcd-folder")" --unsafe-no-fsync --log-level warn \
        --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer"
    wait_until etcd 30 fetch -o /dev/null "$client/health"
}

start_apiserver() {
    local flags=()
    mapfile -t flags <"$state/flags"
    start kube-apiserver --etcd-servers "$(cat "$state/etcd")" --bind-address 127.0.0.1 --advertise-address 127.0.0.1 \
        --secure-port "$(cat "$state/port")" --endpoint-reconciler-type none --service-cluster-ip-range 10.0.0.0/24 \
        --allow-privileged --cert-dir "$state/certs" --client-ca-file "$state/pki/ca.crt" \
        --token-auth-file "$state/pki/tokens.csv" --service-account-key-file "$state/pki/sa.pub" \
        --service-account-signing-key-file "$state/pki/sa.key" \
        --service-account-issuer https://kubernetes.default.svc --authorization-mode RBAC \
        --disable-admission-plugins ServiceAccount "${flags[@]}"
    # The default namespace comes a moment after the server calls itself ready.
    wait_until kube-apiserver 90 api /readyz -o /dev/null &&
        wait_until kube-apiserver 30 api /api/v1/namespaces/default -o /dev/null
}

write_kubeconfig() {
    local b64=(base64 -w0)
    cat >"$state/kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: admin
clusters:
- name: test
  cluster:
    server: https://127.0.0.1:$(cat "$state/port")
    certificate-authority-data: $("${b64[@]}" "$state/certs/apiserver.crt")
users:
- name: admin
  user:
    client-certificate-data: $("${b64[@]}" "$state/pki/admin.crt")
    client-key-data: $("${b64[@]}" "$state/pki/admin.key")
- name: token
  user:
    token: $(cat "$state/pki/token")
- name: nobody
  user:
    token: $(cat "$state/pki/nobody")
contexts:
- name: admin
  context: {cluster: test, user: admin}
- name: token
  context: {cluster: test, user: token}
- name: nobody
  context: {cluster: test, user: nobody}
END
}

write_flags() {
    : >"$state/flags"
    [[ ${#flags[@]} -eq 0 ]] || printf '%s\n' "${flags[@]}" >"$state/flags"
}

again() { # <program> <how to start it>, on the data and the port that it had, if it does not run
    alive "$1" || "$2" || die "$1 did not start again (its last words are above); down removes the instance and its data"
}

up() {
    [[ ! -s $state/kubeconfig || -z $data$flags_given ]] || log "already there; --data and flags do not apply (use restart, or down first)"
    if [[ ! -s $state/kubeconfig ]] || ! alive etcd || ! alive kube-apiserver; then
        programs=$("$here/apiserver_build.sh")
        lock
        if [[ -s $state/kubeconfig ]]; then # what was made here is not lost because a program ended
            again etcd start_etcd
            again kube-apiserver start_apiserver
        else
            start_anew
        fi
        log "kube-apiserver at https://127.0.0.1:$(cat "$state/port"), etcd at $(cat "$state/etcd"), logs in $state"
    fi
    echo "$state/kubeconfig"
}

start_anew() {
    down_instance # what did not come up to its end
    mkdir -p "$state"
    local etcd_data="$state/etcd-data" found client peer port
    if [[ -n $data ]]; then
        mkdir -p "$data"
        etcd_data=$(cd "$data" && pwd)/etcd
    fi
    found=$(ports 3) || exit 1 # it has said why
    read -r client peer port <<<"$found"
    secrets
    echo "http://127.0.0.1:$client" >"$state/etcd"
    echo "http://127.0.0.1:$peer" >"$state/etcd-peer"
    echo "$etcd_data" >"$state/etcd-folder"
    echo "$port" >"$state/port"
    write_flags
    if ! start_etcd; then
        down_instance
        die "etcd did not start (its last words are above)"
    fi
    if ! start_apiserver; then
        down_instance
        die "kube-apiserver did not become ready (its last words are above)"
    fi
    write_kubeconfig
}

down() {
    if [[ -n $all ]]; then
        for state in "$states"/*/; do state=${state%/}; down_instance; done
    else
        [[ -d $state ]] || log "there is no instance '$instance'"
        down_instance
    fi
}

restart() {
    [[ -s $state/kubeconfig ]] || die "instance '$instance' is not up"
    programs=$("$here/apiserver_build.sh")
    lock
    if [[ -n $etcd ]]; then
        stop etcd
    else
        stop kube-apiserver
        [[ -z $flags_given ]] || write_flags
    fi
    again etcd start_etcd
    [[ -n $etcd ]] || again kube-apiserver start_apiserver
    echo "$state/kubeconfig"
}

status() {
    local found=
    for state in "$states"/*/; do
        state=${state%/}
        [[ -s $state/port ]] || continue
        found=1
        printf '%s: kube-apiserver %s at https://127.0.0.1:%s, etcd %s at %s\n    kubeconfig %s\n' "${state##*/}" \
            "$(alive kube-apiserver && echo up || echo DOWN)" "$(cat "$state/port")" \
            "$(alive etcd && echo up || echo DOWN)" "$(cat "$state/etcd")" "$state/kubeconfig"
    done
    [[ -n $found ]] || { log "no instance is up"; return 1; }
}

case $command in
    up | down | restart | status) "$command" ;;
    kubectl)
        alive kube-apiserver || die "instance '$instance' is not up"
        program=$(command -v kubectl) || program="$("$here/apiserver_build.sh")/kubectl"
        cd "${INFORMER_CALLER:-.}" # its files are the caller's
        exec "$program" "${kubectl_flags[@]}" "$@"
        ;;
    etcdctl)
        alive etcd || die "instance '$instance' is not up"
        program="$("$here/apiserver_build.sh")/etcdctl"
        unset "${!ETCDCTL_@}" # of another etcd; with a flag and its variable, etcdctl refuses to run
        exec "$program" --endpoints "$(cat "$state/etcd")" "$@"
        ;;
    "" | -h | --help | help) usage ;;
    *) usage >&2; die "unknown command '$command'" ;;
esac
