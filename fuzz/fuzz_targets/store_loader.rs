#![no_main]
//! A data directory with a file of anything.

use coracle_tests::fuzz::store;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| store::load_bytes(bytes));
