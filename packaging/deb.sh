#!/usr/bin/env bash
# deb.sh: builds build/deb/coracle-{common,master,agent}_VERSION_ARCH.deb with dpkg-deb, which every Debian has, and checks them with
# lintian where it is. The trees are laid out by hand: two binaries, two units and some texts need no build system.
#
# coracle-common has the command coracle, which both other packages need; it is the agent's program, of which /usr/bin/coracle-agent is a
# link in the agent's package. No file went from one package to another, so nothing says Replaces or Breaks: with Breaks, dpkg would
# refuse `dpkg -i coracle-*.deb` over packages of before, because it unpacks them in the order of their names.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
cd "$tree"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(dpkg --print-architecture)
out=$tree/build/deb
# Files in the packages carry the time of the last commit, so the same tree gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

echo "building (cargo build --release)"
cargo build --release -q -p coracle-master -p coracle-agent
rm -rf "$out"
mkdir -p "$out"

# script FILE: a maintainer script from standard input.
script() { { echo '#!/bin/sh'; echo 'set -e'; cat; } >"$1"; chmod 0755 "$1"; }

# prepared NAME: what the unit of that name finds when it starts. A directory of the package of before, which was root's, is given to the
# master by its unit once that master has stopped.
prepared() {
    if [ "$1" = master ]; then
        cat <<'TEXT'
    systemd-sysusers coracle-master.conf
    if [ ! -e /var/lib/coracle/master ]; then
        install -d -m 0755 /var/lib/coracle
        install -d -m 0700 -o coracle-master -g coracle-master /var/lib/coracle/master
    fi
    # Root writes there, the master reads: files made there get its group. What an administrator chose stays.
    if ! dpkg-statoverride --list /etc/coracle/apply >/dev/null; then
        chgrp coracle-master /etc/coracle/apply
        chmod 2750 /etc/coracle/apply
    fi
TEXT
    else
        cat <<'TEXT'
    # Manifests hold passwords. As the package of before made it, everybody could read it; what an administrator chose stays.
    if ! dpkg-statoverride --list /etc/coracle/manifests >/dev/null; then chmod 0750 /etc/coracle/manifests; fi
    if [ -d /run/systemd/system ]; then systemd-tmpfiles --create coracle-agent.conf; fi
TEXT
    fi
}

# units NAME: what follows an installation and goes before a removal, for the unit of that name.
maintainer_scripts() {
    local name=$1 control=$2
    script "$control/postinst" <<TEXT
if [ "\$1" = configure ]; then
$(prepared "$name")
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload
    fi
    # deb-systemd-helper remembers what an administrator disabled.
    deb-systemd-helper unmask coracle-$name.service >/dev/null || true
    if deb-systemd-helper --quiet was-enabled coracle-$name.service; then
        deb-systemd-helper enable coracle-$name.service >/dev/null
    else
        deb-systemd-helper update-state coracle-$name.service >/dev/null || true
    fi
    if [ -d /run/systemd/system ]; then
        if [ -n "\$2" ]; then verb=restart; else verb=start; fi
        deb-systemd-invoke \$verb coracle-$name.service >/dev/null || true
    fi
fi
TEXT
    script "$control/prerm" <<TEXT
if [ "\$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop coracle-$name.service >/dev/null || true
fi
TEXT
    script "$control/postrm" <<TEXT
$(grep -v '^#' "$tree/packaging/remove.sh")
$([ "$name" != agent ] || grep -v '^#' "$tree/packaging/sweep.sh")
if [ "\$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
fi
if [ "\$1" = purge ]; then
    deb-systemd-helper purge coracle-$name.service >/dev/null || true
$([ "$name" != agent ] || echo "    sweep || true")
$([ "$name" != agent ] || echo "    grep -o ' /run/coracle/volumes/[^ ]*' /proc/mounts | sort -r | xargs -r umount || true
    remove_tree /run/coracle/volumes /etc/coracle/manifests")
    remove_tree /var/lib/coracle/$name /run/coracle/$name
$([ "$name" != master ] || echo "    rm -f /etc/coracle/admin.kubeconfig /etc/coracle/admin.kubeconfig.partial; remove_tree /var/log/coracle-master /etc/coracle/apply")
$([ "$name" != agent ] || echo "    rm -f /run/coracle/engine-*.lock; rmdir --ignore-fail-on-non-empty /var/lib/coracle/images /var/lib/coracle/volumes 2>/dev/null || true")
    rmdir --ignore-fail-on-non-empty /var/lib/coracle /run/coracle 2>/dev/null || true
    rmdir --ignore-fail-on-non-empty /etc/coracle 2>/dev/null || true
fi
TEXT
}

# programs NAME ROOT: the program of the package, its man page and its completion.
programs() {
    local name=$1 root=$2 command=coracle-$1
    case $name in
        common)
            command=coracle
            install -D -m 0755 target/release/coracle-agent "$root/usr/bin/coracle"
            ;;
        master) install -D -m 0755 target/release/coracle-master "$root/usr/bin/coracle-master" ;;
        agent)
            mkdir -p "$root/usr/bin"
            ln -s coracle "$root/usr/bin/coracle-agent"
            ;;
    esac
    install -D -m 0644 "packaging/man/$command.8" "$root/usr/share/man/man8/$command.8"
    gzip -9n "$root/usr/share/man/man8/$command.8"
    install -D -m 0644 "packaging/completion/$command.bash" "$root/usr/share/bash-completion/completions/$command"
    install -D -m 0644 "packaging/completion/$command.zsh" "$root/usr/share/zsh/vendor-completions/_$command"
}

# unit NAME ROOT: the unit of the program, and its configuration.
unit() {
    local name=$1 root=$2
    install -D -m 0644 "systemd/coracle-$name.service" "$root/usr/lib/systemd/system/coracle-$name.service"
    if [ "$name" = master ]; then
        install -D -m 0644 systemd/coracle-master.sysusers "$root/usr/lib/sysusers.d/coracle-master.conf"
        install -D -m 0644 systemd/coracle-master.profile "$root/etc/profile.d/coracle-master.sh"
    else
        install -D -m 0644 systemd/coracle-agent.tmpfiles "$root/usr/lib/tmpfiles.d/coracle-agent.conf"
        mkdir -p "$root/etc/coracle/manifests"
    fi
    install -D -m 0644 "packaging/$name.conf" "$root/etc/coracle/$name.conf"
    [ "$name" != master ] || mkdir -p "$root/etc/coracle/apply"
    echo "/etc/coracle/$name.conf" >"$root/DEBIAN/conffiles"
    [ "$name" != master ] || echo "/etc/profile.d/coracle-master.sh" >>"$root/DEBIAN/conffiles"
    maintainer_scripts "$name" "$root/DEBIAN"
}

package() {
    local name=$1 depends=$2 recommends=$3 summary=$4 description=$5
    local root=$out/root-$name
    local control=$root/DEBIAN doc=$root/usr/share/doc/coracle-$name
    mkdir -p "$control" "$doc"
    programs "$name" "$root"
    [ "$name" = common ] || unit "$name" "$root"
    if [ "$name" != common ]; then
        # The package has no source: the row of README.md that leads there would lead nowhere.
        grep -v CONTRIBUTING.md README.md >"$doc/README.md"
        install -m 0644 SUPPORT.md "$doc/"
        install -D -m 0644 -t "$doc/docs" docs/*.md
    fi
    {
        echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
        echo "Upstream-Name: coracle"
        echo
        echo "Files: *"
        echo "Copyright: 2026 the coracle authors"
        echo "License: Apache-2.0"
        echo " On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0."
    } >"$doc/copyright"
    {
        echo "coracle-$name ($version) stable; urgency=medium"
        echo
        echo "  * See CHANGELOG.md of the project."
        echo
        echo " -- The coracle authors <maintainers@coracle.dev>  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$doc/changelog.gz"
    cat >"$control/control" <<TEXT
Package: coracle-$name
Version: $version
Architecture: $arch
Maintainer: The coracle authors <maintainers@coracle.dev>
Section: admin
Priority: optional
Installed-Size: $(du -ks --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
${recommends:+Recommends: $recommends
}Description: $summary
$(fold -s -w 76 <<<"$description" | sed 's/ *$//; s/^/ /')
TEXT
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$root" -print0 | xargs -0 touch -h -d "@$SOURCE_DATE_EPOCH"
    find "$root" -type d -print0 | xargs -0 chmod 0755
    [ "$name" != agent ] || chmod 0750 "$root/etc/coracle/manifests"
    [ "$name" != master ] || chmod 0750 "$root/etc/coracle/apply"
    dpkg-deb --root-owner-group --build "$root" "$out/coracle-${name}_${version}_$arch.deb" >/dev/null
    rm -rf "$root"
    echo "built $out/coracle-${name}_${version}_$arch.deb"
}

# The symbols that Rust's standard library asks of glibc are those of Debian 12 when it is built there.
libc="libc6 (>= $(dpkg-query -W -f '${Version}' libc6 | sed 's/^\([0-9]*\.[0-9]*\).*/\1/')), libgcc-s1"
common="coracle-common (= $version)"
package common "$libc" "" \
    "status, logs and restart of Kubernetes pods on small hosts" \
    "The command coracle of Coracle asks coracle-agent and coracle-master on this host: what runs, what is wrong and what to do, what containers wrote and what they use; it restarts pods and workloads, and checks manifest files."
package master "$common, $libc, init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers | systemd-sysusers" "" \
    "Kubernetes API, scheduler and controllers for small hosts" \
    "The master of Coracle keeps the objects of a cluster as JSON files on this host, serves them through the Kubernetes API (v1, and v1beta1 to v1beta3 of 2014) and places pods on this host's coracle-agent."
package agent "$common, init-system-helpers (>= 1.54~), docker.io | docker-ce | podman, nftables, iproute2" "" \
    "runs Kubernetes pods on this host's Docker" \
    "The agent of Coracle runs pods on this host's Docker: from manifest files dropped in /etc/coracle/manifests and from a coracle-master. It restarts, probes and reports them, and balances services with nftables."

if command -v lintian >/dev/null 2>&1; then
    # The directories of manifests are 0750 on purpose: they hold passwords. Root may build packages here.
    lintian --fail-on error --allow-root --suppress-tags non-standard-dir-perm "$out"/*.deb
else
    echo "lintian is not installed, so the packages were not checked; apt-get install lintian"
fi
