//! What the running agent tells a backup: its pods, the annotations about backups, and where volumes lie. PURE.

use coracle_api::pod::Volume;
use serde::{Deserialize, Serialize};

use super::asked::{Annotations, annotations};
use crate::facts::naming::{PodName, Source};
use crate::facts::objects::uses::claim_of;
use crate::facts::objects::{ObjectKind, ObjectState};
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;
use crate::spec::claims::resolve;
use crate::spec::projection::Missing;

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    pub node: String,
    pub pods: Vec<OfferedPod>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfferedPod {
    pub namespace: String,
    pub name: String,
    /// As the agent's socket calls it: a pod of a file may have the name of a pod of the API.
    pub called: String,
    pub phase: String,
    /// Where a command runs that names none.
    pub container: String,
    pub annotations: Annotations,
    pub volumes: Vec<OfferedVolume>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferedVolume {
    pub name: String,
    pub claim: Option<OfferedClaim>,
    /// Its directory on this host, or why there is none to copy.
    pub directory: Result<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfferedClaim {
    pub name: String,
    pub annotations: Annotations,
}

/// Pods without a volume and without an annotation about backups are left out.
pub fn offered(shown: &Shown, node: &str, data_dir: &str) -> Offered {
    let pods = shown.desired.pods.iter().map(|(uid, wanted)| {
        let phase = shown.statuses.get(uid).and_then(|status| status["phase"].as_str()).unwrap_or("Pending");
        let metadata = &wanted.document["metadata"];
        let usual = metadata["annotations"][DEFAULT_CONTAINER].as_str();
        let first = || wanted.document["spec"]["containers"][0]["name"].as_str();
        OfferedPod {
            namespace: wanted.name.namespace.clone(),
            name: wanted.name.name.clone(),
            called: match wanted.name.source {
                Source::File => format!("{}-{node}", wanted.name.name),
                Source::Master => wanted.name.name.clone(),
            },
            phase: phase.to_owned(),
            container: usual.or_else(first).unwrap_or_default().to_owned(),
            annotations: annotations(metadata),
            volumes: wanted.pod.spec.volumes.iter().map(|one| volume(one, wanted, shown, data_dir)).collect(),
        }
    });
    let pods = pods.filter(|pod| !pod.volumes.is_empty() || !pod.annotations.is_empty());
    let mut pods: Vec<OfferedPod> = pods.collect();
    pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Offered { node: node.to_owned(), pods }
}

fn volume(volume: &Volume, wanted: &Wanted, shown: &Shown, data_dir: &str) -> OfferedVolume {
    let PodName { namespace, name: pod, .. } = &wanted.name;
    let claim = claim_of(volume, pod).map(|(name, _)| {
        let found = shown.desired.objects.find_in(&wanted.name, ObjectKind::Claim, namespace, &name);
        let annotations = match found {
            ObjectState::There(object) | ObjectState::Kept(object) => annotations(&object.facts["metadata"]),
            ObjectState::Absent | ObjectState::Unknown { .. } => Annotations::default(),
        };
        OfferedClaim { name, annotations }
    });
    let directory = match resolve(volume, wanted, &shown.desired) {
        Ok(found) => directory(&found, data_dir),
        Err(Missing::Failed(why)) => Err(why),
        Err(Missing::Asked) => Err("the master has not said yet what it is".to_owned()),
    };
    OfferedVolume { name: volume.name.clone(), claim, directory }
}

fn directory(volume: &Volume, data_dir: &str) -> Result<String, String> {
    if let Some(kept) = &volume.kept_directory {
        return Ok(if kept.starts_with('/') { kept.clone() } else { format!("{data_dir}/{kept}") });
    }
    if let Some(local) = &volume.local {
        return Ok(local.path.clone());
    }
    match (&volume.host_path, &volume.empty_dir, &volume.nfs) {
        (Some(host), ..) if matches!(host.kind.as_str(), "" | "Directory" | "DirectoryOrCreate") => {
            Ok(host.path.clone())
        }
        (Some(host), ..) => Err(format!("it is a hostPath of type {}, and directories are copied", host.kind)),
        (_, Some(_), _) => Err("it is an emptyDir, which ends with its pod: use a claim".to_owned()),
        (.., Some(nfs)) => Err(format!("it is on the NFS server {}: copy it there", nfs.server)),
        _ => Err("it is made anew from objects of the API or of files, which are copied".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use crate::facts::objects::{Object, Objects, Ref};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn pods_with_their_volumes() {
        let document = json!({
            "metadata": {"namespace": "n", "name": "db", "uid": "u",
                "annotations": {"coracle.dev/backup": "conf", "x": "y"}},
            "spec": {"containers": [{"name": "main"}], "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "conf", "hostPath": {"path": "/srv/conf"}},
                {"name": "sock", "hostPath": {"path": "/run/x.sock", "type": "Socket"}},
                {"name": "tmp", "emptyDir": {}},
                {"name": "map", "configMap": {"name": "m"}},
                {"name": "lost", "persistentVolumeClaim": {"claimName": "none"}},
            ]},
        });
        let plain = json!({"metadata": {"namespace": "n", "name": "plain", "uid": "p"}, "spec": {"containers": [{}]}});
        let claim = json!({"metadata": {"annotations": {"coracle.dev/backup": "true"}}, "directory": "claims/n/c"});
        let place = Ref { kind: ObjectKind::Claim, namespace: "n".into(), name: "c".into() };
        let files = [(place, Arc::new(Object::read(ObjectKind::Claim, &claim)))].into();
        let pods = [document, plain].map(|document| Arc::new(Wanted::new(Source::File, document).unwrap()));
        let desired = Desired {
            pods: pods.into_iter().map(|wanted| (wanted.name.uid.clone(), wanted)).collect(),
            objects: Arc::new(Objects { files, ..Objects::default() }),
            ..Desired::default()
        };
        let shown = Shown { desired: Arc::new(desired), ..Shown::default() };
        let found = offered(&shown, "n1", "/data");
        assert_eq!((found.node.as_str(), found.pods.len()), ("n1", 1));
        let pod = &found.pods[0];
        assert_eq!((pod.called.as_str(), pod.container.as_str(), pod.phase.as_str()), ("db-n1", "main", "Pending"));
        assert_eq!(pod.annotations.len(), 1);
        let claim = pod.volumes[0].claim.as_ref().unwrap();
        assert_eq!((claim.name.as_str(), claim.annotations.len()), ("c", 1));
        let places: Vec<_> = pod.volumes.iter().map(|volume| volume.directory.as_deref()).collect();
        assert_eq!(places[..2], [Ok("/data/claims/n/c"), Ok("/srv/conf")]);
        for (place, word) in places[2..].iter().zip(["type Socket", "use a claim", "made anew", "not found"]) {
            assert!(place.unwrap_err().contains(word), "{place:?}");
        }
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Offered>(&text).unwrap(), found);
    }
}
