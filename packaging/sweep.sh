# sweep: takes away from this host what the agent made in the engine and the kernel: containers, the network, volumes, the
# pause image, the nft table and the route of the service addresses. Read by `make stop` and by the purge of the package.
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
    if command -v nft >/dev/null 2>&1 && nft list table ip coracle >/dev/null 2>&1; then nft delete table ip coracle; fi
}
