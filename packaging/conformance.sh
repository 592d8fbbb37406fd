#!/usr/bin/env bash
# conformance.sh E2E [WORDS]: runs Kubernetes' own conformance tests, those whose names stand in tests/data/conformance.txt (or have WORDS in
# them), and fails where one of them no longer passes. E2E is the program that `go test -c ./test/e2e` makes in a source tree of Kubernetes 1.36.
# They run against a master and an agent of this tree, which are started here and taken away; or against the cluster of KUBECONFIG.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
list=$tree/tests/data/conformance.txt
state=$tree/build/conformance            # logs, one a test
sockets=/run/coracle-conformance         # short enough for a socket's path
limit=${LIMIT:-420}                      # seconds a test: the longest waits for five minutes
beside=${BESIDE:-3}                      # tests beside each other
export PATH=$PATH:/usr/sbin:/sbin

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
fail() { printf 'conformance: %s\n' "$*" >&2; exit 1; }

e2e=${1:-}
[ -x "$e2e" ] || fail "E2E=${e2e:-?} is no program: build it with \`go test -c -o e2e.test ./test/e2e\` in a source tree of Kubernetes 1.36"
words=${2:-}

# start NAME FLAG...: one of our programs in the background, its log in the state folder.
start() {
    local name=$1
    shift
    as_root sh -c 'log=$1 pid=$2; shift 2; setsid "$@" >>"$log" 2>&1 </dev/null & echo $! >"$pid"' \
        start "$state/$name.log" "$sockets/$name.pid" "$tree/target/release/coracle-$name" "$@"
}

stop() {
    for name in agent master; do
        [ -e "$sockets/$name.pid" ] || continue
        as_root kill "$(as_root cat "$sockets/$name.pid")" 2>/dev/null || true
        as_root rm -f "$sockets/$name.pid"
    done
    as_root rm -rf "$sockets"
}

node_is_ready() { curl -sSf -m 5 "http://127.0.0.1:$port/api/v1/nodes" 2>/dev/null | jq -e '.items[] | select(.status.conditions[]? | .type == "Ready" and .status == "True")' >/dev/null; }

cluster() {
    "$tree/packaging/prerequisites.sh" engine demo
    "$tree/packaging/engine.sh" start
    (cd "$tree" && cargo build --release -q -p coracle-master -p coracle-agent)
    port=${PORT:-8088}
    as_root mkdir -p -m 0755 "$sockets"
    trap stop EXIT
    start master --data-dir "$state/master" --admin-socket "$sockets/master/api.sock" --listen "127.0.0.1:$port"
    start agent --data-dir "$state/agent" --manifest-dir "$state/manifests" --master "unix://$sockets/master/api.sock" \
        --listen "127.0.0.1:$((port + 1))" --eviction-hard "memory.available<1Mi"
    for _ in $(seq 1 600); do
        if node_is_ready; then break; fi
        sleep 0.1
    done
    node_is_ready || fail "no node is ready after a minute: $(tail -n 1 "$state/agent.log") (logs: $state)"
    KUBECONFIG=$state/kubeconfig
    cat >"$KUBECONFIG" <<K
{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:$port"}}],
 users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}
K
}

# one NAME: runs one test; its last line says whether it passed.
one() {
    local name=$1 log pattern
    log=$state/$(printf '%s' "$name" | tr -c 'A-Za-z0-9\n' '-' | cut -c1-180).log
    pattern=$(printf '%s' "$name" | sed 's/[][\.*^$(){}+?|]/\\&/g')
    if timeout -k 5 -s INT "$limit" "$e2e" --kubeconfig "$KUBECONFIG" --provider=skeleton --ginkgo.focus "$pattern" --ginkgo.no-color \
        --disable-log-dump --allowed-not-ready-nodes=10 >"$log" 2>&1 && grep -q '^Ran [1-9]' "$log"; then
        printf 'pass  %s\n' "$name"
    else
        printf 'FAIL  %s\n      %s\n      %s\n' "$name" "$(sed -n 's/^ *\[FAILED\] //p' "$log" | head -n 1)" "$log"
    fi
}

rm -rf "$state"
mkdir -p "$state/manifests"
[ -n "${KUBECONFIG:-}" ] || cluster
export KUBECONFIG state e2e limit
export -f one
names() { grep -v '^#' "$list" | grep -F -- "$words"; }
[ -n "$(names)" ] || fail "no name in $list has the words $words"
# Those that want the cluster to themselves come last.
{
    names | grep -vF '[Serial]' | tr '\n' '\0' | xargs -0 -r -n 1 -P "$beside" bash -c 'one "$0"'
    names | grep -F '[Serial]' | tr '\n' '\0' | xargs -0 -r -n 1 bash -c 'one "$0"'
} | tee "$state/results"
failed=$(grep -c '^FAIL' "$state/results" || true)
printf '%s of %s conformance tests pass\n' "$(grep -c '^pass' "$state/results" || true)" "$(names | wc -l)"
[ "$failed" = 0 ] || fail "$failed of those that passed do so no longer; one by its words: $0 $e2e 'words of its name'"
