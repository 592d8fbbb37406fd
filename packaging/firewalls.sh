# firewalls.sh, for test-packages.sh: pods beside ufw and firewalld. Either is in the way at first; then doctor says which commands let pods
# through, and with these very commands they reach each other by name.

post() { ask -H 'Content-Type: application/json' -d "$2" "http://localhost/api/v1/namespaces/default/$1" >/dev/null || fail "post to $1"; }

# One pod that serves behind a service, and one that asks.
neighbours() {
    post pods '{"metadata": {"name": "served", "labels": {"app": "served"}}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "served",
        "image": "coracle/demo:1", "command": ["sh", "-c", "mkdir -p /www && echo found > /www/index.html && exec httpd -f -p 80 -h /www"]}]}}'
    post services '{"metadata": {"name": "served"}, "spec": {"selector": {"app": "served"}, "ports": [{"port": 80}]}}'
    post pods '{"metadata": {"name": "asks"}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "asks", "image": "coracle/demo:1",
        "command": ["sleep", "100000"]}]}}'
}

# From a pod's network to a service by its name: the question comes to this host, the request is forwarded.
found() {
    inside sh -c 'pid=$(docker inspect -f "{{.State.Pid}}" "$(docker ps -q --filter label=io.kubernetes.container.name=asks)") &&
        nsenter -t "$pid" -n timeout 10 sh -c "
            ip=\$(busybox nslookup served.default.svc.cluster.local 10.96.0.10 | sed -n \"s/^Address: \\(10[.]96[.][0-9.]*\\)\$/\\1/p\" | tail -n 1) &&
            curl -sSf -m 3 http://\$ip/" | grep -q found'
}
not_found() { ! found 2>/dev/null; }
says() { inside sh -c 'coracle-agent doctor | grep -qF -e "$1"' sh "$1"; }

beside() {
    local what=$1 start=$2 stop=$3
    shift 3
    inside sh -c "$start" >/dev/null 2>&1 || fail "$what does not start: $start"
    # Else this shows nothing. firewalld starts before its rules are there.
    await 30 "$what is in the way" not_found
    for command in "$@"; do
        says "$command" || fail "beside $what, doctor does not say: $command"
        inside sh -c "$command" >/dev/null 2>&1 || fail "beside $what: $command"
    done
    await 30 "beside $what pods find each other, by the commands of doctor" found
    ! inside sh -c 'coracle-agent doctor | grep -v "^ok" | grep -q "^[a-z]* *firewall:"' || fail "doctor still says that $what is in the way"
    inside sh -c "$stop" >/dev/null 2>&1 || fail "$what does not stop: $stop"
    await 60 "and without $what" found
}

firewalls() {
    say "beside other firewalls"
    neighbours
    await 60 "pods find each other" found
    beside ufw 'ufw --force enable' 'ufw --force reset' 'ufw allow in on coracle0'
    beside firewalld 'systemctl start firewalld' 'systemctl stop firewalld' \
        'firewall-cmd --permanent --zone=trusted --add-interface=coracle0' 'firewall-cmd --reload'
    for pod in served asks; do ask -X DELETE "http://localhost/api/v1/namespaces/default/pods/$pod" >/dev/null; done
    ask -X DELETE http://localhost/api/v1/namespaces/default/services/served >/dev/null
}
