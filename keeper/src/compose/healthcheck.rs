//! `healthcheck` of a service -> a readiness probe. PURE.
//!
//! Docker marks a container as unhealthy and does nothing else; a readiness probe does the same, and takes the pod out
//! of its services. A liveness probe, which restarts, is for the keeper to choose: a remark says so.

use super::duration::seconds;
use super::values::{text, words};
use serde_json::{Value, json};

/// Docker's own values.
const INTERVAL_S: u64 = 30;
const RETRIES: u64 = 3;

/// The probe, if there is one.
pub fn convert(check: &Value) -> Result<Option<Value>, String> {
    if check.is_null() || super::values::truth(&check["disable"]) {
        return Ok(None);
    }
    let command: Vec<String> = match &check["test"] {
        Value::String(line) => shell(line),
        Value::Array(all) => {
            let all: Vec<String> = all.iter().filter_map(text).collect();
            match all.split_first() {
                Some((form, _)) if form == "NONE" => return Ok(None),
                Some((form, rest)) if form == "CMD" => rest.to_vec(),
                Some((form, rest)) if form == "CMD-SHELL" => shell(&rest.join(" ")),
                _ => return Err("healthcheck: test begins with CMD, CMD-SHELL or NONE".to_owned()),
            }
        }
        _ => {
            return Err(
                "healthcheck: the test of the image itself has no counterpart: write it as readinessProbe".to_owned()
            );
        }
    };
    let time = |field: &str, default: u64| match text(&check[field]) {
        None => Ok(default),
        Some(text) => seconds(&text).ok_or_else(|| format!("healthcheck: {field} {text}: no duration")),
    };
    let mut probe = json!({
        "exec": {"command": command},
        "periodSeconds": time("interval", INTERVAL_S)?.max(1),
        "timeoutSeconds": time("timeout", INTERVAL_S)?.max(1),
        "failureThreshold": check["retries"].as_u64().unwrap_or(RETRIES).max(1),
    });
    let start = time("start_period", 0)?;
    if start > 0 {
        probe["initialDelaySeconds"] = json!(start);
    }
    Ok(Some(probe))
}

fn shell(line: &str) -> Vec<String> {
    // A plain command needs no shell, which not every image has.
    let plain = !line.contains(['|', '&', ';', '$', '>', '<', '`', '(', '*', '\\']);
    match words(line) {
        Ok(words) if plain && !words.is_empty() && !["exit", "test", "["].contains(&words[0].as_str()) => words,
        _ => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form() {
        let probe = |check: Value| convert(&check).unwrap();
        let found = probe(json!({"test": ["CMD", "pg_isready", "-U", "x"], "interval": "10s", "timeout": "5s",
            "retries": 5, "start_period": "1m"}))
        .unwrap();
        let expected = json!({"exec": {"command": ["pg_isready", "-U", "x"]}, "periodSeconds": 10, "timeoutSeconds": 5,
            "failureThreshold": 5, "initialDelaySeconds": 60});
        assert_eq!(found, expected);
        let found = probe(json!({"test": "curl -f http://localhost || exit 1"})).unwrap();
        assert_eq!(found["exec"]["command"], json!(["/bin/sh", "-c", "curl -f http://localhost || exit 1"]));
        assert_eq!((&found["periodSeconds"], &found["failureThreshold"]), (&json!(30), &json!(3)));
        let found = probe(json!({"test": ["CMD-SHELL", "mosquitto_sub -t x"]})).unwrap();
        assert_eq!(found["exec"]["command"], json!(["mosquitto_sub", "-t", "x"]));
        assert_eq!((probe(json!({"test": ["NONE"]})), probe(json!({"disable": true}))), (None, None));
        assert!(
            convert(&json!({"interval": "5s"})).is_err() && convert(&json!({"test": "a", "interval": "x"})).is_err()
        );
    }
}
