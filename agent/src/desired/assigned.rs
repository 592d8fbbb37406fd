//! The pods that masters have assigned to this host, by uid. A pod is parsed again only when its master changes its
//! intent: the echo of a status costs nothing, and a changed pod costs one parse.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::last::{Assignment, intent};
use crate::facts::naming::{Source, fit_uid};
use crate::facts::source_state::SourceState;
use crate::facts::uid_set::UidSet;
use crate::facts::wanted::Wanted;

type Pods = BTreeMap<String, Entry>;

/// One pod as intent (see `last::intent`).
enum Entry {
    Read(Arc<Wanted>),
    /// The pod cannot be parsed. The document is kept as received: the master may correct the pod.
    Unreadable(Value),
}

impl Entry {
    fn new(document: Value) -> Entry {
        match Wanted::new(Source::Master, document.clone()) {
            Ok(wanted) => Entry::Read(Arc::new(wanted)),
            Err(problem) => {
                let text = |field: &str| document["metadata"][field].as_str().unwrap_or_default().to_owned();
                log::error!("pod {}/{}: {problem}; it is not started", text("namespace"), text("name"));
                Entry::Unreadable(document)
            }
        }
    }

    /// The name of the pod's node.
    fn node(&self) -> &str {
        self.document()["spec"]["nodeName"].as_str().unwrap_or_default()
    }

    fn document(&self) -> &Value {
        match self {
            Entry::Read(wanted) => &wanted.document,
            Entry::Unreadable(document) => document,
        }
    }
}

#[derive(Default)]
pub struct Assigned {
    /// The present cluster of this host, by the uid of namespace kube-system. Empty before the first cluster.
    cluster: String,
    /// The name of this host's node.
    node: String,
    /// Former names of this host's node that the API still has.
    former: BTreeSet<String>,
    pods: Pods,
    /// Pods of clusters that this host belonged to before: kept until somebody says otherwise.
    others: Pods,
    /// Uids whose end was heard.
    pub gone: UidSet,
    /// Since the last `take_unsaved`, and since the last `take_unsaid`.
    unsaved: bool,
    unsaid: bool,
}

impl Assigned {
    /// `node`: the present name of this host's node. Pods bound to a different node name no longer belong to this host
    /// and count as gone.
    pub fn new(last: Assignment, node: &str) -> Assigned {
        let read = |pods: BTreeMap<String, Value>| pods.into_iter().map(|(uid, pod)| (uid, Entry::new(pod))).collect();
        let Assignment { cluster, node: was, mut former, gone: ended, pods, others } = last;
        let (mut pods, mut others): (Pods, Pods) = (read(pods), read(others));
        let mut gone = UidSet::default();
        former.insert(was.clone());
        for pods in [&mut pods, &mut others] {
            pods.retain(|uid, pod| {
                let stays = pod.node().is_empty() || pod.node() == node;
                if !stays {
                    former.insert(pod.node().to_owned());
                    gone.insert(uid);
                }
                stays
            });
        }
        former.retain(|name| !name.is_empty() && name != node);
        let unsaved = !gone.is_empty() || !was.is_empty() && was != node;
        // Their containers may have outlived the agent that heard of their end.
        ended.iter().filter(|uid| !pods.contains_key(*uid) && !others.contains_key(*uid)).for_each(|uid| {
            gone.insert(uid);
        });
        Assigned { cluster, node: node.to_owned(), former, pods, others, gone, unsaved, unsaid: true }
    }

    /// Names that this host's node had before, and that the API still has.
    pub fn former(&self) -> &BTreeSet<String> {
        &self.former
    }

    /// The API has that node no more.
    pub fn forget_former(&mut self, name: &str) {
        let known = self.former.remove(name);
        self.unsaved |= known;
        self.unsaid |= known;
    }

    pub fn hear(&mut self, uid: &str, pod: &Value) {
        let intent = intent(pod);
        if self.pods.get(uid).is_none_or(|known| *known.document() != intent) {
            self.pods.insert(uid.to_owned(), Entry::new(intent));
            (self.unsaved, self.unsaid) = (true, true);
        }
        self.unsaved |= self.others.remove(uid).is_some();
        self.unsaid |= self.gone.remove(uid);
    }

    pub fn end(&mut self, uid: &str) {
        let known = self.pods.remove(uid).is_some();
        self.unsaved |= known;
        self.unsaid |= known | self.gone.insert(uid);
    }

    /// When the cluster changes, the pods of the old cluster move to `others`. Some: the uid of the old cluster, and
    /// the new length of `others`.
    pub fn meet(&mut self, cluster: &str) -> Option<(String, usize)> {
        if self.cluster == cluster {
            return None;
        }
        let was = std::mem::replace(&mut self.cluster, cluster.to_owned());
        self.others.extend(std::mem::take(&mut self.pods));
        (self.unsaved, self.unsaid) = (true, true);
        Some((was, self.others.len()))
    }

    /// Uid, namespace and name of each pod of the present cluster.
    pub fn names(&self) -> impl Iterator<Item = (String, String, String)> {
        let text = |pod: &Entry, field: &str| pod.document()["metadata"][field].as_str().unwrap_or_default().to_owned();
        self.pods.iter().map(move |(uid, pod)| (uid.clone(), text(pod, "namespace"), text(pod, "name")))
    }

    pub fn is_of_another(&self, uid: &str) -> bool {
        self.others.contains_key(uid)
    }

    /// For the disk, where it differs from what was taken last.
    pub fn take_unsaved(&mut self) -> Option<Assignment<&Value>> {
        if !std::mem::take(&mut self.unsaved) {
            return None;
        }
        Some(Assignment {
            cluster: self.cluster.clone(),
            node: self.node.clone(),
            former: self.former.clone(),
            gone: self.gone.iter().map(str::to_owned).collect(),
            pods: documents_of(&self.pods),
            others: documents_of(&self.others),
        })
    }

    /// It could not be written.
    pub fn is_unsaved(&mut self) {
        self.unsaved = true;
    }

    /// For the loop, likewise. It is never complete: an end is heard or asked for, not concluded.
    pub fn take_unsaid(&mut self) -> Option<SourceState> {
        if !std::mem::take(&mut self.unsaid) {
            return None;
        }
        let entries = self.pods.values().chain(self.others.values());
        let mut pods: Vec<Arc<Wanted>> = entries
            .filter_map(|entry| match entry {
                Entry::Read(wanted) => Some(wanted.clone()),
                Entry::Unreadable(_) => None,
            })
            .collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        let foreign = self.others.keys().map(|uid| fit_uid(uid)).collect();
        Some(SourceState {
            pods,
            complete: false,
            gone: self.gone.clone(),
            cluster: self.cluster.clone(),
            foreign,
            former: self.former.clone(),
            ..SourceState::default()
        })
    }
}

fn documents_of(pods: &Pods) -> BTreeMap<String, &Value> {
    pods.iter().map(|(uid, entry)| (uid.clone(), entry.document())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PODS: usize = 500;

    fn pod(number: usize, image: &str, phase: &str) -> Value {
        json!({
            "metadata": {"namespace": "default", "name": format!("web-{number}"), "uid": format!("uid-{number}"),
                "resourceVersion": phase},
            "spec": {"containers": [{"name": "c", "image": image}]}, "status": {"phase": phase},
        })
    }

    /// The pods that were read again since `before`.
    fn read_again(before: &SourceState, after: &SourceState) -> Vec<String> {
        let same = |wanted: &Arc<Wanted>| before.pods.iter().any(|known| Arc::ptr_eq(known, wanted));
        after.pods.iter().filter(|wanted| !same(wanted)).map(|wanted| wanted.name.uid.clone()).collect()
    }

    #[test]
    fn one_changed_pod_is_one_reading() {
        let mut assigned = Assigned::default();
        for number in 0..PODS {
            assigned.hear(&format!("uid-{number}"), &pod(number, "web:1", "Pending"));
        }
        let before = assigned.take_unsaid().unwrap();
        assert_eq!((before.pods.len(), assigned.take_unsaved().unwrap().pods.len()), (PODS, PODS));
        // The agent's own status comes back to it.
        assigned.hear("uid-7", &pod(7, "web:1", "Running"));
        assert!(assigned.take_unsaid().is_none() && assigned.take_unsaved().is_none());
        assigned.hear("uid-7", &pod(7, "web:2", "Running"));
        assert!(assigned.take_unsaved().is_some());
        let after = assigned.take_unsaid().unwrap();
        assert_eq!(read_again(&before, &after), ["uid-7"]);
        assigned.end("uid-8");
        let ended = assigned.take_unsaid().unwrap();
        assert_eq!((read_again(&after, &ended), ended.pods.len()), (Vec::new(), PODS - 1));
        assert_eq!(ended.gone.iter().collect::<Vec<_>>(), ["uid-8"]);
    }

    #[test]
    fn pods_of_a_name_of_before_are_gone() {
        let bound =
            |node: &str| json!({"metadata": {"namespace": "d", "name": "a", "uid": "u"}, "spec": {"nodeName": node}});
        let check = |was: &str, bound_to: &str, now: &str, gone: bool, former: &[&str]| {
            let pods = BTreeMap::from([("u".to_owned(), bound(bound_to))]);
            let mut assigned = Assigned::new(Assignment { node: was.into(), pods, ..Assignment::default() }, now);
            let said = assigned.take_unsaid().unwrap();
            let saved = assigned.take_unsaved();
            assert_eq!((said.pods.is_empty(), said.gone.contains("u")), (gone, gone), "{was} {bound_to} {now}");
            assert_eq!(said.former.iter().collect::<Vec<_>>(), former, "{was} {bound_to} {now}");
            // What is as it was is not written again.
            assert_eq!(saved.is_some_and(|saved| saved.node == now), !former.is_empty(), "{was} {bound_to} {now}");
        };
        check("vm", "vm", "vm", false, &[]);
        check("vm", "vm", "shop-pc", true, &["vm"]);
        check("", "vm", "shop-pc", true, &["vm"]);
        check("vm", "", "shop-pc", false, &["vm"]);
        check("", "vm", "vm", false, &[]);
        let mut renamed = Assigned::new(Assignment { node: "vm".into(), ..Assignment::default() }, "shop-pc");
        renamed.forget_former("vm");
        let saved = renamed.take_unsaved().unwrap();
        assert_eq!((saved.node.as_str(), saved.former.len()), ("shop-pc", 0));
        let pods = BTreeMap::new();
        let back =
            Assignment { node: "shop-pc".into(), former: ["vm".to_owned()].into(), pods, ..Assignment::default() };
        assert_eq!(Assigned::new(back, "vm").former().iter().collect::<Vec<_>>(), ["shop-pc"]);
    }

    /// Containers of an ended pod may have outlived the agent that heard of the end.
    #[test]
    fn an_end_that_was_heard_outlives_the_agent() {
        let mut assigned = Assigned::default();
        assigned.hear("uid-1", &pod(1, "web:1", "Running"));
        assigned.end("uid-1");
        let saved = serde_json::to_string(&assigned.take_unsaved().unwrap()).unwrap();
        let mut again = Assigned::new(serde_json::from_str(&saved).unwrap(), "");
        let said = again.take_unsaid().unwrap();
        assert_eq!((said.gone.iter().collect::<Vec<_>>(), said.pods.len()), (vec!["uid-1"], 0));
        assert!(again.take_unsaved().is_none(), "it is not written again");
        again.hear("uid-1", &pod(1, "web:1", "Running"));
        assert!(again.take_unsaved().unwrap().gone.is_empty() && again.take_unsaid().unwrap().gone.is_empty());
    }

    #[test]
    fn an_unreadable_pod_is_kept_and_not_started() {
        let bad = json!({"metadata": {"namespace": "default", "name": "bad", "uid": "u"}, "spec": {"containers": 7}});
        let mut assigned = Assigned::default();
        assigned.hear("u", &bad);
        assert_eq!(assigned.take_unsaid().unwrap().pods, Vec::new());
        assert_eq!(*assigned.take_unsaved().unwrap().pods["u"], bad);
    }

    #[test]
    fn pods_of_another_cluster_go_on() {
        let mut assigned = Assigned::default();
        assert_eq!(assigned.meet("one"), Some((String::new(), 0)));
        assigned.hear("uid-1", &pod(1, "web:1", "Running"));
        assert_eq!(assigned.meet("one"), None);
        assert_eq!(assigned.meet("two"), Some(("one".to_owned(), 1)));
        assert!(assigned.is_of_another("uid-1") && assigned.names().next().is_none());
        assert_eq!(assigned.take_unsaid().unwrap().pods.len(), 1);
    }
}
