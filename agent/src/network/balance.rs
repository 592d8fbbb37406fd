//! The services of this host, for whoever serves them.
//!
//!     services and slices -> rules (`net`), names (`dns`), health check node ports (`health_ports`)
//!
//! Each is told only where it is another than before.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use coracle_api::service::Service;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::facts::happening::Happening;
use crate::facts::pod_cidr::PodCidr;
use crate::facts::resolv::ClusterNames;
use crate::network::dns::serve::ServedZone;
use crate::network::dns::zone::{Entries, Zone};
use crate::network::health_ports::{self, HealthPorts};
use crate::network::heed::sockets;
use crate::network::pod_network::plug;
use crate::network::served::Served;
use crate::network::services::group::{Group, grouped};
use crate::network::services::outer::{OuterPort, asked_here, taken};
use crate::network::services::{self, KernelRules, Pieces, RuleHost};

/// Who is told.
pub struct Servers {
    pub rules: watch::Sender<Option<KernelRules>>,
    pub names: watch::Sender<Arc<ServedZone>>,
    /// At the address of before a master gave another one.
    pub former_names: watch::Sender<Arc<ServedZone>>,
    pub ports: watch::Sender<Arc<HealthPorts>>,
}

/// The host that serves them.
pub struct BalancedHost {
    pub names: ClusterNames,
    /// But for the pod CIDR.
    pub here: RuleHost,
    pub address: watch::Receiver<String>,
    /// Nobody is told anything before the pod CIDR is known.
    pub pods: PodCidr,
}

/// Does a program listen now where a service has a port of this host? Nothing tells of that.
const RECHECK: Duration = Duration::from_secs(60);

/// Programs of this host that listen at ports which services request at the host's addresses.
#[derive(Default)]
struct Taken {
    asked: BTreeSet<OuterPort>,
    found: BTreeSet<(OuterPort, SocketAddr)>,
    /// None: no service asks for any.
    again: Option<Instant>,
}

impl Taken {
    fn look(&mut self, services: &[Arc<Service>]) {
        let asked = asked_here(services, &plug::local());
        if asked == self.asked && self.again.is_none_or(|again| Instant::now() < again) {
            return;
        }
        self.again = (!asked.is_empty()).then(|| Instant::now() + RECHECK);
        self.found = if asked.is_empty() { BTreeSet::new() } else { taken(&asked, &sockets()) };
        self.asked = asked;
    }
}

/// What is known of names.
#[derive(Default)]
struct Names {
    domain: String,
    entries: Entries,
}

impl Names {
    /// None: every name still has the same records. A new domain renames every record.
    fn changed(&mut self, domain: String, groups: &[Group]) -> Option<Zone> {
        if domain != self.domain {
            *self = Names { domain, entries: Entries::default() };
        }
        Zone::changed(&self.domain, groups, &mut self.entries)
    }
}

/// `zone`: None where every name still has the same records.
fn serve_names(served: &watch::Sender<Arc<ServedZone>>, zone: Option<&Arc<Zone>>, address: Option<IpAddr>) {
    served.send_if_modified(|was| {
        let differs = zone.is_some() || was.address != address;
        if differs {
            let zone = zone.unwrap_or(&was.zone).clone();
            *was = Arc::new(ServedZone { zone, address });
        }
        differs
    });
}

/// Ends with its sources. A service that does not get all it asks for is told once.
pub async fn run(
    mut served: watch::Receiver<Served>,
    host: BalancedHost,
    servers: Servers,
    happenings: mpsc::Sender<Happening>,
) {
    let BalancedHost { names: dns, mut here, mut address, mut pods } = host;
    let (mut said, mut taken) = (BTreeSet::new(), Taken::default());
    let (mut pieces, mut names) = (Pieces::default(), Names::default());
    loop {
        let now = served.borrow_and_update().clone();
        let range = *pods.borrow_and_update();
        if let (Some(network), Some(range)) = (now, range) {
            here.pod_cidr = range.to_string();
            let groups = grouped(&network.services, &network.slices);
            taken.look(&network.services);
            let node: Option<IpAddr> = address.borrow_and_update().parse().ok();
            here.outer.look(&network.services, network.dns, node, taken.found.clone());
            let zone = names.changed(dns.domain(&network.services), &groups).map(Arc::new);
            serve_names(&servers.names, zone.as_ref(), network.dns);
            serve_names(&servers.former_names, zone.as_ref(), network.former_dns);
            let ports = health_ports::ports(&groups, &here);
            servers.ports.send_if_modified(|was| {
                let differs = **was != ports;
                if differs {
                    *was = Arc::new(ports);
                }
                differs
            });
            let mut wanted = services::rules(&groups, &here, network.dns, &mut pieces);
            (wanted.from_file, wanted.of_files) = (network.from_disk, network.of_files.clone());
            for refused in wanted.refused.iter().filter(|refused| !said.contains(*refused)) {
                log::warn!("{refused}");
                // A queue that is full loses events, never more.
                let _ = happenings.try_send(refused.happening());
            }
            said = wanted.refused.iter().cloned().collect();
            servers.rules.send_if_modified(|was| {
                let differs = was.as_ref() != Some(&wanted);
                if differs {
                    *was = Some(wanted);
                }
                differs
            });
        }
        let alive = tokio::select! {
            changed = served.changed() => changed.is_ok(),
            Ok(()) = address.changed() => true,
            Ok(()) = pods.changed() => true,
            () = sleep_until(taken.again.unwrap_or_else(Instant::now)), if taken.again.is_some() => true,
        };
        if !alive {
            return;
        }
    }
}
