#!/usr/bin/env bash
# test-packages.sh: the packages on a real systemd in a container with a Docker of its own: install, drop a manifest, the
# pod runs; an upgrade of packages whose master was root and that had no common one, restarts of both units, a reboot of the
# machine, and what root does to the data directory keep or bring back everything; an upgrade of Docker restarts once what it
# must; pods find each other beside ufw and firewalld; the commands of the documentation work; each program is alone on a host;
# purge leaves nothing.
#
# The machine is a debootstrapped Debian. It is not --privileged, and the host's cgroups are never mounted into it writable.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
image=coracle-test-packages:4
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
. "$tree/packaging/pages.sh"
. "$tree/packaging/firewalls.sh"
. "$tree/packaging/engine-upgrade.sh"
. "$tree/packaging/secure-port.sh"
clean() { docker rm -f -v "$machine" >/dev/null 2>&1 || true; }
trap clean EXIT

make_image() {
    if docker image inspect "$image" >/dev/null 2>&1; then return; fi
    say "making a Debian $release with systemd and docker.io (debootstrap)"
    local root mirror
    root=$(mktemp -d)
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | awk -v r="$release" '$2 == r { print $1; exit }')
    as_root debootstrap --variant=minbase \
        --include=systemd,systemd-sysv,dbus,init-system-helpers,docker.io,iptables,nftables,iproute2,ca-certificates,curl,busybox-static,procps,jq,rsync,zstd,kubernetes-client,libpam-systemd,openssl,sudo,openssh-server,openssh-client,ufw,firewalld \
        "$release" "$root" "$mirror" >/dev/null
    as_root sh -c 'rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/*' sh "$root"
    as_root chroot "$root" systemctl disable --quiet ufw firewalld ssh
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

# Agents of before had no socket.
pod_answers() { inside sh -c '{ [ ! -e /run/coracle/agent/box.sock ] || curl -sSf -m 5 --unix-socket /run/coracle/agent/box.sock http://localhost/pods | grep -q "\"phase\": *\"Running\""; } && curl -sSf -m 2 http://127.0.0.1:8000/ | grep -q hello'; }
# The packages as they were when the master was root and each had its own program, with the programs of today: made in the machine's
# /root/before. BEFORE names a folder of real ones, built by packaging/deb.sh in a tree of before.
packages_of_before() {
    if [ -n "${BEFORE:-}" ]; then
        inside mkdir -p /root/before
        for deb in "$BEFORE"/*.deb; do docker cp "$deb" "$machine:/root/before/" >/dev/null; done
        return
    fi
    inside sh -ec '
        mkdir -p /root/before
        dpkg-deb -x /root/coracle-common_*.deb /root/common
        for deb in /root/coracle-agent_*.deb /root/coracle-master_*.deb; do
            rm -rf /root/tree && dpkg-deb -R "$deb" /root/tree && cd /root/tree
            sed -i -e "s/^Version: .*/Version: 0.0.1/" -e "s/coracle-common ([^)]*), //" DEBIAN/control
            [ ! -L usr/bin/coracle-agent ] || cp --remove-destination /root/common/usr/bin/coracle usr/bin/coracle-agent
            sed -i -e "/systemd-sysusers/d" -e "/-o coracle-master/d" -e "/statoverride/d" DEBIAN/postinst
            unit=usr/lib/systemd/system/coracle-master.service
            if [ -e $unit ]; then
                sed -i -E "/^(User|Group|ExecStartPre|RuntimeDirectory.*|PrivateUsers|InaccessiblePaths)=/d" $unit
                sed -i "s,^ProtectSystem=strict,&\nReadWritePaths=/run/coracle," $unit
                mkdir -p usr/lib/tmpfiles.d
                printf "d /run/coracle 0755 root root -\nd /run/coracle/master 0700 root root -\n" >usr/lib/tmpfiles.d/coracle-master.conf
                sed -i "2a systemd-tmpfiles --create" DEBIAN/postinst
                rm -r usr/lib/sysusers.d
            else
                chmod 0755 etc/coracle/manifests
            fi
            dpkg-deb --root-owner-group -b . "/root/before/$(basename "$deb")" >/dev/null
        done'
}

# Whose the master's process is.
master_is() { inside sh -c 'stat -c %U "/proc/$(systemctl show -p MainPID --value coracle-master)" | grep -qx "$1"' sh "$1"; }
all_is_the_masters() { inside sh -c 'test -z "$(find /var/lib/coracle/master /run/coracle/master ! -user coracle-master)"'; }
ask() { inside curl -sSf -m 5 --unix-socket /run/coracle/master/api.sock "$@"; }
has_config_map() { ask "http://localhost/api/v1/namespaces/default/configmaps/$1"; }
make_config_map() {
    ask -H 'Content-Type: application/json' -d "{\"metadata\": {\"name\": \"$1\"}}" http://localhost/api/v1/namespaces/default/configmaps >/dev/null
}
pods=http://localhost/api/v1/namespaces/default/pods
post_pod() {
    ask -H 'Content-Type: application/json' $pods >/dev/null \
        -d '{"metadata": {"name": "posted"}, "spec": {"containers": [{"name": "posted", "image": "coracle/demo:1", "command": ["sleep", "100000"]}]}}'
}
posted_runs() { ask $pods/posted | jq -e '.status.phase == "Running" and .status.containerStatuses[0].restartCount == 0'; }
containers() { inside docker ps -q --no-trunc | sort; }
container() { inside docker ps -q --no-trunc --filter label=io.kubernetes.container.name=page; }
mirror_is_there() { inside sh -c 'curl -sSf --unix-socket /run/coracle/master/api.sock http://localhost/api/v1/namespaces/default/pods | grep -q hello-box'; }

make_image
clean
say "booting a machine"
boot
await 60 "systemd is up" inside sh -c 'systemctl is-system-running | grep -qE "running|degraded"'
await 60 "its docker answers" inside docker version
demo_image

install_from() { inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i "$1"/coracle-*.deb' sh "$1" >/dev/null || fail "the packages of $1 do not install"; }

say "installing both packages as they were when the master was root"
for deb in "$tree"/build/deb/*.deb; do docker cp "$deb" "$machine:/root/" >/dev/null; done
packages_of_before
install_from /root/before
await 20 "the master is root" master_is root
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

await 10 "a config map is made" make_config_map kept
await 10 "a pod is posted" post_pod
await 60 "it runs" posted_runs

say "upgrading both packages"
before=$(containers)
install_from /root
for unit in coracle-master coracle-agent; do await 20 "$unit is active and enabled" inside sh -c "systemctl is-active $unit && systemctl is-enabled $unit"; done
await 20 "the master has a user of its own" master_is coracle-master
await 20 "all files are its own" all_is_the_masters
await 20 "the config map is there" has_config_map kept
await 30 "the pod answers" pod_answers
await 30 "the master shows it" mirror_is_there
await 30 "the posted pod runs, and has never been restarted" posted_runs
[ "$(containers)" = "$before" ] || fail "the upgrade has restarted a container"
inside dpkg -s coracle-common >/dev/null || fail "the common package is not there"
[ "$(inside readlink /usr/bin/coracle-agent)" = coracle ] || fail "coracle-agent is not the program of the common package"
inside sh -c 'grep -qx coracle-agent "/proc/$(systemctl show -p MainPID --value coracle-agent)/comm"' || fail "the kernel calls the agent something else"
await 20 "coracle status shows both programs" inside sh -c 'coracle status | tee /root/status | grep -q "^node box" && grep -q "^master: it answers" /root/status'
inside sh -c 'grep -q "default/hello (file)" /root/status && ! grep -q "hello-box" /root/status' || fail "coracle status shows the pod of a file once: $(inside cat /root/status)"
inside coracle logs hello >/dev/null || fail "no log of the pod of a file"
inside coracle logs default/posted >/dev/null || fail "no log of the posted pod"
ask -X DELETE $pods/posted >/dev/null
before=$(container)
[ "$(inside stat -c %a /etc/coracle/manifests)" = 750 ] || fail "/etc/coracle/manifests is open"
[ "$(inside stat -c '%a %U %G' /etc/coracle/apply)" = "2750 root coracle-master" ] || fail "/etc/coracle/apply is not the master's to read"

secure_port

say "what the master may not do"
inside systemd-analyze security --offline=true --threshold=15 /usr/lib/systemd/system/coracle-master.service >/dev/null 2>&1 || fail "the master's unit is too open"
inside systemd-analyze security --offline=true --threshold=55 /usr/lib/systemd/system/coracle-agent.service >/dev/null 2>&1 || fail "the agent's unit is too open"
in_master() { inside sh -c 'nsenter -t "$(systemctl show -p MainPID --value coracle-master)" -m -S "$(id -u coracle-master)" -G "$(id -g coracle-master)" -- sh -c "$1"' sh "$1"; }
in_master 'test -d /run/coracle/agent' || fail "nothing can be tried in the master's place"
for closed in /run/docker.sock /etc/shadow /root /etc/coracle/manifests; do
    ! in_master "test -r $closed" || fail "the master reads $closed"
done
inside sh -c '! setpriv --reuid nobody --regid nogroup --clear-groups curl -sSf -m 5 --unix-socket /run/coracle/master/api.sock http://localhost/healthz 2>/dev/null' ||
    fail "anybody may speak to the master's socket"
inside sh -c 'test "$(readlink "/proc/$(systemctl show -p MainPID --value coracle-agent)/ns/mnt")" = "$(readlink /proc/1/ns/mnt)"' ||
    fail "the agent has a mount namespace of its own"
inside sh -c '! journalctl -u coracle-agent | grep -i "not permitted\|permission denied"' || fail "the agent lacks a capability"
say "ok: what they may not do"

say "what root does to the data directory"
data=/var/lib/coracle/master
inside coracle-master backup /root/running.jsonl >/dev/null || fail "no backup of a running master"
inside coracle-master store flush >/dev/null || fail "no flush of a running master"
inside systemctl stop coracle-master
for words in "backup /root/stopped.jsonl" "store verify" "store fsck" "store flush" "store salvage"; do
    inside coracle-master $words >/dev/null || fail "$words"
    all_is_the_masters || fail "$words leaves files of root"
done
[ "$(inside stat -c %a:%U /root/running.jsonl /root/stopped.jsonl | sort -u)" = 600:root ] || fail "a backup is not root's alone"
# By hand, in a folder that is root's, in a file that nobody else may read.
inside sh -c 'umask 077; mkdir -p "$1/objects/core/configmaps/by-hand" && cd "$1/objects/core/configmaps" &&
    echo "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"edited\"}}" >default/edited.json' sh $data
inside systemctl start coracle-master
await 20 "what root wrote is there" has_config_map edited
await 20 "all files are the master's" all_is_the_masters
inside systemctl stop coracle-master
# Into the directory that the package has made, and into none.
inside sh -c 'cp -a "$1" "$1.old" && rm -rf "$1"/*' sh $data
inside coracle-master restore /root/stopped.jsonl >/dev/null || fail "no restore into the empty directory"
all_is_the_masters || fail "the restore leaves files of root"
inside systemctl start coracle-master
await 20 "what was restored is there" has_config_map kept
inside systemctl stop coracle-master
inside rm -rf $data
inside coracle-master restore /root/running.jsonl >/dev/null || fail "no restore where no directory is"
inside systemctl start coracle-master
await 20 "what was restored is there" has_config_map kept
await 20 "all files are the master's" all_is_the_masters
inside rm -rf $data.old
await 30 "the pod answers" pod_answers
[ "$(container)" = "$before" ] || fail "what was done to the master has restarted the container"

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

engine_upgrade

say "rebooting the machine"
docker restart -t 60 "$machine" >/dev/null
await 60 "systemd is up" inside sh -c 'systemctl is-system-running | grep -qE "running|degraded"'
await 90 "the pod is back after the reboot" pod_answers
await 20 "the master shows it" mirror_is_there

firewalls

purge_leaves_nothing() {
    say "purging the packages"
    inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg --purge coracle-agent coracle-master coracle-common' >/dev/null 2>&1 || fail "the packages do not purge"
    local left
    left=$(inside sh -c 'docker ps -aq; docker network ls -q --filter name=coracle; docker volume ls -q; docker image ls -q coracle/pause
        nft list tables | grep coracle; ip route | grep 10.96
        find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /var/lib/docker \) -prune -o -name "*coracle*" -print
        find /etc/coracle /var/lib/coracle /run/coracle 2>/dev/null' | grep -v -e '^/var/log/' -e '/var/cache/' -e '^/tmp/' || true)
    [ -z "$left" ] || fail "purge leaves behind: $left"
    say "ok: purge leaves nothing"
}
purge_leaves_nothing

say "installing the packages where there were none"
install_from /root
for unit in coracle-master coracle-agent; do await 20 "$unit is active and enabled" inside sh -c "systemctl is-active $unit && systemctl is-enabled $unit"; done
await 20 "all files are the master's" all_is_the_masters

say "following the documentation"
follow_pages
purge_leaves_nothing

# alone NAME LINE: of the two programs this one alone, with the common package.
alone() {
    say "coracle-$1 alone"
    inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /root/coracle-common_*.deb "/root/coracle-$1"_*.deb' sh "$1" >/dev/null || fail "coracle-$1 does not install alone"
    await 20 "coracle status tells of coracle-$1" inside sh -c 'coracle status | grep -q "$1"' sh "$2"
    inside systemctl stop "coracle-$1"
    inside sh -c 'coracle status 2>/root/said; test $? = 3' || fail "coracle status with no program: $(inside cat /root/said)"
    purge_leaves_nothing
}
alone master "^master: it answers"
alone agent "^node box"
echo "1 passed, 0 failed"
