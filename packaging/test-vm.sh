#!/usr/bin/env bash
# test-vm.sh: both packages on a Debian 13 of their own, in a virtual machine without a network: cgroup v2, a current Docker, a real
# systemd. Pods run from a file and from the API; a full disk stops no pod of a file, and heals; `poweroff` ends them in their grace; a
# clock that is put forward and back makes a CronJob run once for what was left out and nothing twice; a clock of 1970 and an engine that
# is late by a minute change nothing; and the plug is pulled CUTS times (50), in the middle of writes and of boots: every object that was
# acknowledged is there afterwards, and every pod runs. Before that a day of trouble in DAY_S seconds (600), see day.sh.
#
# Emulated, a boot takes a minute or less: fifty cuts take about an hour. CUTS=3 DAY_S=60 packaging/test-vm.sh takes some minutes.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
cuts=${CUTS:-50}

as_root() { if [ "$(id -u)" = 0 ]; then command "$@"; else sudo "$@"; fi; }
say() { printf '%s\n' "$*"; }
fail() {
    printf 'test-vm: %s\n' "$*" >&2
    vm "$ask $api/pods | jq -c '.items[] | [.metadata.name, .status.phase, .status.containerStatuses[0].state]'" >&2 || true
    vm 'journalctl -n 60 --no-pager -o cat -u coracle-master -u coracle-agent -u docker' >&2 || tail -n 20 "$vm_dir/console.log" >&2 || true
    exit 1
}
# await SECONDS WHAT COMMAND...
await() {
    local limit=$1 what=$2 end
    shift 2
    end=$((SECONDS + limit))
    while [ "$SECONDS" -lt "$end" ]; do
        if "$@" >/dev/null 2>&1; then say "ok: $what"; return; fi
        sleep 1
    done
    fail "$what: not after $limit s"
}
# is WHAT COMMAND...: true at once.
is() {
    local what=$1
    shift
    "$@" >/dev/null || fail "not so: $what"
    say "ok: $what"
}
. "$tree/packaging/vm.sh"
. "$tree/packaging/day.sh"
trap vm_cut EXIT

ask="curl -sSf -m 20 --unix-socket /run/coracle/master/api.sock -H Content-Type:application/json"
api=http://localhost/api/v1/namespaces/default
apps=http://localhost/apis/apps/v1/namespaces/default

# What shall run: a pod of a file with a host port, and one that writes down how it begins and ends.
write_manifests() {
    vm 'mkdir -p /srv/log && cat >/etc/coracle/manifests/hello.yaml <<TEXT
{apiVersion: v1, kind: Pod, metadata: {name: hello}, spec: {containers: [{name: page, image: "coracle/demo:1", ports: [{containerPort: 80, hostPort: 8000}],
  command: [sh, -c, "mkdir -p /www && echo hello > /www/index.html && exec httpd -f -p 80 -h /www"]}]}}
TEXT
cat >/etc/coracle/manifests/diary.yaml <<TEXT
apiVersion: v1
kind: Pod
metadata: {name: diary}
spec:
  terminationGracePeriodSeconds: 60
  volumes: [{name: log, hostPath: {path: /srv/log}}]
  containers:
    - name: diary
      image: "coracle/demo:1"
      volumeMounts: [{name: log, mountPath: /log}]
      command: [sh, -c, "echo begins >> /log/diary; trap \"sleep 3; echo ends >> /log/diary; sync; exit 0\" TERM; while :; do sleep 1; done"]
      lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 2; echo prestop >> /log/diary"]}}}
TEXT'
}

# A Deployment of two behind a Service, on a claim of the class `local`; a pod that takes more memory than it may,
# once containerd listens: it does not hear of one that is killed in its first moment.
post_objects() {
    vm "$ask -d @- $api/persistentvolumeclaims" <<'TEXT' >/dev/null
{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}}
TEXT
    vm "$ask -d @- $apps/deployments" <<'TEXT' >/dev/null
{"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
 "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}], "containers": [{"name": "web", "image": "coracle/demo:1",
 "command": ["httpd", "-f", "-p", "80", "-h", "/data"], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
 "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "echo served > /data/index.html"]}}},
 "readinessProbe": {"httpGet": {"path": "/index.html", "port": 80}, "timeoutSeconds": 10}}]}}}}
TEXT
    vm "$ask -d @- $api/services" <<'TEXT' >/dev/null
{"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "10.96.0.80"}}
TEXT
    vm "$ask -d @- $api/pods" <<'TEXT' >/dev/null
{"metadata": {"name": "greedy"}, "spec": {"restartPolicy": "Never", "containers": [{"name": "greedy", "image": "coracle/demo:1",
 "command": ["sh", "-c", "sleep 5; exec dd if=/dev/zero of=/dev/null bs=200M count=1"], "resources": {"limits": {"memory": "32Mi"}}}]}}
TEXT
}

hello_answers() { vm 'curl -sSf -m 10 http://127.0.0.1:8000/ | grep -qx hello'; }
service_answers() { vm 'curl -sSf -m 10 http://10.96.0.80/ | grep -qx served'; }
both_ready() { vm "test \"\$($ask $apps/deployments/web | jq .status.readyReplicas)\" = 2"; }
diary_says() { vm "test \"\$(tr '\n' ' ' </srv/log/diary)\" = '$1 '"; }
# Of each container one runs, and no dead one was begun beside it by a second hand.
nothing_runs_twice() {
    vm 'set -e; all=$(docker ps --format "{{.Label \"io.kubernetes.pod.uid\"}} {{.Label \"io.kubernetes.container.name\"}}"); test -n "$all"; test -z "$(echo "$all" | sort | uniq -d)"'
}
all_runs() {
    await 300 "the pod of a file answers" hello_answers
    await 300 "the deployment is ready" both_ready
    await 60 "its service answers" service_answers
    is "nothing runs twice" nothing_runs_twice
}

say "making the machine's disk"
vm_disk
say "booting"
vm_boot
is "cgroups are of version 2" vm 'test "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs'
say "docker $(vm "docker version --format '{{.Server.Version}}'"), $(vm 'uname -r'), $(vm "systemctl --version | head -n 1")"
for unit in coracle-master coracle-agent; do await 120 "$unit is active" vm "systemctl is-active $unit"; done
write_manifests
await 120 "the API answers" vm "$ask http://localhost/readyz"
post_objects
all_runs

terminated() { vm "$ask $api/pods/greedy | jq -e '.status.containerStatuses[0].state.terminated.reason == \"$1\"'"; }
await 120 "a container that takes more memory than it may is OOMKilled" terminated OOMKilled
oom_score() { vm "docker inspect -f '{{.HostConfig.OomScoreAdj}}' \$(docker ps -q --filter label=io.kubernetes.container.name=$1 | head -n 1) | grep -qx -e $2"; }
is "the kernel ends what asks for nothing first" oom_score page 1000
is "the kernel ends a sandbox last" oom_score POD -998
is "figures are read from cgroup v2" vm 'curl -sSf --unix-socket /run/coracle/agent/box.sock http://localhost/metrics/resource |
    grep -q "^container_memory_working_set_bytes.*container=\"page\""'
is "a command runs in a pod" vm 'coracle-agent exec hello -- cat /www/index.html | grep -qx hello'
is "doctor finds nothing in the way" vm 'coracle-agent doctor'
await 60 "the diary has begun" diary_says begins

disk_pressure() { vm "$ask http://localhost/api/v1/nodes/box | jq -e '.status.conditions[] | select(.type == \"DiskPressure\").status == \"$1\"'"; }
post_config_map() { vm "$ask -d '{\"metadata\": {\"name\": \"$1\"}}' $api/configmaps"; }
say "filling the disk"
vm 'head -c 100G /dev/zero >/srv/fill || true; sync'
await 60 "the node says that its disk is full" disk_pressure True
is "the pod of a file answers" hello_answers
is "the master answers" vm "$ask $api/configmaps"
# What the file system keeps for root may still take a write or two.
for n in $(seq 40); do post_config_map "full-$n" 2>/dev/null || break; done
is "status tells of it" vm 'coracle-agent status | grep -i disk'
vm 'rm /srv/fill; sync'
await 60 "what is written is taken again" post_config_map healed
await 420 "the node's disk is well again" disk_pressure False
all_runs

say "powering off"
vm 'systemctl poweroff' || true
vm_off 600
vm_boot
all_runs
await 120 "the diary has ended in its grace, preStop first, and begun again" diary_says 'begins prestop ends begins'

# A CronJob of each minute over a clock that is set: one Job makes up for what was left out, none runs twice.
batch=http://localhost/apis/batch/v1/namespaces/default
due='[.items[].metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] // empty | fromdateiso8601]'
job_is_due() { vm "$ask $batch/jobs | jq -e --argjson now \$(date +%s) '$due | any(. > \$now - 120 and . <= \$now)'"; }
due_count() { vm "$ask $batch/jobs | jq '$due | length'"; }
none_twice() { vm "$ask $batch/jobs | jq -e '$due | length > 0 and length == (unique | length)'"; }
last_is_told() { vm "last=\$($ask $batch/cronjobs/tick | jq '.status.lastScheduleTime | fromdateiso8601') && $ask $batch/jobs | jq -e --argjson last \$last '$due | max == \$last'"; }
# set_clock WHAT BY MORE: so many Jobs come of it at most, and one for each minute that a slow machine takes.
set_clock() {
    local what=$1 by=$2 more=$3 before begun=$SECONDS
    before=$(due_count)
    vm "date -s '$by'"
    await 150 "$what: a cron job is due" job_is_due
    is "$what: it made up for what was left out once" test "$(($(due_count) - before))" -le "$((more + (SECONDS - begun) / 60))"
    is "$what: no minute ran twice" none_twice
    await 60 "$what: the last one is told" last_is_told
}
say "setting the clock"
vm "$ask -d @- $batch/cronjobs" <<'TEXT' >/dev/null
{"metadata": {"name": "tick"}, "spec": {"schedule": "* * * * *", "successfulJobsHistoryLimit": 100, "jobTemplate": {"spec": {"template": {"spec":
 {"restartPolicy": "Never", "containers": [{"name": "tick", "image": "coracle/demo:1", "command": ["true"]}]}}}}}}
TEXT
await 150 "a cron job is due" job_is_due
set_clock "an hour forward" '+1 hour' 4
set_clock "a day forward" '+1 day' 4
before=$(due_count)
vm "date -s '-1 hour'"
# Nothing tells of what does not come: more than a minute has to pass.
sleep 90
is "an hour back: nothing ran again" test "$(due_count)" -le "$((before + 1))"
is "an hour back: no minute ran twice" none_twice
set_clock "an hour forward again" '+1 hour' 5
all_runs

say "booting with a clock of 1970 and an engine that is late by a minute"
vm 'mkdir -p /etc/systemd/system/docker.service.d && printf "[Service]\nExecStartPre=/bin/sleep 60\n" >/etc/systemd/system/docker.service.d/late.conf; systemctl poweroff' || true
vm_off 600
vm_boot -rtc base=1970-01-01T00:10:00
all_runs
is "no cron job is due in 1970" vm "$ask $batch/jobs | jq -e '$due | length > 0 and min > 1767225600'"
# Further on than the clock was before.
vm "date -s @$(($(date +%s) + 172800))"
await 150 "a cron job is due once the clock is set" job_is_due
is "no minute ran twice" none_twice
vm "$ask -X DELETE $batch/cronjobs/tick"
vm 'rm -r /etc/systemd/system/docker.service.d; systemctl daemon-reload; sync'

if [ "${DAY_S:-600}" -gt 0 ]; then day "${DAY_S:-600}"; fi

# Makes config maps until the plug is pulled, and says the name of each that was acknowledged.
write_until_cut() {
    vm "n=0; while :; do n=\$((n + 1)); $ask -d '{\"metadata\": {\"name\": \"cut-$1-'\$n'\"}}' $api/configmaps >/dev/null && echo cut-$1-\$n; done" || true
}
acknowledged=$vm_dir/acknowledged
: >"$acknowledged"
for cut in $(seq "$cuts"); do
    seconds=$((RANDOM % 20))
    if [ $((cut % 3)) = 0 ]; then
        say "cut $cut: $seconds s after power on"
        vm_cut
        vm_start
        sleep "$seconds"
    else
        say "cut $cut: after $seconds s of writes"
        write_until_cut "$cut" >>"$acknowledged" &
        writer=$!
        sleep "$seconds"
    fi
    vm_cut
    if [ -n "${writer:-}" ]; then wait "$writer" || true; writer=; fi
    vm_boot
    await 120 "the API answers" vm "$ask http://localhost/readyz"
    vm "$ask $api/configmaps" | jq -r '.items[].metadata.name' | sort >"$vm_dir/there"
    # The last line may be cut off.
    lost=$(grep -E '^cut-[0-9]+-[0-9]+$' "$acknowledged" | sort | comm -23 - "$vm_dir/there" | head -n 3)
    [ -z "$lost" ] || fail "acknowledged and lost: $lost"
    say "ok: all $(grep -c . "$acknowledged" || true) acknowledged objects are there"
    all_runs
done
is "the store is whole" vm 'coracle-master status >/tmp/status && ! grep -i damaged /tmp/status'
say "test-vm: all of it, with $cuts cuts"
