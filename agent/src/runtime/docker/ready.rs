//! Prepares the engine for the first sandbox: the network of the pods and the pause image.

use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest, NetworkInspect};
use bollard::query_parameters::ImportImageOptions;
use coracle_api::strategy::Cidr;
use futures_util::StreamExt;

use super::super::pause;
use super::connection::{CHANGE, Docker, ReadyEngine, failure, held};
use crate::facts::engine::Failure;
use crate::facts::naming::LABEL_KIND;
use crate::facts::pod_cidr::UNKNOWN;
use crate::network::pod_network::{BRIDGE, Owner, plug};

/// The pods' Docker network. Container addresses are listed under the same name.
pub const NETWORK: &str = "coracle";
/// Marks the network for clean-up tools.
const LABEL_NETWORK: &str = "dev.coracle.network";

impl Docker {
    pub(super) async fn prepare(&self) -> Result<(), Failure> {
        let _turn = self.preparing.lock().await;
        if held(&self.ready).is_some() {
            return Ok(());
        }
        let client = self.client().await?;
        let architecture =
            held(&self.connection).as_ref().map(|connection| connection.architecture.clone()).unwrap_or_default();
        let pods = self.pod_range().ok_or_else(|| Failure::Refused(UNKNOWN.to_owned()))?;
        self.prepare_network(&client, pods).await?;
        if self.settings.pod_network == Owner::Own {
            plug::make_ready(pods).await.map_err(Failure::Refused)?;
        }
        let image = pause::image(&architecture).ok_or_else(|| {
            Failure::Refused(format!("there is no pause program for an engine on {architecture:?} yet"))
        })?;
        let pause = self.prepare_pause(&client, &image).await?;
        // Sandboxes ask for the image of the agent's own architecture, whatever the engine's is.
        let asked = pause::image(std::env::consts::ARCH).map_or(image.id, |own| own.id);
        *held(&self.ready) = Some(ReadyEngine { asked, pause });
        Ok(())
    }

    async fn prepare_network(&self, client: &bollard::Docker, pods: Cidr) -> Result<(), Failure> {
        match self.ask("inspect the pod network", client.inspect_network(NETWORK, None)).await {
            // The agent's own pod network needs no Docker network. If the agent once made a Docker network, its bridge
            // is used.
            Ok(found) if self.settings.pod_network == Owner::Own && !is_ours(&found) => Ok(()),
            Ok(found) => check_network(&found, pods).map_err(Failure::Refused),
            Err(Failure::NotFound(_)) if self.settings.pod_network == Owner::Own => Ok(()),
            Err(Failure::NotFound(_)) => {
                let request = network_request(pods);
                self.change("create the pod network", client.create_network(request)).await?;
                log::info!("made the Docker network {NETWORK} for pods, {pods}");
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    async fn prepare_pause(&self, client: &bollard::Docker, image: &pause::Pause) -> Result<String, Failure> {
        if let Some(id) = self.known_pause(client, image).await? {
            return Ok(id);
        }
        let load = async {
            let body = bollard::body_full(image.archive.clone().into());
            let mut answers = std::pin::pin!(client.import_image(ImportImageOptions::default(), body, None));
            while let Some(answer) = answers.next().await {
                answer.map_err(|error| failure("load the pause image", error))?;
            }
            Ok(())
        };
        match tokio::time::timeout(CHANGE, load).await {
            Ok(loaded) => loaded?,
            Err(_) => {
                return Err(Failure::Unavailable(format!("load the pause image: no end after {} s", CHANGE.as_secs())));
            }
        }
        log::info!("loaded the pause image {}", image.tag);
        let missing =
            || Failure::Refused(format!("the pause image {} was loaded, and the engine does not have it", image.tag));
        self.known_pause(client, image).await?.ok_or_else(missing)
    }

    /// By its id; engines whose ids are no digests of configurations have it by name, and it is ours if it has our
    /// layer.
    async fn known_pause(&self, client: &bollard::Docker, image: &pause::Pause) -> Result<Option<String>, Failure> {
        for reference in [&image.id, &image.tag] {
            match self.ask("look for the pause image", client.inspect_image(reference)).await {
                Ok(found) => {
                    let layers = found.root_fs.and_then(|root| root.layers).unwrap_or_default();
                    if layers == [image.layer.clone()] {
                        return Ok(found.id.or_else(|| Some(reference.clone())));
                    }
                }
                Err(Failure::NotFound(_) | Failure::Refused(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }
}

fn network_request(pods: Cidr) -> NetworkCreateRequest {
    let text = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    };
    NetworkCreateRequest {
        name: NETWORK.to_owned(),
        driver: Some("bridge".to_owned()),
        ipam: Some(Ipam {
            config: Some(vec![IpamConfig { subnet: Some(pods.to_string()), ..Default::default() }]),
            ..Default::default()
        }),
        options: text(&[("com.docker.network.bridge.name", BRIDGE)]),
        labels: text(&[(LABEL_KIND, "network"), (LABEL_NETWORK, "pods")]),
        ..Default::default()
    }
}

fn is_ours(found: &NetworkInspect) -> bool {
    found.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_KIND))
}

/// A network with this name may be foreign, or have a different pod CIDR.
fn check_network(found: &NetworkInspect, pods: Cidr) -> Result<(), String> {
    if !is_ours(found) {
        return Err(format!("the Docker network {NETWORK} is not Coracle's: rename or remove it, pods need that name"));
    }
    let subnets: Vec<&str> = found
        .ipam
        .iter()
        .flat_map(|ipam| ipam.config.iter().flatten())
        .filter_map(|config| config.subnet.as_deref())
        .collect();
    if subnets != [pods.to_string()] {
        return Err(format!(
            "the Docker network {NETWORK} has {}, --pod-cidr says {pods}: set it back, or stop all pods and \
             `docker network rm {NETWORK}`",
            subnets.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_foreign_or_other_network_is_refused() {
        let check = |labels, subnet: &str| {
            let found =
                serde_json::from_value(json!({ "Labels": labels, "IPAM": { "Config": [{ "Subnet": subnet }] } }))
                    .unwrap();
            check_network(&found, Cidr::parse("10.244.0.0/24").unwrap())
                .map_err(|text| text.contains("10.9.0.0/24") || text.contains("not Coracle's"))
        };
        let ours = json!({ LABEL_KIND: "network" });
        assert_eq!(check(ours.clone(), "10.244.0.0/24"), Ok(()));
        assert_eq!(check(ours, "10.9.0.0/24"), Err(true));
        assert_eq!(check(json!({}), "10.244.0.0/24"), Err(true));
    }
}
