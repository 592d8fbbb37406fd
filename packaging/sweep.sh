# sweep: takes away from this host what the agent made in the engine and the kernel: containers, the network, volumes, the
# pause image, the nft table and the route of the service addresses. Read by `make stop` and by the purge of the package.
# Everything is found by Coracle's own label or name; nothing else is touched.

sweep() {
    local ids
    if command -v docker >/dev/null 2>&1 && timeout 10 docker version >/dev/null 2>&1; then
        ids=$(docker ps -aq --filter label=dev.coracle.source)
        [ -z "$ids" ] || docker rm -f -v $ids >/dev/null
        ids=$(docker volume ls -q --filter label=dev.coracle.kind)
        [ -z "$ids" ] || docker volume rm -f $ids >/dev/null
        ids=$(docker network ls -q --filter label=dev.coracle.network)
        [ -z "$ids" ] || docker network rm $ids >/dev/null
        ids=$(docker image ls -q coracle/pause | sort -u)
        [ -z "$ids" ] || docker image rm -f $ids >/dev/null
    fi
    if command -v nft >/dev/null 2>&1 && nft list table ip coracle >/dev/null 2>&1; then nft delete table ip coracle; fi
}
