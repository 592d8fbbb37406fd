#![no_main]
//! Messages of every type, and what they come in.

use coracle_tests::fuzz::{Dice, engines};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    engines::protobuf_bytes(bytes);
    engines::protobuf_message(&mut Dice::given(bytes));
});
