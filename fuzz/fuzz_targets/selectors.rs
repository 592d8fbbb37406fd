#![no_main]
//! Selectors of labels, in both grammars, and of fields.

use coracle_tests::fuzz::texts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        texts::label_selector(text);
        texts::field_selector(text);
    }
});
