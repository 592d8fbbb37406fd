//! Assigns host ports to pods and finds conflicts. PURE.

use std::collections::BTreeMap;

use coracle_api::pod::PodSpec;

use crate::facts::engine::Publish;
use crate::facts::members::members;
use crate::facts::naming::PodName;
use crate::facts::seen::PodSeen;

/// The host ports of existing sandboxes and of sandboxes that this round starts.
#[derive(Debug, Default)]
pub struct TakenPorts {
    taken: BTreeMap<(String, u16), Vec<(String, PodName)>>,
}

impl TakenPorts {
    /// Includes pods without a manifest: the labels of a sandbox name its ports.
    pub fn held(pods: &BTreeMap<String, PodSeen<'_>>) -> TakenPorts {
        let mut ports = TakenPorts::default();
        for run in pods.values().flat_map(|pod| &pod.runs) {
            if run.tag.is_sandbox() && run.seen.runs() {
                ports.take(&run.tag.pod, &run.tag.host_ports);
            }
        }
        ports
    }

    pub fn take(&mut self, pod: &PodName, wanted: &[Publish]) {
        for port in wanted {
            let owners = self.taken.entry((port.protocol.clone(), port.host_port)).or_default();
            owners.push((port.host_ip.clone(), pod.clone()));
        }
    }

    /// A wanted port that another pod holds, and that pod.
    pub fn clash<'a>(&'a self, pod: &PodName, wanted: &'a [Publish]) -> Option<PortClash<'a>> {
        wanted.iter().find_map(|port| {
            let owners = self.taken.get(&(port.protocol.clone(), port.host_port))?;
            let (_, owner) = owners.iter().find(|(ip, owner)| owner.uid != pod.uid && overlap(ip, &port.host_ip))?;
            Some(PortClash { port, owner })
        })
    }
}

pub struct PortClash<'a> {
    port: &'a Publish,
    owner: &'a PodName,
}

impl PortClash<'_> {
    /// For an administrator of this host.
    pub fn in_full(&self) -> String {
        self.words(&format!("pod {}/{}", self.owner.namespace, self.owner.name))
    }

    /// For the status of a pod. A reader of the status may have no rights in other namespaces.
    pub fn shown_in(&self, namespace: &str) -> String {
        match self.owner.namespace == namespace {
            true => self.in_full(),
            false => self.words("a pod of another namespace"),
        }
    }

    fn words(&self, owner: &str) -> String {
        format!("host port {}/{} is taken by {owner}", self.port.host_port, self.port.protocol.to_uppercase())
    }
}

/// The ports that a pod takes of the host: published ports, and with the host's own network every port that it names.
pub fn host_ports(spec: &PodSpec) -> Vec<Publish> {
    let mut ports: Vec<Publish> = members(spec)
        .filter(|member| member.kind.stays())
        .flat_map(|member| &member.spec.ports)
        .filter_map(|port| {
            let host_port = if spec.host_network && port.host_port == 0 { port.container_port } else { port.host_port };
            let host_port = u16::try_from(host_port).ok().filter(|port| *port != 0)?;
            let protocol = if port.protocol.is_empty() { "tcp".to_owned() } else { port.protocol.to_lowercase() };
            let container_port = u16::try_from(port.container_port).ok()?;
            Some(Publish { container_port, protocol, host_ip: port.host_ip.clone(), host_port })
        })
        .collect();
    ports.sort();
    ports.dedup();
    ports
}

pub fn overlap(one: &str, other: &str) -> bool {
    let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
    any(one) || any(other) || one == other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;

    fn port(host_ip: &str, host_port: u16, protocol: &str) -> Publish {
        Publish { container_port: 80, protocol: protocol.into(), host_ip: host_ip.into(), host_port }
    }

    #[test]
    fn taken_by_whom() {
        let pod =
            |name: &str| PodName { source: Source::File, namespace: "a".into(), name: name.into(), uid: name.into() };
        let mut ports = TakenPorts::default();
        ports.take(&pod("web"), &[port("", 80, "tcp"), port("127.0.0.1", 81, "tcp")]);
        for (wanted, clashes) in [
            (port("", 80, "tcp"), true),
            (port("10.0.0.1", 80, "tcp"), true),
            (port("", 80, "udp"), false),
            (port("127.0.0.2", 81, "tcp"), false),
            (port("0.0.0.0", 81, "tcp"), true),
            (port("", 82, "tcp"), false),
        ] {
            assert_eq!(ports.clash(&pod("other"), std::slice::from_ref(&wanted)).is_some(), clashes, "{wanted:?}");
            assert!(ports.clash(&pod("web"), &[wanted]).is_none(), "its own");
        }
        let wanted = [port("", 80, "tcp")];
        let clash = ports.clash(&pod("x"), &wanted).unwrap();
        assert_eq!(clash.in_full(), "host port 80/TCP is taken by pod a/web");
        assert_eq!(clash.shown_in("a"), "host port 80/TCP is taken by pod a/web");
        assert_eq!(clash.shown_in("b"), "host port 80/TCP is taken by a pod of another namespace");
    }
}
