//! Persistent volumes, and claims to them.

use super::checks::{PROBLEMS_MAX, full, immutable, one_of, supported_text};
use super::doc::{copy, entries, has, is_empty, list, map_at, text};
use super::meta::{self, Scope};
use super::qos::quantity;
use super::rules::{BuiltinStrategy, Making, Rules};
use super::volume_source::of_source;
use super::{general, inner, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The sources of a volume, in the order in which Kubernetes looks.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
const CLAIM_IS_FINAL: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// Makes volumes of directories on nodes: the built-in class.
pub const LOCAL_PROVISIONER: &str = "coracle/local";
/// Where it makes them.
pub const LOCAL_VOLUMES: &str = "/var/lib/coracle/volumes/";
/// Keeps such a volume until the agent of its node has removed the directory.
pub const LOCAL_FINALIZER: &str = "coracle/local-volume";
/// The annotation with the provisioner of a volume.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

pub static CLAIM: BuiltinStrategy = BuiltinStrategy {
    create: |claim, making| {
        claim_defaults(claim);
        general::create::<false>(claim, making);
        protect(claim, "kubernetes.io/pvc-protection");
    },
    update: |new, old, making: &mut Making<'_>| {
        claim_defaults(new);
        general::update::<false>(new, old, making);
    },
    validate: claim,
    validate_update: claim_update,
    ..general::strategy::<false, false>()
};

pub static VOLUME: BuiltinStrategy = BuiltinStrategy {
    create: |volume, making| {
        volume_defaults(volume);
        general::create::<false>(volume, making);
        map_at(volume, "status").insert("lastPhaseTransitionTime".into(), making.now.to_string().into());
        protect(volume, "kubernetes.io/pv-protection");
    },
    update: |new, old, making: &mut Making<'_>| {
        volume_defaults(new);
        general::update::<false>(new, old, making);
    },
    validate: volume,
    validate_update: volume_update,
    ..general::strategy::<true, false>()
};

/// Held until nobody uses it.
pub fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = &mut map_at(object, "metadata").entry("finalizers").or_insert_with(|| Vec::<Value>::new().into());
    if let Some(all) = finalizers.as_array_mut()
        && !all.iter().any(|one| one == finalizer)
    {
        all.push(finalizer.into());
    }
}

/// The two fields for where the data comes from say the same.
fn claim_defaults(claim: &mut Value) {
    let spec = map_at(claim, "spec");
    // Of what the older field names other things than these two were passed over always.
    let source = spec.get("dataSource").cloned().unwrap_or_default();
    let old = matches!(
        (text(&source, "apiGroup"), text(&source, "kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    if !old && !spec.get("dataSourceRef").is_some_and(Value::is_object) {
        spec.remove("dataSource");
    }
    let said = |field: &str| spec.get(field).filter(|source| source.is_object()).cloned();
    match (said("dataSource"), said("dataSourceRef")) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".into(), source)),
        (None, Some(source)) if source["namespace"].as_str().is_none_or(str::is_empty) => {
            spec.insert("dataSource".into(), source);
        }
        _ => {}
    }
}

fn volume_defaults(volume: &mut Value) {
    map_at(volume, "spec");
    if has(&volume["spec"], "hostPath") && !has(&volume["spec"]["hostPath"], "type") {
        map_at(&mut volume["spec"], "hostPath").insert("type".into(), "".into());
    }
}

fn claim(claim: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(claim, Scope::Namespaced, names::subdomain, rules);
    found.extend(of_spec(&claim["spec"], rules, &Path::new("spec")));
    found
}

/// Checks the spec of a claim or of a claim template.
pub fn of_spec(spec: &Value, rules: Rules, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if list(spec, "accessModes").is_empty() {
        found.push(Problem::required(&path.field("accessModes"), "at least 1 access mode is required"));
    }
    found.extend(super::label_selector::validate(&spec["selector"], rules, &path.field("selector")));
    found.extend(modes(spec, path));
    let (wanted, at) = (&spec["resources"]["requests"]["storage"], path.field("resources").key("storage"));
    if wanted.is_null() {
        found.push(Problem::required(&at, ""));
    } else if quantity(wanted).milli() <= 0 {
        found.push(Problem::invalid(&at, wanted.clone(), "must be greater than zero"));
    }
    found.extend(classes(spec, path));
    found.extend(form(spec, path));
    for field in ["dataSource", "dataSourceRef"].into_iter().filter(|field| has(spec, field)) {
        found.extend(data_source(&spec[field], &path.field(field)));
    }
    let (one, other) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let same = ["apiGroup", "kind", "name"].iter().all(|field| one[field] == other[field]);
    if has(spec, "dataSource") && has(spec, "dataSourceRef") && !same {
        found.push(Problem::invalid(path, "dataSource", "must match dataSourceRef"));
    }
    found
}

/// Where the first content of a volume comes from: an object of this namespace.
fn data_source(source: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for field in ["name", "kind"].into_iter().filter(|field| text(source, field).is_empty()) {
        found.push(Problem::required(&path.field(field), ""));
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let words = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        found.push(Problem::invalid(path, kind, words));
    }
    if !group.is_empty() {
        found.extend(names::problems(&path.field("apiGroup"), group, names::subdomain(group)));
    }
    found
}

fn modes(spec: &Value, path: &Path) -> Vec<Problem> {
    let (modes, path) = (list(spec, "accessModes"), path.field("accessModes"));
    let mut found = Vec::new();
    for mode in modes.iter().filter(|mode| !MODES.iter().any(|known| *mode == known)) {
        if full(&found) {
            break;
        }
        found.push(Problem::new(&path, Reason::NotSupported, Some(mode.clone()), supported_text(&MODES)));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        found.push(Problem::forbidden(&path, "may not use ReadWriteOncePod with other access modes"));
    }
    found
}

fn classes(spec: &Value, path: &Path) -> Vec<Problem> {
    let named = ["storageClassName", "volumeAttributesClassName"].map(|field| (text(spec, field), path.field(field)));
    let named = named.iter().filter(|(class, _)| !class.is_empty());
    named.flat_map(|(class, path)| names::problems(path, *class, names::subdomain(class))).collect()
}

fn volume(volume: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(volume, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&volume["spec"], Path::new("spec"));
    if list(spec, "accessModes").is_empty() {
        found.push(Problem::required(&path.field("accessModes"), ""));
    }
    found.extend(modes(spec, &path));
    let (capacity, at) = (&spec["capacity"], path.field("capacity"));
    if is_empty(capacity) {
        found.push(Problem::required(&at, ""));
    }
    let size = &capacity["storage"];
    if size.is_null() || capacity.as_object().is_some_and(|all| all.len() > 1) {
        found.push(Problem::new(&at, Reason::NotSupported, Some(capacity.clone()), supported_text(&["storage"])));
    }
    if !size.is_null() && quantity(size).milli() < 0 {
        found.push(Problem::invalid(&at.key("storage"), quantity(size).value(), "must be a valid resource quantity"));
    }
    if !size.is_null() && quantity(size).milli() <= 0 {
        found.push(Problem::invalid(&at.key("storage"), size.clone(), "must be greater than zero"));
    }
    let mut sources = SOURCES.iter().filter(|source| has(spec, source));
    match sources.next() {
        None => found.push(Problem::required(&path, "must specify a volume type")),
        Some(first) => found.extend(of_source(spec, first, &path)),
    }
    found.extend(
        sources.map(|source| Problem::forbidden(&path.field(source), "may not specify more than 1 volume type")),
    );
    if has(&spec["nodeAffinity"], "required") {
        let at = path.field("nodeAffinity").field("required");
        found.extend(super::affinity::node_selector(&spec["nodeAffinity"]["required"], &at));
    }
    if has(spec, "nodeAffinity") && !has(&spec["nodeAffinity"], "required") {
        let words = "must specify required node constraints";
        found.push(Problem::required(&path.field("nodeAffinity").field("required"), words));
    }
    found.extend(options(volume));
    found.extend(classes(spec, &path));
    found.extend(form(spec, &path));
    if let Some(class) = spec["volumeAttributesClassName"].as_str() {
        if class.is_empty() {
            found.push(Problem::required(&path.field("volumeAttributesClassName"), "an empty string is disallowed"));
        }
        if !has(spec, "csi") {
            found.push(Problem::required(
                &path.field("csi"),
                "has to be specified when using volumeAttributesClassName",
            ));
        }
    }
    found
}

/// Sources that a file system is mounted from, and so with options.
const MOUNTED: &str = "gcePersistentDisk awsElasticBlockStore glusterfs nfs rbd quobyte iscsi cephfs cinder azureFile \
                       vsphereVolume azureDisk photonPersistentDisk csi";

/// Options of a mount, where nothing is mounted.
fn options(volume: &Value) -> Option<Problem> {
    const OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
    let said = has(&volume["metadata"]["annotations"], OPTIONS)
        && !MOUNTED.split_whitespace().any(|source| has(&volume["spec"], source));
    let words = "may not specify mount options for this volume type";
    said.then(|| Problem::forbidden(&Path::new("metadata.annotations").field(OPTIONS), words))
}

/// A file system, or the bare device.
fn form(spec: &Value, path: &Path) -> Option<Problem> {
    let form = text(spec, "volumeMode");
    if form.is_empty() { None } else { one_of(form, &["Block", "Filesystem"], &path.field("volumeMode")) }
}

/// The spec of a claim is final; a class and a volume may still be given to one without, and a bound one may grow.
fn claim_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, claim);
    let (now, was, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    let mut allowed = now.clone();
    let bound = text(&new["status"], "phase") == "Bound";
    for (field, free) in [
        ("volumeName", is_empty(&was["volumeName"])),
        ("storageClassName", !has(was, "storageClassName")),
        ("volumeAttributesClassName", bound || now["volumeAttributesClassName"] == was["volumeAttributesClassName"]),
        ("resources", bound && now["resources"]["limits"] == was["resources"]["limits"]),
    ] {
        if free {
            copy(&mut allowed, was, field);
        }
    }
    if allowed != *was {
        let change = inner::change("PersistentVolumeClaimSpec", was, &allowed).unwrap_or_default();
        found.push(Problem::forbidden(&path, format!("{CLAIM_IS_FINAL}\n{change}")));
    }
    let (size, had) = (&now["resources"]["requests"]["storage"], &was["resources"]["requests"]["storage"]);
    let holds = quantity(&old["status"]["capacity"]["storage"]);
    // A growth that cannot be done may be taken back, down to what the volume holds.
    if bound && !size.is_null() && quantity(size) < quantity(had) && quantity(size) <= holds {
        let words = "field can not be less than status.capacity";
        found.push(Problem::forbidden(&path.field("resources").field("requests").field("storage"), words));
    }
    found.extend(immutable(now, was, "volumeMode", &Path::root()));
    found.extend(of_status(&new["status"]));
    found
}

/// Checks the status of a claim: capacity, and progress of a resize.
fn of_status(status: &Value) -> Vec<Problem> {
    const GROWTH: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    let (mut found, path) = (Vec::new(), Path::new("status"));
    for field in ["allocatedResources", "allocatedResourceStatuses"] {
        // A name of Kubernetes' own, or one with a domain.
        let other =
            entries(status, field).filter(|(name, _)| *name != "storage" && !name.contains('/')).take(PROBLEMS_MAX);
        let known = || supported_text(&["storage"]);
        found.extend(other.map(|(name, _)| {
            Problem::new(&path.field(field), Reason::NotSupported, Some(name.as_str().into()), known())
        }));
    }
    for field in ["capacity", "allocatedResources"] {
        let negative = entries(status, field).filter(|(_, amount)| quantity(amount).milli() < 0).take(PROBLEMS_MAX);
        let words = "must be a valid resource quantity";
        found.extend(
            negative
                .map(|(name, amount)| Problem::invalid(&path.field(field).key(name), quantity(amount).value(), words)),
        );
    }
    for (name, said) in entries(status, "allocatedResourceStatuses").take(PROBLEMS_MAX) {
        // Kubernetes shows the name of what grows, and not how.
        if !GROWTH.contains(&said.as_str().unwrap_or_default()) {
            let path = path.field("allocatedResourceStatuses");
            found.push(Problem::new(&path, Reason::NotSupported, Some(name.as_str().into()), supported_text(&GROWTH)));
        }
    }
    found
}

fn volume_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, volume);
    let (now, was) = (&new["spec"], &old["spec"]);
    if SOURCES.iter().any(|source| now[source] != was[source]) {
        let change = inner::change("PersistentVolumeSpec", was, now).unwrap_or_default();
        let words = format!("spec.persistentvolumesource is immutable after creation\n{change}");
        found.push(Problem::forbidden(&Path::new("spec.persistentvolumesource"), words));
    }
    if has(was, "nodeAffinity") && now["nodeAffinity"] != was["nodeAffinity"] {
        let (words, at) = ("field is immutable, except for updating from beta label to GA", Path::new("nodeAffinity"));
        found.push(match &now["nodeAffinity"] {
            Value::Null => Problem::invalid(&at, Value::Null, words),
            other => inner::invalid("VolumeNodeAffinity", &at, other, words),
        });
    }
    found.extend(immutable(now, was, "volumeMode", &Path::root()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(validate: fn(&Value, Rules) -> Vec<Problem>, spec: Value, expected: &[&str]) {
        let object = json!({"metadata": {"name": "v"}, "spec": spec});
        let found: Vec<String> = validate(&object, Rules::default()).iter().map(Problem::to_string).collect();
        let found: Vec<&String> = found.iter().filter(|problem| !problem.starts_with("metadata.namespace")).collect();
        assert_eq!(found, expected, "{spec}");
    }

    #[test]
    fn volumes() {
        let of = |more: Value| {
            let mut of = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
            of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of
        };
        check(
            volume,
            of(json!({"csi": {"driver": "d", "volumeHandle": "h"}, "volumeAttributesClassName": "fast"})),
            &[],
        );
        check(
            volume,
            of(json!({"hostPath": {"path": "/a"}, "volumeAttributesClassName": ""})),
            &[
                "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        );
        check(
            volume,
            of(json!({"rbd": {"monitors": []}, "volumeMode": "Tape", "nodeAffinity": {}})),
            &[
                "spec.rbd.monitors: Required value",
                "spec.rbd.image: Required value",
                "spec.nodeAffinity.required: Required value: must specify required node constraints",
                "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
            ],
        );
        check(
            volume,
            of(json!({"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"})),
            &["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
        );
    }

    #[test]
    fn claims_grow() {
        let of = |size: &str, status: Value| {
            let spec = json!({
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "volumeName": "v",
            });
            json!({"metadata": {"name": "c", "namespace": "n"}, "spec": spec, "status": status})
        };
        let bound = |holds: &str| json!({"phase": "Bound", "capacity": {"storage": holds}});
        let check = |old: Value, new: Value, expected: &[&str]| {
            let found: Vec<String> =
                claim_update(&new, &old, Rules::default()).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected, "{new}");
        };
        check(of("1Gi", bound("1Gi")), of("3Gi", bound("1Gi")), &[]);
        check(of("3Gi", bound("1Gi")), of("2Gi", bound("1Gi")), &[]);
        let words = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
        check(of("3Gi", bound("1Gi")), of("1Gi", bound("1Gi")), &[words]);
        let allocated =
            |name: &str| json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "allocatedResources": {name: "1"}});
        let words = "status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\"";
        for (name, expected) in [("storage", &[][..]), ("example.com/a", &[]), ("cpu", &[words])] {
            check(of("1Gi", bound("1Gi")), of("1Gi", allocated(name)), expected);
        }
        let words = "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity";
        check(of("1Gi", bound("1Gi")), of("1Gi", bound("-1")), &[words]);
    }

    #[test]
    fn claims() {
        let of = |source: Value| {
            json!({
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSource": source,
            })
        };
        check(claim, of(json!({"kind": "PersistentVolumeClaim", "name": "a"})), &[]);
        let mut named = of(json!(null));
        named["volumeAttributesClassName"] = "A_".into();
        let faults = names::problems(&Path::new("spec.volumeAttributesClassName"), "A_", names::subdomain("A_"));
        check(claim, named.clone(), &[&faults[0].to_string()]);
        named["volumeAttributesClassName"] = "".into();
        check(claim, named, &[]);
        check(claim, of(json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"})), &[]);
        check(
            claim,
            of(json!({"kind": "VolumeSnapshot"})),
            &[
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"VolumeSnapshot\": must be 'PersistentVolumeClaim' when referencing \
                 the default apiGroup",
            ],
        );
    }
}
