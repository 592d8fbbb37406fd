#!/usr/bin/env bash
# arrange.sh [CARGO OPTION...]: makes master/start.ld and agent/start.ld anew from what both programs run in the bench's quiet row: a start
# and a rest, then pods that come and a rest with them. arrange.py says why. Wants root, as the bench does; takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
records=$PWD/target/arrange

packaging/prerequisites.sh engine demo arrange
packaging/build.sh --config profile.release.strip=false -p coracle-master -p coracle-agent
rm -rf "$records"
mkdir -p "$records"
for name in coracle-master coracle-agent; do
    cat >"$records/$name" <<EOF
#!/bin/sh
exec valgrind --tool=callgrind --demangle=no --callgrind-out-file=$records/$name.record $PWD/target/release/$name "\$@"
EOF
    chmod +x "$records/$name"
done
at_rest="sleep 60; callgrind_control --dump"
ROWS=memory CORACLE_BINARIES=$records CORACLE_AT_REST=$at_rest cargo bench -q -p coracle-tests --features e2e --bench bench "$@"
for part in master agent; do
    packaging/arrange.py "target/release/coracle-$part" "$records/coracle-$part.record.1" "$records/coracle-$part.record" >"$part/start.ld"
done
git diff --stat -- '*/start.ld'
