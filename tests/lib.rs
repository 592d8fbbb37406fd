//! Tests across the crates; see `it/` (in process) and `e2e/` (real Docker, real binaries).
