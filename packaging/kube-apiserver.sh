#!/usr/bin/env bash
# kube-apiserver.sh TO: builds what `make bench-api` is compared with, once, from the last source package of Debian's that holds it whole.
# Some minutes of both cores and 4 GB below /var/tmp meanwhile. apt checks the source by Debian's signature, and keeps its lists of sources here.
set -euo pipefail
cd "$(dirname "$0")/.."
to=$(realpath -m "$1")
[ ! -x "$to" ] || exit 0
packaging/prerequisites.sh kube-apiserver

work=$(mktemp -d /var/tmp/coracle-kube-XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/src/k8s.io"
cd "$work"
echo "building $to from Debian's source package: what the API is measured against"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | head -n1)
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >sources.list
apt() {
    apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" \
        -o Dir::Cache="$work/cache" -o APT::Sandbox::User= "$@"
}
apt update
apt source --download-only kubernetes
dpkg-source -x --no-check kubernetes_*.dsc src/k8s.io/kubernetes >/dev/null

cd src/k8s.io/kubernetes
# Plain HTTP, as before the insecure port was taken away: what is compared is the API, not TLS. Its own client is told as well.
plain() { grep -qF "$2" "$1" || { echo "$1: no $2" >&2; exit 1; }; sed -i "s|$2|$3|" "$1"; }
plain staging/src/k8s.io/apiserver/pkg/server/secure_serving.go 'if server.TLSConfig != nil {' 'if false {'
plain staging/src/k8s.io/apiserver/pkg/server/config_selfclient.go '"https://" + net' '"http://" + net'
export GOPATH="$work" GOCACHE="$work/gocache" GOTMPDIR="$work" GOPROXY=off CGO_ENABLED=0
make gen_openapi >"$work/log" 2>&1 && GO111MODULE=off go build -o "$work/built" ./cmd/kube-apiserver >>"$work/log" 2>&1 \
    || { tail -n5 "$work/log" >&2; exit 1; }
mkdir -p "$(dirname "$to")"
mv "$work/built" "$to"
