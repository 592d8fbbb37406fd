# engine-upgrade.sh: an upgrade of Docker, and a restart of it with and without live-restore: nothing runs twice, nothing restarts that
# need not, and what restarts counts it once. Sourced by test-packages.sh.
#
# The release has one version of each package: dpkg installs it once more, and its scripts do what they do in any upgrade. Debian's restart
# containerd and leave Docker running; Docker's own packages restart both.

engine_pods() {
    cat <<'TEXT'
{"metadata": {"name": "serves"}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "serves", "image": "coracle/demo:1", "command": ["sleep", "100000"]}]}}
{"metadata": {"name": "once"}, "spec": {"restartPolicy": "Never", "volumes": [{"name": "out", "hostPath": {"path": "/srv/out", "type": "DirectoryOrCreate"}}], "containers": [{"name": "once", "image": "coracle/demo:1", "command": ["sh", "-c", "echo ran >>/out/once"], "volumeMounts": [{"name": "out", "mountPath": "/out"}]}]}}
TEXT
}

once_has_run() { ask $pods/once | jq -e '.status.phase == "Succeeded"' && inside sh -c 'test "$(cat /srv/out/once)" = ran'; }
# restarted COUNT: it runs, and says that it was restarted so often.
restarted() { ask $pods/serves | jq -e ".status.phase == \"Running\" and .status.containerStatuses[0].ready and .status.containerStatuses[0].restartCount == $1"; }
nothing_runs_twice() {
    inside sh -ec 'all=$(docker ps --format "{{.Label \"io.kubernetes.pod.uid\"}} {{.Label \"io.kubernetes.container.name\"}}"); test -n "$all"; test -z "$(echo "$all" | sort | uniq -d)"'
}
started() { inside systemctl show -p ActiveEnterTimestampMonotonic --value "$1"; }
install_engine() {
    local began
    began=$(started containerd)
    inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /root/engine/*.deb' >/dev/null 2>&1 || fail "Docker's packages do not install"
    [ "$(started containerd)" != "$began" ] || fail "the upgrade has not restarted containerd"
    await 60 "docker answers" inside docker version
}
# restart_engine LIVE_RESTORE
restart_engine() {
    inside sh -ec 'mkdir -p /etc/docker; echo "{\"live-restore\": $1}" >/etc/docker/daemon.json; systemctl reload docker' sh "$1"
    await 10 "live-restore is $1" inside sh -c 'docker info --format "{{.LiveRestoreEnabled}}" | grep -qx "$1"' sh "$1"
    inside systemctl restart docker
    await 60 "docker answers" inside docker version
}
# nothing_restarted CONTAINERS WHAT
nothing_restarted() {
    await 60 "the pod of a file answers" pod_answers
    await 60 "the pod of the API runs, and has never been restarted" restarted 0
    [ "$(containers)" = "$1" ] || fail "$2 has restarted a container"
    await 10 "what has run did not run again" once_has_run
}

engine_upgrade() {
    local debs before
    say "upgrading Docker"
    debs=$(mktemp -d)
    chmod 755 "$debs"
    (cd "$debs" && as_root apt-get -qq -o APT::Sandbox::User=root download docker.io containerd runc)
    inside mkdir -p /root/engine
    for deb in "$debs"/*.deb; do docker cp "$deb" "$machine:/root/engine/" >/dev/null; done
    as_root rm -r "$debs"
    engine_pods | while read -r pod; do ask -H 'Content-Type: application/json' $pods -d "$pod" </dev/null >/dev/null; done
    await 60 "a pod runs" restarted 0
    await 60 "another has run" once_has_run

    before=$(containers)
    install_engine
    nothing_restarted "$before" "an upgrade of Docker"
    restart_engine true
    nothing_restarted "$before" "a restart of Docker with live-restore"
    restart_engine false
    await 90 "the pod of a file answers" pod_answers
    await 90 "the pod of the API runs, and was restarted once" restarted 1
    await 10 "nothing runs twice" nothing_runs_twice
    await 10 "what has run did not run again" once_has_run
    inside sh -c 'rm -r /etc/docker/daemon.json /srv/out; systemctl reload docker'
    for pod in serves once; do ask -X DELETE $pods/$pod >/dev/null; done
}
