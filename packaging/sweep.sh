# sweep: takes away from this host what the agent made in the engine and the kernel: containers, the network, volumes, the
# pause image, the nft tables, the pods' bridge and the routes of the service addresses. Read by `make stop` and by the purge of the package.
# Everything is found by Coracle's own label and the name that goes with it, as the agent does; nothing else is touched. A label alone
# says nothing: containers have those of their images, and who makes an image writes what he likes.

sweep() {
    local engine
    for engine in docker podman; do
        if command -v $engine >/dev/null 2>&1 && timeout 10 $engine version >/dev/null 2>&1; then sweep_engine $engine; fi
    done
    for table in coracle coracle_pods; do
        if command -v nft >/dev/null 2>&1 && nft list table ip $table >/dev/null 2>&1; then nft delete table ip $table; fi
    done
    for family in bridge netdev; do
        if command -v nft >/dev/null 2>&1 && nft list table $family coracle_pods >/dev/null 2>&1; then nft delete table $family coracle_pods; fi
    done
    if command -v iptables >/dev/null 2>&1 && iptables -w 5 -S CORACLE-FORWARD >/dev/null 2>&1; then
        for chain in DOCKER-USER FORWARD; do
            while iptables -w 5 -D $chain -j CORACLE-FORWARD 2>/dev/null; do :; done
        done
        iptables -w 5 -F CORACLE-FORWARD
        iptables -w 5 -X CORACLE-FORWARD
    fi
    # Of a network of the agent's own: its pods are gone, and the engine has taken away what was its own.
    if command -v ip >/dev/null 2>&1 && [ -d /sys/class/net/coracle0/bridge ]; then ip link delete coracle0; fi
}

# Both understand this: Podman's names have no slash before them, and its $ is not the object.
sweep_engine() {
    local engine=$1 ids of_label name container volume
    of_label='(index . "io.kubernetes.pod.name") (index . "io.kubernetes.pod.namespace") (index . "io.kubernetes.pod.uid")'
    name='(printf "k8s_%s_%s_%s_%s_%s" (index . "io.kubernetes.container.name") '"$of_label"' (index . "dev.coracle.attempt"))'
    container='{{$it := .}}{{with .Config.Labels}}{{$ours := '"$name"'}}'
    container="$container"'{{$name := $it.Name}}{{if or (eq $name $ours) (eq $name (printf "/%s" $ours)) (eq $name (printf "%s_spare" $ours)) (eq $name (printf "/%s_spare" $ours))}}{{$it.Id}} {{end}}{{end}}'
    volume='{{$it := .}}{{with .Labels}}{{$ours := printf "coracle_%s_" (index . "io.kubernetes.pod.uid")}}'
    volume="$volume"'{{if gt (len $it.Name) (len $ours)}}{{if eq (slice $it.Name 0 (len $ours)) $ours}}{{$it.Name}}{{end}}{{end}}{{end}}'
    # Twice: Podman removes a sandbox after what is in it.
    for _ in 1 2; do
        ids=$($engine ps -aq --no-trunc --filter label=dev.coracle.source)
        [ -z "$ids" ] || ids=$($engine container inspect --format "$container" $ids || true)
        [ -z "$(echo $ids)" ] || $engine rm -f -v $ids >/dev/null || true
    done
    ids=$($engine volume ls -q --filter label=dev.coracle.kind)
    [ -z "$ids" ] || ids=$($engine volume inspect --format "$volume" $ids || true)
    [ -z "$ids" ] || $engine volume rm -f $ids >/dev/null
    ids=$($engine network ls -q --filter label=dev.coracle.network --filter 'name=^coracle$')
    [ -z "$ids" ] || $engine network rm $ids >/dev/null
    ids=$($engine image ls -q coracle/pause | sort -u)
    [ -z "$ids" ] || $engine image rm -f $ids >/dev/null
}
