#!/usr/bin/env bash
# An independent client (only curl): random creates, updates and deletes of ConfigMaps, whatever happens to the server
# meanwhile. Environment: SERVER NAMESPACE OPERATIONS SEED OUT, CURL_AUTH (a curl config file), RESTART (a command, may
# be empty), ENOUGH. Prints "operations N" after every 50 and "half" in the middle; ends with the server's own list in
# $OUT. A fast machine finishes OPERATIONS before many connections are cut, so the client goes on until the file ENOUGH
# exists, at most twenty times as long.
set -u
RANDOM=$SEED
base="$SERVER/api/v1/namespaces/$NAMESPACE/configmaps"

# Retries until the server answers, because it may be down for a while, and also after 429 and 5xx. Prints the status.
call() {
    local code try
    for try in $(seq 1 100); do
        code=$(curl -sS -K "$CURL_AUTH" -o "${BODY:-/dev/null}" -w '%{http_code}' "$@" 2>/dev/null)
        case $code in 000 | 429 | 5*) sleep 0.2 ;; *) echo "$code"; return 0 ;; esac
    done
    echo "chaos client: no answer from $SERVER" >&2
    exit 1
}

payload() { printf 'v%s "quoted" \\u00e9\\n %s' "$1" "$(printf '%*s' $((RANDOM % 200)) '' | tr ' ' x)" | sed 's/"/\\"/g'; }

done_ones=0
refused=0
for ((i = 1; i <= 20 * OPERATIONS; i++)); do
    if ((i > OPERATIONS)) && [ -e "$ENOUGH" ]; then break; fi
    name="chaos-$((RANDOM % 60))"
    case $((RANDOM % 10)) in
        0 | 1 | 2 | 3)
            code=$(call -X POST -H 'Content-Type: application/json' "$base" --data-binary \
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"$name\",\"labels\":{\"chaos\":\"$((RANDOM % 3))\"}},\"data\":{\"value\":\"$(payload "$i")\"}}")
            ;;
        4 | 5 | 6 | 7)
            code=$(call -X PATCH -H 'Content-Type: application/merge-patch+json' "$base/$name" --data-binary \
                "{\"data\":{\"value\":\"$(payload "$i")\",\"k$((RANDOM % 4))\":$([ $((RANDOM % 3)) = 0 ] && echo null || echo "\"$i\"")}}")
            ;;
        *) code=$(call -X DELETE "$base/$name") ;;
    esac || exit 1
    case $code in
        20*) done_ones=$((done_ones + 1)) ;;
        404 | 409) refused=$((refused + 1)) ;; # the object was absent, or existed already
        *)
            echo "chaos client: unexpected status $code" >&2
            exit 1
            ;;
    esac
    [ $((i % 50)) = 0 ] && echo "operations $i"
    if [ "$i" = $((OPERATIONS / 2)) ]; then
        echo half
        if [ -n "${RESTART:-}" ]; then bash -c "$RESTART" >&2 || exit 1; fi
    fi
done
BODY=$OUT call "$base" >/dev/null || exit 1
echo "done $done_ones refused $refused"
