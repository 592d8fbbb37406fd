//! Rules of a container's volume mounts and block devices.

use super::checks::{full, one_of};
use super::doc::{has, list, text, yes};
use super::names::{self, problems};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Every problem of a container's mounts and devices. `volumes`: those of the pod.
pub fn validate(container: &Value, volumes: &HashMap<&str, &Value>, path: &Path) -> Vec<Problem> {
    let named = |field: &str, of: &'static str| {
        list(container, field).iter().map(move |one| text(one, of)).collect::<HashSet<_>>()
    };
    let (devices, device_paths) = (named("volumeDevices", "name"), named("volumeDevices", "devicePath"));
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let all = path.field("volumeMounts");
    for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
        if full(&found) {
            return found;
        }
        let path = all.index(at);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            found.push(Problem::required(&path.field("name"), ""));
        }
        if !volumes.contains_key(name) {
            found.push(Problem::new(&path.field("name"), Reason::NotFound, Some(name.into()), ""));
        }
        if target.is_empty() {
            found.push(Problem::required(&path.field("mountPath"), ""));
        } else if !seen.insert(target) {
            found.push(Problem::invalid(&path.field("mountPath"), target, "must be unique"));
        }
        if devices.contains(name) {
            found.push(Problem::invalid(&path.field("name"), name, "must not already exist in volumeDevices"));
        }
        if device_paths.contains(target) {
            found.push(Problem::invalid(
                &path.field("mountPath"),
                target,
                "must not already exist as a path in volumeDevices",
            ));
        }
        let (part, made) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        // Kubernetes names these two, and what a mount passes on, without the index of the mount.
        found.extend(problems(&all.field("subPath"), part, names::descending(part)));
        if !made.is_empty() && !part.is_empty() {
            found.push(Problem::invalid(
                &path.field("subPathExpr"),
                made,
                "subPathExpr and subPath are mutually exclusive",
            ));
        }
        found.extend(problems(&all.field("subPathExpr"), made, names::descending(made)));
        let propagation = text(mount, "mountPropagation");
        if !propagation.is_empty() {
            let known = ["Bidirectional", "HostToContainer", "None"];
            found.extend(one_of(propagation, &known, &all.field("mountPropagation")));
        }
        if propagation == "Bidirectional" && !yes(&container["securityContext"], "privileged") {
            let words = "Bidirectional mount propagation is available only to privileged containers";
            found.push(Problem::forbidden(&all.field("mountPropagation"), words));
        }
        found.extend(read_only_below(mount, &all.field("recursiveReadOnly")));
    }
    found.extend(block(container, volumes, path));
    found
}

fn read_only_below(mount: &Value, path: &Path) -> Vec<Problem> {
    let Some(said) = mount["recursiveReadOnly"].as_str().filter(|said| *said != "Disabled") else { return Vec::new() };
    if let Some(unknown) = one_of(said, &["Disabled", "Enabled", "IfPossible"], path) {
        return vec![unknown];
    }
    let mut found = Vec::new();
    if !yes(mount, "readOnly") {
        found.push(Problem::forbidden(path, "may only be specified when readOnly is true"));
    }
    if !matches!(text(mount, "mountPropagation"), "" | "None") {
        found.push(Problem::forbidden(path, "may only be specified when mountPropagation is None or not specified"));
    }
    found
}

/// Volumes as bare devices: those of claims alone.
fn block(container: &Value, volumes: &HashMap<&str, &Value>, path: &Path) -> Vec<Problem> {
    let named =
        |of: &'static str| list(container, "volumeMounts").iter().map(move |one| text(one, of)).collect::<HashSet<_>>();
    let (mounts, mount_paths) = (named("name"), named("mountPath"));
    let (mut names, mut paths, mut found) = (HashSet::new(), HashSet::new(), Vec::new());
    for (at, device) in list(container, "volumeDevices").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("volumeDevices").index(at);
        let (name, target, at) = (text(device, "name"), text(device, "devicePath"), path.field("name"));
        let volume = volumes.get(name);
        if name.is_empty() {
            found.push(Problem::required(&at, ""));
        }
        if !names.insert(name) {
            found.push(Problem::invalid(&at, name, "must be unique"));
        }
        match volume {
            Some(volume) if !has(volume, "persistentVolumeClaim") && !has(volume, "ephemeral") => {
                let words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                found.push(Problem::invalid(&at, name, words));
            }
            None => found.push(Problem::new(&at, Reason::NotFound, Some(name.into()), "")),
            Some(_) => {}
        }
        let place = path.field("devicePath");
        if target.is_empty() {
            found.push(Problem::required(&place, ""));
        }
        if !paths.insert(target) {
            found.push(Problem::invalid(&place, target, "must be unique"));
        }
        if !names::no_back_steps(target).is_empty() {
            found.push(Problem::invalid(&place, target, "can not contain backsteps ('..')"));
        }
        if mounts.contains(name) {
            found.push(Problem::invalid(&at, name, "must not already exist in volumeMounts"));
        }
        if mount_paths.contains(target) {
            found.push(Problem::invalid(&place, target, "must not already exist as a path in volumeMounts"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mounts_and_devices() {
        fn check(container: Value, expected: &[&str]) {
            let (dir, claim) = (json!({"emptyDir": {}}), json!({"persistentVolumeClaim": {}}));
            let volumes = HashMap::from([("dir", &dir), ("claim", &claim)]);
            let found: Vec<String> =
                validate(&container, &volumes, &Path::new("c")).iter().map(Problem::to_string).collect();
            assert_eq!(found, expected, "{container}");
        }
        let mount = |more: Value| {
            let mut mount = json!({"name": "dir", "mountPath": "/a"});
            mount.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"volumeMounts": [mount]})
        };
        check(mount(json!({"subPath": "a/b", "readOnly": true, "recursiveReadOnly": "Enabled"})), &[]);
        check(mount(json!({"name": "x"})), &["c.volumeMounts[0].name: Not found: \"x\""]);
        check(
            mount(json!({"subPath": "/a", "subPathExpr": "../b"})),
            &[
                "c.volumeMounts.subPath: Invalid value: \"/a\": must be a relative path",
                "c.volumeMounts[0].subPathExpr: Invalid value: \"../b\": subPathExpr and subPath are mutually \
                 exclusive",
                "c.volumeMounts.subPathExpr: Invalid value: \"../b\": must not contain '..'",
            ],
        );
        check(
            mount(json!({"mountPropagation": "Bidirectional", "recursiveReadOnly": "IfPossible"})),
            &[
                "c.volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to \
                 privileged containers",
                "c.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
                "c.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or \
                 not specified",
            ],
        );
        check(json!({"volumeDevices": [{"name": "claim", "devicePath": "/dev/a"}]}), &[]);
        check(
            json!({
                "volumeDevices": [{"name": "dir", "devicePath": "/a/../b"}],
                "volumeMounts": [{"name": "dir", "mountPath": "/c"}],
            }),
            &[
                "c.volumeMounts[0].name: Invalid value: \"dir\": must not already exist in volumeDevices",
                "c.volumeDevices[0].name: Invalid value: \"dir\": can only use volume source type of \
                 PersistentVolumeClaim or Ephemeral for block mode",
                "c.volumeDevices[0].devicePath: Invalid value: \"/a/../b\": can not contain backsteps ('..')",
                "c.volumeDevices[0].name: Invalid value: \"dir\": must not already exist in volumeMounts",
            ],
        );
    }
}
