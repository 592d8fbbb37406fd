//! The sources as they speak -> `Desired`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coracle_api::service::Service;
use tokio::sync::watch;

use super::ended::EndedPods;
use super::file_services::address_file::AddressFile;
use super::file_services::addresses::AddressBook;
use super::file_services::decide::{FileRange, HostCase, decide};
use super::merge;
use crate::facts::desired::Desired;
use crate::facts::file_services::ServiceWait;
use crate::facts::naming::Source;
use crate::facts::objects::with_files;
use crate::facts::resolv::{ClusterNames, Dns};
use crate::facts::source_state::SourceState;
use crate::facts::update::Updates;
use crate::facts::view::{ClusterView, ViewWriter};
use crate::network::dns::upstream;
use crate::network::pod_network::plug;

/// How the names of pods resolve, and where Services of files have their addresses.
#[derive(Clone, Debug)]
pub struct NameSettings {
    pub names: ClusterNames,
    pub range: FileRange,
}

/// The latest state of all sources.
pub struct AllSources {
    /// None: the directory was not read yet.
    pub files: Option<SourceState>,
    /// Pods of files that have run to their end.
    pub ended: Arc<EndedPods>,
    pub view: ClusterView,
    /// The addresses of Services of files that are on record.
    pub book: AddressBook,
    pub updates: Arc<Updates>,
}

/// What this host should run, and what is told or kept beside it.
pub struct Merged {
    pub desired: Desired,
    /// The pods that are left out, in words.
    pub dropped: Vec<String>,
    pub book: AddressBook,
}

pub fn together(said: AllSources, settings: &NameSettings) -> Merged {
    let AllSources { files, ended, view, book, updates } = said;
    let of_files = files.map(|state| (Source::File, state));
    let of_master = view.assigned.map(|state| (Source::Master, (*state).clone()));
    let sources: BTreeMap<Source, SourceState> = of_files.into_iter().chain(of_master).collect();
    let (mut merged, dropped) = merge(&sources);
    if let Some(known) = &view.services {
        merged.services = known.services.clone();
    }
    for wanted in merged.pods.values_mut().filter(|wanted| wanted.name.source == Source::File) {
        *wanted = ended.with_end(wanted);
    }
    let cluster = merged.services.clone();
    let book = add_services(&mut merged, sources.get(&Source::File), settings, book);
    let of_files = merged.file_services.as_ref().and_then(|of_files| of_files.dns);
    merged.dns = Dns { cluster: settings.names.of_cluster(&cluster, of_files), host: upstream::of_host() };
    merged.node = view.node;
    merged.updates = updates;
    merged.objects = with_files(view.objects.unwrap_or_default(), sources.get(&Source::File));
    Merged { desired: merged, dropped, book }
}

/// Adds the Services of files to the services of the cluster. Returns the addresses that are to be on record.
fn add_services(
    merged: &mut Desired,
    files: Option<&SourceState>,
    settings: &NameSettings,
    book: AddressBook,
) -> AddressBook {
    let Some(files) = files else { return book };
    let case = HostCase {
        range: &settings.range,
        cluster: &merged.services,
        pods: &merged.pods,
        networks: &plug::networks(),
        has_dns: settings.names.has_address(),
        dns_given: settings.names.given(),
    };
    let (served, book) = decide(&files.services, &case, &book);
    if !served.services.is_empty() {
        let all: Vec<Arc<Service>> = merged.services.iter().chain(served.services.iter()).cloned().collect();
        merged.services = Arc::new(all);
    }
    merged.problems.extend(served.waiting.iter().map(ServiceWait::problem));
    merged.file_services = Some(Arc::new(served));
    book
}

/// Ends with its sources.
pub async fn follow(
    mut files: watch::Receiver<Option<SourceState>>,
    mut ended: watch::Receiver<Arc<EndedPods>>,
    mut updates: watch::Receiver<Arc<Updates>>,
    view: ViewWriter,
    (settings, kept): (NameSettings, AddressFile),
    desired: watch::Sender<Arc<Desired>>,
) {
    let (mut pods, mut objects) = (view.part(|view| &view.assigned), view.part(|view| &view.objects));
    let (mut services, mut node) = (view.part(|view| &view.services), view.part(|view| &view.node));
    let mut announced = BTreeSet::new();
    let (mut book, mut attempts) = (kept.read(), 0);
    loop {
        let said = AllSources {
            files: files.borrow_and_update().clone(),
            ended: ended.borrow_and_update().clone(),
            view: view.now(),
            book: book.clone(),
            updates: updates.borrow_and_update().clone(),
        };
        let merged = together(said, &settings);
        // Before a pod hears of an address. An address that could not be kept is used all the same: it follows from
        // the name mostly.
        if merged.book != book {
            kept.keep(&merged.book);
            book = merged.book;
        }
        let waiting = merged.desired.file_services.iter().flat_map(|of_files| &of_files.waiting);
        let texts: BTreeSet<String> = merged.dropped.into_iter().chain(waiting.map(ServiceWait::to_string)).collect();
        for text in texts.difference(&announced) {
            log::warn!("{text}");
        }
        announced = texts;
        let merged = merged.desired;
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
            changed = updates.changed() => changed.is_ok(),
            changed = pods.changed() => changed.is_ok(),
            changed = services.changed() => changed.is_ok(),
            changed = node.changed() => changed.is_ok(),
            changed = objects.changed() => changed.is_ok(),
            () = kept.due(&mut attempts) => {
                kept.keep(&book);
                true
            }
        };
        if !alive {
            return;
        }
    }
}
