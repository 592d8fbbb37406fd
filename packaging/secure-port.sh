# secure-port.sh, for test-packages.sh: who reaches the secure port of the packaged master, and how root's kubectl finds it.

login_shells() {
    inside sh -ec 'mkdir -p /run/sshd /root/.ssh && ssh-keygen -q -t ed25519 -N "" -f /root/.ssh/id_ed25519 </dev/null
        cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys && /usr/sbin/sshd'
    local asks='kubectl get namespaces -o name | grep -qx namespace/kube-system'
    inside su - -c "$asks" || fail "kubectl in the shell of su - finds no cluster"
    inside sudo -i sh -lc "$asks" || fail "kubectl in the shell of sudo -i finds no cluster"
    inside ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR root@localhost ". /etc/profile; $asks" || fail "kubectl in the shell of ssh root@localhost finds no cluster"
    # In no login shell: cron, sudo, a command over ssh.
    for way in "sh -c" "sudo sh -c" "ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR root@localhost"; do
        inside $way "coracle-master kubectl get namespaces -o name | grep -qx namespace/kube-system" || fail "coracle-master kubectl by $way finds no cluster"
    done
    inside pkill -x sshd
    inside rm -rf /root/.ssh
    say "ok: root's kubectl in su -, sudo -i, ssh; coracle-master kubectl without a login shell"
}

# From the host of this test, which is neither the machine nor one of its pods.
outside() { curl -sSk -m 5 -o /dev/null -w '%{http_code}' "https://$(docker inspect -f '{{.NetworkSettings.IPAddress}}' "$machine"):6443$1" 2>/dev/null; }
outside_is() { [ "$(outside /version || true)" = "$1" ]; }
answers_here() { inside curl -sSf -m 5 --cacert /root/ca.pem https://localhost:6443/version; }

# A peer of this host gets an answer; the connection of a stranger is closed without a byte.
pod_is_heard() {
    local service
    service=$(ask http://localhost/api/v1/namespaces/default/services/kubernetes | jq -r .spec.clusterIP)
    inside coracle-agent exec hello -- sh -c "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 $service 443 | grep -q HTTPS"
}

secure_port() {
    say "who reaches the secure port"
    await 20 "root's kubeconfig is written" inside test -s /etc/coracle/admin.kubeconfig
    [ "$(inside stat -c %a:%U /etc/coracle/admin.kubeconfig)" = 600:root ] || fail "/etc/coracle/admin.kubeconfig is not root's alone"
    inside sh -c "sed -n 's/.*certificate-authority-data: *//p' /etc/coracle/admin.kubeconfig | tr -d '\"' | base64 -d >/root/ca.pem"
    await 20 "the secure port answers on this host" answers_here
    await 20 "a pod reaches it at the address of the service kubernetes" pod_is_heard
    outside_is 000 || fail "the packaged master answers the network"
    login_shells
    inside sed -i 's/^#secure-clients = host/secure-clients = network/' /etc/coracle/master.conf
    inside systemctl restart coracle-master
    await 20 "it answers the network after secure-clients = network" outside_is 200
    inside sed -i 's/^secure-clients = network/#secure-clients = host/' /etc/coracle/master.conf
    # A port that another program has: everything else goes on, and status names it.
    inside systemctl stop coracle-master
    docker exec -d "$machine" busybox httpd -f -p 6443 -h /root
    await 10 "another program has the port" inside sh -c 'ss -tln | grep -q :6443'
    inside systemctl start coracle-master
    await 20 "the master starts beside a program that has its port" has_config_map kept
    await 20 "status names the port" inside sh -c 'coracle-master status | grep -q 6443'
    inside pkill -f 'httpd -f -p 6443'
    await 30 "the port is opened once it is free" answers_here
    inside rm -f /root/ca.pem
}
