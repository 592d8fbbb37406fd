//! Hooks and probes of a pod, with ports by name resolved. PURE.

use coracle_api::pod::{Action, Container, Probe};
use coracle_api::quantity::IntOrString;

use crate::facts::engine::Check;

/// Each probe asks for itself: a container may have one of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// The liveness and readiness probes wait until this probe has passed.
    Startup,
    Liveness,
    Readiness,
}

impl ProbeKind {
    pub const ALL: [ProbeKind; 3] = [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness];

    /// At the start of an event's text.
    pub fn name(self) -> &'static str {
        match self {
            ProbeKind::Startup => "Startup",
            ProbeKind::Liveness => "Liveness",
            ProbeKind::Readiness => "Readiness",
        }
    }

    /// The probe of this kind that a container asks for.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            ProbeKind::Startup => container.startup_probe.as_ref(),
            ProbeKind::Liveness => container.liveness_probe.as_ref(),
            ProbeKind::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// How a probe found a container dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    pub probe: ProbeKind,
    /// The probe's last output, in words.
    pub output: String,
}

/// None: the action is empty. An empty host stays empty and means the pod.
pub fn check_of(action: &Action, container: &Container) -> Option<Check> {
    if let Some(exec) = &action.exec {
        return Some(Check::Exec { command: exec.command.clone() });
    }
    if let Some(get) = &action.http_get {
        let path = if get.path.starts_with('/') { get.path.clone() } else { format!("/{}", get.path) };
        let scheme = if get.scheme.is_empty() { "HTTP".to_owned() } else { get.scheme.clone() };
        let headers = get.http_headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        return Some(at(port_of(&get.port, container), |port| Check::Http {
            scheme,
            host: get.host.clone(),
            port,
            path,
            headers,
        }));
    }
    if let Some(sleep) = &action.sleep {
        return Some(Check::Sleep { seconds: u64::try_from(sleep.seconds).unwrap_or(0) });
    }
    if let Some(grpc) = &action.grpc {
        let service = grpc.service.clone().unwrap_or_default();
        return Some(at(number(grpc.port), |port| Check::Grpc { host: String::new(), port, service }));
    }
    let tcp = action.tcp_socket.as_ref()?;
    Some(at(port_of(&tcp.port, container), |port| Check::Tcp { host: tcp.host.clone(), port }))
}

/// The check that a hook runs. A kubelet runs no tcpSocket hook: the hook has failed.
pub fn hook_of(action: &Action, container: &Container) -> Option<Check> {
    match check_of(action, container)? {
        Check::Tcp { .. } => Some(Check::Broken { why: "invalid handler: a hook of tcpSocket is not run".to_owned() }),
        check => Some(check),
    }
}

fn at(port: Result<u16, String>, check: impl FnOnce(u16) -> Check) -> Check {
    port.map_or_else(|why| Check::Broken { why }, check)
}

/// By number, by the name of a port of this container, or by a number written as text, as in 2014. The error is in a
/// kubelet's words.
fn port_of(port: &IntOrString, container: &Container) -> Result<u16, String> {
    match port {
        IntOrString::Int(port) => number(*port),
        IntOrString::String(name) => {
            let named = container.ports.iter().find(|port| port.name == *name).map(|port| port.container_port);
            let text = || name.parse().map_err(|_| format!("strconv.Atoi: parsing {name:?}: invalid syntax"));
            number(named.map_or_else(text, Ok)?)
        }
    }
}

fn number(port: i32) -> Result<u16, String> {
    u16::try_from(port).ok().filter(|port| *port != 0).ok_or_else(|| format!("invalid port number: {port}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ports_by_number_and_name() {
        let container: Container = serde_json::from_value(json!({
            "name": "c", "ports": [{"name": "http", "containerPort": 8080}, {"name": "80", "containerPort": 81}],
        }))
        .unwrap();
        let check = |port: serde_json::Value, expected: Result<u16, &str>| {
            let actions = [json!({"tcpSocket": {"port": port}}), json!({"httpGet": {"port": port, "path": "/x"}})];
            for action in actions {
                let found = match check_of(&serde_json::from_value(action).unwrap(), &container) {
                    Some(Check::Tcp { port, .. } | Check::Http { port, .. }) => Ok(port),
                    Some(Check::Broken { why }) => Err(why),
                    other => panic!("{other:?}"),
                };
                assert_eq!(found, expected.map_err(str::to_owned), "{port}");
            }
        };
        check(json!(80), Ok(80));
        check(json!("http"), Ok(8080));
        check(json!("80"), Ok(81));
        check(json!("82"), Ok(82));
        check(json!("nobody"), Err("strconv.Atoi: parsing \"nobody\": invalid syntax"));
        check(json!("70000"), Err("invalid port number: 70000"));
        check(json!(0), Err("invalid port number: 0"));
        let grpc = serde_json::from_value(json!({"grpc": {"port": 70000}})).unwrap();
        assert_eq!(check_of(&grpc, &container), Some(Check::Broken { why: "invalid port number: 70000".to_owned() }));
        assert_eq!(check_of(&Action::default(), &container), None);
    }

    #[test]
    fn a_hook_of_tcp_socket_has_failed() {
        for (action, runs) in [
            (json!({"tcpSocket": {"port": 80}}), Some(false)),
            (json!({"httpGet": {"port": 80}}), Some(true)),
            (json!({"exec": {"command": ["true"]}}), Some(true)),
            (json!({"sleep": {"seconds": 1}}), Some(true)),
            (json!({}), None),
        ] {
            let hook = hook_of(&serde_json::from_value(action.clone()).unwrap(), &Container::default());
            assert_eq!(hook.map(|check| !matches!(check, Check::Broken { .. })), runs, "{action}");
        }
    }
}
