#![no_main]
//! Frames of WebSocket: read byte for byte as all at once, never more out than in.

use coracle_tests::fuzz::streams;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| streams::web_socket(bytes));
