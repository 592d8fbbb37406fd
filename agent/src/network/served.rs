//! The services that this host serves: services of the cluster as last heard, and Services of files, with their ends.
//!
//!     ClusterServices, FileServices, Shown -> `file_ends`, `known_ends` (PURE) -> ServedServices -> balance, heed
//!
//! What has not changed stays the very same object, so that readers make only changed rules and names anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_api::service::Service;
use tokio::sync::watch;

use crate::facts::desired::Desired;
use crate::facts::file_services::FileServices;
use crate::facts::heard::{ClusterServices, ServedServices};
use crate::facts::resolv::ClusterNames;
use crate::facts::shown::Shown;
use crate::facts::view::ViewPart;
use crate::network::file_ends::{Before, EndsCase, FileEnds, file_ends};
use crate::network::kernel_table;
use crate::network::known_ends::as_they_are;
use crate::network::services::nft;
use crate::network::services::standing::StandingTable;

/// None: nothing is known yet.
pub type Served = Option<Arc<ServedServices>>;

/// Where the services come from.
pub struct ServiceSources {
    pub network: ViewPart<ClusterServices>,
    pub desired: watch::Receiver<Arc<Desired>>,
    pub shown: watch::Receiver<Arc<Shown>>,
    pub address: watch::Receiver<String>,
    pub names: ClusterNames,
    pub node: String,
    pub has_master: bool,
}

/// Ends with its sources.
pub async fn run(mut sources: ServiceSources, served: watch::Sender<Served>) {
    let mut made = Making::default();
    loop {
        let network = sources.network.now();
        let old = network.as_ref().is_some_and(|network| !network.heard);
        let of_files = sources.desired.borrow_and_update().file_services.clone();
        let shown = sources.shown.borrow_and_update().clone();
        let address = sources.address.borrow_and_update().clone();
        if shown.looked && made.before.is_none() {
            made.before = Some(before(&shown, of_files.as_deref()).await);
        }
        if let Some(of_files) = of_files
            && let Some(now) = made.now(&sources, network, &of_files, &shown, &address)
        {
            served.send_if_modified(|was| {
                let differs = was.as_ref().is_none_or(|was| !was.is(&now));
                if differs {
                    *was = Some(Arc::new(now));
                }
                differs
            });
        }
        // Pods that go meanwhile are not to be kept in memory.
        drop(shown);
        let follows = old || made.follows_pods || made.before.is_none();
        let alive = tokio::select! {
            changed = sources.network.changed() => changed.is_ok(),
            changed = sources.desired.changed() => changed.is_ok(),
            changed = sources.shown.changed(), if follows => changed.is_ok(),
            Ok(()) = sources.address.changed() => true,
        };
        if !alive {
            return;
        }
    }
}

/// What an agent before left here. Without Services of files nobody asks.
async fn before(shown: &Shown, of_files: Option<&FileServices>) -> Before {
    if of_files.is_none_or(|of_files| of_files.services.is_empty()) {
        return Before::default();
    }
    let containers = shown.world.containers.iter().filter(|seen| seen.lives()).map(|seen| seen.id.clone()).collect();
    let listing = kernel_table::table(nft::TABLE).await.unwrap_or_default();
    Before { containers, ends: StandingTable::read(&listing).own_ends() }
}

/// The last result, and what it was made of.
#[derive(Default)]
struct Making {
    /// None: the engine was not looked at yet.
    before: Option<Before>,
    ends: FileEnds,
    cluster: Arc<Vec<Arc<Service>>>,
    services: Arc<Vec<Arc<Service>>>,
    follows_pods: bool,
}

impl Making {
    /// None: what is in the kernel stays.
    fn now(
        &mut self,
        sources: &ServiceSources,
        network: Option<Arc<ClusterServices>>,
        of_files: &FileServices,
        shown: &Shown,
        address: &str,
    ) -> Option<ServedServices> {
        let old = network.as_ref().is_some_and(|network| !network.heard);
        self.follows_pods = of_files.ever;
        // Before the first look at the engine nobody knows who still runs: the rules stay as they are.
        if (old || of_files.ever) && !shown.looked || network.is_none() && !of_files.ever {
            return None;
        }
        let from_disk = sources.has_master && network.as_ref().is_none_or(|network| !network.heard);
        let network = network.unwrap_or_default();
        let network = match old {
            true => Arc::new(as_they_are(&network, &sources.node, &shown.desired.pods, &shown.statuses)),
            false => network,
        };
        let is_empty = self.cluster.is_empty() && network.services.is_empty();
        let same_cluster = is_empty || Arc::ptr_eq(&self.cluster, &network.services);
        self.cluster = network.services.clone();
        let nothing = Before::default();
        let case = EndsCase {
            of_files,
            shown,
            node: &sources.node,
            address,
            before: self.before.as_ref().unwrap_or(&nothing),
            is_service: &|namespace, name| is_there(&network.services, namespace, name),
        };
        let ends = if of_files.ever { file_ends(case) } else { FileEnds::default() };
        let same_services = self.take(ends);
        if !same_cluster || !same_services {
            self.services = match self.ends.services.is_empty() {
                true => network.services.clone(),
                false => Arc::new(network.services.iter().chain(&self.ends.services).cloned().collect()),
            };
        }
        let names = self
            .ends
            .services
            .iter()
            .map(|service| (service.metadata.namespace.clone(), service.metadata.name.clone()));
        Some(ServedServices {
            services: self.services.clone(),
            slices: network.slices.iter().chain(&self.ends.slices).cloned().collect(),
            from_disk,
            dns: sources.names.of_cluster(&network.services, of_files.dns).map(|dns| dns.address),
            former_dns: of_files.former_dns,
            of_files: names.collect::<BTreeSet<_>>(),
        })
    }

    /// Takes new ends; an object that is the same stays the very same. True: the services have not changed.
    fn take(&mut self, ends: FileEnds) -> bool {
        let FileEnds { mut services, mut slices } = ends;
        services.iter_mut().for_each(|service| stay(service, &self.ends.services));
        slices.iter_mut().for_each(|slice| stay(slice, &self.ends.slices));
        let same = services == self.ends.services;
        self.ends = FileEnds { services, slices };
        same
    }
}

fn stay<T: PartialEq>(one: &mut Arc<T>, before: &[Arc<T>]) {
    if let Some(same) = before.iter().find(|known| **known == *one) {
        *one = same.clone();
    }
}

fn is_there(services: &[Arc<Service>], namespace: &str, name: &str) -> bool {
    services.iter().any(|service| service.metadata.namespace == namespace && service.metadata.name == name)
}
