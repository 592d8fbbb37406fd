# day.sh: a day of a box in some minutes. Sourced by test-vm.sh, whose words it uses: vm, say, fail, await, is, ask, api, apps.
#
#   day SECONDS         edits, kills, restarts of the engine, jumps of the clock, a full disk, pulls that hang and load, one after the
#                       other by chance (DAY_SEED says which); then quiet, and a look at the history of every container
#
# Each container writes its name into one file every second and reads it again, so that two of one pod that live at once find each other;
# it writes down with which value it began. What may run once only is counted.

day_pods=3
day_value=0       # of the newest edit
day_once=0        # pods that run once
declare -A day_wanted

# day_file N: the manifest of pod day-N, with a value of its own.
day_file() {
    day_value=$((day_value + 1))
    day_wanted[$1]=$day_value
    vm "cat >/etc/coracle/manifests/.day && mv /etc/coracle/manifests/.day /etc/coracle/manifests/day-$1.yaml" <<TEXT
{apiVersion: v1, kind: Pod, metadata: {name: day-$1}, spec: {terminationGracePeriodSeconds: 5, volumes: [{name: log, hostPath: {path: /srv/log}}],
  containers: [{name: day, image: "coracle/demo:1", env: [{name: VALUE, value: "$day_value"}], volumeMounts: [{name: log, mountPath: /log}], command: [sh, -c,
    "until echo \$VALUE >/log/day-$1.now; do sleep 1; done; trap 'exit 0' TERM; id=\$(cat /proc/sys/kernel/random/uuid);
     while echo \$id >/log/day-$1.beat; sleep 1; do seen=\$(cat /log/day-$1.beat); case \$seen in ''|\$id) ;; *) echo day-$1 >>/log/twice;; esac; done"]}]}}
TEXT
}

day_post_once() {
    day_once=$((day_once + 1))
    vm "$ask -d @- $api/pods" <<TEXT >/dev/null || day_once=$((day_once - 1))
{"metadata": {"name": "once-$day_once", "labels": {"day": "once"}}, "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
 "volumes": [{"name": "log", "hostPath": {"path": "/srv/log"}}], "containers": [{"name": "once", "image": "coracle/demo:1",
 "command": ["sh", "-c", "echo once-$day_once >>/log/once && sync && sleep 2"], "volumeMounts": [{"name": "log", "mountPath": "/log"}]}]}}
TEXT
}

# An address that takes packets and gives none.
day_post_hanging() {
    vm 'ip route replace 192.0.2.0/24 via 10.0.2.2 || true'
    vm "$ask -d @- $api/pods" <<TEXT >/dev/null || true
{"metadata": {"name": "hangs-$1"}, "spec": {"containers": [{"name": "hangs", "image": "192.0.2.1:5000/none:1"}]}}
TEXT
}

day_rollout() {
    vm "curl -sSf -m 20 -X PATCH --unix-socket /run/coracle/master/api.sock -H Content-Type:application/merge-patch+json -d @- $apps/deployments/web" <<TEXT >/dev/null || true
{"spec": {"template": {"metadata": {"annotations": {"day": "$1"}}}}}
TEXT
}

day_deeds=(edit edit leave kill_agent kill_master restart_engine kill_engine forward back kill_container fill hang load rollout once once)

# day_deed N: one of them. None may fail: the box is in trouble already.
day_deed() {
    local deed=${day_deeds[RANDOM % ${#day_deeds[@]}]} pod=$((RANDOM % day_pods))
    say "  $1: $deed"
    case $deed in
        edit) day_file "$pod" ;;
        leave) vm "rm -f /etc/coracle/manifests/day-$pod.yaml"; unset "day_wanted[$pod]" ;;
        kill_agent) vm 'systemctl kill -s KILL coracle-agent' ;;
        kill_master) vm 'systemctl kill -s KILL coracle-master' ;;
        restart_engine) vm 'systemctl reset-failed docker; systemctl restart --no-block docker' ;;
        kill_engine) vm 'systemctl reset-failed docker; systemctl kill -s KILL docker' ;;
        forward) vm 'date -s @$(($(date +%s) + 3600))' >/dev/null ;;
        back) vm 'date -s @$(($(date +%s) - 7200))' >/dev/null ;;
        kill_container) vm 'docker kill $(docker ps -q --filter label=io.kubernetes.container.name=day | head -n 1)' >/dev/null 2>&1 || true ;;
        fill) vm '(fallocate -l $(df --output=avail -B1 / | tail -n 1) /srv/fill; sleep 15; rm -f /srv/fill) >/dev/null 2>&1 &' ;;
        hang) day_post_hanging "$1" ;;
        load) vm 'for n in 1 2 3; do timeout 20 sh -c "while :; do :; done" >/dev/null 2>&1 & done' ;;
        rollout) day_rollout "$1" ;;
        once) day_post_once ;;
    esac || true
}

day_runs() { vm "test \"\$(cat /srv/log/day-$1.now)\" = $2 && docker ps --format '{{.Label \"io.kubernetes.pod.name\"}}' | grep -q '^day-$1'"; }
day_gone() { vm "! docker ps --format '{{.Label \"io.kubernetes.pod.name\"}}' | grep -q '^day-$1'"; }
day_once_ended() { vm "$ask '$api/pods?labelSelector=day%3Donce' | jq -e '[.items[].status.phase] | all(. == \"Succeeded\" or . == \"Failed\")'"; }
# Whoever says that it succeeded has run; nobody has run twice.
day_once_counts() {
    vm "test -z \"\$(sort /srv/log/once | uniq -d)\" && $ask '$api/pods?labelSelector=day%3Donce' |
        jq -r '.items[] | select(.status.phase == \"Succeeded\").metadata.name' | sort >/tmp/succeeded && sort /srv/log/once | comm -13 - /tmp/succeeded | wc -l | grep -qx 0"
}

day() {
    local end=$((SECONDS + $1)) number=0 seed=${DAY_SEED:-$RANDOM} pod
    RANDOM=$seed
    say "a day in $1 s (DAY_SEED=$seed)"
    vm 'touch /srv/log/once'
    for pod in $(seq 0 $((day_pods - 1))); do day_file "$pod"; done
    while [ "$SECONDS" -lt "$end" ]; do
        number=$((number + 1))
        day_deed "$number"
        sleep $((RANDOM % 12))
    done
    say "quiet"
    vm "rm -f /srv/fill; date -s @$(date +%s); systemctl reset-failed; systemctl start docker coracle-master coracle-agent" >/dev/null
    await 300 "the API answers" vm "$ask http://localhost/readyz"
    for pod in $(seq 0 $((day_pods - 1))); do
        if [ -n "${day_wanted[$pod]:-}" ]; then
            await 420 "day-$pod runs as it was written last" day_runs "$pod" "${day_wanted[$pod]}"
        else
            await 420 "day-$pod has gone with its file" day_gone "$pod"
        fi
    done
    await 420 "what runs once has ended" day_once_ended
    is "of $day_once that run once none has run twice, and who succeeded has run" day_once_counts
    is "no two of one pod have ever lived at once" vm 'test ! -e /srv/log/twice || { cat /srv/log/twice; false; }'
    all_runs
    vm "for pod in \$($ask $api/pods | jq -r '.items[].metadata.name | select(startswith(\"hangs-\") or startswith(\"once-\"))'); do
        $ask -X DELETE $api/pods/\$pod >/dev/null; done; rm -f /etc/coracle/manifests/day-*.yaml"
    say "ok: a day of $number deeds"
}
