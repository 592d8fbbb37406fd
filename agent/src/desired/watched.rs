//! The resources of the master that are watched for the view of the cluster: a row each.
//!
//!     a row: the path, the selector, and how a list or an event changes a part of `ClusterView`
//!
//! The pods of this node (`master`) and the objects that these pods use (`objects`) have watches of their own: their
//! ends are asked for, and not concluded.

use std::cell::RefCell;
use std::sync::Arc;

use coracle_api::node::Node;
use coracle_api::service::{EndpointSlice, Service};
use coracle_api::strategy::amounts::is_extended;
use coracle_http::client::Client;
use serde::Deserialize;
use serde_json::Value;

use super::follow::{News, Voice, follow, get};
use super::given_up::is_given_up;
use super::shelf::{WatchShelf, text};
use crate::facts::heard::ClusterServices;
use crate::facts::node_said::NodeSaid;
use crate::facts::view::ViewWriter;

/// A resource that is watched as long as the agent runs.
pub(super) struct Watched {
    path: &'static str,
    /// The selector for the node of that name.
    selector: fn(&str) -> String,
    /// Objects of an earlier cluster of the same master stay: a list counts only if its cluster can be told.
    of_cluster: bool,
    take: fn(&ViewShelves, News, Option<String>),
}

pub(super) const WATCHED: &[Watched] = &[
    Watched {
        path: "/api/v1/nodes",
        selector: |node| format!("fieldSelector=metadata.name%3D{node}"),
        of_cluster: false,
        take: |shelves, news, _| take_node(&shelves.view, news),
    },
    Watched {
        path: "/api/v1/persistentvolumes",
        selector: |_| String::new(),
        of_cluster: false,
        take: |shelves, news, _| take_volumes(&shelves.view, news),
    },
    Watched {
        path: "/api/v1/services",
        selector: |_| String::new(),
        of_cluster: true,
        take: |shelves, news, cluster| {
            if shelves.services.borrow_mut().take(news, cluster) {
                shelves.put_services(true);
            }
        },
    },
    Watched {
        path: "/apis/discovery.k8s.io/v1/endpointslices",
        selector: |_| String::new(),
        of_cluster: true,
        take: |shelves, news, cluster| {
            if shelves.slices.borrow_mut().take(news, cluster) {
                shelves.put_services(false);
            }
        },
    },
];

impl Watched {
    /// Never ends.
    pub(super) async fn follow(&self, client: &Client, voice: &Voice, node_name: &str, shelves: &ViewShelves) {
        let selector = (self.selector)(node_name);
        follow(client, voice, self.path, &selector, async |news| {
            // An event is of the cluster that was listed.
            let cluster = match &news {
                News::Listed(_) if self.of_cluster => match cluster_of(client).await {
                    Some(cluster) => Some(cluster),
                    None => return false,
                },
                _ => None,
            };
            (self.take)(shelves, news, cluster);
            true
        })
        .await;
    }
}

/// The parts of the view that are made of more than one watch.
pub(super) struct ViewShelves {
    view: ViewWriter,
    services: RefCell<WatchShelf<Service>>,
    slices: RefCell<WatchShelf<EndpointSlice>>,
}

impl ViewShelves {
    pub(super) fn new(view: ViewWriter) -> ViewShelves {
        ViewShelves {
            view,
            services: RefCell::new(WatchShelf::new(|item| Service::read(item).ok())),
            slices: RefCell::new(WatchShelf::new(|item| EndpointSlice::read(item).ok())),
        }
    }

    /// Nothing before services and slices were listed. Services that have not changed stay the very same.
    fn put_services(&self, services_changed: bool) {
        let (Some(services), Some(slices)) = (self.services.borrow().all(), self.slices.borrow().all()) else { return };
        let known = self.view.now().services.filter(|known| known.heard && !services_changed);
        let services = known.map_or_else(|| Arc::new(services), |known| known.services.clone());
        self.view.replace(|view| &mut view.services, ClusterServices { services, slices, heard: true });
    }
}

/// Labels, taints and extended resources of this node from the API. A node that is gone takes nothing away.
pub(super) fn take_node(view: &ViewWriter, news: News) {
    let node = match news {
        News::Listed(list) => list.into_iter().next(),
        News::Event { gone, object } => Some(object).filter(|_| !gone),
    };
    let Some(node) = node.and_then(|node| Node::deserialize(node).ok()) else { return };
    let extended = node.status.allocatable.into_iter().filter(|(name, _)| is_extended(name)).collect();
    let said = NodeSaid { labels: node.metadata.labels, taints: node.spec.taints, extended };
    view.put(|view| &mut view.node, said);
}

/// Only volumes that are given up are kept.
fn take_volumes(view: &ViewWriter, news: News) {
    let named = |volume: Value| (text(&volume, "name"), volume);
    let known = view.now().given_up.unwrap_or_default();
    let volumes = match news {
        News::Listed(list) => list.into_iter().filter(is_given_up).map(named).collect(),
        News::Event { gone, object } if gone || !is_given_up(&object) => {
            let name = text(&object, "name");
            if !known.contains_key(&name) {
                return;
            }
            let mut volumes = (*known).clone();
            volumes.remove(&name);
            volumes
        }
        News::Event { object, .. } => {
            let mut volumes = (*known).clone();
            volumes.insert(text(&object, "name"), object);
            volumes
        }
    };
    view.put(|view| &mut view.given_up, volumes);
}

/// The uid of namespace kube-system; None if it cannot be told now.
pub(super) async fn cluster_of(client: &Client) -> Option<String> {
    let namespace = get(client, "/api/v1/namespaces/kube-system").await.ok()?;
    Some(text(&namespace, "uid")).filter(|uid| !uid.is_empty())
}
