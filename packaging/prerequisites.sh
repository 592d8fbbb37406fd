#!/usr/bin/env bash
# prerequisites.sh WHAT...: makes sure that each named thing is here, from Debian where it is missing; says so in one line each.
#   engine     docker.io, nftables, iproute2     (to run pods)
#   podman     podman, docker.io for its command line, nftables, iproute2 (make e2e-podman)
#   rules      nftables, iproute2, openssl       (make check: rules of services in a kernel, servers that speak TLS)
#   demo       busybox-static, curl, jq          (the demonstration's image, its requests, reading answers)
#   test       kubernetes-client, python3-kubernetes, curl, openssl, faketime (stock kubectl, and what its scripts use; clocks that jump)
#   crash      e2fsprogs, xfsprogs             (make test-crash)
#   bench-store etcd-server, libsqlite3-dev     (make bench-store)
#   bench-net  unbound                          (make bench-net)
#   bench-secure nginx-light                    (make bench-secure)
#   kube-apiserver dpkg-dev, golang-go, make, rsync (make bench-api, once: packaging/kube-apiserver.sh)
#   vm         qemu-system-x86, mmdebstrap, openssh-client, e2fsprogs (make test-vm)
#   packages   dpkg-dev, lintian, debootstrap    (make deb, make test-packages)
set -euo pipefail

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

updated=
install() {
    local package=$1 why=$2
    echo "installing $package from Debian: $why"
    if [ -z "$updated" ]; then as_root apt-get update -qq; updated=yes; fi
    # A restart of services is the administrator's to decide, and needrestart and debconf have nothing to ask here.
    as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes NEEDRESTART_SUSPEND=1 apt-get install -y -qq --no-install-recommends "$package" >/dev/null \
        || { echo "cannot install $package; try: apt-get install $package" >&2; exit 1; }
}

# need COMMAND PACKAGE WHY: the package that brings the command, unless the command is here.
need() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null 2>&1 || install "$2" "$3"; }

for what in "$@"; do
    case $what in
        engine)
            # An engine of another make (docker-ce) brings dockerd as well; then it is used as it is.
            need dockerd docker.io "the engine that runs containers"
            need docker docker.io "its command line"
            need iptables iptables "dockerd needs it"
            need nft nftables "service addresses"
            need ip iproute2 "the route to service addresses" ;;
        podman)
            need podman podman "the engine that runs containers"
            need docker docker.io "the command line that asks it"
            need nft nftables "service addresses"
            need ip iproute2 "the route to service addresses" ;;
        rules)
            need nft nftables "rules of services are tried in a kernel"
            need ip iproute2 "the network that they are tried in"
            need openssl openssl "servers that speak TLS" ;;
        demo)
            [ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || install busybox-static "the demonstration's image is made of it"
            need curl curl "requests to the API"
            need jq jq "reading answers" ;;
        test)
            need kubectl kubernetes-client "stock kubectl for the tests"
            /usr/bin/python3 -c 'import kubernetes' 2>/dev/null || install python3-kubernetes "the Python client for the tests"
            need curl curl "requests to the API"
            need openssl openssl "certificates for the tests"
            need faketime faketime "a clock that jumps, for one test alone" ;;
        crash)
            # The disk under test is served over FUSE: root needs the kernel's part of it and no package.
            [ -e /dev/fuse ] || as_root modprobe fuse || { echo "this kernel has no FUSE, which carries the disk under test" >&2; exit 1; }
            need mkfs.ext4 e2fsprogs "file systems that lose power"
            need mkfs.xfs xfsprogs "file systems that lose power" ;;
        bench-store)
            # Installing etcd-server starts a service, which nobody here asked for.
            command -v etcd >/dev/null 2>&1 || {
                install etcd-server "what the store is measured against"
                [ ! -d /run/systemd/system ] || as_root systemctl disable --quiet --now etcd || true
            }
            need pkg-config pkg-config "finding Debian's SQLite"
            pkg-config --exists sqlite3 || install libsqlite3-dev "what the store is measured against" ;;
        bench-net)
            # Likewise.
            command -v unbound >/dev/null 2>&1 || {
                install unbound "what names are measured against"
                [ ! -d /run/systemd/system ] || as_root systemctl disable --quiet --now unbound || true
            } ;;
        bench-secure)
            # Likewise.
            PATH=$PATH:/usr/sbin:/sbin command -v nginx >/dev/null 2>&1 || {
                install nginx-light "what TLS is measured against"
                [ ! -d /run/systemd/system ] || as_root systemctl disable --quiet --now nginx || true
            } ;;
        kube-apiserver)
            need dpkg-source dpkg-dev "unpacking its source"
            need go golang-go "building it"
            need make make "building it"
            need rsync rsync "building it" ;;
        vm)
            need qemu-system-x86_64 qemu-system-x86 "a machine whose plug can be pulled"
            need mmdebstrap mmdebstrap "its Debian"
            need ssh openssh-client "asking it"
            need mke2fs e2fsprogs "its disk"
            need jq jq "reading answers" ;;
        packages)
            need dpkg-scanpackages dpkg-dev "building packages"
            need lintian lintian "checking packages"
            need debootstrap debootstrap "a Debian with systemd to test packages in" ;;
        *) echo "prerequisites.sh: unknown: $what" >&2; exit 2 ;;
    esac
done
