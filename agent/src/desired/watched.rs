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
                News::Listed(_) if self.of_cluster => match cluster_of((client, voice)).await {
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
pub(super) async fn cluster_of(asking: (&Client, &Voice)) -> Option<String> {
    let namespace = get(asking, "/api/v1/namespaces/kube-system").await.ok()?;
    Some(text(&namespace, "uid")).filter(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::view::ClusterView;
    use coracle_api::strategy::claim::LOCAL_FINALIZER;
    use serde_json::json;

    fn hear(shelves: &ViewShelves, resource: &str, news: News) {
        let row = WATCHED.iter().find(|row| row.path.ends_with(resource)).unwrap();
        let cluster = matches!(news, News::Listed(_)).then(|| "c".to_owned()).filter(|_| row.of_cluster);
        (row.take)(shelves, news, cluster);
    }

    fn object(name: &str, more: Value) -> Value {
        let mut object = more;
        object["metadata"]["namespace"] = "default".into();
        object["metadata"]["name"] = name.into();
        object
    }

    #[test]
    fn services_are_known_when_their_endpoints_are() {
        let view = ViewWriter::new(ClusterView::default());
        let shelves = ViewShelves::new(view.clone());
        hear(&shelves, "/services", News::Listed(vec![object("web", json!({"spec": {"clusterIP": "10.96.0.7"}}))]));
        assert!(view.now().services.is_none());
        let labels = json!({"metadata": {"labels": {"kubernetes.io/service-name": "web"}}});
        hear(&shelves, "/endpointslices", News::Listed(vec![object("web-x", labels.clone())]));
        let first = view.now().services.unwrap();
        assert_eq!((first.services.len(), first.slices.len(), first.heard), (1, 1, true));
        hear(&shelves, "/endpointslices", News::Event { gone: true, object: object("web-x", labels) });
        let second = view.now().services.unwrap();
        assert!(second.slices.is_empty() && Arc::ptr_eq(&first.services, &second.services));
        hear(&shelves, "/services", News::Event { gone: true, object: object("web", json!({})) });
        assert!(view.now().services.unwrap().services.is_empty());
    }

    #[test]
    fn a_node_that_is_gone_takes_nothing_away() {
        let view = ViewWriter::new(ClusterView::default());
        let shelves = ViewShelves::new(view.clone());
        let node = object(
            "n1",
            json!({"metadata": {"labels": {"disk": "ssd"}},
            "status": {"allocatable": {"cpu": "4", "example.com/gpu": "2"}}}),
        );
        hear(&shelves, "/nodes", News::Listed(Vec::new()));
        assert!(view.now().node.is_none());
        hear(&shelves, "/nodes", News::Event { gone: false, object: node.clone() });
        let said = view.now().node.unwrap();
        assert_eq!((said.labels["disk"].as_str(), said.extended.len()), ("ssd", 1));
        hear(&shelves, "/nodes", News::Event { gone: true, object: node });
        assert!(view.now().node.is_some());
    }

    #[test]
    fn volumes_are_kept_while_they_are_given_up() {
        let view = ViewWriter::new(ClusterView::default());
        let shelves = ViewShelves::new(view.clone());
        let meta = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [LOCAL_FINALIZER]});
        let given_up = |name: &str| object(name, json!({ "metadata": meta }));
        let known = || view.now().given_up.map(|all| all.keys().cloned().collect::<Vec<_>>());
        hear(&shelves, "/persistentvolumes", News::Listed(vec![given_up("a"), object("b", json!({}))]));
        assert_eq!(known(), Some(vec!["a".to_owned()]));
        hear(&shelves, "/persistentvolumes", News::Event { gone: false, object: given_up("b") });
        assert_eq!(known(), Some(vec!["a".to_owned(), "b".to_owned()]));
        hear(&shelves, "/persistentvolumes", News::Event { gone: false, object: object("a", json!({})) });
        hear(&shelves, "/persistentvolumes", News::Event { gone: true, object: given_up("b") });
        assert_eq!(known(), Some(Vec::new()));
    }
}
