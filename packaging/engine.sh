#!/usr/bin/env bash
# engine.sh start: makes sure that a Docker engine answers; uses what is there, else starts dockerd (by systemd where it
#                  runs, else in the background) and notes that in the state file.
# engine.sh stop:  stops the dockerd that `start` started, and only that.
set -euo pipefail
state=${CORACLE_ENGINE_STATE:-/run/coracle-engine.started}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
answers() { as_root timeout 10 docker version >/dev/null 2>&1; }

# A dockerd that was killed leaves pid files behind, and the next start refuses because of them, also where the number belongs to
# another process by now, or to a dead one that nobody has collected.
clear_stale() {
    local file pid
    for file in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
        [ -e "$file" ] || continue
        pid=$(as_root cat "$file")
        if grep -qE '^(dockerd|containerd)$' "/proc/$pid/comm" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null; then continue; fi
        echo "removing $file of a process that is gone"
        as_root rm -f "$file"
    done
}

start() {
    if answers; then return; fi
    if [ -d /run/systemd/system ]; then
        echo "starting docker by systemd"
        as_root systemctl start docker
        echo systemd | as_root tee "$state" >/dev/null
    else
        clear_stale
        echo "starting dockerd in the background (log: /var/log/coracle-dockerd.log)"
        as_root sh -c 'setsid dockerd >/var/log/coracle-dockerd.log 2>&1 </dev/null & echo $! >'"$state"
    fi
    for _ in $(seq 1 120); do
        if answers; then return; fi
        sleep 0.5
    done
    echo "no engine answers after 60 s; look at /var/log/coracle-dockerd.log or 'journalctl -u docker'" >&2
    exit 1
}

stop() {
    [ -e "$state" ] || return 0
    local how
    how=$(cat "$state")
    if [ "$how" = systemd ]; then
        echo "stopping docker, which make run started"
        as_root systemctl stop docker docker.socket
    elif as_root kill -0 "$how" 2>/dev/null; then
        echo "stopping the dockerd that make run started"
        as_root kill "$how"
        for _ in $(seq 1 60); do as_root kill -0 "$how" 2>/dev/null || break; sleep 0.5; done
    fi
    as_root rm -f "$state"
}

case ${1:-} in
    start) start ;;
    stop) stop ;;
    *) echo "usage: engine.sh start|stop" >&2; exit 2 ;;
esac
