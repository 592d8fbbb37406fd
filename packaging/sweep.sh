# sweep: takes away from this host what the agent made in the engine and the kernel: containers, the network, volumes, the
# pause image, the nft tables, the pods' bridge and the routes of the service addresses. Read by `make stop` and by the purge of the package.
# Everything is found by Coracle's own label and the name that goes with it, as the agent does; nothing else is touched. A label alone
# says nothing: containers have those of their images, and who makes an image writes what he likes.

sweep() {
    local ids of_label container volume
    of_label='(index . "io.kubernetes.pod.name") (index . "io.kubernetes.pod.namespace") (index . "io.kubernetes.pod.uid")'
    container='{{with .Config.Labels}}{{if eq $.Name (printf "/k8s_%s_%s_%s_%s_%s" (index . "io.kubernetes.container.name") '
    container="$container$of_label"' (index . "dev.coracle.attempt"))}}{{$.Id}}{{end}}{{end}}'
    volume='{{with .Labels}}{{$ours := printf "coracle_%s_" (index . "io.kubernetes.pod.uid")}}{{if gt (len $.Name) (len $ours)}}'
    volume="$volume"'{{if eq (slice $.Name 0 (len $ours)) $ours}}{{$.Name}}{{end}}{{end}}{{end}}'
    if command -v docker >/dev/null 2>&1 && timeout 10 docker version >/dev/null 2>&1; then
        ids=$(docker ps -aq --no-trunc --filter label=dev.coracle.source)
        [ -z "$ids" ] || ids=$(docker container inspect --format "$container" $ids || true)
        [ -z "$ids" ] || docker rm -f -v $ids >/dev/null
        ids=$(docker volume ls -q --filter label=dev.coracle.kind)
        [ -z "$ids" ] || ids=$(docker volume inspect --format "$volume" $ids || true)
        [ -z "$ids" ] || docker volume rm -f $ids >/dev/null
        ids=$(docker network ls -q --filter label=dev.coracle.network --filter 'name=^coracle$')
        [ -z "$ids" ] || docker network rm $ids >/dev/null
        ids=$(docker image ls -q coracle/pause | sort -u)
        [ -z "$ids" ] || docker image rm -f $ids >/dev/null
    fi
    for table in coracle coracle_pods; do
        if command -v nft >/dev/null 2>&1 && nft list table ip $table >/dev/null 2>&1; then nft delete table ip $table; fi
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
