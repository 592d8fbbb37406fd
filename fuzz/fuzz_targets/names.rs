#![no_main]
//! Messages of DNS, from clients and from servers that are asked.

use coracle_tests::fuzz::names;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| names::bytes(bytes));
