//! The values of the configuration, each by its key -> `Config`.

use crate::desired::file_services::decide::FileRange;
use crate::desired::page::{Page, PageAddress};
use crate::facts::clock::wall_ms;
use crate::facts::thresholds;
use crate::images;
use crate::usage::OPTIONS;
use coracle_api::node::agent_socket;
use coracle_http::client::Target;
use coracle_program::options::Given;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{BadConfig, Config, HostDefaults, RUN_DIR, values};

/// The values that are given, and the defaults where none is.
pub(super) struct Settings<'a> {
    pub given: BTreeMap<&'static str, Given>,
    pub host: &'a HostDefaults,
}

impl Settings<'_> {
    /// An empty value is none.
    fn named(&self, key: &str) -> Option<&str> {
        self.given.get(key).map(|given| given.value.as_str()).filter(|value| !value.is_empty())
    }

    fn text(&self, key: &str) -> &str {
        self.named(key).or_else(|| OPTIONS.row(key)?.fact("default")).unwrap_or_default()
    }

    fn bad(&self, key: &str, why: &str) -> BadConfig {
        let at = self.given.get(key).map_or_else(|| format!("the default of {key}"), |given| given.at.clone());
        BadConfig(format!("{at}: {why}"))
    }

    fn value<T>(&self, key: &str, parse: fn(&str) -> Result<T, String>) -> Result<T, BadConfig> {
        parse(self.text(key)).map_err(|why| self.bad(key, &why))
    }

    fn optional<T>(&self, key: &str, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, BadConfig> {
        if self.text(key).is_empty() { Ok(None) } else { self.value(key, parse).map(Some) }
    }

    pub(super) fn config(&self) -> Result<Config, BadConfig> {
        let docker_host =
            self.named("docker-host").or(self.host.docker_host.as_deref().filter(|host| !host.is_empty()));
        let docker_host = values::engine(docker_host.unwrap_or(self.text("docker-host")))
            .map_err(|why| self.bad("docker-host", &why))?;
        let (node_name, socket) = self.node_name()?;
        Ok(Config {
            docker_host,
            node_name,
            node_ip: self.optional("node-ip", values::node_ip)?,
            listen: self.value("listen", values::listen)?,
            master: self.master()?,
            manifest_url: self.page()?,
            eviction_hard: self.value("eviction-hard", thresholds::parse)?,
            cluster_dns: self.optional("cluster-dns", values::address)?,
            manifest_dir: self.value("manifest-dir", values::folder)?,
            allow_unknown_fields: self.value("allow-unknown-fields", values::is_yes)?,
            data_dir: self.value("data-dir", values::folder)?,
            socket: Path::new(&self.value("socket-dir", values::folder)?).join(socket),
            pod_cidr: self.value("pod-cidr", values::pod_cidr)?,
            pod_network: self.value("pod-network", values::pod_network)?,
            external_ips: self.value("external-ips", values::networks)?,
            file_service_cidr: self.file_service_cidr()?,
            cluster_domain: self.optional("cluster-domain", values::domain)?,
            secrets_on_disk: self.value("secrets-on-disk", values::is_yes)?,
            run_dir: RUN_DIR.to_owned(),
            unsafe_sysctls: self.value("allowed-unsafe-sysctls", values::sysctls)?,
            devices: self.value("devices", values::devices)?,
            pids_max: self.value("pod-pids-limit", values::pids_max)?,
            net_raw: self.value("net-raw", values::is_yes)?,
            images: self.images()?,
            serial_pulls: self.value("serialize-image-pulls", values::is_yes)?,
        })
    }

    /// The node's name, and the name of the agent's socket.
    fn node_name(&self) -> Result<(String, String), BadConfig> {
        let name = self.named("node-name").map_or_else(|| self.host.name.to_lowercase(), str::to_owned);
        if !values::is_node_name(&name) {
            let why = format!("{name:?} is not a name of lower-case letters, digits, '-' and '.'");
            return Err(self.bad("node-name", &why));
        }
        match agent_socket(&name) {
            Some(socket) => Ok((name, socket)),
            None => Err(self.bad("node-name", &format!("{name:?} is too long for the name of a socket"))),
        }
    }

    /// Whoever answers in the master's place says which containers this host runs.
    fn master(&self) -> Result<Option<Target>, BadConfig> {
        let master: Option<Target> = self.optional("master", values::parse)?;
        if let Some(far) = master.as_ref().filter(|master| !master.is_safe()) {
            let why = format!(
                "{far} is another host, and without TLS anybody on the way could answer for it: use unix:///PATH, or \
                 http:// with a loopback address"
            );
            return Err(self.bad("master", &why));
        }
        Ok(master)
    }

    /// The default gives way to a pod-cidr that has addresses of it: an upgrade must not keep the agent from starting.
    fn file_service_cidr(&self) -> Result<FileRange, BadConfig> {
        let key = "file-service-cidr";
        let Some(range) = self.value(key, values::service_cidr)? else {
            return Ok(Err("file-service-cidr is none in agent.conf: name a range there".to_owned()));
        };
        let pods = self.value("pod-cidr", values::pod_cidr)?;
        match range.overlaps(pods) {
            false => Ok(Ok(range)),
            true if self.named(key).is_some() => {
                Err(self.bad(key, &format!("{range} has addresses of pod-cidr {pods}")))
            }
            true => Ok(Err(format!(
                "file-service-cidr {range}, the default, has addresses of pod-cidr {pods}: name another range in \
                 agent.conf"
            ))),
        }
    }

    fn page(&self) -> Result<Option<Page>, BadConfig> {
        let Some(address) = self.optional::<PageAddress>("manifest-url", values::parse)? else { return Ok(None) };
        let path = self.value("manifest-ca", values::folder)?;
        let authorities = || fs::read(&path).map_err(|error| format!("manifest-ca: {path}: {error}"));
        let since_1970 = || Duration::from_millis(u64::try_from(wall_ms()).unwrap_or_default());
        let page = address.page(authorities, Arc::new(since_1970));
        page.map(Some).map_err(|why| self.bad("manifest-url", &why))
    }

    fn images(&self) -> Result<images::ImageSettings, BadConfig> {
        let high = self.value("image-gc-high-threshold", values::percent)?;
        let low = self.value("image-gc-low-threshold", values::percent)?;
        if low > high {
            return Err(self.bad("image-gc-low-threshold", "it is above image-gc-high-threshold"));
        }
        Ok(images::ImageSettings { folders: self.value("images-dir", values::folders)?, high, low })
    }
}
