//! The services of the cluster as last heard, for whoever serves them on this host.
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
use crate::facts::heard::ClusterServices;
use crate::facts::pod_cidr::PodCidr;
use crate::facts::resolv::ClusterNames;
use crate::facts::shown::Shown;
use crate::facts::view::ViewPart;
use crate::network::dns::serve::ServedZone;
use crate::network::dns::zone::{Entries, Zone};
use crate::network::health_ports::{self, HealthPorts};
use crate::network::heed::sockets;
use crate::network::known_ends::as_they_are;
use crate::network::pod_network::plug;
use crate::network::services::group::{Group, grouped};
use crate::network::services::outer::{OuterPort, asked_here, taken};
use crate::network::services::{self, KernelRules, Pieces, RuleHost};

/// Who is told.
pub struct Servers {
    pub rules: watch::Sender<Option<KernelRules>>,
    pub names: watch::Sender<Arc<ServedZone>>,
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
    /// None: every name still has the same records. In another domain every name is another one.
    fn changed(&mut self, domain: String, groups: &[Group]) -> Option<Zone> {
        if domain != self.domain {
            *self = Names { domain, entries: Entries::default() };
        }
        Zone::changed(&self.domain, groups, &mut self.entries)
    }
}

/// Ends with its sources. A service that does not get all it asks for is told once.
pub async fn run(
    mut network: ViewPart<ClusterServices>,
    mut shown: watch::Receiver<Arc<Shown>>,
    host: BalancedHost,
    servers: Servers,
    happenings: mpsc::Sender<Happening>,
) {
    let BalancedHost { names: dns, mut here, mut address, mut pods } = host;
    let (mut said, mut taken) = (BTreeSet::new(), Taken::default());
    let (mut pieces, mut names) = (Pieces::default(), Names::default());
    loop {
        let last = network.now();
        let old = last.as_ref().is_some_and(|last| !last.heard);
        let seen = shown.borrow_and_update().clone();
        // Before the first look at the engine nobody knows who still runs: the rules stay as they are.
        let last = last.filter(|_| !old || seen.looked);
        let now = last.map(|last| {
            if old { Arc::new(as_they_are(&last, &here.node, &seen.desired.pods, &seen.statuses)) } else { last }
        });
        let range = *pods.borrow_and_update();
        if let (Some(network), Some(range)) = (now, range) {
            here.pod_cidr = range.to_string();
            let served = dns.of_cluster(&network.services).map(|dns| dns.address);
            let groups = grouped(&network.services, &network.slices);
            taken.look(&network.services);
            let node: Option<IpAddr> = address.borrow_and_update().parse().ok();
            here.outer.look(&network.services, served, node, taken.found.clone());
            let zone = names.changed(dns.domain(&network.services), &groups).map(Arc::new);
            servers.names.send_if_modified(|was| {
                let differs = zone.is_some() || was.address != served;
                if differs {
                    *was = Arc::new(ServedZone { zone: zone.unwrap_or_else(|| was.zone.clone()), address: served });
                }
                differs
            });
            let ports = health_ports::ports(&groups, &here);
            servers.ports.send_if_modified(|was| {
                let differs = **was != ports;
                if differs {
                    *was = Arc::new(ports);
                }
                differs
            });
            let mut wanted = services::rules(&groups, &here, served, &mut pieces);
            wanted.from_file = old;
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
        // Pods that go meanwhile are not to be kept in memory.
        drop(seen);
        let alive = tokio::select! {
            changed = network.changed() => changed.is_ok(),
            changed = shown.changed(), if old => changed.is_ok(),
            Ok(()) = address.changed() => true,
            Ok(()) = pods.changed() => true,
            () = sleep_until(taken.again.unwrap_or_else(Instant::now)), if taken.again.is_some() => true,
        };
        if !alive {
            return;
        }
    }
}
