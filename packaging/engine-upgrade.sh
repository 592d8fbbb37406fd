# engine-upgrade.sh: an upgrade of Docker, with and without live-restore: nothing runs twice, nothing restarts that need not, and what
# restarts counts it once. Sourced by test-packages.sh.
#
# The release has one version of each package: dpkg installs it once more, and its scripts do what they do in any upgrade.

engine_pods='{"metadata": {"name": "once"}, "spec": {"restartPolicy": "Never", "volumes": [{"name": "out", "hostPath": {"path": "/srv/out", "type": "DirectoryOrCreate"}}],
    "containers": [{"name": "once", "image": "coracle/demo:1", "command": ["sh", "-c", "echo ran >>/out/once"], "volumeMounts": [{"name": "out", "mountPath": "/out"}]}]}}'

once_has_run() { ask $pods/once | jq -e '.status.phase == "Succeeded"' && inside sh -c 'test "$(cat /srv/out/once)" = ran'; }
# posted_restarted COUNT: it runs, and says that it was restarted so often.
posted_restarted() { ask $pods/posted | jq -e ".status.phase == \"Running\" and .status.containerStatuses[0].ready and .status.containerStatuses[0].restartCount == $1"; }
nothing_runs_twice() {
    inside sh -ec 'all=$(docker ps --format "{{.Label \"io.kubernetes.pod.uid\"}} {{.Label \"io.kubernetes.container.name\"}}"); test -n "$all"; test -z "$(echo "$all" | sort | uniq -d)"'
}
started_engine() { inside systemctl show -p ActiveEnterTimestampMonotonic --value docker; }
# upgrade_engine LIVE_RESTORE
upgrade_engine() {
    local began
    inside sh -ec 'mkdir -p /etc/docker; echo "{\"live-restore\": $1}" >/etc/docker/daemon.json; systemctl reload docker' sh "$1"
    await 10 "live-restore is $1" inside sh -c 'docker info --format "{{.LiveRestoreEnabled}}" | grep -qx "$1"' sh "$1"
    began=$(started_engine)
    inside sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /root/engine/*.deb' >/dev/null || fail "Docker's packages do not install"
    [ "$(started_engine)" != "$began" ] || fail "the upgrade has not restarted Docker"
    await 60 "docker answers" inside docker version
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
    post_pod
    ask -H 'Content-Type: application/json' $pods -d "$engine_pods" >/dev/null
    await 60 "a pod runs" posted_restarted 0
    await 60 "another has run" once_has_run

    before=$(containers)
    upgrade_engine true
    await 60 "the pod of a file answers" pod_answers
    await 60 "the posted pod runs, and has never been restarted" posted_restarted 0
    [ "$(containers)" = "$before" ] || fail "an upgrade of Docker with live-restore has restarted a container"
    await 10 "what has run did not run again" once_has_run

    upgrade_engine false
    await 90 "the pod of a file answers" pod_answers
    await 90 "the posted pod runs, and was restarted once" posted_restarted 1
    await 10 "nothing runs twice" nothing_runs_twice
    await 10 "what has run did not run again" once_has_run
    inside sh -c 'rm -r /etc/docker/daemon.json /srv/out; systemctl reload docker'
    for pod in posted once; do ask -X DELETE $pods/$pod >/dev/null; done
}
