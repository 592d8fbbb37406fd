//! What strangers send: mutated bytes and documents through every engine and through a whole master. Nothing panics,
//! what is taken is stable, and the work grows with the input, not with its square.
//!
//! One round of each target stands in `tests/fuzz`, which `fuzz/` uses as well.
//!
//! Every failure prints its seed; `CORACLE_SEED=N make some WORDS=fuzz::TARGET` repeats it alone.

mod linear;
mod server;

use coracle_tests::fuzz::{Dice, engines, names, old, patches, store, streams, texts};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a target with many seeds, or with the one that CORACLE_SEED names.
fn rounds(count: u64, one: impl Fn(&mut Dice)) {
    let named = std::env::var("CORACLE_SEED").ok().map(|seed| seed.parse().expect("CORACLE_SEED is a number"));
    let seeds = named.map_or(1..=count, |seed: u64| seed..=seed);
    for seed in seeds {
        if catch_unwind(AssertUnwindSafe(|| one(&mut Dice::of(seed)))).is_err() {
            panic!("CORACLE_SEED={seed}");
        }
    }
}

#[test]
fn protobuf_messages() {
    rounds(20_000, engines::protobuf_message);
}

#[test]
fn protobuf_envelopes() {
    rounds(5_000, engines::protobuf_envelope);
}

#[test]
fn shapes() {
    rounds(20_000, engines::shape);
}

#[test]
fn json_texts() {
    rounds(10_000, engines::json_text);
}

#[test]
fn yaml_texts() {
    rounds(4_000, texts::yaml_text);
}

#[test]
fn old_documents() {
    rounds(6_000, old::document);
}

#[test]
fn strategic_twice_is_once() {
    rounds(8_000, patches::strategic);
}

#[test]
fn merge_twice_is_once() {
    rounds(6_000, patches::merge_patch);
}

#[test]
fn json_operations() {
    rounds(6_000, patches::operations);
}

#[test]
fn applying_again_settles() {
    rounds(6_000, patches::applied);
}

#[test]
fn label_selectors() {
    rounds(20_000, texts::label_selector_text);
}

#[test]
fn field_selectors() {
    rounds(20_000, texts::field_selector_text);
}

#[test]
fn quantities() {
    rounds(20_000, texts::quantity_text);
}

#[test]
fn texts_of_types() {
    rounds(600, texts::types_text);
}

#[test]
fn targets_of_requests() {
    rounds(20_000, texts::target);
}

#[test]
fn loads() {
    rounds(100, store::load);
}

#[test]
fn frames_of_web_sockets() {
    rounds(20_000, streams::web_socket_frames);
}

#[test]
fn messages_of_dns() {
    rounds(5_000, names::messages);
}

#[test]
fn frames_of_spdy() {
    rounds(10_000, streams::spdy_frames);
}
