//! Volumes that a class makes: an outside provisioner is told, and of the built-in class a directory on a node is one.
//! PURE.

use super::super::cluster::Cluster;
use super::super::intent::{EventDraft, Intent};
use super::super::view::document;
use super::binding::{SOURCE, about};
use super::matching::NO_PROVISIONER;
use super::view::{ClaimView, ClassView, VOLUMES, VolumeView, claim_ref};
use coracle_api::meta::Key;
pub use coracle_api::strategy::claim::PROVISIONED_BY;
use coracle_api::strategy::claim::{LOCAL_FINALIZER, LOCAL_PROVISIONER, LOCAL_VOLUMES};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The annotations that name the provisioner of a claim.
const ASKED: [&str; 2] = ["volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner"];
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Provisioners that were built into Kubernetes once, and the drivers that took over.
const MOVED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

pub enum Provision {
    Write(Vec<Intent>),
    Tell { severity: &'static str, reason: &'static str, text: String },
}

/// The class for claims without a class: the newest of the default classes.
pub fn default_class(cluster: &Cluster) -> Option<&str> {
    let classes = cluster.all::<ClassView>().filter(|(_, class)| class.is_default);
    let newest =
        classes.min_by_key(|(key, class)| (Reverse(class.created.map(|created| created.seconds())), &key.name));
    newest.map(|(key, _)| key.name.as_str())
}

/// What is done for a claim without a volume.
pub fn provision(cluster: &Cluster, key: &Key, claim: &ClaimView, class: &ClassView) -> Provision {
    let moved = MOVED.iter().find(|(old, _)| *old == class.provisioner).map(|(_, driver)| *driver);
    let provisioner = moved.unwrap_or(&class.provisioner);
    if provisioner == LOCAL_PROVISIONER {
        return directory(cluster, key, claim, class);
    }
    if provisioner == NO_PROVISIONER || provisioner.starts_with("kubernetes.io/") {
        let text = format!("no volume plugin matched name: {provisioner}");
        return Provision::Tell { severity: "Warning", reason: "ProvisioningFailed", text };
    }
    let mut object = document(&claim.document);
    let annotations = &mut object["metadata"]["annotations"];
    if ASKED.iter().any(|name| annotations[name] != provisioner) {
        ASKED.iter().for_each(|name| annotations[name] = provisioner.into());
        return Provision::Write(vec![Intent::Update { key: key.clone(), seen: claim.revision, object }]);
    }
    let text = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
         system administrator. If volume creation is delayed, please verify that the provisioner is running and \
         correctly registered."
    );
    Provision::Tell { severity: "Normal", reason: "ExternalProvisioning", text }
}

/// A directory on the node of the claim's pod, which the first pod there makes.
fn directory(cluster: &Cluster, key: &Key, claim: &ClaimView, class: &ClassView) -> Provision {
    let failed = |text: String| Provision::Tell { severity: "Warning", reason: "ProvisioningFailed", text };
    let nodes = &cluster.nodes;
    // A class that does not wait has a place only where there is no choice.
    let alone = || nodes.keys().next().filter(|_| nodes.len() == 1).map(String::as_str).unwrap_or_default();
    let node = if claim.node.is_empty() { alone() } else { claim.node.as_str() };
    let Some(host) = nodes.get(node).map(|view| view.labels.get(HOSTNAME).map_or(node, String::as_str)) else {
        return failed(format!(
            "class {:?} makes a directory on the node of the claim's pod: node {node:?} is not there",
            claim.class.as_deref().unwrap_or_default()
        ));
    };
    if claim.block {
        return failed("a directory is no block device: ask for volumeMode Filesystem".to_owned());
    }
    if claim.selector.is_object() {
        return failed("a claim with a selector gets volumes that are there already, none is made for it".to_owned());
    }
    let name = format!("pvc-{}", claim.uid);
    let asked = document(&claim.document);
    let object = json!({
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: LOCAL_PROVISIONER}, "finalizers": [LOCAL_FINALIZER]},
        "spec": {
            "capacity": {"storage": asked["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim.modes,
            "persistentVolumeReclaimPolicy": if class.reclaim.is_empty() { "Delete" } else { &class.reclaim },
            "storageClassName": claim.class,
            "hostPath": {"path": format!("{LOCAL_VOLUMES}{}_{}_{name}", key.namespace, key.name),
                "type": "DirectoryOrCreate"},
            "claimRef": claim_ref(key, claim),
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [host]}]},
            ]}},
        },
    });
    let text = format!("Successfully provisioned volume {name}");
    let tale = EventDraft::normal(SOURCE, about(key, claim), "ProvisioningSucceeded", text);
    Provision::Write(vec![Intent::Create { resource: VOLUMES, namespace: String::new(), object }, Intent::Tell(tale)])
}

/// Whether a claim asks for more than its volume has, and the volume is a directory, which has no end of its own.
pub fn grows(claim: &ClaimView, volume: &VolumeView) -> bool {
    claim.bytes > volume.bytes && made_here(&document(&volume.document))
}

pub fn made_here(volume: &Value) -> bool {
    volume["metadata"]["annotations"][PROVISIONED_BY] == LOCAL_PROVISIONER
}

/// First the volume says its new size, then the claim.
pub fn grown(key: &Key, claim: &ClaimView, volume: &VolumeView, _: &Value) -> Option<Intent> {
    let _ = key;
    let asked = document(&claim.document);
    let mut object = document(&volume.document);
    object["spec"]["capacity"]["storage"] = asked["spec"]["resources"]["requests"]["storage"].clone();
    let name = object["metadata"]["name"].as_str()?.to_owned();
    Some(Intent::Update { key: super::view::volume_key(&name), seen: volume.revision, object })
}
