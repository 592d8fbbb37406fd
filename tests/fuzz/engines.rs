//! Protobuf, the shapes of the types, JSON as it comes.

use super::documents::{builtin, document};
use super::{Dice, spoil, spoil_bytes};
use coracle_schema::{Types, check, decode, default, protobuf, read, tidy};
use serde_json::Value;

pub fn protobuf_message(dice: &mut Dice) {
    let (types, name) = any(dice);
    let mut message = protobuf::encode(types, name, &document(types, name, dice, 4));
    spoil_bytes(&mut message, dice);
    message_read(types, name, &message);
}

/// Of any type, the bytes as they are.
pub fn protobuf_bytes(bytes: &[u8]) {
    let [first, second, message @ ..] = bytes else { return };
    let (types, all) = (builtin().types(), builtin().all());
    message_read(types, &all[(usize::from(*first) << 8 | usize::from(*second)) % all.len()], message);
    envelope(bytes);
}

/// A message that is read is read the same again from what is written of it.
fn message_read(types: &Types, name: &str, message: &[u8]) {
    let Ok(found) = protobuf::decode(types, name, message) else { return };
    let again = protobuf::encode(types, name, &found);
    assert_eq!(protobuf::decode(types, name, &again), Ok(found), "{name}: {message:02x?}");
}

pub fn protobuf_envelope(dice: &mut Dice) {
    let mut bytes = protobuf::seal("apps/v1", "Deployment", |out| out.extend_from_slice(b"\x0a\x03\x0a\x01a"));
    spoil_bytes(&mut bytes, dice);
    envelope(&bytes);
}

fn envelope(bytes: &[u8]) {
    if let Ok(envelope) = protobuf::open(bytes) {
        let sealed = protobuf::seal(&envelope.api_version, &envelope.kind, |out| out.extend_from_slice(envelope.raw));
        let again = protobuf::open(&sealed).expect("what is sealed opens");
        assert_eq!((again.api_version, again.kind, again.raw), (envelope.api_version, envelope.kind, envelope.raw));
    }
}

/// Reading brings a document in form once and for all; so do defaults, and taking out what says nothing.
pub fn shape(dice: &mut Dice) {
    let (types, name) = any(dice);
    let mut found = document(types, name, dice, 4);
    spoil(&mut found, dice);
    let sent = found.clone();
    if !decode(types, name, &mut found).faults.is_empty() {
        return;
    }
    let settle = |step: &str, value: &mut Value, settle: &dyn Fn(&mut Value)| {
        settle(value);
        let once = value.clone();
        settle(value);
        assert_eq!(*value, once, "{step} twice, {name}: {sent}");
    };
    settle("decode", &mut found, &|value| {
        let decoded = decode(types, name, value);
        assert_eq!(decoded, Default::default(), "decode again, {name}: {sent}");
    });
    settle("default", &mut found, &|value| default(types, name, value));
    settle("tidy", &mut found, &|value| tidy(types, name, value));
    check(types, name, &found);
}

pub fn json_text(dice: &mut Dice) {
    let (types, name) = any(dice);
    let mut text = document(types, name, dice, 3).to_string().into_bytes();
    spoil_bytes(&mut text, dice);
    json_bytes(&text);
}

/// What is read of any bytes is what serde_json reads, but for fields that stand there twice.
pub fn json_bytes(text: &[u8]) {
    let whole: Result<Value, _> = serde_json::from_slice(text);
    match (read(text), whole) {
        (Ok((found, _)), Ok(wanted)) => assert_eq!(found, wanted),
        (Err(_), Err(_)) => {}
        (found, wanted) => panic!("{found:?} where serde_json says {wanted:?}: {}", String::from_utf8_lossy(text)),
    }
}

/// Any type.
fn any(dice: &mut Dice) -> (&'static Types, &'static str) {
    (builtin().types(), dice.pick::<String>(builtin().all()))
}
