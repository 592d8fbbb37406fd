//! Sandboxes on the agent's own network: gives each sandbox its address, and plugs in each running sandbox.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use bollard::models::{ContainerInspectResponse, ContainerSummary};
use bollard::query_parameters::KillContainerOptions;
use coracle_api::strategy::Cidr;
use tokio::sync::MutexGuard;

use super::connection::{Docker, held};
use super::ready::NETWORK;
use crate::facts::engine::{ContainerConfig, Failure, Network, SeenContainer};
use crate::facts::pod_cidr::UNKNOWN;
use crate::network::pod_network::guard::Wires;
use crate::network::pod_network::nft::Mapping;
use crate::network::pod_network::{self, LABEL_ADDRESS, Owner, plug};

impl Docker {
    pub(super) fn pod_range(&self) -> Option<Cidr> {
        *self.settings.pod_cidr.borrow()
    }

    /// All containers are inspected again at the next look.
    pub fn look_anew(&self) {
        held(&self.cache).clear();
    }

    /// The caller holds the guard until the engine shows the new address. The value is the address given last. None:
    /// the container needs no address from the agent.
    pub(super) async fn gives_address(&self, config: &ContainerConfig) -> Option<MutexGuard<'_, Option<IpAddr>>> {
        let own = self.settings.pod_network == Owner::Own && config.network == Network::Pods;
        if own { Some(self.addressing.lock().await) } else { None }
    }

    /// An address that no container of the engine has, running or not. Fails if another program uses a host port of the
    /// pod.
    pub(super) async fn free_address(
        &self,
        client: &bollard::Docker,
        config: &ContainerConfig,
        last: Option<IpAddr>,
    ) -> Result<IpAddr, Failure> {
        for port in &config.ports {
            let Some(host) = Mapping::at(&port.host_ip) else {
                return Err(Failure::Refused(format!(
                    "hostIP {}: only IPv4 addresses are served by this version",
                    port.host_ip
                )));
            };
            plug::is_free(&port.protocol, host, port.host_port).map_err(Failure::Refused)?;
        }
        let all = self.summaries(client, None).await?;
        let used = all.iter().filter_map(address).collect();
        self.free_of(&used, last)
    }

    fn free_of(&self, used: &BTreeSet<IpAddr>, last: Option<IpAddr>) -> Result<IpAddr, Failure> {
        let pods = self.pod_range().ok_or_else(|| Failure::Refused(UNKNOWN.to_owned()))?;
        let free = pod_network::free(pods, used, last);
        free.ok_or_else(|| Failure::Refused(format!("no address is free in --pod-cidr {pods}")))
    }

    /// The address of a running sandbox on the agent's network, which is plugged in if necessary. None: the sandbox is
    /// not on this network, or has ended.
    pub(super) async fn plugged(
        &self,
        seen: &SeenContainer,
        found: &ContainerInspectResponse,
    ) -> Result<Option<IpAddr>, String> {
        // One that had ended is about to be stopped.
        let counts = |seen: &SeenContainer| seen.lives() && seen.beside.ended.is_none();
        let address = seen.labels.get(LABEL_ADDRESS).and_then(|text| text.parse().ok());
        let own = found.host_config.as_ref().and_then(|host| host.network_mode.as_deref()) == Some("none");
        let (Some(address), true, true) = (address, own, counts(seen)) else { return Ok(None) };
        if self.settings.only_looks {
            return Ok(Some(address));
        }
        let pid = found
            .state
            .as_ref()
            .and_then(|state| state.pid)
            .filter(|pid| *pid > 0)
            .ok_or("the engine names no process of it")?;
        let pods = self.pod_range().ok_or(UNKNOWN)?;
        let mut wires = self.wires.lock().await;
        plug::plug(pods, &seen.id, pid, address, &mut wires).await.map(|()| Some(address))
    }

    /// The wires of this host's pods. No sandbox is plugged in while the guard is held.
    pub async fn wires(&self) -> MutexGuard<'_, Wires> {
        self.wires.lock().await
    }

    /// A sandbox without its network is useless: the sandbox is killed, and the next attempt follows after the
    /// back-off.
    pub(super) async fn end_unplugged(&self, client: &bollard::Docker, id: &str, why: String) -> Result<(), Failure> {
        let options = KillContainerOptions { signal: "SIGKILL".to_owned() };
        // Should it live on, the next look tries to plug it in.
        let _ = self.change("kill", client.kill_container(id, Some(options))).await;
        held(&self.cache).remove(id);
        Err(Failure::Refused(format!("its network could not be made: {why}")))
    }
}

/// The container's address on the pods' network, from the agent or from the engine, also for foreign containers.
fn address(found: &ContainerSummary) -> Option<IpAddr> {
    let label = |labels: &HashMap<String, String>| labels.get(LABEL_ADDRESS)?.parse().ok();
    let own: Option<IpAddr> = found.labels.as_ref().and_then(label);
    let engines = || {
        let networks = found.network_settings.as_ref()?.networks.as_ref()?;
        networks.get(NETWORK)?.ip_address.as_ref()?.parse().ok()
    };
    own.or_else(engines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_of_both_kinds_are_taken() {
        let check = |found, expected: Option<[u8; 4]>| {
            assert_eq!(address(&serde_json::from_value(found).unwrap()), expected.map(IpAddr::from));
        };
        check(
            json!({
                "Labels": {LABEL_ADDRESS: "10.244.0.254"}, "NetworkSettings": {"Networks": {"none": {"IPAddress": ""}}},
            }),
            Some([10, 244, 0, 254]),
        );
        check(
            json!({"Labels": {}, "NetworkSettings": {"Networks": {"coracle": {"IPAddress": "10.244.0.2"}}}}),
            Some([10, 244, 0, 2]),
        );
        check(json!({"Labels": {}, "NetworkSettings": {"Networks": {"bridge": {"IPAddress": "172.17.0.2"}}}}), None);
    }
}
