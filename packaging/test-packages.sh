#!/usr/bin/env bash
# test-packages.sh: both packages on a real systemd in a container with a Docker of its own: install, drop a manifest, the pod
# runs; restarts of both units and a reboot of the machine keep or bring back everything; purge leaves nothing.
#
# The machine is a debootstrapped Debian. It is not --privileged, and the host's cgroups are never mounted into it writable.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
image=coracle-test-packages:1
machine=coracle-test-packages
release=$(. /etc/os-release && echo "$VERSION_CODENAME")

as_root() { if [ "$(id -u)" = 0 ]; then command "$@"; else sudo "$@"; fi; }
docker() { as_root docker "$@"; }
say() { printf '%s\n' "$*"; }
inside() { docker exec "$machine" "$@"; }
fail() {
    printf 'test-packages: %s\n' "$*" >&2
    inside journalctl -n 40 --no-pager -u coracle-master -u coracle-agent >&2 || true
    exit 1
}
# await SECONDS WHAT COMMAND...
await() {
    local limit=$1 what=$2
    shift 2
    for _ in $(seq 1 $((limit * 5))); do
        if "$@" >/dev/null 2>&1; then say "ok: $what"; return; fi
        sleep 0.2
    done
    fail "$what: not after $limit s"
}
clean() { docker rm -f -v "$machine" >/dev/null 2>&1 || true; }
trap clean EXIT

make_image() {
    if docker image inspect "$image" >/dev/null 2>&1; then return; fi
    say "making a Debian $release with systemd and docker.io (debootstrap)"
    local root mirror
    root=$(mktemp -d)
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | awk -v r="$release" '$2 == r { print $1; exit }')
    as_root debootstrap --variant=minbase \
        --include=systemd,systemd-sysv,dbus,init-system-helpers,docker.io,iptables,nftables,iproute2,ca-certificates,curl,busybox-static,procps \
        "$release" "$root" "$mirror" >/dev/null
    as_root sh -c 'rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/*' sh "$root"
    # Debian's docker.io starts by itself under this systemd, as on a real machine.
    as_root tee "$root/start" >/dev/null <<'TEXT'
#!/bin/sh
mount --make-rshared /
mount -o remount,rw,bind /sys/fs/cgroup
for m in /sys/fs/cgroup/*; do mount -o remount,rw,bind "$m" 2>/dev/null; done
exec /sbin/init
TEXT
    as_root chmod +x "$root/start"
    as_root tar -C "$root" --exclude=./proc --exclude=./sys -c . | docker import - "$image" >/dev/null
    as_root rm -rf "$root"
}

boot() {
    docker run -d --name "$machine" --hostname box --cgroupns=private --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_PTRACE --cap-add MKNOD \
        --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined \
        --tmpfs /run --tmpfs /tmp --stop-signal SIGRTMIN+3 -v /var/lib/docker "$image" /start >/dev/null
}

demo_image() {
    inside sh -c 'mkdir -p /root/image/bin && cp /bin/busybox /root/image/bin/ && cd /root/image/bin &&
        for a in $(./busybox --list); do [ "$a" = busybox ] || ln -sf busybox "$a"; done &&
        tar -C /root/image -c . | docker import --change "ENV PATH=/bin" - coracle/demo:1 >/dev/null'
}

pod_answers() { inside sh -c 'curl -sSf -m 5 --unix-socket /run/coracle/agent/box.sock http://localhost/pods | grep -q "\"phase\": *\"Running\"" && curl -sSf -m 2 http://127.0.0.1:8000/ | grep -q hello'; }
container() { inside docker ps -q --no-trunc --filter label=io.kubernetes.container.name=page; }
mirror_is_there() { inside sh -c 'curl -sSf --unix-socket /run/coracle/master/api.sock http://localhost/api/v1/namespaces/default/pods | grep -q hello-box'; }

make_image
clean
say "booting a machine"
boot
await 60 "systemd is up" inside sh -c 'systemctl is-system-running | grep -qE "running|degraded"'
await 60 "its docker answers" inside docker version
demo_image

say "installing both packages"
for deb in "$tree"/build/deb/*.deb; do docker cp "$deb" "$machine:/root/" >/dev/null; done
inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /root/coracle-*.deb' >/dev/null || fail "the packages do not install"
for unit in coracle-master coracle-agent; do await 20 "$unit is active and enabled" inside sh -c "systemctl is-active $unit && systemctl is-enabled $unit"; done
inside sh -c 'ss -tln 2>/dev/null | grep -q ":8080 "' && fail "the master's plain port must be off"

inside sh -c 'cat >/etc/coracle/manifests/hello <<TEXT
version: v1beta2
id: hello
containers:
  - name: page
    image: coracle/demo:1
    command: ["sh", "-c", "mkdir -p /www && echo hello > /www/index.html && exec httpd -f -p 80 -h /www"]
    ports: [{containerPort: 80, hostPort: 8000}]
TEXT'
await 60 "the pod of a dropped manifest answers on its host port" pod_answers
await 20 "the master shows it" mirror_is_there
await 10 "systemctl status says it in words" inside sh -c 'systemctl status coracle-agent | grep -q "Status:.*run"'

before=$(container)
inside systemctl restart coracle-agent coracle-master
await 30 "both are active after a restart" inside sh -c 'systemctl is-active coracle-master coracle-agent'
await 30 "the pod answers after the restart" pod_answers
[ "$(container)" = "$before" ] || fail "the restart of the units has restarted the container"
say "ok: the container is the same"

inside systemctl stop coracle-agent
inside test -S /run/coracle/master/api.sock || fail "stopping the agent took the master's socket"
[ "$(container)" = "$before" ] || fail "stopping the agent has stopped the container"
inside systemctl start coracle-agent
say "ok: stopping the agent leaves the container and the master's socket alone"

say "rebooting the machine"
docker restart -t 60 "$machine" >/dev/null
await 60 "systemd is up" inside sh -c 'systemctl is-system-running | grep -qE "running|degraded"'
await 90 "the pod is back after the reboot" pod_answers
await 20 "the master shows it" mirror_is_there

say "purging both packages"
inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg --purge coracle-agent coracle-master' >/dev/null 2>&1 || fail "the packages do not purge"
left=$(inside sh -c 'docker ps -aq; docker network ls -q --filter name=coracle; docker volume ls -q; docker image ls -q coracle/pause
    nft list tables | grep coracle; ip route | grep 10.96
    find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /var/lib/docker \) -prune -o -name "*coracle*" -print
    ls -d /etc/coracle /var/lib/coracle /run/coracle 2>/dev/null' | grep -v -e '^/var/log/' -e '/var/cache/' -e '^/tmp/' || true)
[ -z "$left" ] || fail "purge leaves behind: $left"
say "ok: purge leaves nothing"
echo "1 passed, 0 failed"
