//! What strangers send: one round of each target, from a throw of the dice. `tests/it/fuzz` plays them with seeds in
//! `cargo test`, `fuzz/` lets libFuzzer throw. A round panics where a promise is broken, and only there.

pub mod connections;
pub mod documents;
pub mod engines;
pub mod names;
pub mod old;
pub mod patches;
pub mod store;
pub mod streams;
pub mod texts;

use serde_json::{Value, json};

/// Chance that is the same every time: of a seed, or of what a fuzzer says.
pub struct Dice(Source);

enum Source {
    Seed(u64),
    /// Used up from the end.
    Given(Vec<u8>),
}

impl Dice {
    pub fn of(seed: u64) -> Dice {
        // Small seeds differ in a few bits only; xorshift needs some steps to spread them.
        let mut dice = Dice(Source::Seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
        (0..8).for_each(|_| _ = dice.below(2));
        dice
    }

    /// Of bytes that a fuzzer made; when they are used up all throws are 0.
    pub fn given(bytes: &[u8]) -> Dice {
        Dice(Source::Given(bytes.iter().rev().copied().collect()))
    }

    pub fn below(&mut self, end: usize) -> usize {
        match &mut self.0 {
            Source::Seed(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                ((*state >> 11) % end.max(1) as u64) as usize
            }
            Source::Given(bytes) => {
                let wide = if end > 256 { usize::from(bytes.pop().unwrap_or_default()) << 8 } else { 0 };
                (wide | usize::from(bytes.pop().unwrap_or_default())) % end.max(1)
            }
        }
    }

    /// Once in so many.
    pub fn once_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Bytes that were right, a little wrong.
pub fn spoil_bytes(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let until = (at + 1 + dice.below(8)).min(bytes.len());
        match dice.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = *dice.pick(b"\0\x7f\x80\xff\"\\{}[]:,-0 \n#&*!|>%@`'"),
            2 => bytes.insert(at, dice.below(256) as u8),
            3 => drop(bytes.drain(at..until)),
            4 => bytes.truncate(at),
            5 => {
                let again = bytes[at..until].to_vec();
                let before = dice.below(bytes.len() + 1);
                bytes.splice(before..before, again);
            }
            _ => bytes.extend_from_slice(dice.pick::<&[u8]>(&[
                &b"\xef\xbb\xbf"[..],
                b"\n---\n",
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                b"]}",
            ])),
        }
    }
}

/// Values that are odd anywhere.
pub fn odd(dice: &mut Dice) -> Value {
    let mut deep = json!("end");
    (0..dice.below(40)).for_each(|_| deep = json!([deep]));
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("9".repeat(300)),
        json!("\u{0}\u{fffd}\n"),
        json!("2026-13-45T99:99:99Z"),
        json!("1e9999999999Gi"),
        json!([]),
        json!({}),
        json!([null]),
        json!([[]]),
        json!({"": {"": null}}),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace", "a": 1}),
        json!({"$retainKeys": ["name"]}),
        json!({"$setElementOrder/containers": [{"name": "x"}]}),
        json!("$patch"),
        json!({"name": "a"}),
        json!(["a", "a"]),
        json!([{"name": "a"}, {"name": "a"}]),
        deep,
    ];
    dice.pick(&values).clone()
}

/// A document that was right, a little wrong.
pub fn spoil(value: &mut Value, dice: &mut Dice) {
    if dice.once_in(30) {
        *value = odd(dice);
        return;
    }
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(|value| spoil(value, dice));
            let name = map.keys().nth(dice.below(map.len())).cloned();
            match (dice.below(24), name) {
                (0, Some(name)) => drop(map.remove(&name)),
                (1, Some(name)) => drop(map.insert(name + "x", odd(dice))),
                (2, Some(name)) => {
                    let value = map.remove(&name).expect("it was just there");
                    map.insert(
                        format!(
                            "{}/{name}",
                            dice.pick(&["$setElementOrder", "$deleteFromPrimitiveList", "$retainKeys"])
                        ),
                        value,
                    );
                }
                (3, _) => drop(
                    map.insert("$patch".to_owned(), json!(*dice.pick(&["delete", "replace", "merge", "nonsense"]))),
                ),
                _ => {}
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|value| spoil(value, dice));
            match dice.below(12) {
                0 if !list.is_empty() => list.push(dice.pick(list).clone()),
                1 if !list.is_empty() => drop(list.remove(dice.below(list.len()))),
                2 => list.push(odd(dice)),
                3 => list.reverse(),
                _ => {}
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_dice_are_fair_enough() {
        let mut dice = Dice::of(1);
        let mut seen = [0; 4];
        (0..4000).for_each(|_| seen[dice.below(4)] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }
}
