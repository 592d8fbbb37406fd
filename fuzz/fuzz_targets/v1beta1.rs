#![no_main]
//! Documents of v1beta1 to v1beta3: read or refused, and what is read is put back without a change.

use coracle_tests::fuzz::{Dice, old};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match serde_json::from_slice(bytes) {
        Ok(document) => old::read(&document, "Pod"),
        Err(_) => old::document(&mut Dice::given(bytes)),
    }
});
