#![no_main]
//! Documents brought in the shape of their types, JSON as it comes, and texts of types.

use coracle_tests::fuzz::{Dice, engines, texts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    engines::json_bytes(bytes);
    engines::shape(&mut Dice::given(bytes));
    texts::schema(&String::from_utf8_lossy(bytes));
});
