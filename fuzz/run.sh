#!/usr/bin/env bash
# run.sh TARGET SECONDS: one target with coverage and libFuzzer, built by any toolchain; cargo-fuzz is not needed. What breaks a
# promise is left in fuzz/artifacts/TARGET.
set -euo pipefail
cd "$(dirname "$0")"
target=$1 seconds=${2:-60}
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
triple=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --target "$triple" --bin "$target"
mkdir -p "corpus/$target" "artifacts/$target"
"target/$triple/release/$target" "corpus/$target" -artifact_prefix="artifacts/$target/" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048
