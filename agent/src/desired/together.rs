//! The sources as they speak -> `Desired`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::ended::EndedPods;
use super::merge;
use crate::facts::desired::Desired;
use crate::facts::naming::Source;
use crate::facts::objects::with_files;
use crate::facts::resolv::{ClusterNames, Dns};
use crate::facts::source_state::SourceState;
use crate::facts::view::{ClusterView, ViewWriter};
use crate::network::dns::upstream;

/// The latest state of all sources.
pub struct AllSources {
    /// None: the directory was not read yet.
    pub files: Option<SourceState>,
    /// Pods of files that have run to their end.
    pub ended: Arc<EndedPods>,
    pub view: ClusterView,
}

/// And the pods that are left out, in words.
pub fn together(said: AllSources, dns: &ClusterNames) -> (Desired, Vec<String>) {
    let AllSources { files, ended, view } = said;
    let of_files = files.map(|state| (Source::File, state));
    let of_master = view.assigned.map(|state| (Source::Master, (*state).clone()));
    let sources: BTreeMap<Source, SourceState> = of_files.into_iter().chain(of_master).collect();
    let (mut merged, dropped) = merge(&sources);
    if let Some(known) = &view.services {
        merged.services = known.services.clone();
    }
    merged.dns = Dns { cluster: dns.of_cluster(&merged.services), host: upstream::of_host() };
    for wanted in merged.pods.values_mut().filter(|wanted| wanted.name.source == Source::File) {
        *wanted = ended.with_end(wanted);
    }
    merged.node = view.node;
    merged.objects = with_files(view.objects.unwrap_or_default(), sources.get(&Source::File));
    (merged, dropped)
}

/// Ends with its sources.
pub async fn follow(
    mut files: watch::Receiver<Option<SourceState>>,
    mut ended: watch::Receiver<Arc<EndedPods>>,
    view: ViewWriter,
    dns: ClusterNames,
    desired: watch::Sender<Arc<Desired>>,
) {
    let (mut pods, mut objects) = (view.part(|view| &view.assigned), view.part(|view| &view.objects));
    let (mut services, mut node) = (view.part(|view| &view.services), view.part(|view| &view.node));
    let mut announced = BTreeSet::new();
    loop {
        let said = AllSources {
            files: files.borrow_and_update().clone(),
            ended: ended.borrow_and_update().clone(),
            view: view.now(),
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
            changed = services.changed() => changed.is_ok(),
            changed = node.changed() => changed.is_ok(),
            changed = objects.changed() => changed.is_ok(),
        };
        if !alive {
            return;
        }
    }
}
