#!/usr/bin/env bash
# again.sh PROGRAM ARGS...: runs a test program for cargo. What fails on a busy machine is run once more by itself, and named as unsteady if
# it passes then: whoever sees the line mends the test. What fails twice has failed.
set -uo pipefail

output=$(mktemp)
trap 'rm -f "$output"' EXIT
"$@" 2>&1 | tee "$output"
code=${PIPESTATUS[0]}
[ "$code" != 0 ] || exit 0

# Rust's own harness has a last list of names under "failures:"; ours print a line for each.
exact=()
mapfile -t names < <(sed -n 's/^failed: //p' "$output")
if [ "${#names[@]}" = 0 ]; then
    exact=(--exact)
    mapfile -t names < <(awk '/^failures:$/ { n = 0; next } /^    [^ ]+$/ { names[n++] = $1 } END { for (i = 0; i < n; i++) print names[i] }' "$output")
fi
if [ "${#names[@]}" = 0 ] || [ "${#names[@]}" -gt 5 ]; then exit "$code"; fi
echo "once more, one after another: ${names[*]}"
RUST_TEST_THREADS=1 "$@" "${exact[@]}" "${names[@]}" || exit "$code"
printf 'UNSTEADY: %s failed, and passed when run again\n' "${names[@]}"
