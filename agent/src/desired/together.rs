//! The sources as they speak -> `Desired`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::ended::EndedPods;
use super::merge;
use crate::facts::desired::Desired;
use crate::facts::heard::ClusterServices;
use crate::facts::naming::Source;
use crate::facts::node_said::NodeSaid;
use crate::facts::objects::{Objects, with_files};
use crate::facts::resolv::{ClusterNames, Dns};
use crate::facts::source_state::SourceState;
use crate::network::dns::upstream;

/// The latest state of all sources.
pub struct AllSources {
    pub sources: BTreeMap<Source, SourceState>,
    /// Pods of files that have run to their end.
    pub ended: Arc<EndedPods>,
    pub network: Option<Arc<ClusterServices>>,
    pub objects: Arc<Objects>,
    pub node: Option<Arc<NodeSaid>>,
}

/// And the pods that are left out, in words.
pub fn together(said: AllSources, dns: &ClusterNames) -> (Desired, Vec<String>) {
    let (mut merged, dropped) = merge(&said.sources);
    if let Some(network) = &said.network {
        merged.services = network.services.clone();
    }
    merged.dns = Dns { cluster: dns.of_cluster(&merged.services), host: upstream::of_host() };
    for wanted in merged.pods.values_mut().filter(|wanted| wanted.name.source == Source::File) {
        *wanted = said.ended.with_end(wanted);
    }
    merged.node = said.node;
    merged.objects = with_files(said.objects, said.sources.get(&Source::File));
    (merged, dropped)
}

/// Ends with its sources.
pub async fn follow(
    (mut files, mut ended): (watch::Receiver<Option<SourceState>>, watch::Receiver<Arc<EndedPods>>),
    mut pods: watch::Receiver<Option<SourceState>>,
    mut network: watch::Receiver<Option<Arc<ClusterServices>>>,
    mut objects: watch::Receiver<Arc<Objects>>,
    mut node: watch::Receiver<Option<Arc<NodeSaid>>>,
    dns: ClusterNames,
    desired: watch::Sender<Arc<Desired>>,
) {
    let mut announced = BTreeSet::new();
    loop {
        let sources: BTreeMap<Source, SourceState> = [(Source::File, &mut files), (Source::Master, &mut pods)]
            .into_iter()
            .filter_map(|(source, states)| Some((source, states.borrow_and_update().clone()?)))
            .collect();
        let said = AllSources {
            sources,
            ended: ended.borrow_and_update().clone(),
            network: network.borrow_and_update().clone(),
            objects: objects.borrow_and_update().clone(),
            node: node.borrow_and_update().clone(),
        };
        let (merged, dropped) = together(said, &dns);
        let dropped: BTreeSet<String> = dropped.into_iter().collect();
        for text in dropped.difference(&announced) {
            log::warn!("{text}");
        }
        announced = dropped;
        desired.send_if_modified(|was| {
            let differs = **was != merged;
            if differs {
                *was = Arc::new(merged);
            }
            differs
        });
        let alive = tokio::select! {
            changed = files.changed() => changed.is_ok(),
            changed = ended.changed() => changed.is_ok(),
            changed = pods.changed() => changed.is_ok(),
            changed = network.changed() => changed.is_ok(),
            changed = node.changed() => changed.is_ok(),
            changed = objects.changed() => changed.is_ok(),
        };
        if !alive {
            return;
        }
    }
}
