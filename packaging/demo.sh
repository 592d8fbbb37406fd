#!/usr/bin/env bash
# demo.sh run:  the whole product on this machine: both programs, a pod from a manifest file, a Deployment and a Service from
#               POSTs, all of it checked; returns and leaves it running. Exits non-zero unless every pod answered.
# demo.sh stop: takes all of that away again.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
state=$tree/build/run                    # data, manifests and logs
sockets=/run/coracle-demo                # short enough for a socket's path
agent=$sockets/agent/$(uname -n | tr '[:upper:]' '[:lower:]').sock
image=coracle/demo:1
export PATH=$PATH:/usr/sbin:/sbin
source "$tree/packaging/sweep.sh"

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
say() { printf '%s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
begun=$(date +%s%N)
clock() { printf '%6.2f s  ' "$(( ($(date +%s%N) - begun) / 10000000 ))e-2"; }

free_port() {
    for port in $(seq "$1" $(($1 + 20))); do
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$port"; return; fi
    done
    fail "no free port between $1 and $(($1 + 20))"
}

# A tar of Debian's static busybox and a link for each applet, imported: no registry is asked.
make_image() {
    if as_root docker image inspect "$image" >/dev/null 2>&1; then return; fi
    say "making the image $image of Debian's busybox-static"
    local root
    root=$(mktemp -d)
    mkdir -p "$root/bin" "$root/tmp" "$root/etc"
    cp /bin/busybox "$root/bin/busybox"
    for applet in $(/bin/busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"; done
    echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
    tar -C "$root" -c . | as_root docker import --change 'CMD ["sh"]' --change 'ENV PATH=/bin' - "$image" >/dev/null
    rm -rf "$root"
}

# start NAME FLAG...: one of our programs in the background, its log in the state folder.
start() {
    local name=$1
    shift
    as_root sh -c 'log=$1 pid=$2; shift 2; setsid "$@" >>"$log" 2>&1 </dev/null & echo $! >"$pid"' \
        start "$state/$name.log" "$sockets/$name.pid" "$tree/target/release/coracle-$name" "$@"
}

alive() { as_root kill -0 "$(as_root cat "$sockets/$1.pid")" 2>/dev/null; }

# await SECONDS WHAT COMMAND...: until the command succeeds.
await() {
    local limit=$1 what=$2
    shift 2
    for _ in $(seq 1 $((limit * 20))); do
        if "$@" >/dev/null 2>&1; then return; fi
        for name in master agent; do
            if [ -e "$sockets/$name.pid" ] && ! alive "$name"; then
                tail -n 5 "$state/$name.log" >&2
                fail "coracle-$name has ended; its log: $state/$name.log"
            fi
        done
        sleep 0.05
    done
    tail -n 20 "$state/agent.log" >&2 || true
    fail "$what: not after $limit s; the logs are in $state"
}

get() { curl -sSf -m 5 "http://127.0.0.1:$api/api/v1/namespaces/default/$1"; }

# post FILE GROUP/VERSION RESOURCE
post() {
    curl -sSf -m 5 -X POST -H 'Content-Type: application/json' --data-binary "@$1" \
        "http://127.0.0.1:$api/$2/namespaces/default/$3" >/dev/null
}

pods_of() { get "pods?labelSelector=app%3D$1" | jq -r '.items[] | select(.status.phase == "Running") | .status.podIP // empty'; }
# The agent's pods: on its socket, for root alone.
agent_pods() { as_root curl -sSf -m 5 --unix-socket "$agent" http://localhost/pods; }
file_pod_ip() { agent_pods | jq -r '.items[] | select(.metadata.name | startswith("demo")) | select(.status.phase == "Running") | .status.podIP // empty'; }

page() { curl -sSf -m 2 "http://$1/"; }
two_web_pods_answer() {
    local ips
    ips=$(pods_of web)
    [ "$(wc -w <<<"$ips")" = 2 ] || return 1
    for ip in $ips; do page "$ip:8080"; done
}
file_pod_answers() {
    local ip
    ip=$(file_pod_ip)
    [ -n "$ip" ] && page "$ip:8080"
}
service_ip() { get services/web | jq -r .spec.clusterIP; }
service_answers() { page "$(service_ip)"; }

run() {
    "$tree/packaging/prerequisites.sh" engine demo
    "$tree/packaging/engine.sh" start
    if [ -e "$sockets/agent.pid" ]; then
        say "an earlier demonstration is here: stopping it first"
        stop_programs
    fi
    say "building (cargo build --release)"
    (cd "$tree" && cargo build --release -q -p coracle-master -p coracle-agent)
    make_image
    mkdir -p "$state/manifests"
    as_root mkdir -p -m 0755 "$sockets"
    api=$(free_port 8080)
    node=$(free_port 10250)

    begun=$(date +%s%N)
    say "starting the master on 127.0.0.1:$api and the agent on 127.0.0.1:$node"
    start master --data-dir "$state/master" --admin-socket "$sockets/master/api.sock" --listen "127.0.0.1:$api" \
        --agent-sockets "$sockets/agent"
    start agent --data-dir "$state/agent" --manifest-dir "$state/manifests" --master "unix://$sockets/master/api.sock" \
        --listen "127.0.0.1:$node" --socket-dir "$sockets/agent" --eviction-hard "memory.available<1Mi"
    await 20 "the master" curl -sSf -m 2 "http://127.0.0.1:$api/healthz"
    clock; say "the master answers"
    await 20 "the agent" curl -sSf -m 2 "http://127.0.0.1:$node/healthz"
    clock; say "the agent answers"

    cp "$tree/packaging/demo/demo.yaml" "$state/manifests/demo.yaml"
    clock; say "put the file of a pod into $state/manifests"
    post "$tree/packaging/demo/web-deployment.json" apis/apps/v1 deployments
    post "$tree/packaging/demo/web-service.json" api/v1 services
    clock; say "posted a Deployment of two pods and a Service"

    await 60 "the pod of the manifest file" file_pod_answers
    clock; say "the pod of the manifest file answers at $(file_pod_ip):8080: $(page "$(file_pod_ip):8080")"
    await 60 "the pods of the Deployment" two_web_pods_answer
    clock; say "both pods of the Deployment answer at $(pods_of web | tr '\n' ' ')"
    await 30 "the address of the Service" service_answers
    clock; say "the Service answers at $(service_ip):80: $(service_answers)"
    instructions
}

instructions() {
    local sudo= programs=$tree/target/release
    [ "$(id -u)" = 0 ] || sudo="sudo "
    cat <<TEXT

It is left running. How is it?
  ${sudo}$programs/coracle-agent status --socket-dir $sockets/agent --manifest-dir $state/manifests
  ${sudo}$programs/coracle-master status --admin-socket $sockets/master/api.sock --data-dir $state/master
To look at it:
  curl http://$(service_ip)/
  curl http://127.0.0.1:$api/api/v1/namespaces/default/pods
  curl http://127.0.0.1:$api/api/v1beta1/services/web    (the same Service in the API of 2014)
  ${sudo}docker ps
  tail $state/master.log $state/agent.log
  ${sudo}$programs/coracle-master store flush --admin-socket $sockets/master/api.sock --data-dir $state/master
  ${sudo}ls -R $state/master/objects    (the objects as files, up to date after that flush)
TEXT
    if command -v kubectl >/dev/null 2>&1; then
        cat <<TEXT
  kubectl -s http://127.0.0.1:$api get deployments,pods,services,nodes -o wide
  kubectl -s http://127.0.0.1:$api exec deployment/web -- ps
TEXT
    fi
    cat <<TEXT
To change it:
  edit $state/manifests/demo.yaml    (just what changed is replaced)
TEXT
    if command -v kubectl >/dev/null 2>&1; then
        cat <<TEXT
  kubectl -s http://127.0.0.1:$api delete pod -l app=web    (the Deployment makes others)
TEXT
    fi
    cat <<TEXT
To stop it and take it all away:
  make stop
TEXT
}

stop_programs() {
    for name in agent master; do
        [ -e "$sockets/$name.pid" ] || continue
        if alive "$name"; then
            as_root kill "$(as_root cat "$sockets/$name.pid")"
            for _ in $(seq 1 200); do alive "$name" || break; sleep 0.05; done
        fi
        as_root rm -f "$sockets/$name.pid"
    done
}

remove_as_root() { as_root bash -c 'source "$1"; shift; remove_tree "$@"' remove "$tree/packaging/remove.sh" "$@"; }

stop() {
    stop_programs
    if as_root timeout 10 docker version >/dev/null 2>&1; then
        as_root bash -c 'source "$1"; sweep' sweep "$tree/packaging/sweep.sh"
        as_root docker image rm "$image" >/dev/null 2>&1 || true
    fi
    # What pods mounted of Secrets and tokens lies in memory; another agent may have its own there.
    if ! pgrep -x coracle-agent >/dev/null; then
        as_root sh -c 'grep -o " /run/coracle/volumes/[^ ]*" /proc/mounts | sort -r | xargs -r umount; rm -f /run/coracle/engine-*.lock' || true
        remove_as_root /run/coracle/volumes
    fi
    remove_as_root "$state" "$sockets"
    "$tree/packaging/engine.sh" stop
    say "stopped and taken away. The Debian packages that it needs stay: docker.io nftables iproute2 iptables busybox-static curl jq"
}

case ${1:-} in
    run) run ;;
    stop) stop ;;
    *) echo "usage: demo.sh run|stop" >&2; exit 2 ;;
esac
