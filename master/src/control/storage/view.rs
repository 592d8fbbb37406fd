//! Claims, volumes and classes as the controllers and the scheduler read them. PURE.

use super::super::shelf::View;
use super::super::view::{Labels, document, of_group, read};
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, Resource, Revision, Time};
use coracle_api::pod::ResourceList;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

pub const CLAIMS: Resource = Resource::core("persistentvolumeclaims");
pub const VOLUMES: Resource = Resource::core("persistentvolumes");
pub const CLASSES: Resource = of_group("storage.k8s.io", "storageclasses");
pub const CSI_NODES: Resource = of_group("storage.k8s.io", "csinodes");

/// Annotations, as Kubernetes has them.
pub const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
pub const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

pub fn claim_key(namespace: &str, name: &str) -> Key {
    Key { resource: CLAIMS, namespace: namespace.to_owned(), name: name.to_owned() }
}

fn of_cluster(resource: Resource, name: &str) -> Key {
    Key { resource, namespace: String::new(), name: name.to_owned() }
}

pub fn volume_key(name: &str) -> Key {
    of_cluster(VOLUMES, name)
}

pub fn class_key(name: &str) -> Key {
    of_cluster(CLASSES, name)
}

pub fn csi_node_key(name: &str) -> Key {
    of_cluster(CSI_NODES, name)
}

#[derive(Clone, Debug)]
pub struct ClaimView {
    pub revision: Revision,
    pub uid: String,
    pub deleting: bool,
    pub protected: bool,
    /// The uid of the controlling owner.
    pub owner: Option<String>,
    pub phase: String,
    /// The name of its volume. Empty: none yet.
    pub volume: String,
    /// Its binding is done.
    pub complete: bool,
    /// `None`: none was asked for, the default one will do.
    pub class: Option<String>,
    pub modes: Vec<String>,
    pub block: bool,
    pub bytes: i64,
    pub selector: Value,
    /// The node chosen for the claim's pod. Empty: none yet.
    pub node: String,
    pub document: Stored,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Claim {
    metadata: ObjectMeta,
    spec: ClaimSpec,
    status: Phase,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    access_modes: Vec<String>,
    resources: Resources,
    selector: Value,
    storage_class_name: Option<String>,
    volume_mode: String,
    volume_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Phase {
    phase: String,
}

impl View for ClaimView {
    const OF: &'static [Resource] = &[CLAIMS];

    fn read(stored: &Stored, _: Option<&ClaimView>, _: Duration) -> Option<ClaimView> {
        let Claim { metadata, spec, status } = read(stored)?;
        let said = |name: &str| metadata.annotations.get(name).cloned();
        Some(ClaimView {
            revision: stored.revision,
            owner: metadata.controller().map(|owner| owner.uid.clone()),
            deleting: metadata.deletion_timestamp.is_some(),
            protected: metadata.finalizers.iter().any(|one| one == CLAIM_FINALIZER),
            phase: status.phase,
            volume: spec.volume_name,
            complete: said(COMPLETED).is_some(),
            class: said(OLD_CLASS).or(spec.storage_class_name),
            modes: spec.access_modes,
            block: spec.volume_mode == "Block",
            bytes: spec.resources.requests.get("storage").map_or(0, |amount| amount.value()),
            selector: spec.selector,
            node: said(SELECTED_NODE).unwrap_or_default(),
            uid: metadata.uid,
            document: stored.clone(),
        })
    }
}

#[derive(Clone, Debug)]
pub struct VolumeView {
    pub revision: Revision,
    pub uid: String,
    pub deleting: bool,
    pub protected: bool,
    pub phase: String,
    /// Whose it is.
    pub claim: Option<ClaimRef>,
    /// Empty: none.
    pub class: String,
    pub modes: Vec<String>,
    pub block: bool,
    pub bytes: i64,
    /// Terms for the nodes that reach the volume. Null: all nodes reach the volume.
    pub affinity: Value,
    pub reclaim: String,
    /// The volume's driver, if any; `handle` is the driver's name for the volume.
    pub driver: Option<String>,
    pub handle: String,
    pub document: Stored,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Volume {
    metadata: ObjectMeta,
    spec: VolumeSpec,
    status: Phase,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeSpec {
    access_modes: Vec<String>,
    capacity: ResourceList,
    claim_ref: Option<ClaimRef>,
    storage_class_name: String,
    volume_mode: String,
    node_affinity: Value,
    persistent_volume_reclaim_policy: String,
    csi: Option<Csi>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Csi {
    driver: String,
    volume_handle: String,
}

impl View for VolumeView {
    const OF: &'static [Resource] = &[VOLUMES];

    fn read(stored: &Stored, _: Option<&VolumeView>, _: Duration) -> Option<VolumeView> {
        let Volume { metadata, spec, status } = read(stored)?;
        let csi = spec.csi.unwrap_or_default();
        Some(VolumeView {
            revision: stored.revision,
            deleting: metadata.deletion_timestamp.is_some(),
            protected: metadata.finalizers.iter().any(|one| one == VOLUME_FINALIZER),
            phase: status.phase,
            claim: spec.claim_ref,
            class: metadata.annotations.get(OLD_CLASS).cloned().unwrap_or(spec.storage_class_name),
            modes: spec.access_modes,
            block: spec.volume_mode == "Block",
            bytes: spec.capacity.get("storage").map_or(0, |amount| amount.value()),
            affinity: spec.node_affinity["required"]["nodeSelectorTerms"].clone(),
            reclaim: spec.persistent_volume_reclaim_policy,
            driver: (!csi.driver.is_empty()).then_some(csi.driver),
            handle: csi.volume_handle,
            uid: metadata.uid,
            document: stored.clone(),
        })
    }
}

impl VolumeView {
    /// Whether it is this claim's, or is kept for it.
    pub fn is_for(&self, key: &Key, claim: &ClaimView) -> bool {
        let own = |of: &ClaimRef| {
            of.namespace == key.namespace && of.name == key.name && (of.uid.is_empty() || of.uid == claim.uid)
        };
        self.claim.as_ref().is_some_and(own)
    }
}

#[derive(Clone, Debug)]
pub struct ClassView {
    pub provisioner: String,
    /// Its volumes are bound when their pod has a node.
    pub waits: bool,
    pub reclaim: String,
    pub is_default: bool,
    pub created: Option<Time>,
    topologies: Vec<Topology>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Topology {
    match_label_expressions: Vec<Expression>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    values: Vec<String>,
}

impl View for ClassView {
    const OF: &'static [Resource] = &[CLASSES];

    fn read(stored: &Stored, _: Option<&ClassView>, _: Duration) -> Option<ClassView> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Class {
            metadata: ObjectMeta,
            provisioner: String,
            volume_binding_mode: String,
            reclaim_policy: String,
            allowed_topologies: Vec<Topology>,
        }
        let class: Class = read(stored)?;
        let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
        Some(ClassView {
            waits: class.volume_binding_mode == "WaitForFirstConsumer",
            is_default: marks
                .iter()
                .any(|mark| class.metadata.annotations.get(*mark).is_some_and(|said| said == "true")),
            provisioner: class.provisioner,
            reclaim: class.reclaim_policy,
            created: class.metadata.creation_timestamp,
            topologies: class.allowed_topologies,
        })
    }
}

impl ClassView {
    /// Whether it makes volumes for a node with these labels.
    pub fn allows(&self, labels: &Labels) -> bool {
        let holds = |one: &Expression| labels.get(&one.key).is_some_and(|value| one.values.contains(value));
        self.topologies.is_empty()
            || self.topologies.iter().any(|topology| topology.match_label_expressions.iter().all(holds))
    }
}

/// How many volumes of each driver a node takes.
#[derive(Clone, Debug)]
pub struct CsiNodeView {
    pub limits: BTreeMap<String, i64>,
}

impl View for CsiNodeView {
    const OF: &'static [Resource] = &[CSI_NODES];

    fn read(stored: &Stored, _: Option<&CsiNodeView>, _: Duration) -> Option<CsiNodeView> {
        let document = document(stored);
        let drivers = document["spec"]["drivers"].as_array().into_iter().flatten();
        let limit =
            |driver: &Value| Some((driver["name"].as_str()?.to_owned(), driver["allocatable"]["count"].as_i64()?));
        Some(CsiNodeView { limits: drivers.filter_map(limit).collect() })
    }
}

/// Whose a volume is, as it says.
pub fn claim_ref(key: &Key, claim: &ClaimView) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": key.namespace, "name": key.name,
        "uid": claim.uid,
        "resourceVersion": claim.revision.to_string(),
    })
}
