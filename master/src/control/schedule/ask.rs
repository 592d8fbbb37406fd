//! A pod's requirements on its node, read from the pod's document at each look. PURE.

use super::super::view::{PodView, document, image_mark, of_group};
use coracle_api::labels::LabelSet;
use coracle_api::meta::{Key, Resource};
use coracle_api::pod::Toleration;
use coracle_api::strategy::label_selector;
use serde_json::Value;

/// A pod that looks for a node.
pub struct Ask<'a> {
    pub key: &'a Key,
    pub pod: &'a PodView,
    pub spec: Value,
    pub tolerations: Vec<Toleration>,
    pub relations: Relations,
    pub spreads: Vec<Spread>,
    /// The pod's claims, in the order of the pod's volumes.
    pub claims: Vec<ClaimUse>,
    /// The owner whose pods are spread over nodes, and the owner's uid.
    pub group: Option<(Key, String)>,
    pub images: Vec<u64>,
    pub containers: usize,
    pub never_preempts: bool,
}

/// A claim that a pod uses.
pub struct ClaimUse {
    pub name: String,
    /// Made for this pod.
    pub ephemeral: bool,
}

/// A pod's affinity or anti-affinity to other pods.
#[derive(Default)]
pub struct Relations {
    pub affinity: Vec<Term>,
    pub anti_affinity: Vec<Term>,
    /// With its weight, negative where the pods are not wanted.
    pub preferred: Vec<(i64, Term)>,
}

/// An affinity term: the selected pods, and the topology that defines nearness.
pub struct Term {
    selector: Value,
    namespaces: Vec<String>,
    namespace_selector: Value,
    pub topology: String,
}

/// How evenly pods are to be spread.
pub struct Spread {
    pub max_skew: i64,
    pub topology: String,
    pub hard: bool,
    pub selects: Spreading,
    pub min_domains: usize,
    pub honor_affinity: bool,
    pub honor_taints: bool,
}

/// Selects the pods in the namespace that count.
pub enum Spreading {
    Selector {
        selector: Value,
        keys: Vec<(String, String)>,
    },
    /// Those of the same services, by these labels, and of the same owner.
    Siblings {
        labels: Vec<(String, String)>,
        owner: Option<(Key, String)>,
    },
}

/// Kinds whose pods are spread even without a constraint.
static SPREAD_KINDS: [(&str, Resource); 3] = [
    ("ReplicaSet", of_group("apps", "replicasets")),
    ("ReplicationController", Resource::core("replicationcontrollers")),
    ("StatefulSet", of_group("apps", "statefulsets")),
];
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

impl<'a> Ask<'a> {
    pub fn of(key: &'a Key, pod: &'a PodView) -> Ask<'a> {
        let document = document(&pod.document);
        let spec = document["spec"].clone();
        let owners = list(&document["metadata"]["ownerReferences"]);
        let owner = owners.iter().find(|owner| owner["controller"] == true);
        let group = |owner: &Value| {
            let (_, resource) = SPREAD_KINDS.iter().find(|(kind, _)| owner["kind"] == *kind)?;
            let (name, uid) = (owner["name"].as_str()?.to_owned(), owner["uid"].as_str()?.to_owned());
            Some((Key { resource: resource.clone(), namespace: key.namespace.clone(), name }, uid))
        };
        let containers = || list(&spec["initContainers"]).iter().chain(list(&spec["containers"]));
        Ask {
            key,
            pod,
            tolerations: serde_json::from_value(spec["tolerations"].clone()).unwrap_or_default(),
            relations: Relations::of(&spec["affinity"]),
            spreads: list(&spec["topologySpreadConstraints"]).iter().map(|one| Spread::of(one, pod.labels())).collect(),
            claims: claims(key, &spec),
            group: owner.and_then(group),
            images: containers().filter_map(|one| one["image"].as_str()).map(image_mark).collect(),
            containers: containers().count(),
            never_preempts: spec["preemptionPolicy"] == "Never",
            spec,
        }
    }
}

impl Relations {
    pub fn of(affinity: &Value) -> Relations {
        let required =
            |of: &Value| list(&of["requiredDuringSchedulingIgnoredDuringExecution"]).iter().map(Term::of).collect();
        let preferred = |of: &Value, sign: i64| {
            let all = list(&of["preferredDuringSchedulingIgnoredDuringExecution"]).iter();
            all.map(|one| (sign * one["weight"].as_i64().unwrap_or_default(), Term::of(&one["podAffinityTerm"])))
                .collect::<Vec<_>>()
        };
        let (near, far) = (&affinity["podAffinity"], &affinity["podAntiAffinity"]);
        let mut all = preferred(near, 1);
        all.extend(preferred(far, -1));
        Relations { affinity: required(near), anti_affinity: required(far), preferred: all }
    }

    /// Of a pod that stands.
    pub fn of_pod(pod: &PodView) -> Relations {
        Relations::of(&document(&pod.document)["spec"]["affinity"])
    }
}

impl Term {
    fn of(term: &Value) -> Term {
        Term {
            selector: term["labelSelector"].clone(),
            namespaces: list(&term["namespaces"]).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            namespace_selector: term["namespaceSelector"].clone(),
            topology: term["topologyKey"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Whether it means a pod with these labels in this namespace. `own`: the namespace of the pod that has the term.
    pub fn means(&self, own: &str, namespace: &str, namespace_labels: &LabelSet, labels: &LabelSet) -> bool {
        let said = !self.namespaces.is_empty() || self.namespace_selector.is_object();
        let home = if said {
            self.namespaces.iter().any(|one| one == namespace)
                || label_selector::selects(&self.namespace_selector, |key| namespace_labels.get(key))
        } else {
            own == namespace
        };
        home && label_selector::selects(&self.selector, |key| labels.get(key))
    }
}

impl Spread {
    fn of(constraint: &Value, labels: &LabelSet) -> Spread {
        let keys = list(&constraint["matchLabelKeys"]).iter().filter_map(Value::as_str);
        let keys = keys.filter_map(|key| Some((key.to_owned(), labels.get(key)?.to_owned()))).collect();
        Spread {
            max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
            topology: constraint["topologyKey"].as_str().unwrap_or_default().to_owned(),
            hard: constraint["whenUnsatisfiable"] != "ScheduleAnyway",
            selects: Spreading::Selector { selector: constraint["labelSelector"].clone(), keys },
            min_domains: constraint["minDomains"].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(1),
            honor_affinity: constraint["nodeAffinityPolicy"] != "Ignore",
            honor_taints: constraint["nodeTaintsPolicy"] == "Honor",
        }
    }

    /// What holds for pods of services and owners that ask for nothing.
    pub fn usual(labels: &[(String, String)], owner: Option<&(Key, String)>) -> Vec<Spread> {
        let one = |topology: &str, max_skew| Spread {
            max_skew,
            topology: topology.to_owned(),
            hard: false,
            selects: Spreading::Siblings { labels: labels.to_vec(), owner: owner.cloned() },
            min_domains: 1,
            honor_affinity: true,
            honor_taints: false,
        };
        vec![one(HOSTNAME, 3), one(ZONE, 5)]
    }

    pub fn counts(&self, labels: &LabelSet, owner: Option<&String>) -> bool {
        let all = |wanted: &[(String, String)]| wanted.iter().all(|(key, value)| labels.get(key) == Some(value));
        match &self.selects {
            Spreading::Selector { selector, keys } => {
                label_selector::selects(selector, |key| labels.get(key)) && all(keys)
            }
            Spreading::Siblings { labels: wanted, owner: of } => {
                all(wanted) && of.as_ref().is_none_or(|(_, uid)| Some(uid) == owner)
            }
        }
    }

    /// Labels that every counted pod has. Empty: the constraint requires no label value.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        let (selected, labels) = match &self.selects {
            Spreading::Selector { selector, keys } => (selector["matchLabels"].as_object(), keys),
            Spreading::Siblings { labels, .. } => (None, labels),
        };
        let selected =
            selected.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        selected.chain(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))).collect()
    }

    /// The owner of every counted pod, with the owner's uid.
    pub fn owner(&self) -> Option<(&Key, &str)> {
        match &self.selects {
            Spreading::Siblings { owner: Some((key, uid)), .. } => Some((key, uid)),
            _ => None,
        }
    }
}

/// The claims that a pod uses.
pub fn claims(key: &Key, spec: &Value) -> Vec<ClaimUse> {
    let used = |volume: &Value| {
        if volume["ephemeral"].is_object() {
            let name = format!("{}-{}", key.name, volume["name"].as_str().unwrap_or_default());
            return Some(ClaimUse { name, ephemeral: true });
        }
        let name = volume["persistentVolumeClaim"]["claimName"].as_str()?;
        Some(ClaimUse { name: name.to_owned(), ephemeral: false })
    };
    list(&spec["volumes"]).iter().filter_map(used).collect()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
