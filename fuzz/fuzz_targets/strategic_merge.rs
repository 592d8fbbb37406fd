#![no_main]
//! Patches: what one makes of a document it makes of the result again.

use coracle_tests::fuzz::{Dice, patches};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [which, bytes @ ..] = bytes else { return };
    let dice = &mut Dice::given(bytes);
    match which % 8 {
        0 => patches::merge_patch(dice),
        1 => patches::operations(dice),
        2 | 3 => patches::applied(dice),
        _ => patches::strategic(dice),
    }
});
