#![no_main]
//! Frames of SPDY and their compressed headers: read byte for byte as all at once.

use coracle_tests::fuzz::streams;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| streams::spdy_bytes(bytes));
