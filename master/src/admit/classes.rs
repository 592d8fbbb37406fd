//! Classes that other objects name: the default for objects without a class, and the growth that a class allows a
//! claim. PURE.

use super::{ClusterView, resource};
use coracle_api::annotations::STORAGE_CLASS;
use coracle_api::meta::Key;
use coracle_schema::Quantity;
use serde_json::Value;
use std::cmp::Reverse;

pub(super) const STORAGE_CLASSES: (&str, &str) = ("storage.k8s.io", "storageclasses");
pub(super) const INGRESS_CLASSES: (&str, &str) = ("networking.k8s.io", "ingressclasses");
/// Annotations that mark the default class; the second annotation is from the beta time of storage classes.
const STORAGE_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const INGRESS_DEFAULT: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
/// Where a class stood before it had a field.
const INGRESS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Gives the default class to a claim without a class name; an empty name asks for no class and stays.
pub fn storage(view: &dyn ClusterView, claim: &mut Value) -> Result<(), String> {
    give(view, claim, "storageClassName", STORAGE_CLASS, STORAGE_CLASSES, &STORAGE_DEFAULT)
}

pub fn ingress(view: &dyn ClusterView, ingress: &mut Value) -> Result<(), String> {
    give(view, ingress, "ingressClassName", INGRESS_ANNOTATION, INGRESS_CLASSES, &INGRESS_DEFAULT)
}

type Classes = (&'static str, &'static str);

fn give(
    view: &dyn ClusterView,
    object: &mut Value,
    field: &str,
    noted: &str,
    classes: Classes,
    marks: &[&str],
) -> Result<(), String> {
    if !object["spec"][field].is_null()
        || !object["metadata"]["annotations"][noted].is_null()
        || !object["spec"].is_object()
    {
        return Ok(());
    }
    let all = view.list(&resource(classes), None)?;
    let said = |class: &&Value| marks.iter().any(|mark| class["metadata"]["annotations"][mark] == "true");
    // The newest, and of those made in one second the first by name.
    let newest = all.iter().filter(said).map(|class| &class["metadata"]).min_by_key(|meta| {
        let of = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        (Reverse(of("creationTimestamp")), of("name"))
    });
    if let Some(meta) = newest {
        object["spec"][field] = meta["name"].clone();
    }
    Ok(())
}

/// Whether a claim may ask for more than it has.
pub fn growth(view: &dyn ClusterView, claim: &Value, old: &Value) -> Result<(), String> {
    let size = |claim: &Value| {
        let asked = claim["spec"]["resources"]["requests"]["storage"].as_str().unwrap_or_default();
        Quantity::parse(asked).unwrap_or_default()
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".to_owned());
    }
    let name = class_of(claim);
    let key = Key { resource: resource(STORAGE_CLASSES), namespace: String::new(), name: name.to_owned() };
    let grows = !name.is_empty()
        && name == class_of(old)
        && view.get(&key).ok().flatten().is_some_and(|class| class["allowVolumeExpansion"] == true);
    let words = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                 support resize";
    if grows { Ok(()) } else { Err(words.to_owned()) }
}

fn class_of(claim: &Value) -> &str {
    let noted = claim["metadata"]["annotations"][STORAGE_CLASS].as_str();
    noted.or(claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::tests::Objects;
    use super::*;
    use serde_json::json;

    fn class(name: &str, made: &str, mark: &str) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": made, "annotations": {mark: "true"}}})
    }

    #[test]
    fn the_newest_default_is_given() {
        let mark = STORAGE_DEFAULT[0];
        let objects = Objects::default()
            .with(resource(STORAGE_CLASSES), class("old", "2020-01-01T00:00:00Z", mark))
            .with(resource(STORAGE_CLASSES), class("b", "2021-01-01T00:00:00Z", STORAGE_DEFAULT[1]))
            .with(resource(STORAGE_CLASSES), class("a", "2021-01-01T00:00:00Z", mark))
            .with(
                resource(STORAGE_CLASSES),
                json!({"metadata": {"name": "other", "creationTimestamp": "2022-01-01T00:00:00Z"}}),
            )
            .with(resource(INGRESS_CLASSES), class("web", "2021-01-01T00:00:00Z", INGRESS_DEFAULT[0]));
        let check = |give: fn(&dyn ClusterView, &mut Value) -> Result<(), String>, object: Value, expected: Value| {
            let mut given = object.clone();
            give(&objects, &mut given).expect("all can be read");
            assert_eq!(given["spec"], expected, "{object}");
        };
        check(storage, json!({"spec": {}}), json!({"storageClassName": "a"}));
        check(storage, json!({"spec": {"storageClassName": ""}}), json!({"storageClassName": ""}));
        check(storage, json!({"spec": {}, "metadata": {"annotations": {STORAGE_CLASS: "x"}}}), json!({}));
        check(ingress, json!({"spec": {}}), json!({"ingressClassName": "web"}));
        check(ingress, json!({"spec": {}, "metadata": {"annotations": {INGRESS_ANNOTATION: "x"}}}), json!({}));
        let mut none = json!({"spec": {}});
        storage(&Objects::default(), &mut none).expect("all can be read");
        assert_eq!(none["spec"], json!({}));
    }

    #[test]
    fn claims_grow_where_their_class_does() {
        let objects = Objects::default()
            .with(resource(STORAGE_CLASSES), json!({"metadata": {"name": "grows"}, "allowVolumeExpansion": true}))
            .with(resource(STORAGE_CLASSES), json!({"metadata": {"name": "stays"}}));
        let claim = |size: &str, class: &str, phase: &str| {
            let spec = json!({"storageClassName": class, "resources": {"requests": {"storage": size}}});
            json!({"spec": spec, "status": {"phase": phase}})
        };
        let check = |size: &str, class: &str, phase: &str, expected: &str| {
            let why =
                growth(&objects, &claim(size, class, phase), &claim("2Gi", class, phase)).err().unwrap_or_default();
            assert!(
                why.starts_with(expected) && why.is_empty() == expected.is_empty(),
                "{size} {class} {phase}: {why}"
            );
        };
        check("3Gi", "grows", "Bound", "");
        check("1Gi", "none", "Pending", "");
        check("3Gi", "grows", "Pending", "Only bound persistent volume claims can be expanded");
        for class in ["stays", "none", ""] {
            check("3Gi", class, "Bound", "only dynamically provisioned pvc can be resized");
        }
    }
}
