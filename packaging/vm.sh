# vm.sh: a Debian 13 in a virtual machine, by emulation: cgroup v2, a current Docker, a systemd of its own, and a plug that can be pulled.
# Sourced by test-vm.sh. The base system is made once and kept; each run has a disk of its own.
#
#   vm_disk             a disk with the packages of build/deb
#   vm_boot [OPTION...] the machine, with further options of qemu; returns when its secure shell answers
#   vm COMMAND          runs a line of sh in it, as root
#   vm_off SECONDS      waits until it has powered itself off
#   vm_cut              pulls the plug

vm_suite=trixie
vm_cache=${XDG_CACHE_HOME:-$HOME/.cache}/coracle/vm-2
vm_dir=$tree/build/vm
vm_port=${VM_PORT:-2222}
vm_packages=systemd,systemd-sysv,dbus,udev,kmod,initramfs-tools,linux-image-cloud-amd64,docker.io,docker-cli,iptables,nftables,iproute2
vm_packages+=,openssh-server,curl,jq,busybox-static,procps,e2fsprogs,init-system-helpers,ca-certificates,tzdata

# The kernel, its first file system and the base system, in $vm_cache.
vm_base() {
    if [ -e "$vm_cache/base.tar" ]; then return; fi
    say "making a Debian $vm_suite (mmdebstrap)"
    mkdir -p "$vm_cache"
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed -n '/security/!p' | head -n 1)
    [ -e "$vm_cache/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$vm_cache/key"
    cat >"$vm_cache/customize" <<'TEXT'
set -eu
cd "$1"
install -d -m 0700 root/.ssh
install -m 0600 "$(dirname "$0")/key.pub" root/.ssh/authorized_keys
echo box >etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 box\n' >etc/hosts
echo '/dev/vda / ext4 defaults 0 1' >etc/fstab
# No gateway and no resolver: the machine is offline, and its secure shell is asked by a neighbour.
printf '[Match]\nName=en* eth*\n[Network]\nAddress=10.0.2.15/24\nLinkLocalAddressing=no\n' >etc/systemd/network/10-box.network
chroot . systemctl enable -q systemd-networkd ssh
chroot . systemctl mask -q apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
    systemd-networkd-wait-online.service getty@tty1.service
echo 'MODULES=list' >etc/initramfs-tools/conf.d/list
printf 'virtio_pci\nvirtio_blk\next4\n' >>etc/initramfs-tools/modules
chroot . update-initramfs -u >/dev/null
TEXT
    as_root mmdebstrap --quiet --variant=minbase --include="$vm_packages" --customize-hook="sh $vm_cache/customize \"\$1\"" \
        --customize-hook="cp \"\$1\"/boot/vmlinuz-* $vm_cache/kernel; cp \"\$1\"/boot/initrd.img-* $vm_cache/initrd" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --aptopt='Acquire::Languages none' \
        "$vm_suite" "$vm_cache/new.tar" "$mirror" || fail "no base system"
    as_root chown -R "$(id -u):$(id -g)" "$vm_cache"
    mv "$vm_cache/new.tar" "$vm_cache/base.tar"
}

# vm_image FILE: an archive as `docker save` writes it, of this host's busybox under the name coracle/demo:1.
vm_image() {
    local to=$1 dir layer id
    dir=$(mktemp -d)
    mkdir -p "$dir/root/bin" "$dir/root/tmp" "$dir/out"
    cp "$(PATH=$PATH:/bin command -v busybox)" "$dir/root/bin/busybox"
    for name in $("$dir/root/bin/busybox" --list); do [ "$name" = busybox ] || ln -s busybox "$dir/root/bin/$name"; done
    tar -C "$dir/root" --owner=0 --group=0 -cf "$dir/out/layer.tar" .
    layer=$(sha256sum "$dir/out/layer.tar" | cut -d' ' -f1)
    printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$layer" >"$dir/config"
    id=$(sha256sum "$dir/config" | cut -d' ' -f1)
    mv "$dir/config" "$dir/out/$id.json"
    printf '[{"Config":"%s.json","RepoTags":["coracle/demo:1"],"Layers":["layer.tar"]}]' "$id" >"$dir/out/manifest.json"
    tar -C "$dir/out" -cf "$to" manifest.json "$id.json" layer.tar
    rm -rf "$dir"
}

vm_disk() {
    vm_base
    local root=$vm_dir/root
    as_root rm -rf "$vm_dir"
    mkdir -p "$root"
    as_root tar -C "$root" --numeric-owner -xf "$vm_cache/base.tar"
    as_root cp "$tree"/build/deb/coracle-*.deb "$root/root/"
    as_root chroot "$root" sh -c 'dpkg -i /root/coracle-*.deb' >"$vm_dir/install.log" 2>&1 || fail "the packages do not install: $vm_dir/install.log"
    vm_image "$vm_dir/demo.tar"
    as_root install -D -m 0644 "$vm_dir/demo.tar" "$root/var/lib/coracle/images/demo.tar"
    as_root /sbin/mke2fs -q -t ext4 -d "$root" "$vm_dir/disk" 4G
    as_root rm -rf "$root"
    as_root chown "$(id -u)" "$vm_dir/disk"
}

vm_start() {
    qemu-system-x86_64 -accel tcg,thread=multi -cpu max -machine q35 -smp 2 -m 1024 -display none -no-reboot \
        -kernel "$vm_cache/kernel" -initrd "$vm_cache/initrd" -append "root=/dev/vda rw console=ttyS0 quiet panic=-1" \
        -drive "file=$vm_dir/disk,format=raw,if=virtio,cache=writeback" -device virtio-rng-pci \
        -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$vm_port-:22" -device virtio-net-pci,netdev=net \
        -serial "file:$vm_dir/console.log" "$@" >"$vm_dir/qemu.log" 2>&1 &
    vm_pid=$!
}

vm_boot() {
    vm_start "$@"
    await 300 "the machine has booted" vm true
}

vm() {
    ssh -q -p "$vm_port" -i "$vm_cache/key" -o BatchMode=yes -o ConnectTimeout=30 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
        root@127.0.0.1 "$*"
}

# Only a machine that ends by itself has ended in order.
vm_off() {
    for _ in $(seq "$1"); do
        if ! kill -0 "$vm_pid" 2>/dev/null; then wait "$vm_pid" || true; return; fi
        sleep 1
    done
    fail "the machine has not powered itself off in $1 s"
}

vm_cut() {
    kill -9 "$vm_pid" 2>/dev/null || true
    wait "$vm_pid" 2>/dev/null || true
}
