//! Amounts: v1beta1 counts cores and bytes in plain numbers, v1 in quantities such as `250m` and `64Mi`.

use coracle_schema::{Path, Problem, Quantity};
use serde_json::{Value, json};

use super::reading::{Object, OldReading, brief};

/// The amount in a value of an older version or of v1.
pub(super) fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// `{cpu: 0.5, memory: 67108864}` as quantities. A quantity of v1 is taken as it is.
pub(super) fn read_amounts(value: &Value, path: &Path, seen: &mut OldReading) -> Option<Value> {
    let Value::Object(from) = value else {
        seen.mistyped(path, value, "must be a map of amounts");
        return None;
    };
    let mut amounts = Object::new();
    for (name, value) in from.iter().filter(|(_, value)| !value.is_null() && *value != "") {
        match (amount(value), value) {
            (Some(_), Value::String(text)) if text.ends_with(|c: char| c.is_ascii_alphabetic()) => {
                amounts.insert(name.clone(), value.clone());
            }
            (Some(amount), _) => {
                amounts.insert(name.clone(), json!(amount.to_string()));
            }
            (None, _) => {
                let wanted = if name == "cpu" {
                    "cores, or a quantity such as 250m"
                } else {
                    "bytes or pieces, or a quantity such as 64Mi"
                };
                seen.problem(Problem::invalid(&path.key(name), brief(value), format!("must be a number of {wanted}")));
            }
        }
    }
    (!amounts.is_empty()).then_some(Value::Object(amounts))
}

/// Quantities as v1beta1 shows them: cores as decimal text, all else as whole numbers.
pub(super) fn show_amounts(value: &Value) -> Option<Value> {
    let amounts = value.as_object()?.iter();
    Some(amounts.filter_map(|(name, value)| Some((name.clone(), show_amount(name, value)?))).collect())
}

pub(super) fn show_amount(name: &str, value: &Value) -> Option<Value> {
    let amount = amount(value)?;
    Some(if name == "cpu" { json!(decimal(amount.milli())) } else { json!(amount.value()) })
}

/// Thousandths of a core as cores.
fn decimal(milli: i64) -> String {
    let sign = if milli < 0 { "-" } else { "" };
    let milli = milli.unsigned_abs();
    let fraction = format!("{:03}", milli % 1000);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{sign}{}", milli / 1000) } else { format!("{sign}{}.{fraction}", milli / 1000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_bytes_are_quantities_in_v1() {
        let table = [
            ("cpu", json!(0.5), "500m", json!("0.5")),
            ("cpu", json!("0.5"), "500m", json!("0.5")),
            ("cpu", json!(2), "2", json!("2")),
            ("cpu", json!("250m"), "250m", json!("0.25")),
            ("cpu", json!("1.5"), "1500m", json!("1.5")),
            ("memory", json!(67108864), "67108864", json!(67108864)),
            ("memory", json!("67108864"), "67108864", json!(67108864)),
            ("memory", json!("64Mi"), "64Mi", json!(67108864)),
            ("pods", json!(110), "110", json!(110)),
        ];
        for (name, sent, stored, shown) in table {
            let mut seen = OldReading::default();
            let read = read_amounts(&json!({ name: sent }), &Path::root(), &mut seen);
            assert_eq!(read, Some(json!({ name: stored })), "{sent}");
            assert_eq!(show_amounts(&json!({ name: stored })), Some(json!({ name: shown })), "{sent}");
        }
        let mut seen = OldReading::default();
        assert_eq!(
            read_amounts(&json!({"cpu": "two", "memory": [], "pods": null}), &Path::new("resources.limits"), &mut seen),
            None
        );
        let problems: Vec<String> = seen.problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            problems,
            [
                "resources.limits[cpu]: Invalid value: \"two\": must be a number of cores, or a quantity such as 250m",
                "resources.limits[memory]: Invalid value: \"a list\": must be a number of bytes or pieces, or a \
                 quantity such as 64Mi",
            ]
        );
    }
}
