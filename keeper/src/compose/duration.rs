//! Durations and sizes as Compose writes them: `1m30s`, `90s`, `512m`. PURE.

/// Whole seconds, at least one where there is something. `None`: this is no duration.
pub fn seconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut micros: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, factor) = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6), ("h", 3600e6)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit) && (*unit != "m" || !rest.starts_with("ms")))?;
        micros = micros.checked_add((number * factor) as u64)?;
        rest = &rest[unit.len()..];
    }
    Some(micros.div_ceil(1_000_000))
}

/// A quantity of Kubernetes: Compose's `m` is a megabyte of 1024 times 1024.
pub fn quantity(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    number.parse::<u64>().ok()?;
    let unit = match unit {
        "" | "b" => "",
        "k" | "kb" => "Ki",
        "m" | "mb" => "Mi",
        "g" | "gb" => "Gi",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_compose_writes_them() {
        for (text, expected) in
            [("90s", Some(90)), ("1m30s", Some(90)), ("1h", Some(3600)), ("500ms", Some(1)), ("2", None), ("", None)]
        {
            assert_eq!(seconds(text), expected, "{text}");
        }
        for (text, expected) in
            [("512m", Some("512Mi")), ("1g", Some("1Gi")), ("64MB", Some("64Mi")), ("100", Some("100")), ("1x", None)]
        {
            assert_eq!(quantity(text).as_deref(), expected, "{text}");
        }
    }
}
