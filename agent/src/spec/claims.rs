//! A claim that a pod mounts -> the volume that it is bound to, as if the pod had named that itself. PURE.

use std::sync::Arc;

use coracle_api::placement;
use coracle_api::pod::{HostPathVolumeSource, LocalVolumeSource, NfsVolumeSource, Volume};
use coracle_api::strategy::claim::LOCAL_VOLUMES;
use coracle_api::strategy::qos;
use serde::Deserialize;
use serde_json::Value;

use crate::facts::desired::Desired;
use crate::facts::huge_pages;
use crate::facts::naming::{PodName, Source};
use crate::facts::objects::uses::claim_of;
use crate::facts::objects::{Object, ObjectKind, ObjectState, Objects};
use crate::facts::wanted::Wanted;
use crate::spec::projection::Missing;

/// While a claim has it, pods may use the claim, though it is being deleted.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The volume that a claim is bound to; None while it is not.
pub fn bound_to(claim: &Object) -> Option<&str> {
    let bound = claim.facts["status"]["phase"] == "Bound";
    claim.facts["spec"]["volumeName"].as_str().filter(|name| bound && !name.is_empty())
}

/// All volumes of a pod, each claim with what it is bound to. The error is the kubelet's.
pub fn resolve_all(wanted: &Wanted, desired: &Desired) -> Result<Vec<Volume>, Missing> {
    let (mut volumes, mut unmounted, mut texts, mut asked) = (Vec::new(), Vec::new(), Vec::new(), false);
    for volume in &wanted.pod.spec.volumes {
        match resolve(volume, wanted, desired) {
            Ok(volume) => volumes.push(volume),
            Err(Missing::Asked) => asked = true,
            Err(Missing::Failed(text)) => {
                unmounted.push(volume.name.as_str());
                texts.push(text);
            }
        }
    }
    if !texts.is_empty() {
        let names = unmounted.join(" ");
        let text = format!(
            "unmounted volumes=[{names}], unattached volumes=[], failed to process volumes=[{names}]: {}",
            texts.join("; ")
        );
        return Err(Missing::Failed(format!("Unable to attach or mount volumes: {text}")));
    }
    if asked { Err(Missing::Asked) } else { Ok(volumes) }
}

/// The volume with the source that its claim is bound to. A volume without a claim stays unchanged.
pub fn resolve(volume: &Volume, wanted: &Wanted, desired: &Desired) -> Result<Volume, Missing> {
    let PodName { namespace, name: pod, .. } = &wanted.name;
    let Some((name, own)) = claim_of(volume, pod) else { return plain(volume, wanted) };
    let failed = |text: String| Missing::Failed(format!("error processing PVC {namespace}/{name}: {text}"));
    let claim = match known(&desired.objects, wanted, ObjectKind::Claim, namespace, &name)? {
        Known::There(claim) => claim,
        Known::Not(why) => {
            let text = why.unwrap_or_else(|| format!("persistentvolumeclaims \"{name}\" not found"));
            return Err(failed(format!("failed to fetch PVC from API server: {text}")));
        }
    };
    let read_only = volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.read_only);
    if wanted.name.source == Source::File {
        let kept_directory = claim.facts["directory"].as_str().map(str::to_owned);
        return Ok(Volume { name: volume.name.clone(), kept_directory, read_only, ..Volume::default() });
    }
    check_claim(claim).map_err(|text| failed(text.to_owned()))?;
    if own && !is_owned(claim, &wanted.pod.metadata.uid) {
        let text = format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)");
        return Err(Missing::Failed(text));
    }
    let bound = bound_to(claim).unwrap_or_default();
    let spec = match known(&desired.objects, wanted, ObjectKind::Volume, "", bound)? {
        Known::There(volume) => &volume.facts["spec"],
        Known::Not(why) => {
            let text = why.unwrap_or_else(|| format!("persistentvolumes \"{bound}\" not found"));
            return Err(failed(format!("failed to fetch PV {bound} from API server: {text}")));
        }
    };
    check_volume(spec, bound, &claim.facts["metadata"]["uid"]).map_err(failed)?;
    if spec["volumeMode"] == "Block" {
        return Err(Missing::Failed(format!(
            "volume {} has volumeMode Block, but is specified in volumeMounts",
            volume.name
        )));
    }
    let required = &spec["nodeAffinity"]["required"];
    if let Some(node) = desired.node.as_ref().filter(|_| !required.is_null())
        && !placement::any_term(&required["nodeSelectorTerms"], "", &node.labels)
    {
        return Err(Missing::Failed(format!(
            "MountVolume.NodeAffinity check failed for volume \"{bound}\" : no matching NodeSelectorTerms"
        )));
    }
    let text = || format!("volume {bound}: this agent mounts hostPath, local and nfs volumes");
    source(spec, &volume.name, read_only).ok_or_else(|| failed(text()))
}

/// A volume that is no claim.
fn plain(volume: &Volume, wanted: &Wanted) -> Result<Volume, Missing> {
    if !volume.empty_dir.as_ref().is_some_and(|empty| huge_pages::is_medium(&empty.medium)) {
        return Ok(volume.clone());
    }
    huge_pages::resolved(volume, &qos::of_pod(&wanted.document["spec"], "requests")).map_err(Missing::Failed)
}

enum Known<'a> {
    There(&'a Arc<Object>),
    /// Why not; None: the master has no such object.
    Not(Option<String>),
}

fn known<'a>(
    objects: &'a Objects,
    wanted: &Wanted,
    kind: ObjectKind,
    namespace: &str,
    name: &str,
) -> Result<Known<'a>, Missing> {
    match objects.find_in(&wanted.name, kind, namespace, name) {
        ObjectState::There(object) | ObjectState::Kept(object) => Ok(Known::There(object)),
        ObjectState::Absent => Ok(Known::Not(None)),
        ObjectState::Unknown { silent: true } => Ok(Known::Not(Some("the master does not answer".to_owned()))),
        ObjectState::Unknown { silent: false } => Err(Missing::Asked),
    }
}

fn check_claim(claim: &Object) -> Result<(), &'static str> {
    let facts = &claim.facts;
    let meta = &facts["metadata"];
    let protected = meta["finalizers"].as_array().into_iter().flatten().any(|one| one == PROTECTION);
    if !meta["deletionTimestamp"].is_null() && !protected {
        return Err("PVC is being deleted");
    }
    match (facts["status"]["phase"] == "Bound", bound_to(claim)) {
        (false, _) => Err("PVC is not bound"),
        (true, None) => Err("PVC has empty pvc.Spec.VolumeName"),
        (true, Some(_)) => Ok(()),
    }
}

fn check_volume(spec: &Value, name: &str, claim_uid: &Value) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (claim, expected) = (&spec["claimRef"], text(claim_uid));
    if claim.is_null() {
        return Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    }
    let uid = text(&claim["uid"]);
    if uid != expected {
        return Err(format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {uid} does not point to claim.UID {expected}"
        ));
    }
    Ok(())
}

fn is_owned(claim: &Object, uid: &str) -> bool {
    let mut owners = claim.facts["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["uid"] == uid)
}

/// None: the agent does not support this kind of volume.
fn source(spec: &Value, name: &str, read_only: bool) -> Option<Volume> {
    let mut volume = Volume { name: name.to_owned(), read_only, ..Volume::default() };
    volume.host_path = HostPathVolumeSource::deserialize(&spec["hostPath"]).ok();
    // A directory that was made for this claim alone is whoever's the pod runs as, and its group's.
    let made = |host: &HostPathVolumeSource| host.kind == "DirectoryOrCreate" && host.path.starts_with(LOCAL_VOLUMES);
    if let Some(host) = volume.host_path.take_if(|host| made(host)) {
        volume.kept_directory = Some(host.path);
        return Some(volume);
    }
    volume.local = LocalVolumeSource::deserialize(&spec["local"]).ok();
    volume.nfs = NfsVolumeSource::deserialize(&spec["nfs"]).ok();
    let options = spec["mountOptions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    volume.mount_options = options.map(str::to_owned).collect();
    (volume.host_path.is_some() || volume.local.is_some() || volume.nfs.is_some()).then_some(volume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::node_said::NodeSaid;
    use crate::facts::objects::Ref;
    use serde_json::json;

    fn check(claim: Value, volume: Value, expected: Result<Volume, &str>) {
        let spec = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}}]});
        check_pod(spec, "c", claim, volume, expected);
    }

    fn check_pod(spec: Value, name: &str, claim: Value, volume: Value, expected: Result<Volume, &str>) {
        let document = json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": spec});
        let wanted = Wanted::new(Source::Master, document).unwrap();
        let mut objects = Objects::default();
        let mut know = |kind: ObjectKind, namespace: &str, name: &str, document: &Value| {
            if *document != json!("unknown") {
                let object = document.is_object().then(|| Arc::new(Object::read(kind, document)));
                objects.known.insert(Ref { kind, namespace: namespace.into(), name: name.into() }, object);
            }
        };
        know(ObjectKind::Claim, "n", name, &claim);
        know(ObjectKind::Volume, "", "pv", &volume);
        let node = NodeSaid { labels: [("a".to_owned(), "b".to_owned())].into(), ..NodeSaid::default() };
        let desired = Desired { objects: Arc::new(objects), node: Some(Arc::new(node)), ..Desired::default() };
        let found = resolve(&wanted.pod.spec.volumes[0], &wanted, &desired);
        let expected = expected.map_err(|text| match text {
            "" => Missing::Asked,
            text => Missing::Failed(text.to_owned()),
        });
        assert_eq!(found, expected, "{claim} {volume}");
    }

    fn claim() -> Value {
        json!({"metadata": {"uid": "cu"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}})
    }

    fn volume(source: Value) -> Value {
        let mut document = json!({"spec": source});
        document["spec"]["claimRef"] = json!({"uid": "cu"});
        document
    }

    #[test]
    fn a_bound_claim_is_its_volume() {
        let bound = || Volume { name: "v".into(), read_only: true, ..Volume::default() };
        let host = HostPathVolumeSource { path: "/srv".into(), kind: "Directory".into() };
        let asked = json!({"hostPath": {"path": "/srv", "type": "Directory"}});
        check(claim(), volume(asked), Ok(Volume { host_path: Some(host), ..bound() }));
        let made = "/var/lib/coracle/volumes/n_c_pv";
        let asked = json!({"hostPath": {"path": made, "type": "DirectoryOrCreate"}});
        check(claim(), volume(asked), Ok(Volume { kept_directory: Some(made.into()), ..bound() }));
        let local = LocalVolumeSource { path: "/mnt/disk".into() };
        check(claim(), volume(json!({"local": {"path": "/mnt/disk"}})), Ok(Volume { local: Some(local), ..bound() }));
        let nfs = NfsVolumeSource { server: "nas".into(), path: "/x".into(), read_only: false };
        let mount_options = vec!["nfsvers=3".to_owned()];
        let asked = json!({"nfs": {"server": "nas", "path": "/x"}, "mountOptions": ["nfsvers=3"]});
        check(claim(), volume(asked), Ok(Volume { nfs: Some(nfs), mount_options, ..bound() }));
    }

    #[test]
    fn what_is_missing_is_said_in_the_kubelets_words() {
        let host = || volume(json!({"hostPath": {"path": "/srv"}}));
        let before = "error processing PVC n/c: ";
        let failed = |claim: Value, volume: Value, text: &str| check(claim, volume, Err(&format!("{before}{text}")));
        let with = |field: &str, value: Value| {
            let mut claim = claim();
            *claim.pointer_mut(field).unwrap() = value;
            claim
        };
        check(json!("unknown"), host(), Err(""));
        check(claim(), json!("unknown"), Err(""));
        failed(Value::Null, host(), "failed to fetch PVC from API server: persistentvolumeclaims \"c\" not found");
        failed(claim(), Value::Null, "failed to fetch PV pv from API server: persistentvolumes \"pv\" not found");
        failed(with("/status/phase", json!("Pending")), host(), "PVC is not bound");
        failed(with("/spec/volumeName", json!("")), host(), "PVC has empty pvc.Spec.VolumeName");
        let leaving = json!({"uid": "cu", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        failed(with("/metadata", leaving), host(), "PVC is being deleted");
        let text = "found PV object pv but its pv.Spec.ClaimRef.UID cu does not point to claim.UID other";
        failed(with("/metadata/uid", json!("other")), host(), text);
        let text = "found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim";
        failed(claim(), json!({"spec": {"hostPath": {"path": "/srv"}}}), text);
        failed(
            claim(),
            volume(json!({"csi": {"driver": "x"}})),
            "volume pv: this agent mounts hostPath, local and nfs volumes",
        );
        let text = "MountVolume.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms";
        let far = json!({
            "required": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["c"]}]}],
            },
        });
        check(claim(), volume(json!({"local": {"path": "/mnt"}, "nodeAffinity": far})), Err(text));
        let block = volume(json!({"local": {"path": "/dev/sdb"}, "volumeMode": "Block"}));
        check(claim(), block, Err("volume v has volumeMode Block, but is specified in volumeMounts"));
    }

    #[test]
    fn a_claim_of_a_file_is_a_directory_of_this_host() {
        let spec = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
        let wanted =
            Wanted::new(Source::File, json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": spec}))
                .unwrap();
        let place = Ref { kind: ObjectKind::Claim, namespace: "n".into(), name: "c".into() };
        let object = Arc::new(Object::read(ObjectKind::Claim, &json!({"directory": "claims/n/c"})));
        let objects = Objects { files: [(place, object)].into(), ..Objects::default() };
        let desired = Desired { objects: Arc::new(objects), ..Desired::default() };
        let bound = resolve(&wanted.pod.spec.volumes[0], &wanted, &desired).unwrap();
        assert_eq!(bound, Volume { name: "v".into(), kept_directory: Some("claims/n/c".into()), ..Volume::default() });
    }

    #[test]
    fn a_claim_of_the_pod_is_its_own() {
        let spec = || json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]});
        let host = || volume(json!({"hostPath": {"path": "/srv"}}));
        let text = "PVC n/p-v was not created for pod n/p (pod is not owner)";
        check_pod(spec(), "p-v", claim(), host(), Err(text));
        let mut own = claim();
        own["metadata"]["ownerReferences"] = json!([{"controller": true, "uid": "u"}]);
        let source = HostPathVolumeSource { path: "/srv".into(), kind: String::new() };
        check_pod(
            spec(),
            "p-v",
            own,
            host(),
            Ok(Volume { name: "v".into(), host_path: Some(source), ..Volume::default() }),
        );
    }
}
