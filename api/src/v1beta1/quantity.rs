//! Amounts: v1beta1 counts cores and bytes in plain numbers, v1 in quantities such as `250m` and `64Mi`.

use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

use super::shape::{Object, Reading, brief};

/// No amount that means something is longer; a stranger's number may be.
const LENGTH_MAX: usize = 40;

const NANO: i128 = 1_000_000_000;

/// A quantity in billionths.
pub(super) fn nanos(text: &str) -> Option<i128> {
    if text.is_empty() || text.len() > LENGTH_MAX {
        return None;
    }
    let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (times, over) = scale(suffix)?;
    let over = over.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let value = mantissa.checked_mul(NANO)?.checked_mul(times)?;
    let value = value.checked_add(over - 1)? / over;
    Some(if negative { -value } else { value })
}

/// A suffix as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let power = |base: i128, exponent: u32| base.checked_pow(exponent);
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (power(10, 6)?, 1),
        "G" => (power(10, 9)?, 1),
        "T" => (power(10, 12)?, 1),
        "P" => (power(10, 15)?, 1),
        "E" => (power(10, 18)?, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => match exponent.strip_prefix(['e', 'E'])?.parse::<i32>().ok()? {
            up @ 0.. => (power(10, up.unsigned_abs())?, 1),
            down => (1, power(10, down.unsigned_abs())?),
        },
    })
}

/// Billionths of a core as a quantity: `2`, `250m`, `1u`.
pub(super) fn cores(nanos: i128) -> String {
    [(NANO, ""), (1_000_000, "m"), (1_000, "u")]
        .iter()
        .find(|(unit, _)| nanos % unit == 0)
        .map_or_else(|| format!("{nanos}n"), |(unit, suffix)| format!("{}{suffix}", nanos / unit))
}

/// Thousandths of a core as v1beta1's `cpu`, rounded up.
pub(super) fn millis(nanos: i128) -> Option<i64> {
    i64::try_from((nanos + 999_999).div_euclid(1_000_000)).ok()
}

/// Rounded up.
pub(super) fn whole(nanos: i128) -> Option<i64> {
    i64::try_from((nanos + NANO - 1).div_euclid(NANO)).ok()
}

/// The amount of a v1 value; tolerates numbers.
pub(super) fn amount(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => nanos(text),
        Value::Number(number) => nanos(&number.to_string()),
        _ => None,
    }
}

/// `{cpu: 0.5, memory: 67108864}` as quantities. A quantity of v1 is taken as it is.
pub(super) fn read_amounts(value: &Value, path: &Path, seen: &mut Reading) -> Option<Value> {
    let Value::Object(from) = value else {
        seen.mistyped(path, value, "must be a map of amounts");
        return None;
    };
    let mut amounts = Object::new();
    for (name, value) in from.iter().filter(|(_, value)| !value.is_null() && *value != "") {
        match amount(value) {
            Some(nanos) => {
                amounts.insert(name.clone(), json!(as_quantity(name, value, nanos)));
            }
            None => {
                let detail = if name == "cpu" {
                    "must be a number of cores, or a quantity such as 250m"
                } else {
                    "must be a number, or a quantity such as 64Mi"
                };
                seen.problem(Problem::invalid(&path.field(name), brief(value), detail));
            }
        }
    }
    (!amounts.is_empty()).then_some(Value::Object(amounts))
}

fn as_quantity(name: &str, value: &Value, nanos: i128) -> String {
    match value {
        // What already is a quantity keeps its unit.
        Value::String(text) if text.ends_with(|c: char| c.is_ascii_alphabetic()) => text.clone(),
        _ if name == "cpu" => cores(nanos),
        _ => whole(nanos).map_or_else(|| cores(nanos), |whole| whole.to_string()),
    }
}

/// Quantities as v1beta1 shows them: cores as decimal text, all else as whole numbers.
pub(super) fn show_amounts(value: &Value) -> Option<Value> {
    let mut shown = Object::new();
    for (name, value) in value.as_object()? {
        let Some(nanos) = amount(value) else { continue };
        let amount = if name == "cpu" { Some(json!(decimal(nanos))) } else { whole(nanos).map(|whole| json!(whole)) };
        if let Some(amount) = amount {
            shown.insert(name.clone(), amount);
        }
    }
    Some(Value::Object(shown))
}

fn decimal(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let unit = NANO.unsigned_abs();
    let fraction = format!("{:09}", nanos % unit);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{sign}{}", nanos / unit) } else { format!("{sign}{}.{fraction}", nanos / unit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_shown() {
        for (text, cores_text, shown) in [
            ("0.5", "500m", "0.5"),
            ("2", "2", "2"),
            ("250m", "250m", "0.25"),
            ("1500m", "1500m", "1.5"),
            ("1e3", "1000", "1000"),
            ("5.", "5", "5"),
            ("+1", "1", "1"),
            ("1n", "1n", "0.000000001"),
        ] {
            let nanos = nanos(text).expect(text);
            assert_eq!(cores(nanos), cores_text, "{text}");
            assert_eq!(decimal(nanos), shown, "{text}");
        }
        assert_eq!(nanos("64Mi").and_then(whole), Some(64 << 20));
        assert_eq!(nanos("1k").and_then(millis), Some(1_000_000));
        for bad in ["", "x", "1x", "--1", "1.2.3", "Mi", ".", "1e999", "99999999999999999999999999999999999999", "1 ", "-+1"] {
            assert_eq!(nanos(bad), None, "{bad}");
        }
    }
}
