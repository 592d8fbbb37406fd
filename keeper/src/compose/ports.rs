//! `ports` and `expose` of a service -> the ports of a container. PURE.

use super::values::text;
use serde_json::{Value, json};

/// Ports of one range.
const RANGE_MAX: u16 = 100;

/// Ports of a container, and what has no counterpart.
pub fn convert(ports: &Value, expose: &Value) -> (Vec<Value>, Vec<String>) {
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for port in ports.as_array().into_iter().flatten() {
        match of(port) {
            Ok((made, remark)) => {
                found.extend(made);
                remarks.extend(remark);
            }
            Err(why) => remarks.push(format!("ports: {why}")),
        }
    }
    for port in expose.as_array().into_iter().flatten().filter_map(text) {
        let (number, protocol) = protocol(&port);
        match number.parse::<u16>() {
            Ok(number) if !has(&found, number, &protocol) => {
                found.push(json!({"containerPort": number, "protocol": protocol}));
            }
            Ok(_) => {}
            Err(_) => remarks.push(format!("expose {port}: a range is left out; pods reach every port of each other")),
        }
    }
    (found, remarks)
}

fn has(found: &[Value], number: u16, protocol: &str) -> bool {
    found.iter().any(|port| port["containerPort"] == number && port["protocol"] == protocol)
}

fn of(port: &Value) -> Result<(Vec<Value>, Option<String>), String> {
    if let Value::Object(long) = port {
        let target = long.get("target").and_then(text).unwrap_or_default();
        let published = long.get("published").and_then(text).unwrap_or_default();
        let protocol = long.get("protocol").and_then(text).unwrap_or_else(|| "tcp".to_owned());
        let address = long.get("host_ip").and_then(text).unwrap_or_default();
        return made(&address, &published, &target, &protocol.to_uppercase());
    }
    let short = text(port).ok_or("a port is a text or a mapping")?;
    let (rest, protocol) = protocol(&short);
    let (address, rest) = match rest.rsplit_once(']') {
        // An IPv6 address.
        Some((address, rest)) => (address.trim_start_matches('['), rest.trim_start_matches(':')),
        None if rest.matches(':').count() > 1 => rest.split_once(':').unwrap_or(("", rest)),
        None => ("", rest),
    };
    let (published, target) = rest.split_once(':').unwrap_or(("", rest));
    made(address, published, target, &protocol)
}

/// `80/udp` -> 80, UDP.
fn protocol(port: &str) -> (&str, String) {
    let (number, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    (number, protocol.to_uppercase())
}

fn made(address: &str, published: &str, target: &str, protocol: &str) -> Result<(Vec<Value>, Option<String>), String> {
    let targets = range(target)?;
    let published = if published.is_empty() { None } else { Some(range(published)?) };
    let remark = match &published {
        None => Some(format!("ports {target}: Docker chose a free port of the host: write one as hostPort")),
        Some(published) if published.len() != targets.len() => {
            return Err(format!("{target}: {} ports of the host for {}", published.len(), targets.len()));
        }
        Some(_) => None,
    };
    let ports = targets.iter().enumerate().map(|(at, number)| {
        let mut port = json!({"containerPort": number, "protocol": protocol});
        if let Some(published) = &published {
            port["hostPort"] = json!(published[at]);
        }
        if !["", "0.0.0.0", "::"].contains(&address) {
            port["hostIP"] = json!(address);
        }
        port
    });
    Ok((ports.collect(), remark))
}

fn range(text: &str) -> Result<Vec<u16>, String> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|n| *n > 0).ok_or_else(|| format!("{text}: no port"));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if last < first || last - first >= RANGE_MAX {
        return Err(format!("{text}: a range has 1 to {RANGE_MAX} ports"));
    }
    Ok((first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long() {
        let port = |container: u16, more: Value| {
            let mut port = json!({"containerPort": container, "protocol": "TCP"});
            port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            port
        };
        let ports = json!(["8080:80", "127.0.0.1:1883:1883", "53:53/udp", "[::1]:81:82", 90, "7000-7001:8000-8001",
            {"target": 443, "published": "8443", "protocol": "tcp"}]);
        let (found, remarks) = convert(&ports, &json!(["3000", "80"]));
        let expected = [
            port(80, json!({"hostPort": 8080})),
            port(1883, json!({"hostPort": 1883, "hostIP": "127.0.0.1"})),
            port(53, json!({"hostPort": 53, "protocol": "UDP"})),
            port(82, json!({"hostPort": 81, "hostIP": "::1"})),
            port(90, json!({})),
            port(8000, json!({"hostPort": 7000})),
            port(8001, json!({"hostPort": 7001})),
            port(443, json!({"hostPort": 8443})),
            port(3000, json!({})),
        ];
        assert_eq!(found, expected);
        assert!(remarks.len() == 1 && remarks[0].contains("90") && remarks[0].contains("hostPort"), "{remarks:?}");
        let (found, remarks) = convert(&json!(["a:b", "1-3:1"]), &Value::Null);
        assert!(found.is_empty() && remarks.len() == 2, "{remarks:?}");
    }
}
