//! The storage group, and how volumes are written.

use super::cell::{self, Cells, NONE, UNSET, list, text, text_or, yes};
use super::reading::Reading;
use crate::meta::Time;
use serde_json::Value;

const MODES: [(&str, &str); 4] =
    [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
/// Annotations of the default class, for claims without a class.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub fn cells_of(kind: &str) -> Option<Cells> {
    Some(match kind {
        "CSIDriver" => driver,
        "CSINode" => {
            |node, now| vec![cell::name(node), list(&node["spec"]["drivers"]).len().into(), cell::age(node, now)]
        }
        "StorageClass" => class,
        "VolumeAttachment" => attachment,
        "VolumeAttributesClass" => {
            |class, now| vec![cell::name(class), text(&class["driverName"]).into(), cell::age(class, now)]
        }
        _ => return None,
    })
}

fn class(class: &Reading, now: Time) -> Vec<Value> {
    let is_default = DEFAULT.iter().any(|key| class["metadata"]["annotations"][*key] == "true");
    let name = format!("{}{}", text(&class["metadata"]["name"]), if is_default { " (default)" } else { "" });
    vec![
        name.into(),
        text(&class["provisioner"]).into(),
        text_or(&class["reclaimPolicy"], "Delete").into(),
        text_or(&class["volumeBindingMode"], "Immediate").into(),
        yes(&class["allowVolumeExpansion"]).into(),
        cell::age(class, now),
    ]
}

fn driver(driver: &Reading, now: Time) -> Vec<Value> {
    let spec = &driver["spec"];
    let or = |text: String, missing: &str| if text.is_empty() { missing.into() } else { text.into() };
    vec![
        cell::name(driver),
        spec["attachRequired"].as_bool().unwrap_or(true).into(),
        yes(&spec["podInfoOnMount"]).into(),
        yes(&spec["storageCapacity"]).into(),
        or(cell::joined(&spec["tokenRequests"], "audience"), UNSET),
        yes(&spec["requiresRepublish"]).into(),
        or(cell::texts(&spec["volumeLifecycleModes"]), NONE),
        cell::age(driver, now),
    ]
}

fn attachment(attachment: &Reading, now: Time) -> Vec<Value> {
    let spec = &attachment["spec"];
    vec![
        cell::name(attachment),
        text(&spec["attacher"]).into(),
        text(&spec["source"]["persistentVolumeName"]).into(),
        text(&spec["nodeName"]).into(),
        yes(&attachment["status"]["attached"]).into(),
        cell::age(attachment, now),
    ]
}

/// `RWO,ROX`
pub fn access_modes(modes: &Reading) -> String {
    let has = |(mode, short): &(&str, &'static str)| list(modes).iter().any(|given| given == mode).then_some(*short);
    MODES.iter().filter_map(has).collect::<Vec<_>>().join(",")
}

/// An amount as it is written; none is zero.
pub fn amount<'v>(quantity: &'v Reading<'_>) -> &'v str {
    quantity.as_str().unwrap_or("0")
}
