//! Hooks and probes of a pod, with ports by name resolved. PURE.

use coracle_api::pod::{Action, Container, Probe};
use coracle_api::quantity::IntOrString;

use crate::runtime::Check;

/// Each probe asks for itself: a container may have one of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// The others wait until it has passed.
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

/// None: the action is empty or its port cannot be told. An empty host stays empty and means the pod.
pub fn check_of(action: &Action, container: &Container) -> Option<Check> {
    if let Some(exec) = &action.exec {
        return Some(Check::Exec { command: exec.command.clone() });
    }
    if let Some(get) = &action.http_get {
        let path = if get.path.starts_with('/') { get.path.clone() } else { format!("/{}", get.path) };
        let scheme = if get.scheme.is_empty() { "HTTP".to_owned() } else { get.scheme.clone() };
        let headers = get.http_headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        return Some(Check::Http {
            scheme,
            host: get.host.clone(),
            port: port_of(&get.port, container)?,
            path,
            headers,
        });
    }
    if let Some(sleep) = &action.sleep {
        return Some(Check::Sleep { seconds: u64::try_from(sleep.seconds).unwrap_or(0) });
    }
    if let Some(grpc) = &action.grpc {
        let port = u16::try_from(grpc.port).ok().filter(|port| *port != 0)?;
        return Some(Check::Grpc { host: String::new(), port, service: grpc.service.clone().unwrap_or_default() });
    }
    let tcp = action.tcp_socket.as_ref()?;
    Some(Check::Tcp { host: tcp.host.clone(), port: port_of(&tcp.port, container)? })
}

/// By number, by the name of a port of this container, or by a number written as text, as in 2014.
pub fn port_of(port: &IntOrString, container: &Container) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().find(|port| port.name == *name).map(|port| port.container_port);
            named.or_else(|| name.parse().ok())?
        }
    };
    u16::try_from(number).ok().filter(|port| *port != 0)
}
