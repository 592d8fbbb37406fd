#![no_main]
//! YAML: what is read of it is read the same again from what is written of it.

use coracle_tests::fuzz::texts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        texts::yaml(text);
    }
});
