//! Protobuf, the shapes of the types, JSON as it comes.

use super::documents::{document, names};
use super::{Dice, rounds, spoil, spoil_bytes};
use coracle_api::types;
use coracle_schema::{check, decode, default, protobuf, read, tidy};
use serde_json::Value;

/// A message that is read is read the same again from what is written of it.
#[test]
fn protobuf_messages() {
    let types = types::builtin();
    let (all, _) = names(&types);
    rounds(20_000, |dice| {
        let name = dice.pick(&all);
        let mut message = protobuf::encode(&types, name, &document(&types, name, dice, 4));
        spoil_bytes(&mut message, dice);
        let Ok(found) = protobuf::decode(&types, name, &message) else { return };
        let again = protobuf::encode(&types, name, &found);
        assert_eq!(protobuf::decode(&types, name, &again), Ok(found), "{name}: {message:02x?}");
    });
}

#[test]
fn protobuf_envelopes() {
    rounds(5_000, |dice| {
        let mut bytes = protobuf::seal("apps/v1", "Deployment", b"\x0a\x03\x0a\x01a");
        spoil_bytes(&mut bytes, dice);
        if let Ok(envelope) = protobuf::open(&bytes) {
            let sealed = protobuf::seal(&envelope.api_version, &envelope.kind, envelope.raw);
            let again = protobuf::open(&sealed).expect("what is sealed opens");
            assert_eq!((again.api_version, again.kind, again.raw), (envelope.api_version, envelope.kind, envelope.raw));
        }
    });
}

/// Reading brings a document in form once and for all; so do defaults, and taking out what says nothing.
#[test]
fn shapes() {
    let types = types::builtin();
    let (all, _) = names(&types);
    rounds(20_000, |dice| {
        let name = dice.pick(&all);
        let mut found = document(&types, name, dice, 4);
        spoil(&mut found, dice);
        let sent = found.clone();
        if !decode(&types, name, &mut found).faults.is_empty() {
            return;
        }
        let settle = |step: &str, value: &mut Value, settle: &dyn Fn(&mut Value)| {
            settle(value);
            let once = value.clone();
            settle(value);
            assert_eq!(*value, once, "{step} twice, {name}: {sent}");
        };
        settle("decode", &mut found, &|value| {
            let decoded = decode(&types, name, value);
            assert_eq!(decoded, Default::default(), "decode again, {name}: {sent}");
        });
        settle("default", &mut found, &|value| default(&types, name, value));
        settle("tidy", &mut found, &|value| tidy(&types, name, value));
        check(&types, name, &found);
    });
}

/// What is read of spoiled JSON is what serde_json reads, but for fields that stand there twice.
#[test]
fn json_texts() {
    let types = types::builtin();
    let (all, _) = names(&types);
    rounds(10_000, |dice| {
        let mut text = document(&types, &all[dice.below(all.len())], dice, 3).to_string().into_bytes();
        spoil_bytes(&mut text, dice);
        let whole: Result<Value, _> = serde_json::from_slice(&text);
        match (read(&text), whole) {
            (Ok((found, _)), Ok(wanted)) => assert_eq!(found, wanted),
            (Err(_), Err(_)) => {}
            (found, wanted) => panic!("{found:?} where serde_json says {wanted:?}: {}", String::from_utf8_lossy(&text)),
        }
    });
}

#[test]
fn the_dice_are_fair_enough() {
    let mut dice = Dice::of(1);
    let mut seen = [0; 4];
    (0..4000).for_each(|_| seen[dice.below(4)] += 1);
    assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
}
