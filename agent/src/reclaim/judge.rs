//! Which directory goes with a volume that is given up. PURE.

use std::collections::BTreeMap;

use coracle_api::placement;
use coracle_api::strategy::claim::{LOCAL_FINALIZER, LOCAL_PROVISIONER, LOCAL_VOLUMES, PROVISIONED_BY};
use serde_json::Value;

use crate::desired::given_up::finalizers;

#[derive(Debug, PartialEq)]
pub enum Reclaim {
    /// The directory of this name goes, then the volume.
    Remove(String),
    /// The volume goes, its directory stays: policy Retain.
    Release,
    /// The volume does not look like a volume of the class. Nothing is touched.
    Refuse(String),
}

/// None: the volume is another node's.
pub fn reclaim(volume: &Value, labels: &BTreeMap<String, String>) -> Option<Reclaim> {
    let (meta, spec) = (&volume["metadata"], &volume["spec"]);
    if !placement::any_term(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"], "", labels) {
        return None;
    }
    if spec["persistentVolumeReclaimPolicy"] != "Delete" {
        return Some(Reclaim::Release);
    }
    let path = spec["hostPath"]["path"].as_str().unwrap_or_default();
    let name = meta["name"].as_str().unwrap_or_default();
    let directory = path.strip_prefix(LOCAL_VOLUMES).filter(|rest| {
        // One step below, and named after this very volume: nobody else's directory, and no way out.
        name.starts_with("pvc-") && rest.ends_with(&format!("_{name}")) && !rest.contains('/')
    });
    Some(match directory {
        Some(directory) if meta["annotations"][PROVISIONED_BY] == LOCAL_PROVISIONER => {
            Reclaim::Remove(directory.to_owned())
        }
        _ => Reclaim::Refuse(format!("{path:?} is no directory that the class made for this volume")),
    })
}

/// Which finalizers are left when the agent has done its part.
pub fn others(volume: &Value) -> Vec<&str> {
    finalizers(volume).filter(|one| *one != LOCAL_FINALIZER).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::given_up::{PROTECTION, is_given_up};
    use serde_json::json;

    fn volume() -> Value {
        json!({
            "metadata": {
                "name": "pvc-u1", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [LOCAL_FINALIZER],
                "annotations": {PROVISIONED_BY: LOCAL_PROVISIONER},
            },
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete",
                "hostPath": {"path": format!("{LOCAL_VOLUMES}shop_data_pvc-u1")},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]},
                ]}},
            },
            "status": {"phase": "Released"},
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut volume = volume();
        *volume.pointer_mut(pointer).unwrap() = value;
        volume
    }

    #[test]
    fn a_volume_is_given_up_when_no_claim_has_it() {
        assert!(is_given_up(&volume()));
        assert!(is_given_up(&with("/metadata/finalizers", json!(["example.com/backup", LOCAL_FINALIZER]))));
        for (what, volume) in [
            ("not deleted", with("/metadata/deletionTimestamp", Value::Null)),
            ("a claim has it", with("/metadata/finalizers", json!([PROTECTION, LOCAL_FINALIZER]))),
            ("a claim has it, and nobody protects it", with("/status/phase", "Bound".into())),
            ("done, or never asked", with("/metadata/finalizers", json!(["example.com/backup"]))),
            ("none at all", with("/metadata/finalizers", Value::Null)),
        ] {
            assert!(!is_given_up(&volume), "{what}");
        }
        assert_eq!(
            others(&with("/metadata/finalizers", json!(["example.com/backup", LOCAL_FINALIZER]))),
            ["example.com/backup"]
        );
    }

    #[test]
    fn only_the_directory_that_the_class_made_for_it_goes() {
        let labels = |name: &str| BTreeMap::from([("kubernetes.io/hostname".to_owned(), name.to_owned())]);
        let at = |path: &str| with("/spec/hostPath/path", path.into());
        let remove = Some(Reclaim::Remove("shop_data_pvc-u1".to_owned()));
        let refuse =
            |path: &str| Some(Reclaim::Refuse(format!("{path:?} is no directory that the class made for this volume")));
        assert_eq!(reclaim(&volume(), &labels("n1")), remove);
        assert_eq!(reclaim(&volume(), &labels("n2")), None, "another node's");
        assert_eq!(reclaim(&with("/spec/nodeAffinity", Value::Null), &labels("n1")), None, "nobody's");
        assert_eq!(
            reclaim(&with("/spec/persistentVolumeReclaimPolicy", "Retain".into()), &labels("n1")),
            Some(Reclaim::Release)
        );
        for path in [
            "/etc".to_owned(),
            LOCAL_VOLUMES.to_owned(),
            format!("{LOCAL_VOLUMES}shop_data_pvc-u2"),
            format!("{LOCAL_VOLUMES}../shop_data_pvc-u1"),
            format!("{LOCAL_VOLUMES}other/shop_data_pvc-u1"),
            format!("{LOCAL_VOLUMES}shop_data_pvc-u1/.."),
        ] {
            assert_eq!(reclaim(&at(&path), &labels("n1")), refuse(&path), "{path}");
        }
        let path = format!("{LOCAL_VOLUMES}shop_data_pvc-u1");
        assert_eq!(
            reclaim(&with("/metadata/annotations", json!({})), &labels("n1")),
            refuse(&path),
            "made by somebody else"
        );
        assert_eq!(reclaim(&with("/metadata/name", "data".into()), &labels("n1")), refuse(&path), "of another name");
    }
}
