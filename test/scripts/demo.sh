#!/usr/bin/env bash
# A small living cluster and two informers on it, for 20 seconds. usage: demo.sh <folder of the programs> [seconds]
set -euo pipefail
source "$(dirname "$0")/common.sh"
bin=$1 seconds=${2:-20}

work=$(mktemp -d)
children=()
cleanup() {
    trap - EXIT
    [[ ${#children[@]} -eq 0 ]] || kill -INT "${children[@]}" 2>/dev/null || true
    for _ in {1..20}; do # a moment to end by themselves
        jobs -r | grep -q . || break
        sleep 0.1
    done
    [[ ${#children[@]} -eq 0 ]] || kill -KILL "${children[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
set -m # process groups of their own: without, background jobs ignore SIGINT

# bounded <seconds> <command…>: waited for in a way that our traps interrupt at once.
bounded() {
    timeout -s INT -k 5 "$@" &
    children+=($!)
    wait $!
}

kubeconfig=$work/kubeconfig
"$bin/devserver" --port 0 --kubeconfig "$kubeconfig" --simulate >"$work/url" 2>"$work/devserver.log" &
children+=($!)
for _ in {1..100}; do
    [[ -s $work/url && -s $kubeconfig ]] && break
    kill -0 "${children[0]}" 2>/dev/null || break
    sleep 0.1
done
[[ -s $work/url && -s $kubeconfig ]] || { cat "$work/devserver.log" >&2; die "devserver did not start"; }

log "A cluster in memory at $(head -n 1 "$work/url"). For $seconds seconds: informerctl watch pods -A --diff"
log ""
# The same stream again for the summary, as JSON.
"$bin/informerctl" watch pods -A -o json --kubeconfig "$kubeconfig" >"$work/events" 2>"$work/events.log" &
children+=($!)
status=0
bounded "$seconds" "$bin/informerctl" watch pods -A --diff --kubeconfig "$kubeconfig" || status=$?
[[ $status -eq 124 || $status -eq 0 ]] || die "informerctl watch ended with status $status"

bounded 30 "$bin/informerctl" sync pods -A --json --kubeconfig "$kubeconfig" >"$work/sync" ||
    die "informerctl sync failed"
kill -INT "${children[1]}" 2>/dev/null || true
wait "${children[1]}" 2>/dev/null || true

echo
echo "What was seen in $seconds seconds:"
jq -rs '
    map(select(.key)) | (map(select(.initial)) | length) as $initial | map(select(.initial | not)) as $live
    | "  pods at the start  \($initial)",
      ($live | group_by(.type) | map("  \(.[0].type) \(" " * (17 - (.[0].type | length))) \(length)") | .[])' "$work/events"
jq -rs 'map(select(.phase == "synced"))[0]
    | "  pods now           \(.objects)",
      "  memory             \(.bytes_per_object | round) bytes per pod in the cache",
      "  filling a cache    \(.wall_s * 1000 | round) ms"' "$work/sync"
cat <<END

Next, on your own cluster (by your kubeconfig):
  $bin/informerctl watch pods -A --diff
  $bin/informerctl sync pods -A --index node=/spec/nodeName
END
