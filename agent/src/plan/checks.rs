//! Hooks and probes of a pod, with ports by name resolved. PURE.

use coracle_api::pod::{Action, Container};
use coracle_api::quantity::IntOrString;

use crate::runtime::Check;

/// None: the action is empty or its port cannot be told. An empty host stays empty and means the pod.
pub fn check_of(action: &Action, container: &Container) -> Option<Check> {
    if let Some(exec) = &action.exec {
        return Some(Check::Exec { command: exec.command.clone() });
    }
    if let Some(get) = &action.http_get {
        let path = if get.path.starts_with('/') { get.path.clone() } else { format!("/{}", get.path) };
        let scheme = if get.scheme.is_empty() { "HTTP".to_owned() } else { get.scheme.clone() };
        let headers = get.http_headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        return Some(Check::Http { scheme, host: get.host.clone(), port: port_of(&get.port, container)?, path, headers });
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
